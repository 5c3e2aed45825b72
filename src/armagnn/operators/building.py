r"""How operators are built: from a weighted adjacency to the operator of a kind, Eq. 9 and its relatives.

With A the adjacency (row i receives from column j), D the diagonal of its row sums and S = D^-1/2 A D^-1/2:

=============  ============================================================================================
kind           operator
=============  ============================================================================================
``arma``       M = (λmax - λmin)/2 I - L of Eq. 9; with λmin = 0, λmax = 2 (the default) that is S
``gcn``        S of A + γI instead of A (Eq. 5)
``laplacian``  L = I - S
``adjacency``  A itself
=============  ============================================================================================

A node without edges has S_ii = 0 and so L_ii = 1. A self-loop counts once in its node's degree. Parallel edges are
added up before anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import torch
from torch import Tensor

from armagnn import checks, kernels
from armagnn.errors import DeviceError, DTypeError, GraphError, ParameterError, ShapeError, SymmetryError
from armagnn.operators import entries
from armagnn.operators.csr import CSR
from armagnn.operators.entries import assemble
from armagnn.operators.extremes import extremal_eigenvalues
from armagnn.operators.formats import Lines
from armagnn.torch_private import learned, normal_mode, traced

if TYPE_CHECKING:
    from armagnn.operators.graph import GraphOperator


Kind = Literal["arma", "gcn", "laplacian", "adjacency"]
KINDS: Final = ("arma", "gcn", "laplacian", "adjacency")
SYMMETRIZE: Final = ("max", "mean")
OPTIONS: Final = ("gamma", "lambda_min", "lambda_max", "symmetrize")
NEEDS_SYMMETRY: Final = (
    "{} needs a symmetric operator and this graph is directed (or its values were replaced): "
    "build it from both directions of every edge, or pass symmetrize='max' or 'mean' to the builder."
)


@dataclass(frozen=True)
class Options:
    """The checked options of a builder; `GraphOperator` says what they mean.

    Example:
        >>> Options("gcn", gamma=0.5).default_range
        True
        >>> Options("laplacian", gamma=0.5)
        Traceback (most recent call last):
        ...
        armagnn.errors.ParameterError: gamma belongs to kind='gcn', not to 'laplacian'.
    """

    kind: str
    gamma: float = 1.0
    lambda_min: float | str = 0.0
    lambda_max: float | str = 2.0
    symmetrize: str | None = None

    def __post_init__(self) -> None:
        checks.choice("kind of operator", self.kind, KINDS)
        if self.symmetrize is not None:
            checks.choice("way to symmetrize", self.symmetrize, SYMMETRIZE)
        checks.real("gamma", self.gamma, least=0)
        if self.kind != "gcn" and self.gamma != 1.0:
            raise ParameterError(f"gamma belongs to kind='gcn', not to {self.kind!r}.")
        for name, bound in (("lambda_min", self.lambda_min), ("lambda_max", self.lambda_max)):
            if not (isinstance(bound, str) and bound == "computed"):
                checks.real(name, bound, extra=" or 'computed'")
        if not self.default_range and self.kind != "arma":
            raise ParameterError(f"lambda_min and lambda_max belong to kind='arma' (Eq. 9), not to {self.kind!r}.")

    @property
    def default_range(self) -> bool:
        """Do eigenvalues of L count as lying in [0, 2], so that M of Eq. 9 is I - L?"""
        return (self.lambda_min, self.lambda_max) == (0.0, 2.0)


def operator_of(
    options: Options, row: Tensor | Lines, col: Tensor, weight: Tensor, num_nodes: int, dtype: torch.dtype
) -> dict[str, Any]:
    """Return the arguments of the `GraphOperator` of a weighted adjacency."""
    if traced():
        return _operator_of(options, row, col, weight, num_nodes, dtype)
    with normal_mode():
        return _operator_of(options, *entries.normal(row, col, weight), num_nodes, dtype)


def _operator_of(
    options: Options, row: Tensor | Lines, col: Tensor, weight: Tensor, num_nodes: int, dtype: torch.dtype
) -> dict[str, Any]:
    kind, gamma, known = options.kind, float(options.gamma), not traced()
    # Where the type of the operator does not hold the weights, the degrees, and what they divide, need the wider one.
    exact = weight.dtype
    if entries.fits(weight, dtype):
        exact = dtype
    elif kind == "adjacency":
        entries.narrowed("edge_weight", weight, dtype)  # raises
    compiled = entries.compiled_for(row, col, weight)
    shift = 0.0
    if compiled is None or options.symmetrize is not None or not options.default_range:
        ids, weight = entries.ids_of(row), weight.to(exact)
        if options.symmetrize is not None:
            ids, col, weight = symmetrized(ids, col, weight, num_nodes, options.symmetrize)
        if not options.default_range:
            shift = _shift(options, ids, col, weight, num_nodes)
        row = ids
    for names, number in (("gamma is", gamma), ("lambda_min and lambda_max are", shift)):
        if abs(number) > torch.finfo(dtype).max:
            raise ParameterError(f"{names} too large for {dtype}: pass less, or dtype=torch.float64.")
    unit_diagonal = known and kind == "laplacian" and not bool((entries.ids_of(row) == col).any())
    compiled = entries.compiled_for(row, col, weight)
    transposed: Transposed | None
    if compiled is not None:
        if exact == torch.bfloat16:  # degrees of a few hundred already lose digits in bfloat16
            weight, exact = weight.to(exact).float(), torch.float32
        rowptr, col, value = _build_compiled(compiled, row, col, weight, num_nodes, kind, gamma, shift, exact)
        value = value.to(dtype)
        symmetric = compiled.is_mirrored(rowptr, col, value)
        transposed = None if symmetric else kernels.transpose(rowptr, col, num_nodes)
    else:
        row = entries.ids_of(row)
        rowptr, col, value, transposed = build(row, col, weight, num_nodes, kind, gamma, shift, dtype)
        symmetric = known and is_symmetric(rowptr, col, value, transposed)
    return {
        "rowptr": rowptr,
        "col": col,
        "value": value,
        "shape": (num_nodes, num_nodes),
        "kind": kind,
        "transposed": None if symmetric and not learned(value) else transposed,
        "symmetric": symmetric,
        "unit_diagonal": unit_diagonal,
        "shift": shift,
        "check_invariants": False,
    }


def of_matrix(found: entries.Entries, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the `GraphOperator` of an adjacency that came as a matrix."""
    row, col, weight, shape, dtype = found
    if shape[0] != shape[1]:
        raise ShapeError(f"an adjacency matrix must be square, got {shape[0]} × {shape[1]}.")
    for name in options:
        checks.choice("option", name, (*OPTIONS, "allow_isolated"))
    insist = options.pop("allow_isolated", False)
    entries.justified(shape[0], col.shape[0], insist)
    return operator_of(Options(kind, **options), row, col, weight, shape[0], dtype)


