"""Graclus coarsening: a graph halved again and again, its nodes in the order of a balanced binary tree.

Defferrard et al., *Convolutional Neural Networks on Graphs with Fast Localized Spectral Filtering*, Section 2.3, after
Dhillon et al., *Weighted Graph Cuts without Eigenvectors* (Graclus).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn import checks
from armagnn.arguments import checked
from armagnn.errors import GraphError, ShapeError
from armagnn.kernels.backends import compiled_or_plain
from armagnn.operators.building import Kind
from armagnn.operators.csr import CSR
from armagnn.operators.entries import assemble
from armagnn.operators.graph import GraphOperator

Array = NDArray[Any]
MOST_LEVELS: Final = 24
MOST_RESTARTS: Final = 10_000


@dataclass(frozen=True, eq=False)
class Coarsening:
    r"""L halvings of a graph, arranged so that pooling is plain strided pooling.

    Level 0 has the nodes of the graph and fake ones, level l the clusters of at most :math:`2^l` nodes. All are in the
    order of one balanced binary tree: place p of level l + 1 is made of the places 2p and 2p + 1 of level l. A cluster
    of a single node gets a fake sibling, and a fake place is made of two fake ones, so :math:`M_l = 2 M_{l+1}`. A fake
    place has no edges; what a network computes there must not count: see `GraclusPool`, which masks it.

    Attributes:
        order: for each level l, (M_l,) int64: which node (cluster) of that level is at each place, -1 where a fake is.
        adjacency: for each level the adjacency of its nodes (clusters), in their own numbers. Level 0 is the graph as
            given; the weight between two clusters is that between their nodes, and inner weights are left out.

    Example:
        >>> ring = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
        >>> tree = coarsen(torch.cat([ring, ring.flip(0)], 1), levels=2)
        >>> tree
        Coarsening(6 nodes, levels of 8, 4, 2)
        >>> tree.order[0]
        tensor([ 0,  1,  2,  3,  4,  5, -1, -1])
        >>> tree.arrange(torch.arange(6.0).unsqueeze(1) + 10).squeeze()
        tensor([10., 11., 12., 13., 14., 15.,  0.,  0.])
        >>> tree.operator(1)
        GraphOperator('arma', 4 nodes, nnz=6, float32, symmetric)
    """

    order: tuple[Tensor, ...]
    adjacency: tuple[CSR, ...]

    def __post_init__(self) -> None:
        for name, parts, kind in (("order", self.order, Tensor), ("adjacency", self.adjacency, CSR)):
            for part in checks.instance(name, parts, tuple, f"a tuple of {kind.__name__}s"):
                checks.instance(name, part, kind, f"a tuple of {kind.__name__}s")

    @property
    def num_nodes(self) -> int:
        """N, the nodes of the graph."""
        return self.adjacency[0].shape[0]

    @property
    def num_levels(self) -> int:
        """L, how often the graph was halved."""
        return len(self.order) - 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """M_0, ..., M_L, the places of each level, fake ones included."""
        return tuple(len(order) for order in self.order)

    @cached_property
    def real(self) -> tuple[Tensor, ...]:
        """For each level (M_l,) bool: false where a fake is."""
        return tuple(order >= 0 for order in self.order)

    @cached_property
    def place(self) -> Tensor:
        """(N,) int64: the place of each node at level 0; shifted right by l, that of its cluster at level l."""
        return self.places(0)

    @checked
    def arrange(self, x: Tensor) -> Tensor:
        """Bring signals (..., N, F) into the order of the tree, (..., M_0, F); fake places are zero."""
        if x.dim() < 2 or x.shape[-2] != self.num_nodes:
            raise ShapeError(f"x must have shape (..., {self.num_nodes}, F), got {tuple(x.shape)}.")
        taken = x.index_select(-2, self.order[0].clamp(min=0))
        return torch.where(self.real[0].unsqueeze(1), taken, 0)

    @checked
    def restore(self, x: Tensor) -> Tensor:
        """Undo `arrange`: signals (..., M_0, F) in the order of the graph, (..., N, F)."""
        if x.dim() < 2 or x.shape[-2] != self.sizes[0]:
            raise ShapeError(f"x must have shape (..., {self.sizes[0]}, F), got {tuple(x.shape)}.")
        return x.index_select(-2, self.place)

    @checked
    def operator(
        self, level: int = 0, kind: Kind = "arma", *, dtype: torch.dtype | None = None, **options: Any
    ) -> GraphOperator:
        """Return the operator of a level on its M_l places; options as of `GraphOperator.from_edge_index`."""
        index, weight = self.edges(level)
        return GraphOperator.from_edge_index(
            self.places(level)[index],
            self.sizes[level],
            weight,
            kind,
            dtype=dtype or torch.get_default_dtype(),
            **options,
        )

    @checked
    def edges(self, level: int = 0) -> tuple[Tensor, Tensor]:
        """Return the edges (2, E) of a level, in the numbers of its nodes (clusters), and weights (E) in float64."""
        graph = self.adjacency[self._checked(level)]
        return torch.stack([graph.col.long(), graph._rows()]), graph.value

    @checked
    def places(self, level: int = 0) -> Tensor:
        """Return the place of each node (cluster) of a level, int64."""
        order = self.order[self._checked(level)]
        found = (order >= 0).nonzero().squeeze(1)
        return torch.empty_like(found).scatter_(0, order[found], found)

    def _checked(self, level: int) -> int:
        return checks.integer("level", level, 0, self.num_levels)

    @checked
    def to(self, device: torch.device | str) -> Coarsening:
        """Return the same coarsening with its tensors on a device."""
        device = checks.device(device)
        order = tuple(order.to(device) for order in self.order)
        return replace(self, order=order, adjacency=tuple(graph.to(device) for graph in self.adjacency))

    def __repr__(self) -> str:
        return f"Coarsening({self.num_nodes} nodes, levels of {', '.join(map(str, self.sizes))})"


def coarsen(
    graph: Any,
    levels: int,
    *,
    num_nodes: int | None = None,
    edge_weight: Tensor | None = None,
    restarts: int = 8,
    seed: int = 0,
) -> Coarsening:
    r"""Halve a graph ``levels`` times by greedy matching.

    Nodes are visited one by one; each that is still free is joined with the free neighbour of the largest gain

    .. math::
        a_{ij} (1 / d_i + 1 / d_j),

    the part of the normalised cut that the pair saves (d: the weights of all edges of a node, of a cluster the sum over
    its nodes), or stays alone if none is free. They are visited in the order of their heaviest edge by that measure
    and, in each of the other ``restarts``, at random; of all matchings the one that gains most is kept.

    Any undirected graph will do: weighted (no negative weights), disconnected, with isolated nodes or without edges.
    The result is a function of graph and seed. A million nodes take seconds.

    Args:
        graph: an edge index of shape (2, E), a sparse matrix, a PyG ``Data``, an ``adjacency`` `GraphOperator`.
        levels: how often to halve: 2 for each pooling of stride 4.
        num_nodes: N, where the graph does not say it.
        edge_weight: the weights of an edge index, shape (E).
        restarts: how many matchings are tried at each level.
        seed: of the random orders.
    """
    places = " (the tree has 2^levels places for a node)"
    levels = checks.integer("levels", levels, 0, MOST_LEVELS, places)
    restarts = checks.integer("restarts", restarts, 1, MOST_RESTARTS)
    seed = checks.integer("seed", seed, 1 - 2**63, 2**63 - 1)
    op = GraphOperator.from_graph(graph, num_nodes, edge_weight, kind="adjacency", dtype=torch.float64)
    if op.kind != "adjacency":
        raise GraphError(
            f"coarsening goes by the weights of the graph: pass it with kind='adjacency', not {op.kind!r}."
        )
    op = op.detach().to("cpu", torch.float64).require_symmetric("coarsening")
    if op.nnz and float(op.value.min()) < 0:
        raise GraphError(f"edge weights must not be negative (lowest: {float(op.value.min()):g}): shift or clip them.")
    graphs = [CSR(op.rowptr, op.col, op.value, op.shape, symmetric=True, check_invariants=False)]
    fine, parents = _without_loops(graphs[0]), []
    degree = (fine @ torch.ones(fine.shape[0], 1, dtype=torch.float64)).squeeze(1).numpy()
    generator = torch.Generator().manual_seed(seed)
    for _ in range(levels):
        parent = _best_matching(fine, degree, restarts, generator)
        clusters = int(parent.max()) + 1 if len(parent) else 0
        degree = np.bincount(parent, weights=degree, minlength=clusters).astype(np.float64)
        fine = _contracted(fine, parent, clusters)
        parents.append(parent)
        graphs.append(fine)
    return Coarsening(_tree(parents, fine.shape[0]), tuple(graphs))


def _without_loops(graph: CSR) -> CSR:
    """Return the matrix of the entries that join two different nodes with a weight above 0."""
    row = graph._rows()
    keep = (row != graph.col) & (graph.value > 0)
    if bool(keep.all()):
        return graph
    kept = assemble(row[keep], graph.col[keep], graph.value[keep], graph.shape)
    return CSR(*kept, graph.shape, symmetric=True, check_invariants=False)


# ----------------------------------------------------------------------------------------------------------- matching


def _best_matching(graph: CSR, degree: Array, restarts: int, generator: torch.Generator) -> NDArray[np.int64]:
    """Return the cluster of each node in the matching that gains most; clusters are numbered by their first node."""
    rowptr, col, value = graph.rowptr.numpy(), graph.col.numpy(), graph.value.numpy()
    inverse = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
    nodes = len(degree)
    heaviest = np.empty(nodes)
    compiled_or_plain(_heaviest)(rowptr, col, value, inverse, heaviest)
    best, most = np.arange(nodes), -1.0
    for restart in range(restarts):
        random = restart > 0
        order = torch.randperm(nodes, generator=generator).numpy() if random else (-heaviest).argsort(kind="stable")
        partner = np.full(nodes, -1, dtype=np.int64)
        gained = compiled_or_plain(_match)(order, rowptr, col, value, inverse, partner)
        if gained > most:
            best, most = partner, gained
    leads = best >= np.arange(nodes)  # the first of a pair, or alone
    return (leads.cumsum() - 1)[np.minimum(best, np.arange(nodes))]


# -------------------------------------------------------------------------------------------------------- contraction


def _contracted(graph: CSR, parent: NDArray[np.int64], clusters: int) -> CSR:
    """Return the graph of the clusters, without the weights inside them."""
    rowptr, col, value = graph.rowptr.numpy(), graph.col.numpy(), graph.value.numpy()
    children = _children(parent, clusters)
    out_rowptr = np.zeros(clusters + 1, dtype=rowptr.dtype)
    out_col, out_value = np.empty_like(col), np.empty_like(value)
    size = compiled_or_plain(_contract)(rowptr, col, value, parent, children, out_rowptr, out_col, out_value)
    pointer, columns, weights = map(torch.from_numpy, (out_rowptr, out_col[:size].copy(), out_value[:size].copy()))
    return CSR(pointer, columns, weights, (clusters, clusters), symmetric=True, check_invariants=False)


def _children(parent: NDArray[np.int64], clusters: int) -> NDArray[np.int64]:
    """Return the one or two nodes of each cluster, shape (clusters, 2), -1 for none."""
    by_parent = parent.argsort(kind="stable")
    owner = parent[by_parent]
    second = np.zeros(len(parent), dtype=np.int64)
    second[1:] = owner[1:] == owner[:-1]
    children = np.full((clusters, 2), -1)
    children[owner, second] = by_parent
    return children


def _tree(parents: list[NDArray[np.int64]], roots: int) -> tuple[Tensor, ...]:
    """Return which node is at each place of each level, from the cluster of each node in the level above."""
    order = np.arange(roots)
    orders, clusters = [order], roots
    for parent in reversed(parents):
        children = _children(parent, clusters)
        order = np.where(order[:, None] >= 0, children[order], -1).reshape(-1)
        orders.append(order)
        clusters = len(parent)
    return tuple(torch.from_numpy(order) for order in reversed(orders))


# ------------------------------------------------------------------------------------------------------ loops, compiled


def _heaviest(rowptr: Array, col: Array, value: Array, inverse: Array, out: Array) -> None:
    """Write the gain of the best edge of each node."""
    for i in range(out.size):
        best = 0.0
        for e in range(rowptr[i], rowptr[i + 1]):
            best = max(best, value[e] * (inverse[i] + inverse[col[e]]))
        out[i] = best


def _match(order: Array, rowptr: Array, col: Array, value: Array, inverse: Array, partner: Array) -> float:
    """Write the partner of each node, itself if it stays alone; return what the pairs gain."""
    gained = 0.0
    for i in order:
        if partner[i] >= 0:
            continue
        best, chosen = 0.0, i
        for e in range(rowptr[i], rowptr[i + 1]):
            j = col[e]
            if partner[j] < 0:
                gain = value[e] * (inverse[i] + inverse[j])
                if gain > best:
                    best, chosen = gain, j
        partner[i], partner[chosen] = chosen, i
        gained += best
    return gained


def _contract(
    rowptr: Array, col: Array, value: Array, parent: Array, children: Array, out_rowptr: Array, out_col: Array,
    out_value: Array,
) -> int:  # fmt: skip
    """Write the rows of the clusters, columns ascending; return how many entries there are.

    Up to four weights lie between two clusters. Those between their first and between their second nodes are added up
    apart from the other two: seen from the other cluster the sums are the same to the last bit, so the matrix is
    symmetric.
    """
    clusters = children.shape[0]
    alike, crossing = np.zeros(clusters), np.zeros(clusters)
    size = 0
    for c in range(clusters):
        start = size
        for which in range(2):
            i = children[c, which]
            if i < 0:
                continue
            for e in range(rowptr[i], rowptr[i + 1]):
                d = parent[col[e]]
                if d == c:
                    continue
                if alike[d] == 0.0 and crossing[d] == 0.0:
                    out_col[size] = d
                    size += 1
                if (children[d, 1] == col[e]) == (which == 1):
                    alike[d] += value[e]
                else:
                    crossing[d] += value[e]
        out_col[start:size].sort()
        for e in range(start, size):
            d = out_col[e]
            out_value[e] = alike[d] + crossing[d]
            alike[d], crossing[d] = 0.0, 0.0
        out_rowptr[c + 1] = size
    return size


__all__ = ["Coarsening", "coarsen"]
