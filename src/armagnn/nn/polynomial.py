r"""Sums of Chebyshev polynomials of a graph, :math:`\sum_{n=0}^D T_n(E) X W_n` with :math:`E = sL - I`.

Every polynomial filter of degree D is such a sum: its responses are combinations of :math:`T_0, \dots, T_D`, so a table
of coefficients (`coefficients`) turns its weights into the :math:`W_n` (`mixed`). While the spectrum of E lies within
[-1, 1] nothing is lost that way: no :math:`T_n` exceeds 1 there, whatever the degree.

The recursion is that of :math:`U_n = \pm T_n` with the signs +, +, -, -, +, +, ...:

.. math::
    U_0 = I, \qquad U_1 = E, \qquad U_n = \pm 2E U_{n-1} + U_{n-2} \quad (+ \text{ where } n \text{ is odd}).

A sum in the place of the difference :math:`2E T_{n-1} - T_{n-2}` is what one kernel launch can do, forwards and
backwards; the signs go to the weights, which are small.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from armagnn import kernels
from armagnn.nn.conv import times
from armagnn.nn.keep import once_per_operator
from armagnn.nn.mix import mix
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.csr import Arguments
from armagnn.operators.modes import may_be_kept, normal_mode

# ------------------------------------------------------------------------------------------------- responses, weights


def chebyshev(e: Tensor, degree: int) -> Tensor:
    r"""Return :math:`T_0(e), \dots, T_D(e)`, shape (M, D + 1), of numbers e, shape (M), within [-1, 1] or not.

    :math:`T_{m+n} = 2 T_m T_n - T_{m-n}` doubles their number with every step.

    Example:
        >>> chebyshev(torch.tensor([0.5, 2.0], dtype=torch.float64), 3)
        tensor([[ 1.0000,  0.5000, -0.5000, -1.0000],
                [ 1.0000,  2.0000,  7.0000, 26.0000]], dtype=torch.float64)
    """
    table = torch.stack([torch.ones_like(e), e], 1)
    while table.shape[1] <= degree:
        last = table[:, -1:]
        table = torch.cat([table, 2 * last * table[:, 1:] - table[:, :-1].flip(1)], 1)
    return table[:, : degree + 1]


def coefficients(responses: Callable[[Tensor], Tensor], degree: int, device: torch.device) -> Tensor:
    r"""Return A, shape (D + 1, C), float64, with which C polynomials of degree D are :math:`r = \sum_n A_n T_n`.

    It is exact: the responses, shape (M, C), are asked for at the M = D + 1 zeros
    :math:`\cos\vartheta_m` of :math:`T_{D+1}`, where the :math:`T_n` are orthogonal.

    Example:
        >>> coefficients(lambda e: torch.stack([e, e**2], 1), 2, torch.device("cpu")).abs().round(decimals=4)
        tensor([[0.0000, 0.5000],
                [1.0000, 0.0000],
                [0.0000, 0.5000]], dtype=torch.float64)
    """
    count = torch.arange(degree + 1, device=device)
    odd, unit = 2 * count + 1, torch.pi / (2 * (degree + 1))  # the angles are whole multiples of the unit
    points = (odd.double() * unit).cos()
    cosines = ((torch.outer(count, odd) % (4 * (degree + 1))).double() * unit).cos()
    norms = (2.0 - (count == 0).double()) / (degree + 1)
    return (norms.unsqueeze(1) * cosines) @ responses(points)


def mixed(table: Tensor, weight: Tensor) -> Tensor:
    """Return the combinations, shape (M, F_in, F_out), of weights (F_in, C, F_out) with coefficients (M, C).

    Example:
        >>> mixed(torch.tensor([[1.0, -1.0]]), torch.tensor([[[5.0], [2.0]]])).flatten()
        tensor([3.])
    """
    fin, _, fout = weight.shape
    return mix(table.to(weight.dtype), weight.transpose(0, 1).flatten(1)).view(table.shape[0], fin, fout)


# -------------------------------------------------------------------------------------------------------- the operator


class Scaled:
    """E = sL - I as the recursion wants it: `plus` is one launch.

    Where every diagonal entry is known to be one, and so to be stored, E has the pattern of L. Otherwise -I is added
    with the rest, in a pass of its own.
    """

    def __init__(self, op: GraphOperator, scale: float) -> None:
        self.whole = op.unit_diagonal
        value = scale * op.value
        if self.whole:
            value = torch.where(op._rows() == op.col, scale - 1.0, value)
        plain = op.symmetric and not op.value.requires_grad
        e = GraphOperator(
            op.rowptr,
            op.col,
            value,
            op.shape,
            transposed=None if plain else op._structure(),
            symmetric=op.symmetric,
        )
        matrix = e._arguments()
        self.value = value
        self.multiples = {factor: _multiple(matrix, factor) for factor in (1.0, 2.0, -2.0)}

    def plus(self, factor: float, y: Tensor, z: Tensor | None) -> Tensor:
        """Return ``factor * E y + z`` for a factor of 1, 2 or -2 and signals of shape (N, F)."""
        if not self.whole:
            z = -factor * y if z is None else z.sub(y, alpha=factor)
        return kernels.gcs(*self.multiples[factor], y, z, None, None, 0.0, 0, "none", 0.0)


def _multiple(matrix: Arguments, factor: float) -> Arguments:
    rowptr, col, value, t_rowptr, t_col, t_value, perm, inverse = matrix
    multiple = factor * value
    t_multiple = multiple if t_value is value else factor * t_value
    return rowptr, col, multiple, t_rowptr, t_col, t_multiple, perm, inverse


def scaled(op: GraphOperator, scale: float) -> Scaled:
    """Return sL - I, made once for an operator with fixed values; no device is waited for."""
    if torch.compiler.is_compiling():
        return Scaled(op, scale)
    kept = _kept(op)
    found = kept.get(scale)
    if found is None:
        with normal_mode():
            found = Scaled(op, scale)
        if may_be_kept(found.value) and not op.value.requires_grad:  # also where gradients are off for now
            kept[scale] = found
    return found


@once_per_operator
def _kept(op: GraphOperator) -> dict[float, Scaled]:
    return {}


# ------------------------------------------------------------------------------------------------------------- the sum


def signed(weights: Tensor) -> Tensor:
    r"""Return the weights of the :math:`U_n` from those of the :math:`T_n`, shape (D + 1, F_in, F_out)."""
    n = torch.arange(weights.shape[0], device=weights.device)
    return weights * (1 - n // 2 % 2 * 2).to(weights.dtype)[:, None, None]


def _factor(n: int) -> float:
    r"""The factor of :math:`E U_{n-1}` in :math:`U_n`."""
    return 1.0 if n == 1 else 2.0 if n % 2 else -2.0


def terms(e: Scaled, x: Tensor, degree: int) -> list[Tensor]:
    r"""Return :math:`U_0 X, \dots, U_D X` of X, shape (N, F)."""
    found = [x]
    for n in range(1, degree + 1):
        found.append(e.plus(_factor(n), found[-1], found[-2] if n > 1 else None))
    return found


def clenshaw(e: Scaled, degree: int, add: Callable[[int, Tensor | None], Tensor]) -> Tensor:
    r"""Return :math:`\sum_n U_n Y_n`, where ``add(n, z)`` is :math:`Y_n + z`, shape (N, F), z being None for zero.

    It is the recursion backwards, Clenshaw's: :math:`B_n = Y_n + B_{n+2} \pm 2E B_{n+1}`, and :math:`Y_0 + B_2 + E B_1`
    is the sum.
    """
    later, state = None, add(degree, None)
    for n in reversed(range(degree)):
        later, state = state, e.plus(_factor(n + 1), state, add(n, later))
    return state


def polynomial(op: GraphOperator, scale: float, x: Tensor | CSR, weights: Tensor, filters_first: bool) -> Tensor:
    r"""Return :math:`\sum_n T_n(sL - I) X W_n`, shape (N, batch, F_out).

    Args:
        op: L.
        scale: s.
        x: (N, batch, F_in) dense, or (N, F_in) sparse.
        weights: the W_n, shape (D + 1, F_in, F_out).
        filters_first: filter X, which is dense, by each polynomial and multiply by the weights; or the other way round.

    Example:
        >>> pair = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="laplacian")
        >>> x, weights = torch.tensor([[[1.0]], [[3.0]]]), torch.ones(3, 1, 1)
        >>> [polynomial(pair, 1.0, x, weights, first).flatten() for first in (True, False)]  # I + E + I, E exchanges
        [tensor([-1.,  5.]), tensor([-1.,  5.])]
    """
    e, weights = scaled(op, scale), signed(weights)
    count, fin, fout = weights.shape
    # under autocast the products with weights are narrow, the recursion is not: its rounding would add up
    if filters_first:
        assert isinstance(x, Tensor)
        found = terms(e, x.flatten(1).to(op.dtype), count - 1)
        # one by one where a node has one feature, which a product reads as well; otherwise side by side
        stacked = torch.stack(found).movedim(0, 2) if fin == 1 else torch.cat([term.view(x.shape) for term in found], 2)
        return times(stacked, weights.flatten(0, 1))
    products = times(x, weights.transpose(0, 1).reshape(fin, count * fout)).to(op.dtype)
    nodes, batch = products.shape[:2]
    each = products.view(nodes, batch, count, fout).unbind(2)

    def add(n: int, z: Tensor | None) -> Tensor:
        return each[n].flatten(1) if z is None else each[n].flatten(1) + z

    return clenshaw(e, count - 1, add).view(nodes, batch, fout)