def check_fields(shape: tuple[int, int], kind: Any, shift: Any) -> None:
    """Raise unless an operator may have this shape, this kind and this shift."""
    if shape[0] != shape[1]:
        raise ShapeError(f"an operator is square, got the shape {shape}.")
    checks.choice("kind of operator", kind, KINDS)
    if shift is not None:
        checks.real("shift", shift, extra=" (or None where it is not known)")


def _shift(options: Options, row: Tensor, col: Tensor, weight: Tensor, num_nodes: int) -> float:
    """Return (λmax - λmin)/2 - 1, by which M of Eq. 9 differs from I - L on its diagonal."""
    low, high = options.lambda_min, options.lambda_max
    if "computed" in (low, high):
        plain = operator_of(Options("arma"), row, col, weight.detach().double(), num_nodes, torch.float64)
        if not plain["symmetric"]:
            raise SymmetryError(NEEDS_SYMMETRY.format("lambda_min or lambda_max 'computed'"))
        matrix = CSR(plain["rowptr"], plain["col"], plain["value"], plain["shape"], symmetric=True)
        smallest, largest = extremal_eigenvalues(matrix)
        # rounding errors may leave [0, 2], where these eigenvalues lie
        low = min(max(1.0 - largest, 0.0), 2.0) if low == "computed" else low
        high = min(max(1.0 - smallest, 0.0), 2.0) if high == "computed" else high
    if not float(high) >= float(low):
        raise ParameterError(f"lambda_max ({high}) must not lie below lambda_min ({low}).")
    return (float(high) - float(low)) / 2 - 1.0


def needs_diagonal(kind: str, gamma: float, shift: float) -> bool:
    """Return whether every diagonal entry is stored, also where the graph has no self-loop."""
    return kind == "laplacian" or (kind == "gcn" and gamma > 0) or (kind == "arma" and shift != 0)


def check_weights(kind: str, weight: Tensor) -> None:
    """Raise where a degree would be the sum of negative weights."""
    if kind == "adjacency" or traced() or weight.numel() == 0:
        return
    lowest = float(weight.detach().min())
    if lowest < 0:
        raise GraphError(
            f"edge weights must not be negative for kind={kind!r} (lowest: {lowest:g}), their sums are degrees: "
            "shift or clip them, or use kind='adjacency'."
        )


Transposed = tuple[Tensor, Tensor, Tensor]
"""Pointers, columns and permutation of the transpose."""


