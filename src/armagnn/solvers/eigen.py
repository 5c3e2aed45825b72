"""Eigenvalues and eigenvectors of a symmetric operator: all of them for small graphs, those at the ends for large."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import choice, finite, integer, real
from armagnn.errors import DTypeError, GraphError
from armagnn.operators import GraphOperator
from armagnn.operators.extremes import end_pairs

MAX_NODES: Final = 10_000
"""Up to this size all eigenvectors are computed: 4.3 GB at the peak, and minutes on two cores."""
ENDS: Final = ("both", "largest", "smallest")


def check_graph(op: object) -> GraphOperator:
    """Return the operator, or raise where something else was given, or values that are not finite."""
    if not isinstance(op, GraphOperator):
        raise DTypeError(f"op must be a GraphOperator, got {type(op).__name__}: use GraphOperator.from_graph.")
    finite("the operator", op.value, GraphError, "build it from finite weights")
    return op


def eigh(op: GraphOperator, max_nodes: int = MAX_NODES) -> tuple[Tensor, Tensor]:
    r"""Return all of :math:`M = U \, \mathrm{diag}(\mu) \, U^T`: ``mu`` ascending (N), ``U`` (N, N), in float64.

    Every connected component is decomposed alone, so that a batch of many small graphs is cheap, isolated nodes are
    exact, and no eigenvector mixes components that share an eigenvalue. The result lies on the operator's device and
    carries no gradient.

    Example:
        >>> import torch
        >>> path = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=3, dtype=torch.float64)
        >>> eigh(path)[0]
        tensor([-1.,  0.,  1.], dtype=torch.float64)
    """
    check_graph(op).require_symmetric("an eigendecomposition")
    max_nodes = integer("max_nodes", max_nodes, 1)
    n = op.num_nodes
    if n == 0:
        raise GraphError("the graph has no nodes, so it has no spectrum.")
    if n > max_nodes:
        raise GraphError(
            f"the graph has {n} nodes and an eigendecomposition needs a dense {n} × {n} matrix; up to {max_nodes} are "
            "allowed. For large graphs use armagnn.spectral.extremal(op, k) or spectral_density(op), filters with "
            "another method, or raise max_nodes if memory and time permit."
        )
    values = torch.empty(n, dtype=torch.float64)
    vectors = torch.zeros(n, n, dtype=torch.float64)
    matrix = op.to(torch.float64).to_scipy()
    start = 0
    for nodes in _components(matrix):
        stop = start + len(nodes)
        if len(nodes) == 1:  # an isolated node, perhaps with a self-loop
            values[start], vectors[int(nodes[0]), start] = float(matrix[nodes[0], nodes[0]]), 1.0
        else:
            dense = torch.from_numpy(matrix[nodes][:, nodes].toarray())
            values[start:stop], part = torch.linalg.eigh(dense)
            vectors[torch.from_numpy(nodes), start:stop] = part
        start = stop
    values, order = values.sort(stable=True)
    return values.to(op.device), vectors[:, order].to(op.device)


@checked
def extremal(
    op: GraphOperator, k: int = 6, which: Literal["both", "largest", "smallest"] = "both", tol: float = 1e-10
) -> tuple[Tensor, Tensor]:
    r"""Return k eigenpairs :math:`M u = \mu u` from the ends of the spectrum: ``mu`` ascending (k), ``U`` (N, k).

    ``which="both"`` takes half of them (the larger half) from the top, where ``mu`` is large, i.e. the low frequencies
    ``lambda = 1 - mu`` of the arma operator. Lanczos iterations (ARPACK), in float64, with a fixed start: the same
    graph gives the same answer. Every component is looked at alone. Paths, grids and the like, whose frequencies crowd
    at the ends, are factorised; for others products with the operator are enough, so millions of edges are fine.

    Example:
        >>> import torch
        >>> ring = torch.arange(1000)
        >>> edges = torch.stack([torch.cat([ring, (ring + 1) % 1000]), torch.cat([(ring + 1) % 1000, ring])])
        >>> mu, U = extremal(GraphOperator.from_edge_index(edges), k=3)
        >>> U.shape, [round(float(m), 4) for m in mu]
        (torch.Size([1000, 3]), [-1.0, 1.0, 1.0])
    """
    check_graph(op).require_symmetric("extremal eigenpairs")
    n = op.num_nodes
    if n == 0:
        raise GraphError("the graph has no nodes, so it has no spectrum.")
    k, tol = integer("k", k, 1, n), real("tol", tol, above=0)
    choice("end of the spectrum", which, ENDS)
    top = {"both": k - k // 2, "largest": k, "smallest": 0}[which]
    if op.nnz == 0:  # all eigenvalues are 0, and any vectors will do
        return torch.zeros(k, dtype=torch.float64, device=op.device), torch.eye(n, k, dtype=torch.float64).to(op.device)
    if n <= 512 or 4 * k >= n:  # Lanczos needs room between k and the size
        values, vectors = eigh(op, max_nodes=n)
        chosen = torch.cat([torch.arange(k - top), torch.arange(n - top, n)]).to(values.device)
        return values[chosen], vectors[:, chosen]
    matrix = op.to(torch.float64).to_scipy()
    found = []
    if k > top:
        found.append(end_pairs(matrix, k - top, "SA", tol))
    if top:
        found.append(end_pairs(matrix, top, "LA", tol))
    values = torch.from_numpy(np.concatenate([v for v, _ in found]))
    vectors = torch.from_numpy(np.concatenate([u for _, u in found], axis=1))
    values, order = values.sort(stable=True)
    return values.to(op.device), vectors[:, order].to(op.device)


def _components(matrix: scipy.sparse.csr_array) -> list[np.ndarray]:  # type: ignore[name-defined]  # noqa: F821
    import scipy.sparse.csgraph

    count, label = scipy.sparse.csgraph.connected_components(matrix, directed=False)
    order = np.argsort(label, kind="stable")
    return np.split(order, np.cumsum(np.bincount(label, minlength=count))[:-1])
