r"""Attention over the neighbours of every node and itself, as of GAT, for many heads side by side,

.. math::
    \bar z_i = \sum_{j \in \mathcal N(i) \cup \{i\}} \alpha_{ij} z_j, \qquad
    \alpha_{ij} \propto \exp a(x_{ij}), \qquad x_{ij} = s_j + d_i, \qquad \sum_j \alpha_{ij} = 1,

with the leaky ReLU a. In float32 and float64 no (edges × features) tensor exists, forwards or backwards.

With :math:`\beta_{ij} = a'(x_{ij}) \alpha_{ij}`, g the gradient of the output and
:math:`q_i = \langle g_i, \bar z_i \rangle`, that of :math:`x_{ij}` is
:math:`\beta_{ij} (\langle g_i, z_j \rangle - q_i)`. Its sums over j and over i are

.. math::
    \partial d_i = \Big\langle g_i, \sum_j \beta_{ij} z_j \Big\rangle - q_i \sum_j \beta_{ij}, \qquad
    \partial s_j = \Big\langle \sum_i \beta_{ij} g_i, z_j \Big\rangle - \sum_i \beta_{ij} q_i,

so one pass over the rows (forwards) and one over the columns (backwards) suffice.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from armagnn.kernels import reference
from armagnn.kernels.maxima import trials_of
from armagnn.kernels.ops import backend

Pattern = tuple[Tensor, Tensor]
"""Pointers and columns of a matrix; its values do not matter."""


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, z: Tensor, s: Tensor, d: Tensor, slope: float
    ) -> tuple[Tensor, ...]:
        given = z.contiguous(), s.contiguous(), d.contiguous()
        return backend(z.device).attend(rowptr, col, *given, slope)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[2:7], *output)
        ctx.mark_non_differentiable(*output[1:])
        ctx.slope = inputs[7]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        t_rowptr, t_col, z, s, d, out, log, slopes, slanted = ctx.saved_tensors
        g = grads[0]
        q = (g * out).sum(-1)
        given = t_rowptr, t_col, g, q, s, d, log, ctx.slope
        by_z, turned, rest = _Back.apply(*given)  # type: ignore[no-untyped-call]
        by_s = (turned * z).sum(-1) - rest
        by_d = (g * slanted).sum(-1) - q * slopes
        return None, None, None, None, by_z, by_s, by_d, None

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *given: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return _side_by_side(_Attention, info, dims, given, 4)


class _Back(torch.autograd.Function):
    @staticmethod
    def forward(t_rowptr: Tensor, t_col: Tensor, *given: Any) -> tuple[Tensor, ...]:
        *tensors, slope = given
        back = backend(tensors[0].device).attend_back
        return back(t_rowptr, t_col, *(tensor.contiguous() for tensor in tensors), slope)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *given: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return _side_by_side(_Back, info, dims, given, 2)


def _side_by_side(
    function: Any, info: Any, dims: tuple[int | None, ...], given: tuple[Any, ...], fixed: int
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Apply a function to the heads of all trials of a vmap as to heads side by side; all outputs have them."""
    tensors = [trials_of(info, dim, tensor) for dim, tensor in zip(dims[fixed:-1], given[fixed:-1], strict=True)]
    found = function.apply(*given[:fixed], *(tensor.flatten(1, 2) for tensor in tensors), given[-1])
    return tuple(tensor.unflatten(1, (info.batch_size, -1)) for tensor in found), (1,) * len(found)


def neighbour_attention(there: Pattern, back: Pattern, z: Tensor, s: Tensor, d: Tensor, slope: float) -> Tensor:
    """Return the attended features, shape (N, H, C), of z, shape (N, H, C), with the scores s and d, shape (N, H).

    Row i of the pattern ``there`` names the neighbours j of node i, ``back`` is its transpose. A node is among its own
    neighbours, once, whether the pattern says so or not.

    Example:
        >>> pair = torch.tensor([0, 1, 2]), torch.tensor([1, 0])
        >>> z, scores = torch.tensor([[[1.0]], [[3.0]]]), torch.zeros(2, 1)
        >>> neighbour_attention(pair, pair, z, scores, scores, 0.2).flatten()
        tensor([2., 2.])
    """
    known = hasattr(backend(z.device), "attend") and z.dtype in (torch.float32, torch.float64)
    if known and z.dtype == s.dtype == d.dtype:
        return _Attention.apply(*there, *back, z, s, d, slope)[0]  # type: ignore[no-any-return,no-untyped-call]
    return attention_by_torch(there, z, s, d, slope)


def attention_by_torch(there: Pattern, z: Tensor, s: Tensor, d: Tensor, slope: float) -> Tensor:
    """Return the same, edge by edge, in plain torch."""
    rowptr, col = there
    row, col = reference.rows_of(rowptr, col.shape[0]).long(), col.long()
    loop = (row == col).unsqueeze(1)

    def score(x: Tensor) -> Tensor:
        return torch.nn.functional.leaky_relu(x, slope)

    own, edges = score(s + d), score(s[col] + d[row]).masked_fill(loop, -torch.inf)
    index = row.unsqueeze(1).expand_as(edges)
    most = own.detach().scatter_reduce(0, index, edges.detach(), "amax")
    own, edges = (own - most).exp(), (edges - most[row]).exp()
    total = own.index_add(0, row, edges)
    return (own.unsqueeze(2) * z).index_add(0, row, edges.unsqueeze(2) * z[col]) / total.unsqueeze(2)
