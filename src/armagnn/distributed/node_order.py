"""The order in which nodes are cut into parts, and where the cuts are: parts of equally many nonzeros."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from armagnn.checks import choice
from armagnn.distributed.edge_stream import EdgeStream, Integers
from armagnn.distributed.partitioned_operator import balanced
from armagnn.errors import UnsupportedError

ORDERS: Final = ("blocks", "rcm", "metis")
"""How nodes may be put in order: as they are, by Cuthill and McKee's order, or by METIS."""


def order_nodes(how: str, edges: EdgeStream, loads: Integers, parts: int) -> tuple[Integers, tuple[int, ...]]:
    """Return the nodes in their new order, and the first of each part (and N).

    A node weighs as much as its row: its nonzeros, and one more.

    Args:
        how: ``blocks`` leaves the order and holds a few numbers a node; ``rcm`` and ``metis`` hold the whole graph, 16
            to 24 bytes a nonzero. METIS cuts the fewest edges, and needs pymetis.
        edges: of the graph.
        loads: nonzeros of each row, (N,).
        parts: how many parts.

    Example:
        >>> import numpy as np
        >>> star = EdgeStream.of_arrays(np.array([[1, 2, 3, 4], [0, 0, 0, 0]]), None, "star")
        >>> order_nodes("blocks", star, np.array([4, 1, 1, 1, 1]), 2)
        (array([0, 1, 2, 3, 4]), (0, 1, 5))
    """
    choice("order of nodes", how, ORDERS)
    nodes = loads.size
    if how == "metis":
        return _by_metis(edges, loads, parts)
    order: Integers = np.arange(nodes)
    if how == "rcm" and nodes:
        order = reverse_cuthill_mckee(neighbours(edges, nodes), symmetric_mode=True).astype(np.int64)
    rowptr = np.concatenate([[0], np.cumsum(loads[order])])
    return order, balanced(torch.from_numpy(rowptr), parts)


def require_order(how: str) -> None:
    """Refuse an order that there is not, or that cannot be made here."""
    choice("order of nodes", how, ORDERS)
    if how == "metis":
        _pymetis()


def _pymetis() -> Any:
    try:
        import pymetis
    except ImportError as error:
        raise UnsupportedError(
            "the order 'metis' needs pymetis: pip install 'armagnn[metis]'. Without it, take --order rcm, or blocks if "
            "the numbers of neighbours are near each other already."
        ) from error
    return pymetis


def _by_metis(edges: EdgeStream, loads: Integers, parts: int) -> tuple[Integers, tuple[int, ...]]:
    pymetis = _pymetis()
    graph = neighbours(edges, loads.size)
    if parts == 1 or not loads.size:
        part = np.zeros(loads.size, dtype=np.int64)
    else:
        adjacency = pymetis.CSRAdjacency(adj_starts=graph.indptr, adjacent=graph.indices)
        part = np.asarray(pymetis.part_graph(parts, adjacency=adjacency, vweights=loads + 1).vertex_part)
    starts = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=parts))])
    return np.argsort(part, kind="stable"), tuple(starts.tolist())


def neighbours(edges: EdgeStream, nodes: int) -> Any:
    """Return who is next to whom, each pair once in both directions, as a sparse array; self-loops are left out."""
    kind = np.int32 if nodes < 2**31 else np.int64
    ends: list[list[NDArray[Any]]] = [[], []]
    for source, target, _ in edges:
        other = source != target
        for kept, column in zip(ends, (source, target), strict=True):
            kept.append(column[other].astype(kind))
    row, col = (np.concatenate([np.empty(0, kind), *kept]) for kept in ends)
    del ends
    found = sparse.csr_array((np.ones(row.size, np.int8), (row, col)), shape=(nodes, nodes))
    del row, col
    found.data[:] = 1  # sums of repeated edges may have left the type
    found = found + found.T
    found.sort_indices()
    return found
