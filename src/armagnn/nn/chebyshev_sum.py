r"""Polynomials of a graph as sums of Chebyshev's, :math:`\sum_{n=0}^D T_n(E) Y_n` with :math:`E = sL - I`.

Every polynomial of degree D is a combination of :math:`T_0, \dots, T_D`. `chebyshev_coefficients` finds it; a layer's
weights, or its products with them, are combined accordingly. While the spectrum of E lies within [-1, 1] nothing is
lost that way, whatever the degree: no :math:`T_n` exceeds 1 there.

The recursion is that of :math:`U_n = \pm T_n` with the signs +, +, -, -, +, +, ...:

.. math::
    U_0 = I, \qquad U_1 = E, \qquad U_n = \pm 2E U_{n-1} + U_{n-2} \quad (+ \text{ where } n \text{ is odd}).

A sum in the place of the difference :math:`2E T_{n-1} - T_{n-2}` is what one kernel launch can do, forwards and
backwards; the signs go to the weights, which are small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

from armagnn import kernels
from armagnn.nn.conv import times
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.csr import Arguments
from armagnn.operators.kept import may_be_kept, once_per_operator
from armagnn.torch_private import learned, normal_mode, traced

MOST_BASES: Final = 64
"""Degrees (and devices) of which `chebyshev_coefficients` keeps what does not depend on the responses."""

_bases: dict[tuple[int, torch.device], tuple[Tensor, Tensor]] = {}

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


def chebyshev_coefficients(responses: Callable[[Tensor], Tensor], degree: int, device: torch.device) -> Tensor:
    r"""Return A, shape (D + 1, C), float64, with which C polynomials of degree D are :math:`r = \sum_n A_n T_n`.

    It is exact: the responses, shape (M, C), are asked for at the M = D + 1 zeros
    :math:`\cos\vartheta_m` of :math:`T_{D+1}`, where the :math:`T_n` are orthogonal.

    Example:
        >>> chebyshev_coefficients(lambda e: torch.stack([e, e**2], 1), 2, torch.device("cpu")).abs().round(decimals=4)
        tensor([[0.0000, 0.5000],
                [1.0000, 0.0000],
                [0.0000, 0.5000]], dtype=torch.float64)
    """
    points, basis = _basis(degree, device)
    return basis @ responses(points)


def _basis(degree: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the zeros of T_{D+1}, shape (D + 1), and what turns values there to coefficients; made once."""
    found = _bases.get((degree, device))
    if found is not None and not traced():
        return found
    with normal_mode():
        count = torch.arange(degree + 1, device=device)
        odd, unit = 2 * count + 1, torch.pi / (2 * (degree + 1))  # the angles are whole multiples of the unit
        points = (odd.double() * unit).cos()
        cosines = ((torch.outer(count, odd) % (4 * (degree + 1))).double() * unit).cos()
        norms = (2.0 - (count == 0).double()) / (degree + 1)
        found = points, norms.unsqueeze(1) * cosines
    if may_be_kept(points) and len(_bases) < MOST_BASES:  # none is let go: recorded work may still read it
        _bases[degree, device] = found
    return found


def mixed(table: Tensor, weight: Tensor) -> Tensor:
    """Return the combinations, shape (M, F_in, F_out), of weights (F_in, C, F_out) with coefficients (M, C).

    Example:
        >>> mixed(torch.tensor([[1.0, -1.0]]), torch.tensor([[[5.0], [2.0]]])).flatten()
        tensor([3.])
    """
    fin, _, fout = weight.shape
    return kernels.product(table.to(weight.dtype), weight.transpose(0, 1).flatten(1)).view(table.shape[0], fin, fout)


# -------------------------------------------------------------------------------------------------------- the operator


