r"""What a node takes from its neighbours besides sums: attention and the maximum, values and gradients.

Attention over the neighbours of every node and itself, as of GAT, for many heads side by side,

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

Heads whose features are the products of the same x with matrices of their own, :math:`z^h = x W_h`, and whose outputs
are added, attend x instead,

.. math::
    \sum_h \bar z^h_i = \sum_h \Big( \sum_j \alpha^h_{ij} x_j \Big) W_h,

and g in the backward pass: what is collected from the neighbours is as narrow as x or g, whatever the number of heads.

The maximum is taken feature by feature, :math:`\max_{j \in \mathcal N(i)} x_j`. Where several neighbours have it, each
gets its share of the gradient; a node without neighbours has 0.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from armagnn.kernels import reference
from armagnn.kernels.backends import backend
from armagnn.kernels.blocks import product, split
from armagnn.torch_private import BackwardPass, ReverseOnly, as_they_are, gradients_by_vmap

Pattern = tuple[Tensor, Tensor]
"""Pointers and columns of a matrix; its values do not matter."""


def trials_of(info: Any, dim: int | None, tensor: Tensor) -> Tensor:
    """Return features (N, ...) of a vmap with its trials behind the nodes, (N, R, ...): more columns for a kernel."""
    if dim is None:
        return tensor.unsqueeze(1).expand(tensor.shape[0], info.batch_size, *tensor.shape[1:])
    return tensor.movedim(dim, 1)


class _Attention(ReverseOnly):
    @staticmethod
    def forward(
        rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, z: Tensor, s: Tensor, d: Tensor, slope: float
    ) -> tuple[Tensor, ...]:
        given = z.contiguous(), s.contiguous(), d.contiguous()
        return backend(z.device).attend(rowptr, col, *given, slope)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[2:7], *output)
        ctx.mark_non_differentiable(*output[1:])
        ctx.slope = inputs[7]

    @staticmethod
    @gradients_by_vmap
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        t_rowptr, t_col, *saved = ctx.saved_tensors
        found = _Back.apply(t_rowptr, t_col, grads[0], *saved, ctx.slope)  # type: ignore[no-untyped-call]
        return None, None, None, None, *found, None

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *given: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return _side_by_side(_Attention, info, dims, given, 4)


class _Back(BackwardPass):
    @staticmethod
    def forward(
        t_rowptr: Tensor, t_col: Tensor, g: Tensor, z: Tensor, s: Tensor, d: Tensor, out: Tensor, log: Tensor,
        slopes: Tensor, slanted: Tensor, slope: float,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        q = (g * out).sum(-1)
        q_s_d_log = q.contiguous(), s.contiguous(), d.contiguous(), log.contiguous()
        by_z, turned, rest = backend(g.device).attend_back(t_rowptr, t_col, g.contiguous(), *q_s_d_log, slope)
        return by_z, (turned * z).sum(-1) - rest, (g * slanted).sum(-1) - q * slopes

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *given: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return _side_by_side(_Back, info, dims, given, 2)


class _Added(ReverseOnly):
    """The sum of heads that share x, shape (N, G, F_in), in each of G groups with weights (W, H, F_in, F_out).

    As many groups as there are for each of the W weights, side by side, share these.
    """

    @staticmethod
    def forward(
        rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, x: Tensor, weight: Tensor, s: Tensor, d: Tensor,
        slope: float,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        scores = s.flatten(1).contiguous(), d.flatten(1).contiguous()
        found = backend(x.device).attend(rowptr, col, x.contiguous(), *scores, slope)
        attended, log, slopes, slanted = (split(tensor, 1, *s.shape[1:]) for tensor in found)
        with as_they_are(x.device):
            out = _grouped(attended.flatten(2), weight.flatten(1, 2))
        return out, attended, log, slopes, slanted

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[2:8], *output[1:])
        ctx.mark_non_differentiable(*output[1:])
        ctx.slope = inputs[8]

    @staticmethod
    @gradients_by_vmap
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        t_rowptr, t_col, *saved = ctx.saved_tensors
        found = _AddedBack.apply(t_rowptr, t_col, grads[0], *saved, ctx.slope)  # type: ignore[no-untyped-call]
        return None, None, None, None, *found, None

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *given: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return _more_groups(_Added, info, dims, given, 4, weight=1, outputs=(1, 1, 1, 1, 1))


class _AddedBack(BackwardPass):
    @staticmethod
    def forward(
        t_rowptr: Tensor, t_col: Tensor, g: Tensor, x: Tensor, weight: Tensor, s: Tensor, d: Tensor, attended: Tensor,
        log: Tensor, slopes: Tensor, slanted: Tensor, slope: float,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        (groups, heads), g = s.shape[1:], g.contiguous()
        with as_they_are(g.device):
            turned = split(_grouped(g, weight.flatten(1, 2).transpose(1, 2)), 2, heads)  # g W^T, head by head
            q = (turned * attended).sum(-1)
            by_d = (turned * slanted).sum(-1) - q * slopes
            scores = tuple(tensor.flatten(1).contiguous() for tensor in (q, s, d, log))
            found = backend(g.device).attend_back(t_rowptr, t_col, g, *scores, slope)  # type: ignore[call-arg,arg-type]
            straight, slanted, rest = (split(tensor, 1, groups, heads) for tensor in found)
            by_x = _grouped(straight.flatten(2), weight.transpose(2, 3).flatten(1, 2))
            z = split(_grouped(x, weight.transpose(1, 2).flatten(2)), 2, heads)
            by_s = (slanted * z).sum(-1) - rest
            left, right = (_rows(tensor, weight.shape[0]) for tensor in (attended.flatten(2), g))
            by_weight = product(left.transpose(1, 2), right).view(weight.shape)
        return by_x, by_weight, by_s, by_d

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *given: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return _more_groups(_AddedBack, info, dims, given, 2, weight=2, outputs=(1, 0, 1, 1))


def _grouped(x: Tensor, weight: Tensor) -> Tensor:
    """Return the products (N, G, F') of x, shape (N, G, F), with the weights (W, F, F') that groups share."""
    nodes, groups, _ = x.shape
    found = product(_rows(x, weight.shape[0]), weight)  # (W, N G / W, F')
    return split(found, 1, nodes, groups // weight.shape[0]).transpose(0, 1).flatten(1, 2)


def _rows(x: Tensor, weights: int) -> Tensor:
    """Return x, shape (N, G, F), as the rows (W, N G / W, F) that each of the weights meets."""
    return split(x, 1, weights, x.shape[1] // weights).transpose(0, 1).flatten(1, 2)


def _more_groups(
    function: Any, info: Any, dims: tuple[int | None, ...], given: tuple[Any, ...], fixed: int, weight: int,
    outputs: tuple[int, ...],
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:  # fmt: skip
    """Apply a function to the trials of a vmap as to more groups: the second axis of all tensors but the weights."""
    tensors = []
    for place, (dim, tensor) in enumerate(zip(dims[fixed:-1], given[fixed:-1], strict=True)):
        if place != weight:
            tensors.append(trials_of(info, dim, tensor).flatten(1, 2))
        elif dim is None:
            tensors.append(tensor.expand(info.batch_size, *tensor.shape).flatten(0, 1))
        else:
            tensors.append(tensor.movedim(dim, 0).flatten(0, 1))
    found = function.apply(*given[:fixed], *tensors, given[-1])
    return tuple(split(t, dim, info.batch_size) for t, dim in zip(found, outputs, strict=True)), outputs


def _side_by_side(
    function: Any, info: Any, dims: tuple[int | None, ...], given: tuple[Any, ...], fixed: int
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Apply a function to the heads of all trials of a vmap as to heads side by side; all outputs have them."""
    tensors = [trials_of(info, dim, tensor) for dim, tensor in zip(dims[fixed:-1], given[fixed:-1], strict=True)]
    found = function.apply(*given[:fixed], *(tensor.flatten(1, 2) for tensor in tensors), given[-1])
    return tuple(split(tensor, 1, info.batch_size) for tensor in found), (1,) * len(found)


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
    if _known(z, s, d):
        return _Attention.apply(*there, *back, z, s, d, slope)[0]  # type: ignore[no-any-return,no-untyped-call]
    return attention_by_torch(there, z, s, d, slope)