def _build_compiled(
    kernel: Any, row: Tensor | Lines, col: Tensor, weight: Tensor, num_nodes: int, kind: str, gamma: float,
    shift: float, dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Do what `build` does by compiled kernels, in the memory of two operators."""
    check_weights(kind, weight)
    loop = (gamma if kind == "gcn" else 0.0) if needs_diagonal(kind, gamma, shift) else None
    one = weight.shape[0] > 0 and weight.stride(0) == 0  # one number stands for all
    shape = num_nodes, num_nodes
    given = *entries.given_rows(row), col, weight[:1] if one else weight
    rowptr, col, value = kernel.in_rows(*given, shape, dtype, loop)
    if kind == "adjacency":
        if value.shape != weight.shape:
            checks.finite("the sum of parallel edges", value, GraphError, "scale the weights")
        return rowptr, col, value
    kernel.scale_in_place(rowptr, col, value, _inverse_sqrt(kernel.degrees(rowptr, value).squeeze(1), dtype))
    if kind == "laplacian":
        kernel.add_to_diagonal(rowptr, col, value, 1.0, negative=True)
    elif kind == "arma" and shift != 0:
        kernel.add_to_diagonal(rowptr, col, value, shift)
    return rowptr, col, value


def build(
    row: Tensor,
    col: Tensor,
    weight: Tensor,
    num_nodes: int,
    kind: str,
    gamma: float,
    shift: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor, Transposed]:
    """Return (rowptr, col, value, transposed) of the operator, by torch; ``shift`` is (λmax - λmin)/2 - 1."""
    check_weights(kind, weight)
    if weight.dtype == torch.bfloat16:  # degrees of a few hundred already lose digits in bfloat16
        weight = weight.float()
    if needs_diagonal(kind, gamma, shift):
        nodes = torch.arange(num_nodes, dtype=row.dtype, device=row.device)
        loop = torch.full((num_nodes,), gamma if kind == "gcn" else 0.0, dtype=weight.dtype, device=weight.device)
        row, col, weight = torch.cat([row, nodes]), torch.cat([col, nodes]), torch.cat([weight, loop])
    shape = (num_nodes, num_nodes)
    rowptr, col, value = assemble(row, col, weight, shape)
    if kind == "adjacency" and value.shape != weight.shape:  # sums of finite weights
        checks.finite("the sum of parallel edges", value, GraphError, "scale the weights")
    adjacency = CSR(rowptr, col, value, shape, check_invariants=False)
    if kind != "adjacency":
        value = _symmetric_normalisation(adjacency)
        if kind == "laplacian":
            value = on_diagonal(adjacency, 1.0) - value
        elif kind == "arma" and shift != 0:
            value = value + on_diagonal(adjacency, shift)
    return rowptr, col, value.to(dtype), adjacency._structure()


def inverse_sqrt_degree(adjacency: CSR) -> Tensor:
    """Return D^-1/2, shape (N), zero where a node receives nothing; degrees are summed in float64."""
    ones = torch.ones(adjacency.shape[1], 1, dtype=torch.float64, device=adjacency.device)
    rowptr, col, value, t_rowptr, t_col, t_value, *places = adjacency._arguments()
    exact = (rowptr, col, value.double(), t_rowptr, t_col, t_value.double(), *places)
    return _inverse_sqrt(kernels.spmm(*exact, ones).squeeze(1), adjacency.dtype)  # not `@`, which autocast would round


def _inverse_sqrt(degree: Tensor, dtype: torch.dtype) -> Tensor:
    _check_degrees(degree, dtype)
    degree = degree.to(dtype)
    connected = degree > 0
    # the inner `where` keeps the gradient of 0^-1/2, an infinity, out of the backward pass
    return torch.where(connected, torch.where(connected, degree, 1.0).rsqrt(), 0.0)


def _check_degrees(degree: Tensor, dtype: torch.dtype) -> None:
    """Raise where a degree is so large or so small that it, or D^-1/2 squared, is no number of a type."""
    if traced():
        return
    kind = torch.finfo(dtype)
    fine = (degree == 0) | ((degree >= kind.tiny) & (degree <= kind.max))
    if not bool(fine.all()):
        raise GraphError(
            f"the edge weights add up to a degree of {float(degree.detach()[~fine][0]):g}, outside the range of "
            f"{dtype}: rescale the weights or pass dtype=torch.float64."
        )


def _symmetric_normalisation(adjacency: CSR) -> Tensor:
    scale = inverse_sqrt_degree(adjacency).unsqueeze(1)
    rowptr, col, _, t_rowptr, t_col, _, perm, inverse = adjacency._arguments()
    # a_ij times (d_i d_j), in this order: the product is commutative to the last bit, so a symmetric graph gives an
    # exactly symmetric operator
    return adjacency.value * kernels.sddmm(rowptr, col, t_rowptr, t_col, perm, inverse, scale, scale)


def on_diagonal(matrix: CSR, number: float) -> Tensor:
    """Return a number for every diagonal entry that is stored and zero for the others, in the matrix's type."""
    there = matrix._rows() == matrix.col
    if traced():  # duplicates are not merged there: the number goes to the first of its place
        there = there & first_of_place(matrix)
    return there.to(matrix.dtype) * number


def off_diagonal(op: GraphOperator) -> GraphOperator:
    """Return the operator with zeros on its diagonal, on the same pattern."""
    value = torch.where(op._rows() == op.col, 0.0, op.value)
    off = op._new(op.rowptr, op.col, value, op.shape, op._transposed, op.symmetric)
    off.shift = 0.0 if op.shift == 0.0 else None
    return off


def without_shift(op: GraphOperator) -> GraphOperator:
    """Return I - L of M = (1 + s) I - L."""
    value = op.value - on_diagonal(op, op.known_shift())
    plain = op._new(op.rowptr, op.col, value, op.shape, op._transposed, op.symmetric)
    plain.shift = 0.0
    return plain


def first_of_place(matrix: CSR) -> Tensor:
    """Return which entries are the first of their place, for a matrix whose duplicates lie side by side."""
    row, col = matrix._rows(), matrix.col
    number = torch.arange(row.shape[0], device=row.device)
    return (number == 0) | (row != row.roll(1)) | (col != col.roll(1))


def symmetrized(row: Tensor, col: Tensor, weight: Tensor, num_nodes: int, how: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return the entries of max(A, A^T) or (A + A^T) / 2."""
    # A and its transpose on their common pattern, after parallel edges are added up: what is made of A_ij and A_ji then
    # does not depend on their order, and the result is symmetric to the last bit
    zero = torch.zeros_like(weight)
    both = (torch.cat([row, col]), torch.cat([col, row]), torch.cat([weight, zero]))
    joined = CSR(*assemble(*both, (num_nodes, num_nodes)), (num_nodes, num_nodes), check_invariants=False)
    one, other = joined.value, joined.T.value
    value = torch.maximum(one, other) if how == "max" else one / 2 + other / 2
    return joined._rows(), joined.col.long(), value


def is_symmetric(rowptr: Tensor, col: Tensor, value: Tensor, transposed: tuple[Tensor, Tensor, Tensor]) -> bool:
    """Return whether a matrix is its transpose, to the last bit."""
    t_rowptr, t_col, perm = transposed
    return torch.equal(rowptr, t_rowptr) and torch.equal(col, t_col) and torch.equal(value, value.index_select(0, perm))


# ----------------------------------------------------------------------------------------------------- disjoint graphs


def _check_alike(operators: Sequence[GraphOperator]) -> None:
    """Raise if operators differ in their kind, their type or their device."""
    first = operators[0]
    for op in operators:
        if op.kind != first.kind:
            raise GraphError(f"cannot join operators of kind {first.kind!r} and {op.kind!r}: build them alike.")
        if op.dtype != first.dtype:
            raise DTypeError(f"cannot join {first.dtype} and {op.dtype} operators: convert with op.to(dtype).")
        if op.device != first.device:
            raise DeviceError(f"cannot join operators on {first.device} and {op.device}: move with op.to(device).")


def join(operators: Sequence[GraphOperator]) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor, Tensor] | None]:
    """Return pointers, columns and values of the joined operator, and its transpose where it is another one."""
    _check_alike(operators)
    nodes, sizes = [op.num_nodes for op in operators], [op.nnz for op in operators]
    index = torch.int32 if max(sum(nodes), sum(sizes)) < 2**31 else torch.int64
    rowptr = _join_pointers([op.rowptr for op in operators], index)
    col = _join([op.col for op in operators], nodes, index)
    value = torch.cat([op.value for op in operators])
    if all(op.symmetric and not learned(op.value) for op in operators):
        return rowptr, col, value, None
    parts = [op._structure() for op in operators]
    transposed = (
        _join_pointers([part[0] for part in parts], index),
        _join([part[1] for part in parts], nodes, index),
        _join([part[2] for part in parts], sizes, index),
    )
    return rowptr, col, value, transposed


def _join(parts: list[Tensor], sizes: list[int], index: torch.dtype) -> Tensor:
    offset, joined = 0, []
    for part, size in zip(parts, sizes, strict=True):
        joined.append(part.to(index) + offset)
        offset += size
    return torch.cat(joined)


def _join_pointers(pointers: list[Tensor], index: torch.dtype) -> Tensor:
    counts = torch.cat([p[1:] - p[:-1] for p in pointers])
    return torch.cat([counts.new_zeros(1), counts]).cumsum(0).to(index)
