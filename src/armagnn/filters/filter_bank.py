"""A bank of ARMA filters on one graph: all poles of all filters from one Krylov space."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import torch
from torch import Tensor

from armagnn import checks
from armagnn.errors import DataError, ParameterError, shown
from armagnn.filters.arma import ARMAFilter, units
from armagnn.filters.base import check_solver
from armagnn.operators import GraphOperator
from armagnn.solvers import Statistics
from armagnn.solvers.conjugate_gradients import MAX_ITER
from armagnn.solvers.shifted_systems import shifted_systems

ORDER: Final = 4
"""K of a filter that is named."""

MOST: Final = 10_000
"""Filters of a bank."""

SPARE: Final = 12
"""Vectors of a column that a solve holds at its peak, besides those of the systems and the results."""


@dataclass(frozen=True, eq=False)
class FilterBank:
    r"""The filters :math:`h_f(\mu) = c_f + \sum_{k=1}^P \mathrm{Re} \frac{b_{fk}}{1 - a_k \mu}` of one set of P poles.

    The systems :math:`(I - a_k M) Z_k = X` of all poles share one Krylov space (`shifted_systems`), and a filter is a
    combination of the :math:`Z_k`. A pole that several filters have is solved for once.

    Attributes:
        filters: the filters.
        names: of the filters, each another one.

    Example:
        >>> bank = FilterBank.of([0.9, -0.5, ARMAFilter([0.9, 0.0], [1.0, 2.0])])
        >>> bank.names, bank.num_poles
        (('a=0.9', 'a=-0.5', 'filter 2'), 2)
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), dtype=torch.float64)
        >>> x = torch.eye(3, dtype=torch.float64)
        >>> found = bank.filter(op, x)
        >>> found.shape, torch.allclose(found[0], ARMAFilter([0.9], [0.1]).filter(op, x))
        (torch.Size([3, 3, 3]), True)
    """

    filters: tuple[ARMAFilter, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        for each in self.filters:
            checks.instance("each of filters", each, ARMAFilter, "an ARMAFilter")
        if len(set(self.names)) < len(self.names) or len(self.names) != len(self.filters):
            raise ParameterError(f"the filters of a bank need a name each, all different, got {shown(self.names)}.")

    @classmethod
    def of(cls, filters: Any) -> Self:
        """Return a bank of numbers, names and filters; a bank is returned as it is.

        Args:
            filters: each a number a with ``|a| < 1``, the filter (1 - \\|a\\|) / (1 - a μ), low-pass for a > 0 and
                high-pass for a < 0; a name such as ``"low-pass"`` (see `armagnn.filters.targets`), which is designed
                with four poles; or an `ARMAFilter`.
        """
        if isinstance(filters, cls):
            return filters
        if isinstance(filters, str) or not isinstance(filters, Sequence | np.ndarray) or not len(filters):
            raise ParameterError(f"filters must be a sequence of numbers, names or filters, got {shown(filters)}.")
        if len(filters) > MOST:
            raise ParameterError(f"a bank has at most {MOST} filters, got {len(filters)}.")
        named: dict[str, ARMAFilter] = {}
        for place, each in enumerate(filters):
            if isinstance(each, ARMAFilter):
                name, found = f"filter {place}", each
            elif isinstance(each, str):
                name, found = each, ARMAFilter.design(each, ORDER)
            else:
                a = checks.real("each of filters", each, above=-1, below=1)
                name, found = f"a={a:g}", ARMAFilter([a], [1.0 - abs(a)])
            named[name if name not in named else f"{name} ({place})"] = found
        return cls(tuple(named.values()), tuple(named))

    def __len__(self) -> int:
        return len(self.filters)

    @property
    def num_poles(self) -> int:
        """P, the systems that are solved for a column; a conjugate pair is one."""
        return sum(len(table.poles) for table in self._tables())

    def numbers_at_peak(self, passthrough: bool = False) -> int:
        """Return how many numbers `filter` holds at a time, for each node and column."""
        return 4 * self.num_poles + len(self) + passthrough + SPARE

    def filter(
        self,
        op: GraphOperator,
        x: Tensor,
        tol: float | None = None,
        max_iter: int | None = None,
        statistics: list[Statistics] | None = None,
    ) -> Tensor:
        """Return what each filter gives of x, (N, C), shape (B, N, C); without gradients.

        Args:
            op: the operator, of kind ``arma``, of an undirected graph; or a `PartitionedOperator` of it, on every rank.
            x: the signals, of the operator's type, on its device; this rank's rows of them.
            tol: relative residual; 1e-12 in float64, 1e-6 in float32 by default.
            max_iter: the most steps.
            statistics: a list, to which the `Statistics` of each solve are appended.
        """
        for each in self.filters:
            each.check_operator(op)
        checks.real_tensor("x", x, "(N, C)", f", with N = {op.num_nodes}")
        op.check_operand(x)
        with torch.no_grad():
            check_solver(op, tol, max_iter, statistics)
            out = x.new_empty(len(self), *x.shape)
            for table in self._tables():
                target = self.filters[table.members[0]].meant(op)
                a = torch.tensor([[p.real, p.imag] for p in table.poles], dtype=torch.float64).reshape(-1, 2, 1)
                found: Tensor | None = None
                if table.poles:
                    a = a.to(x.device).expand(-1, -1, x.shape[1])
                    steps = max_iter or MAX_ITER
                    found, _, how = shifted_systems(target.__matmul__, x, a, tol, steps, op, with_image=False)
                    how._warn("conjugate gradients", "raise max_iter or tol, or move the poles away from [-1, 1]")
                    if statistics is not None:
                        statistics.append(how)
                _combine(table, x, found, out)
        return out

    def _tables(self) -> list[_Table]:
        """Return the poles and residues of the filters in mu, and of those in lambda."""
        variables = dict.fromkeys(each.variable for each in self.filters)
        return [_table(self.filters, variable) for variable in variables]

    # ----------------------------------------------------------------------------------------------------------- files

    def to_json(self) -> list[dict[str, Any]]:
        """Return the filters as plain numbers, which `from_json` reads."""

        def numbers(t: Tensor) -> list[Any]:
            return [[v.real, v.imag] for v in t.detach().to(torch.complex128).tolist()]

        return [
            {"name": name, "variable": f.variable, "a": numbers(f.a), "b": numbers(f.b)}
            for name, f in zip(self.names, self.filters, strict=True)
        ]

    @classmethod
    def parsed(cls, content: bytes, source: str) -> Self:
        """Return the bank that a JSON text holds, as `from_json` describes it."""
        try:
            found = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{source}: is no JSON ({error}).") from error
        return cls.from_json(found, source)

    @classmethod
    def from_json(cls, content: Any, source: str = "the bank") -> Self:
        """Return the bank of a list of filters: ``{"name": ..., "a": [...], "b": [...]}``, complex numbers as pairs.

        Example:
            >>> FilterBank.from_json([{"a": [0.5], "b": [0.5]}, {"name": "pair", "a": [[0, 0.5]], "b": [1]}]).names
            ('filter 0', 'pair')
        """
        if not isinstance(content, list) or not content or not all(isinstance(each, dict) for each in content):
            raise DataError(
                f'{source}: must be a list of filters, such as [{{"name": "low", "a": [0.9], "b": [0.1]}}].'
            )
        filters, names = [], []
        for place, each in enumerate(content):
            unknown = set(each) - {"name", "variable", "a", "b"}
            if unknown or not {"a", "b"} <= set(each):
                raise DataError(f"{source}, filter {place}: needs a and b, and may have name and variable.")
            a, b = (_numbers(each[key], f"{source}, filter {place}: {key}") for key in ("a", "b"))
            filters.append(ARMAFilter(a, b, each.get("variable", "mu")))
            names.append(str(each.get("name", f"filter {place}")))
        return cls(tuple(filters), tuple(names))


@dataclass(frozen=True)
class _Table:
    """What filters of one variable are made of.

    Attributes:
        members: which filters of the bank they are.
        poles: a of each system; those of pairs have a positive imaginary part.
        residues: (members, P), complex.
        constants: of each member.
    """

    members: list[int]
    poles: list[complex]
    residues: list[list[complex]]
    constants: list[float]


def _table(filters: Iterable[ARMAFilter], variable: str) -> _Table:
    places: dict[complex, int] = {}
    members, found, constants = [], [], []
    for number, each in enumerate(filters):
        if each.variable != variable:
            continue
        constant, own = 0.0, dict[int, complex]()
        a, b = (t.detach().cpu() for t in (each.a, each.b))
        kind = torch.promote_types(a.dtype, b.dtype)
        for unit in units(a.to(kind), b.to(kind)):
            for pole, residue in zip(*(t.to(torch.complex128).tolist() for t in unit), strict=True):
                if pole == 0:
                    constant += residue.real
                    continue
                if pole.imag < 0:  # Re b / (1 - a μ) is that of the conjugates
                    pole, residue = pole.conjugate(), residue.conjugate()
                place = places.setdefault(pole, len(places))
                own[place] = own.get(place, 0.0) + residue
        members.append(number)
        found.append(own)
        constants.append(constant)
    residues = [[own.get(place, 0j) for place in range(len(places))] for own in found]
    return _Table(members, list(places), residues, constants)


def _combine(table: _Table, x: Tensor, z: Tensor | None, out: Tensor) -> None:
    """Write c X + Re(b Z) of the filters of a table to their places."""
    first, last = table.members[0], table.members[-1]
    side_by_side = last - first + 1 == len(table.members)
    target = out[first : last + 1] if side_by_side else x.new_empty(len(table.members), *x.shape)
    if z is None:
        target.zero_()
    else:
        b = torch.tensor(table.residues, dtype=torch.complex128)
        parts = torch.stack([b.real, -b.imag], 2).flatten(1).to(x)
        torch.mm(parts, z.flatten(2).flatten(0, 1), out=target.flatten(1))
    for own, constant in zip(target, table.constants, strict=True):
        if constant:
            own.add_(x, alpha=constant)
    if not side_by_side:
        out[table.members] = target


def _numbers(values: Any, what: str) -> Tensor:
    """Return numbers from JSON, complex ones as pairs."""
    if not isinstance(values, list) or not values:
        raise DataError(f"{what} must be a list of numbers.")
    pairs = []
    for value in values:
        parts = value if isinstance(value, list) and len(value) == 2 else [value, 0.0]
        pairs.append(complex(*(checks.real(what, part, error=DataError) for part in parts)))
    found = torch.tensor(pairs, dtype=torch.complex128)
    return found if bool(found.imag.any()) else found.real
