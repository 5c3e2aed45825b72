r"""Products with a dense block-diagonal matrix, :math:`Y_b = U_b X_b`: the frequencies of a batch of small graphs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from armagnn.kernels.backends import backend
from armagnn.kernels.products import split
from armagnn.kernels.transforms import forwards, gradients_by_vmap


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


class _Product(torch.autograd.Function):
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
        return None if tangents[-1] is None else _apply(ctx.blocks, ctx.transposed, tangents[-1])

    @staticmethod
    @gradients_by_vmap
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, _apply(ctx.blocks, not ctx.transposed, grads[0])

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], blocks: DenseBlocks, transposed: bool, x: Tensor) -> tuple[Tensor, int]:
        x = x.movedim(dims[-1], 1)  # the columns of all trials side by side
        return split(_apply(blocks, transposed, x.flatten(1)), 1, info.batch_size), 1


def _apply(blocks: DenseBlocks, transposed: bool, x: Tensor) -> Tensor:
    return _Product.apply(blocks, transposed, x)  # type: ignore[no-any-return,no-untyped-call]


def block_product(blocks: DenseBlocks, x: Tensor, *, transposed: bool = False) -> Tensor:
    r"""Return :math:`U_b X_b`, or :math:`U_b^\top X_b`, of all blocks, shape (N, F), from X, shape (N, F).

    The blocks must have the type of X and are not differentiated; X is, any number of times.

    Example:
        >>> store = torch.tensor([2.0, 0.0, 1.0, 1.0, 1.0])  # a block of one row, and one of two
        >>> blocks = DenseBlocks(store, torch.tensor([1, 0]), torch.tensor([0, 2, 3]), longest=2)
        >>> block_product(blocks, torch.tensor([[1.0], [3.0], [5.0]])).flatten()
        tensor([ 3.,  4., 10.])
    """
    return _apply(blocks, transposed, x)
