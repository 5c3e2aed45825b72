r"""Products with a dense block-diagonal matrix, :math:`Y_b = U_b X_b`: the frequencies of a batch of small graphs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.kernels.backends import backend
from armagnn.kernels.products import split
from armagnn.kernels.transforms import forwards, gradients_by_vmap

ALIKE: Final = 6
"""Blocks of one size that are worth being brought together."""


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
        at_once = getattr(backend(x.device), "block_product", None)
        return (at_once or _by_sizes)(blocks, x, transposed)

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


def _by_sizes(blocks: DenseBlocks, x: Tensor, transposed: bool) -> Tensor:
    """Return the product: many blocks of one size at once, others one by one. On a GPU, that waits for it."""
    result, starts, firsts = x.new_empty(x.shape), blocks.ptr.tolist(), blocks.first.tolist()
    alike: dict[int, list[int]] = {}
    for b, first in enumerate(firsts):
        size = starts[b + 1] - starts[b]
        if first < 0:
            result[starts[b] : starts[b + 1]] = 0.0
        elif size:
            alike.setdefault(size, []).append(b)
    for size, which in alike.items():
        if len(which) >= ALIKE:
            chosen = torch.tensor(which, device=x.device)
            count = torch.arange(size * size, device=x.device)
            rows = (blocks.ptr[chosen].unsqueeze(1) + count[:size]).flatten()
            some = blocks.store[blocks.first[chosen].unsqueeze(1) + count].view(-1, size, size)
            products = torch.bmm(some.mT if transposed else some, x.index_select(0, rows).view(len(which), size, -1))
            result.index_copy_(0, rows, products.flatten(0, 1))
            continue
        for b in which:
            block = blocks.store[firsts[b] : firsts[b] + size * size].view(size, size)
            rows_of = slice(starts[b], starts[b + 1])
            torch.mm(block.t() if transposed else block, x[rows_of], out=result[rows_of])
    return result
