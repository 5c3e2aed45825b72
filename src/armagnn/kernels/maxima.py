r"""The maximum over the neighbours of every node, feature by feature, :math:`\max_{j \in \mathcal N(i)} x_j`.

No (edges × features) tensor exists, forwards or backwards. Where several neighbours have the maximum, each gets its
share of the gradient; a node without neighbours has 0.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from armagnn.kernels.backends import backend
from armagnn.kernels.transforms import BackwardPass, ReverseOnly, gradients_by_vmap


class _NeighbourMax(ReverseOnly):
    @staticmethod
    def forward(rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return backend(x.device).row_max(rowptr, col, x.contiguous())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs[2:], *output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    @gradients_by_vmap
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        t_rowptr, t_col, x, most, ties = ctx.saved_tensors
        return None, None, None, None, _Back.apply(t_rowptr, t_col, x, most, grads[0] / ties)  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *given: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        x = trials_of(info, dims[-1], given[-1])
        most, ties = _NeighbourMax.apply(*given[:-1], x.flatten(1))  # type: ignore[no-untyped-call]
        return (most.view(-1, *x.shape[1:]), ties.view(-1, *x.shape[1:])), (1, 1)


class _Back(BackwardPass):
    @staticmethod
    def forward(t_rowptr: Tensor, t_col: Tensor, *tensors: Tensor) -> Tensor:
        x, most, shares = (tensor.contiguous() for tensor in tensors)
        return backend(x.device).row_max_back(t_rowptr, t_col, x, most, shares)

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *given: Tensor) -> tuple[Tensor, int]:
        tensors = [trials_of(info, dim, tensor) for dim, tensor in zip(dims[2:], given[2:], strict=True)]
        out = _Back.apply(*given[:2], *(tensor.flatten(1) for tensor in tensors))  # type: ignore[no-untyped-call]
        return out.view(tensors[0].shape), 1


def trials_of(info: Any, dim: int | None, tensor: Tensor) -> Tensor:
    """Return features (N, ...) of a vmap with its trials behind the nodes, (N, R, ...): more columns for a kernel."""
    if dim is None:
        return tensor.unsqueeze(1).expand(tensor.shape[0], info.batch_size, *tensor.shape[1:])
    return tensor.movedim(dim, 1)


def neighbour_max(rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, x: Tensor) -> Tensor:
    """Return the maximum of the rows of x, shape (N, F), that each row of a matrix has entries for; 0 without any.

    The matrix is given by its pattern and that of its transpose; its values do not matter.

    Example:
        >>> import torch
        >>> rowptr, col = torch.tensor([0, 2, 2, 3]), torch.tensor([1, 2, 0])
        >>> t_rowptr, t_col = torch.tensor([0, 1, 2, 3]), torch.tensor([2, 0, 0])
        >>> neighbour_max(rowptr, col, t_rowptr, t_col, torch.tensor([[1.0, -4.0], [2.0, -2.0], [3.0, -3.0]]))
        tensor([[ 3., -2.],
                [ 0.,  0.],
                [ 1., -4.]])
    """
    return _NeighbourMax.apply(rowptr, col, t_rowptr, t_col, x)[0]  # type: ignore[no-any-return,no-untyped-call]