def added_attention(
    there: Pattern, back: Pattern, x: Tensor, weight: Tensor, s: Tensor, d: Tensor, slope: float
) -> Tensor:
    """Return the sum of the attended heads of x, shape (N, G, F_out), for x of shape (N, G, F_in).

    Args:
        there: the pattern, as of `neighbour_attention`.
        back: its transpose.
        x: G signals on the nodes.
        weight: (1, H, F_in, F_out), the matrices of the H heads that attend each signal; or (G, ...) to each its own.
        s: (N, G, H).
        d: (N, G, H).
        slope: of the leaky ReLU.

    Example:
        >>> pair = torch.tensor([0, 1, 2]), torch.tensor([1, 0])
        >>> x, scores = torch.tensor([[[1.0]], [[3.0]]]), torch.zeros(2, 1, 2)
        >>> added_attention(pair, pair, x, torch.tensor([1.0, 10.0]).view(1, 2, 1, 1), scores, scores, 0.2).flatten()
        tensor([22., 22.])
    """
    if _known(x, weight, s, d):
        return _Added.apply(*there, *back, x, weight, s, d, slope)[0]  # type: ignore[no-any-return,no-untyped-call]
    z = torch.einsum("ngc,ghcf->nghf", x, weight.expand(x.shape[1], -1, -1, -1))
    out = attention_by_torch(there, z.flatten(1, 2), s.flatten(1), d.flatten(1), slope)
    return out.view(z.shape).sum(2)


def _known(*tensors: Tensor) -> bool:
    """Return whether there is a kernel for tensors of such types."""
    dtypes = {tensor.dtype for tensor in tensors}
    return backend(tensors[0].device).attends(dtypes)


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


# ---------------------------------------------------------------------------------------------------------- the maximum


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
        return None, None, None, None, _MaxBack.apply(t_rowptr, t_col, x, most, grads[0] / ties)  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *given: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        x = trials_of(info, dims[-1], given[-1])
        most, ties = _NeighbourMax.apply(*given[:-1], x.flatten(1))  # type: ignore[no-untyped-call]
        return (most.view(-1, *x.shape[1:]), ties.view(-1, *x.shape[1:])), (1, 1)


class _MaxBack(BackwardPass):
    @staticmethod
    def forward(t_rowptr: Tensor, t_col: Tensor, *tensors: Tensor) -> Tensor:
        x, most, shares = (tensor.contiguous() for tensor in tensors)
        return backend(x.device).row_max_back(t_rowptr, t_col, x, most, shares)

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *given: Tensor) -> tuple[Tensor, int]:
        tensors = [trials_of(info, dim, tensor) for dim, tensor in zip(dims[2:], given[2:], strict=True)]
        out = _MaxBack.apply(*given[:2], *(tensor.flatten(1) for tensor in tensors))  # type: ignore[no-untyped-call]
        return out.view(tensors[0].shape), 1


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
