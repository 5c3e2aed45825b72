r"""Products with a dense block-diagonal matrix, :math:`Y_b = U_b X_b`: the frequencies of a batch of small graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from armagnn.kernels.backends import backend
from armagnn.kernels.products import split


@dataclass(frozen=True, eq=False, slots=True)
class DenseBlocks:
    """B square blocks along a diagonal, taken from a store of many.

    Attributes:
        store: the numbers of all blocks that there are, each row by row, one block after the other.
        first: (B,) int64, where each block starts in the store; -1 for one of zeros.
        ptr: (B + 1,) int64, where the rows of each block start.
        longest: rows that a block may have, at most.
    """

    store: Tensor
    first: Tensor
    ptr: Tensor
    longest: int


class _Product(torch.autograd.Function):
    """The product (N, F) of the blocks, or of their transposes, with X (N, F)."""

    @staticmethod
    def forward(store: Tensor, first: Tensor, ptr: Tensor, longest: int, transposed: bool, x: Tensor) -> Tensor:
        at_once = getattr(backend(x.device), "block_product", None)
        return (at_once or _one_by_one)(DenseBlocks(store, first, ptr, longest), x, transposed)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        store, first, ptr, ctx.longest, ctx.transposed, _ = inputs
        ctx.save_for_backward(store, first, ptr)
        ctx.save_for_forward(store, first, ptr)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor | None:
        if tangents[-1] is None:
            return None
        return _Product.apply(*ctx.saved_tensors, ctx.longest, ctx.transposed, tangents[-1])  # type: ignore[no-any-return,no-untyped-call]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        back = _Product.apply(*ctx.saved_tensors, ctx.longest, not ctx.transposed, grads[0])  # type: ignore[no-untyped-call]
        return None, None, None, None, None, back

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        *blocks, x = inputs
        x = x.movedim(dims[-1] or 0, 1)  # the columns of all trials side by side
        return split(_Product.apply(*blocks, x.flatten(1)), 1, info.batch_size), 1  # type: ignore[no-untyped-call]


def block_product(blocks: DenseBlocks, x: Tensor, *, transposed: bool = False) -> Tensor:
    r"""Return :math:`U_b X_b`, or :math:`U_b^\top X_b`, of all blocks, shape (N, F), from X, shape (N, F).

    The blocks must have the type of X and are not differentiated; X is, any number of times.

    Example:
        >>> store = torch.tensor([2.0, 0.0, 1.0, 1.0, 1.0])  # a block of one row, and one of two
        >>> blocks = DenseBlocks(store, torch.tensor([1, 0]), torch.tensor([0, 2, 3]), longest=2)
        >>> block_product(blocks, torch.tensor([[1.0], [3.0], [5.0]])).flatten()
        tensor([ 3.,  4., 10.])
    """
    return _Product.apply(blocks.store, blocks.first, blocks.ptr, blocks.longest, transposed, x)  # type: ignore[no-any-return,no-untyped-call]


def _one_by_one(blocks: DenseBlocks, x: Tensor, transposed: bool) -> Tensor:
    """Return the product block by block; where they are on a GPU, that waits for it."""
    result, ends = x.new_empty(x.shape), blocks.ptr.tolist()
    for begin, end, first in zip(ends[:-1], ends[1:], blocks.first.tolist(), strict=True):
        size = end - begin
        if first < 0:
            result[begin:end] = 0.0
        elif size:
            block = blocks.store[first : first + size * size].view(size, size)
            torch.mm(block.t() if transposed else block, x[begin:end], out=result[begin:end])
    return result