class Shifted:
    """E = sL - I as a recursion of that degree wants it: `plus` is one launch. Without s, E is the operator itself.

    Where every diagonal entry is known to be one, and so to be stored, E has the pattern of L. Otherwise, and where a
    single product is not worth new values, -I is added with the rest, in a separate pass.
    """

    def __init__(self, op: GraphOperator, scale: float | None, degree: int) -> None:
        value = op.value if scale is None else scale * op.value
        self.whole, self.dtype = scale is None or (op.unit_diagonal and degree > 1), op.dtype
        if scale is not None and self.whole:
            # of stored zeros, the padding of a batch, there may be many on one diagonal place: they stay zeros
            value = torch.where((op._rows() == op.col) & (op.value != 0), scale - 1.0, value)
        self.value = value  # which says whether this may be kept
        plain = op.symmetric and not learned(op.value)
        options: dict[str, Any] = {"symmetric": op.symmetric, "check_invariants": False}
        options["transposed"] = None if plain else op._structure()
        matrix = CSR(op.rowptr, op.col, value, op.shape, **options)._arguments()
        self.multiples = {factor: _multiple(matrix, factor) for factor in {_factor(n + 1) for n in range(degree)}}

    def plus(self, factor: float, y: Tensor, z: Tensor | None) -> Tensor:
        """Return ``factor * E y + z`` for a factor of the recursion and signals of shape (N, F)."""
        if not self.whole:
            z = -factor * y if z is None else z.sub(y, alpha=factor)
        return kernels.gcs(*self.multiples[factor], y, z, None, None, 0.0, 0, "none", 0.0)


def _multiple(matrix: Arguments, factor: float) -> Arguments:
    rowptr, col, value, t_rowptr, t_col, t_value, perm, inverse = matrix
    if factor == 1.0:
        return matrix
    multiple = factor * value
    t_multiple = multiple if t_value is value else factor * t_value
    return rowptr, col, multiple, t_rowptr, t_col, t_multiple, perm, inverse


def _factor(n: int) -> float:
    r"""The factor of :math:`E U_{n-1}` in :math:`U_n`."""
    return 1.0 if n == 1 else 2.0 if n % 2 else -2.0


class ShiftedRows(Shifted):
    """E = sL - I of an operator whose rows lie on many ranks: a product with L, and the rest."""

    def __init__(self, op: GraphOperator, scale: float | None) -> None:
        self.op, self.scale, self.dtype, self.value = op, scale, op.dtype, op.value

    def plus(self, factor: float, y: Tensor, z: Tensor | None) -> Tensor:
        """Return ``factor * E y + z`` for a factor of the recursion and signals of shape (N, F)."""
        out = factor * (self.op @ y if self.scale is None else self.scale * (self.op @ y) - y)
        return out if z is None else out + z


def shifted(op: GraphOperator, scale: float | None, degree: int) -> Shifted:
    """Return sL - I (or L itself), made once for an operator with fixed values; no device is waited for."""
    if not op.whole:
        return ShiftedRows(op, scale)
    make = Shifted if traced() else _shifted
    return make(op, scale, min(degree, 3))  # from degree 3 on they are all the same


@once_per_operator
def _shifted(op: GraphOperator, scale: float | None, degree: int) -> Shifted:
    return Shifted(op, scale, degree)


# ------------------------------------------------------------------------------------------------------------- the sum


