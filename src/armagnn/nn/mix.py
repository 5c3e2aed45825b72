"""A few combinations of a few long vectors, of many trials at a time."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

PIECES: Final = {"cuda": 4096}
"""By kind of device, entries of a vector that are summed at a time where the gradient of the coefficients is a sum."""


class _Mix(torch.autograd.Function):
    """The products of `mix` for R trials, (R, I, J) times (R, J, M).

    The gradient of the coefficients is I x J sums of M products. A batched product gives a trial one block of a GPU for
    it, however long M is. There the sums of all pieces of the vectors, which are copied first, are the batch, and their
    totals come after.
    """

    @staticmethod
    def forward(coefficients: Tensor, vectors: Tensor) -> Tensor:
        return torch.bmm(coefficients, vectors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (g,), (coefficients, vectors) = grads, ctx.saved_tensors
        by_coefficients = _inner(g, vectors) if ctx.needs_input_grad[0] else None
        by_vectors = mix(coefficients.transpose(1, 2), g) if ctx.needs_input_grad[1] else None
        return by_coefficients, by_vectors

    @staticmethod
    def vmap(
        info: Any, dims: tuple[int | None, int | None], coefficients: Tensor, vectors: Tensor
    ) -> tuple[Tensor, int]:
        size: int = info.batch_size
        both = [
            tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
            for tensor, dim in zip((coefficients, vectors), dims, strict=True)
        ]
        found = mix(*(tensor.flatten(0, 1) for tensor in both))
        return found.reshape(size, -1, *found.shape[1:]), 0


def _inner(one: Tensor, two: Tensor) -> Tensor:
    """Return one two^T, shape (R, I, J), of (R, I, M) and (R, J, M): piece by piece, then their sum."""
    piece = PIECES.get(one.device.type, one.shape[2] + 1)
    whole = one.shape[2] // piece * piece
    rest = torch.bmm(one[:, :, whole:], two[:, :, whole:].transpose(1, 2))
    if not whole:
        return rest
    pieces = [tensor[:, :, :whole].reshape(*tensor.shape[:2], -1, piece).transpose(1, 2) for tensor in (one, two)]
    return torch.matmul(pieces[0], pieces[1].transpose(2, 3)).sum(1) + rest


def mix(coefficients: Tensor, vectors: Tensor) -> Tensor:
    """Return the product of coefficients (I, J) and vectors (J, M), or of those of R trials, for few I, J and long M.

    Example:
        >>> mix(torch.tensor([[2.0, -1.0]]), torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]))
        tensor([[1., 3., 5.]])
    """
    device = vectors.device.type
    if torch.is_autocast_enabled(device) and vectors.dtype != torch.float64:
        # here, and not inside: the backward pass must see the same types
        coefficients, vectors = (tensor.to(torch.get_autocast_dtype(device)) for tensor in (coefficients, vectors))
    if coefficients.dim() == 2:
        return mix(coefficients.unsqueeze(0), vectors.unsqueeze(0)).squeeze(0)
    return _Mix.apply(coefficients, vectors)  # type: ignore[no-any-return,no-untyped-call]
