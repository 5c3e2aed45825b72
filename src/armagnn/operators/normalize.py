r"""From a weighted adjacency to the operator of a kind: Eq. 9 and its relatives.

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

import torch
from torch import Tensor

from armagnn import checks, kernels
from armagnn.errors import GraphError
from armagnn.operators.csr import CSR, assemble
from armagnn.torch_private import traced


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


def build(
    row: Tensor,
    col: Tensor,
    weight: Tensor,
    num_nodes: int,
    kind: str,
    gamma: float,
    shift: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Return (rowptr, col, value, transposed) of the operator; ``shift`` is (λmax - λmin)/2 - 1."""
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
            value = _on_diagonal(adjacency, 1.0) - value
        elif kind == "arma" and shift != 0:
            value = value + _on_diagonal(adjacency, shift)
    return rowptr, col, value.to(dtype), adjacency._structure()


def inverse_sqrt_degree(adjacency: CSR) -> Tensor:
    """Return D^-1/2, shape (N), zero where a node receives nothing; degrees are summed in float64."""
    ones = torch.ones(adjacency.shape[1], 1, dtype=torch.float64, device=adjacency.device)
    rowptr, col, value, t_rowptr, t_col, t_value, *places = adjacency._arguments()
    exact = (rowptr, col, value.double(), t_rowptr, t_col, t_value.double(), *places)
    degree = kernels.spmm(*exact, ones).squeeze(1)  # not `@`, which autocast would round
    _check_degrees(degree, adjacency.dtype)
    degree = degree.to(adjacency.dtype)
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


def _on_diagonal(matrix: CSR, number: float) -> Tensor:
    counts = (matrix.rowptr[1:] - matrix.rowptr[:-1]).long()
    nodes = torch.arange(matrix.shape[0], dtype=matrix.col.dtype, device=matrix.device)
    row = torch.repeat_interleave(nodes, counts, output_size=matrix.nnz)
    if traced():  # duplicates are not merged there: the number goes to the first of its place
        first = torch.ones_like(row, dtype=torch.bool)
        first[1:] = (row[1:] != row[:-1]) | (matrix.col[1:] != matrix.col[:-1])
        return ((row == matrix.col) & first).to(matrix.dtype) * number
    return (row == matrix.col).to(matrix.dtype) * number


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
