r"""The maximum over the neighbours of every node, feature by feature, :math:`\max_{j \in \mathcal N(i)} x_j`.

No (edges × features) tensor exists, forwards or backwards. Where several neighbours have the maximum, each gets its
share of the gradient; a node without neighbours has 0.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from armagnn.kernels import reference
from armagnn.kernels.backends import backend
from armagnn.kernels.transforms import BackwardPass, ReverseOnly, gradients_by_vmap


class _NeighbourMax(ReverseOnly):
    @staticmethod
    def forward(rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return getattr(backend(x.device), "row_max", row_max)(rowptr, col, x.contiguous())

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
        back = getattr(backend(tensors[0].device), "row_max_back", row_max_back)
        return back(t_rowptr, t_col, *(tensor.contiguous() for tensor in tensors))

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
        >>> rowptr, col = torch.tensor([0, 2, 2, 3]), torch.tensor([1, 2, 0])
        >>> t_rowptr, t_col = torch.tensor([0, 1, 2, 3]), torch.tensor([2, 0, 0])
        >>> neighbour_max(rowptr, col, t_rowptr, t_col, torch.tensor([[1.0, -4.0], [2.0, -2.0], [3.0, -3.0]]))
        tensor([[ 3., -2.],
                [ 0.,  0.],
                [ 1., -4.]])
    """
    return _NeighbourMax.apply(rowptr, col, t_rowptr, t_col, x)[0]  # type: ignore[no-any-return,no-untyped-call]


def row_max(rowptr: Tensor, col: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maxima and, in the type of x, how many neighbours have each: 1 where there is none. In plain torch."""
    rows, width = reference.rows_of(rowptr, col.shape[0]).long(), x.shape[1]
    most = x.new_zeros(rowptr.shape[0] - 1, width)
    ties = torch.zeros_like(most)
    for part in torch.split(torch.arange(width, device=x.device), max(1, reference.SLICE // max(1, col.shape[0]))):
        values = x[:, part][col.long()]
        index = rows.unsqueeze(1).expand_as(values)
        found = most[:, part].scatter_reduce(0, index, values, "amax", include_self=False)
        most[:, part] = found
        ties[:, part] = ties[:, part].index_add(0, rows, (values == found[rows]).to(x.dtype))
    return most, ties.clamp(min=1)


def row_max_back(t_rowptr: Tensor, t_col: Tensor, x: Tensor, most: Tensor, shares: Tensor) -> Tensor:
    """Return for every row of x the sum of the shares of those rows whose maximum it has. In plain torch."""
    rows, width = reference.rows_of(t_rowptr, t_col.shape[0]).long(), x.shape[1]
    out, to = torch.zeros_like(x), t_col.long()
    for part in torch.split(torch.arange(width, device=x.device), max(1, reference.SLICE // max(1, to.shape[0]))):
        given = torch.where(most[:, part][to] == x[:, part][rows], shares[:, part][to], 0.0)
        out[:, part] = out[:, part].index_add(0, rows, given)
    return out