def signed(table: Tensor) -> Tensor:
    r"""Return the coefficients or weights of the :math:`U_n` from those of the :math:`T_n`, which are the rows."""
    n = torch.arange(table.shape[0], device=table.device)
    return table * (1 - n // 2 % 2 * 2).to(table.dtype).view(-1, *[1] * (table.dim() - 1))


def terms(e: Shifted, x: Tensor, degree: int) -> list[Tensor]:
    r"""Return :math:`U_0 X, \dots, U_D X` of X, shape (N, F)."""
    found = [x]
    for n in range(1, degree + 1):
        found.append(e.plus(_factor(n), found[-1], found[-2] if n > 1 else None))
    return found


def clenshaw(e: Shifted, degree: int, add: Callable[[int, Tensor | None], Tensor]) -> Tensor:
    r"""Return :math:`\sum_n U_n Y_n`, where ``add(n, z)`` is :math:`Y_n + z`, shape (N, F), z being None for zero.

    It is the recursion backwards, Clenshaw's: :math:`B_n = Y_n + B_{n+2} \pm 2E B_{n+1}`, and :math:`Y_0 + B_2 + E B_1`
    is the sum.
    """
    later, state = None, add(degree, None)
    for n in reversed(range(degree)):
        later, state = state, e.plus(_factor(n + 1), state, add(n, later))
    return state


def series(op: GraphOperator, y: Tensor, coefficients: Tensor) -> Tensor:
    r"""Return :math:`\sum_n c_n T_n(M) Y`, shape (N, batch, F), for an operator M with eigenvalues in [-1, 1].

    Clenshaw's recursion keeps two vectors, and for the gradient only Y, whatever the degree.

    Args:
        op: M.
        y: (N, batch, F).
        coefficients: the c_n, shape (D + 1), or (D + 1, F) where each channel has its own.

    Example:
        >>> pair = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="arma")
        >>> series(pair, torch.tensor([[[1.0]], [[3.0]]]), torch.tensor([1.0, 2.0])).flatten()
        tensor([7., 5.])
    """
    degree = coefficients.shape[0] - 1
    e = shifted(op, None, max(degree, 1))
    weights = signed(coefficients)

    def add(n: int, z: Tensor | None) -> Tensor:
        part = (y * weights[n]).flatten(1)
        return part if z is None else z + part

    return clenshaw(e, degree, add).view(y.shape)


def polynomial(
    op: GraphOperator, scale: float, x: Tensor | CSR, weight: Tensor, table: Tensor | None, filters_first: bool
) -> Tensor:
    r"""Return :math:`\sum_c r_c(E) X W_c`, shape (N, batch, F_out), with :math:`E = sL - I`.

    Args:
        op: L.
        scale: s.
        x: (N, batch, F_in) dense, or (N, F_in) sparse.
        weight: the W_c, shape (F_in, C, F_out).
        table: the coefficients of :math:`r_c = \sum_n A_{nc} T_n`, shape (D + 1, C); None where the polynomials are
            :math:`T_0, \dots, T_{C-1}` themselves.
        filters_first: filter X, which is dense, by each T_n and multiply by the weights; or the other way round.

    Example:
        >>> pair = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="laplacian")
        >>> x, weight = torch.tensor([[[1.0]], [[3.0]]]), torch.ones(1, 2, 1)
        >>> [polynomial(pair, 1.0, x, weight, None, first).flatten() for first in (True, False)]  # X + EX = LX
        [tensor([-2.,  2.]), tensor([-2.,  2.])]
    """
    e = shifted(op, scale, (weight.shape[1] if table is None else table.shape[0]) - 1)
    if filters_first:
        assert isinstance(x, Tensor)
        return _filters_first(e, x, weight.transpose(0, 1) if table is None else mixed(table, weight))
    return _multiplies_first(e, x, weight, table)


def _filters_first(e: Shifted, x: Tensor, weights: Tensor) -> Tensor:
    """Return the sum from the weights of each T_n, shape (D + 1, F_in, F_out)."""
    # under autocast the products with weights are narrow, the recursion is not: its rounding would add up
    found = terms(e, x.flatten(1).to(e.dtype), weights.shape[0] - 1)
    if x.shape[2] == 1:  # one after the other: a product reads them as well
        stacked = torch.stack(found).movedim(0, 2)
    else:
        stacked = torch.cat([term.view(x.shape) for term in found], 2)
    return times(stacked, signed(weights).flatten(0, 1))


def _multiplies_first(e: Shifted, x: Tensor | CSR, weight: Tensor, table: Tensor | None) -> Tensor:
    """Return the sum from the products X W_c, combined to those of each T_n."""
    _, count, fout = weight.shape
    if table is None:
        weight = signed(weight.transpose(0, 1)).transpose(0, 1)
    products = times(x, weight.flatten(1))
    nodes, batch = products.shape[:2]
    each = products.view(nodes, batch, count, fout).unbind(2)
    if table is not None:
        vectors = torch.stack(each).flatten(1)
        each = (
            kernels.product(signed(table).to(vectors.dtype), vectors).view(table.shape[0], nodes, batch, fout).unbind(0)
        )

    def add(n: int, z: Tensor | None) -> Tensor:
        y = each[n].flatten(1).to(e.dtype)
        return y if z is None else z + y  # z first: what a product has left is laid out as the next one wants it

    return clenshaw(e, len(each) - 1, add).view(nodes, batch, fout)
