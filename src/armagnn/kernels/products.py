r"""Dense products of many trials, :math:`A_r B_r`, that stay fast where the sums are long and the results small.

Gradients of weights are such products, :math:`X_r^\top G_r`, and so are the layers behind a flattened graph.

And those with a dense block-diagonal matrix, :math:`Y_b = U_b X_b`: the frequencies of a batch of small graphs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from armagnn.kernels.backends import backend
from armagnn.kernels.transforms import forwards, gradients_by_vmap
from armagnn.torch_private import primals, traced, transforms_active


class _Product(torch.autograd.Function):
    """The products (R, I, J) of (R, I, M) and (R, M, J)."""

    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        return backend(a.device).trial_products(a, b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        (a, b), need = inputs, ctx.needs_input_grad
        ctx.save_for_backward(a if need[1] else None, b if need[0] else None)
        ctx.save_for_forward(a, b)

    @staticmethod
    @forwards
    def jvp(ctx: Any, by_a: Tensor | None, by_b: Tensor | None) -> Tensor | None:
        a, b = primals(ctx)
        parts = [_apply(by_a, b)] if by_a is not None else []
        parts += [_apply(a, by_b)] if by_b is not None else []
        return sum(parts[1:], parts[0])

    @staticmethod
    @gradients_by_vmap
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (g,), (a, b) = grads, ctx.saved_tensors
        by_a = _apply(g, b.transpose(1, 2)) if ctx.needs_input_grad[0] else None
        by_b = _apply(a.transpose(1, 2), g) if ctx.needs_input_grad[1] else None
        return by_a, by_b

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, int | None], a: Tensor, b: Tensor) -> tuple[Tensor, int]:
        # one factor for all trials: those of the other stand side by side, in one product
        if dims[0] is None:
            b = b.movedim(dims[1] or 0, 2)
            return split(_apply(a, b.flatten(2)), 2, info.batch_size), 2
        if dims[1] is None:
            return split(_apply(a.movedim(dims[0], 1).flatten(1, 2), b), 1, info.batch_size), 1
        a, b = a.movedim(dims[0], 0), b.movedim(dims[1], 0)
        return split(_apply(a.flatten(0, 1), b.flatten(0, 1)), 0, info.batch_size), 0


def split(x: Tensor, dim: int, parts: int, each: int = -1) -> Tensor:
    """Return x with an axis as two: so many parts, with so many places each, which are found unless there are none."""
    return x.unflatten(dim, (parts, each))  # type: ignore[no-any-return,no-untyped-call]


def _apply(a: Tensor, b: Tensor) -> Tensor:
    """Return the products of matrices with three axes, in their own type."""
    return _Product.apply(a, b)  # type: ignore[no-any-return,no-untyped-call]


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of a, shape (I, M), and b, shape (M, J), or the products of R trials, (R, I, M) and (R, M, J).

    Example:
        >>> product(torch.tensor([[2.0, -1.0]]), torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]))
        tensor([[1., 3., 5.]])
    """
    device = b.device.type
    alone = device != "cuda" and not transforms_active()
    if alone or traced():  # there is nothing that torch would not do as well
        return a @ b
    if torch.is_autocast_enabled(device) and b.dtype != torch.float64:
        # here, and not inside: the backward pass must see the same types
        a, b = (tensor.to(torch.get_autocast_dtype(device)) for tensor in (a, b))
    return _apply(a, b) if a.dim() == 3 else _apply(a.unsqueeze(0), b.unsqueeze(0)).squeeze(0)


# ---------------------------------------------------------------------------------------------- blocks along a diagonal


@dataclass(frozen=True, eq=False, slots=True)
class DenseBlocks:
    """B square blocks along a diagonal, taken from a store of many.

    Attributes:
        store: the numbers of all blocks that there are, each row by row, one block after the other.
        first: (B,) int64, where each block starts in the store; -1 for one of zeros.
        ptr: (B + 1,) int64, where the rows of each block start.
        longest: rows that a block may have, at most.
        known: what kernels have worked out for these blocks.
    """

    store: Tensor
    first: Tensor
    ptr: Tensor
    longest: int
    known: dict[Any, Any] = field(default_factory=dict, repr=False)


class _BlockProduct(torch.autograd.Function):
    """The product (N, F) of the blocks, or of their transposes, with X (N, F)."""

    @staticmethod
    def forward(blocks: DenseBlocks, transposed: bool, x: Tensor) -> Tensor:
        return backend(x.device).block_product(blocks, x, transposed)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.blocks, ctx.transposed, _ = inputs

    @staticmethod
    @forwards
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor | None:
        return None if tangents[-1] is None else _apply_blocks(ctx.blocks, ctx.transposed, tangents[-1])

    @staticmethod
    @gradients_by_vmap
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, _apply_blocks(ctx.blocks, not ctx.transposed, grads[0])

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], blocks: DenseBlocks, transposed: bool, x: Tensor) -> tuple[Tensor, int]:
        x = x.movedim(dims[-1], 1)  # the columns of all trials side by side
        return split(_apply_blocks(blocks, transposed, x.flatten(1)), 1, info.batch_size), 1


def _apply_blocks(blocks: DenseBlocks, transposed: bool, x: Tensor) -> Tensor:
    return _BlockProduct.apply(blocks, transposed, x)  # type: ignore[no-any-return,no-untyped-call]


def block_product(blocks: DenseBlocks, x: Tensor, *, transposed: bool = False) -> Tensor:
    r"""Return :math:`U_b X_b`, or :math:`U_b^\top X_b`, of all blocks, shape (N, F), from X, shape (N, F).

    The blocks must have the type of X and are not differentiated; X is, any number of times.

    Example:
        >>> store = torch.tensor([2.0, 0.0, 1.0, 1.0, 1.0])  # a block of one row, and one of two
        >>> blocks = DenseBlocks(store, torch.tensor([1, 0]), torch.tensor([0, 2, 3]), longest=2)
        >>> block_product(blocks, torch.tensor([[1.0], [3.0], [5.0]])).flatten()
        tensor([ 3.,  4., 10.])
    """
    return _apply_blocks(blocks, transposed, x)
