"""Which node of a graph each row of X is, and the edges among the nodes of a call.

There are two ways. With ``graph="knn"`` the rows of ``fit`` are joined with their nearest rows. A new row is attached
to its nearest rows of ``fit``: it receives from them, and they do not receive from it. So the prediction for a row does
not depend on the other rows of the call. With a graph that is given, rows are nodes of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import validate_data
from torch import Tensor

from armagnn import checks
from armagnn.errors import ArmagnnError, DataError, DTypeError, GraphError, ParameterError, ShapeError, shown
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.neighbours import knn_graph

FLOATS: Final = (np.float64, np.float32)
KNN: Final = "knn"

Matrix = Any
"""Of scipy, or an array."""


@dataclass(frozen=True, eq=False)
class AskedRows:
    """The nodes of a call: their features, the edges among them, and which of them are asked for.

    Attributes:
        X: features (n, F), an array or a matrix in CSR format.
        graph: a square matrix of weights, whose rows receive; or an operator, of nodes that came with one.
        wanted: the places (m) of the rows that were asked for.
    """

    X: Matrix
    graph: Any
    wanted: NDArray[np.int64]


@dataclass(eq=False)
class NodeRows:
    """The rows of ``fit`` as nodes of a graph.

    Attributes:
        X: their features (n, F), an array or a matrix in CSR format.
        matrix: the weights of the graph, (N, N), whose rows receive.
        op: the graph as the operator that it was given as, whose values `matrix` has; None where it has plain weights.
        nodes: the node (n) of each row of `X`.
        names: of the nodes, where they are not 0 .. N - 1.
        grows: may there be nodes beyond N, without edges? An edge index does not say how many there are.
        search: what finds the nearest rows; None where a graph is given.
        neighbours: how many of them.
    """

    X: Matrix
    matrix: Any
    op: GraphOperator | None
    nodes: NDArray[np.int64]
    names: dict[Any, int] | None = None
    grows: bool = False
    search: Any = None
    neighbours: int = 0
    places: dict[bytes, int] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------------------------ made

    @classmethod
    def fit(cls, graph: Any, n_neighbors: Any, X: Matrix, nodes: Any) -> NodeRows:
        """Return the rows of ``fit`` as nodes; `nodes` are given ones or None, see `nodes_of`."""
        if isinstance(graph, str):
            checks.choice("graph", graph, (KNN,))
            return cls._nearest(X, checks.integer("n_neighbors", n_neighbors, 1), nodes)
        matrix, op, names, grows = _read(graph)
        found = cls(X, matrix, op, np.empty(0, np.int64), names, grows)
        found.nodes = found._numbers(nodes, X.shape[0])
        return found

    @classmethod
    def _nearest(cls, X: Matrix, n_neighbors: int, nodes: Any) -> NodeRows:
        if nodes is not None and not isinstance(nodes, FrameIndex):
            raise ParameterError("nodes says which nodes of a graph the rows are; with graph='knn' there are none.")
        points, count = as_dense(X), X.shape[0]
        if count < 2:
            raise DataError("X has 1 sample, and graph='knn' joins each with others: 2 are needed at least.")
        k = min(n_neighbors, count - 1)
        edges = knn_graph(points, k)[0].numpy()
        matrix = sp.csr_array((np.ones(edges.shape[1]), (edges[1], edges[0])), shape=(count, count))
        places = {key: place for place, key in reversed(list(enumerate(_keys(X))))}
        search = NearestNeighbors(n_neighbors=k).fit(points)
        return cls(X, matrix, None, np.arange(count), search=search, neighbours=k, places=places)

    # ----------------------------------------------------------------------------------------------------------- asked

    def all(self) -> AskedRows:
        """The rows of ``fit``."""
        if self.search is not None or self._in_order(self.nodes):
            return AskedRows(self.X, self._operator(self.matrix), np.arange(self.X.shape[0]))
        return self.ask(self.X, self.nodes)

    def ask(self, X: Matrix, nodes: Any) -> AskedRows:
        """Rows of any call after ``fit``, with the nodes that they need."""
        if self.search is not None:
            if nodes is not None and not isinstance(nodes, FrameIndex):
                raise ParameterError("nodes says which nodes of a graph the rows are; with graph='knn' there are none.")
            return self._attached(X)
        asked = self._numbers(nodes, X.shape[0])
        count = self.matrix.shape[0]
        if self._in_order(asked):
            return AskedRows(X, self._operator(self.matrix), asked)
        old = ~np.isin(self.nodes, asked)
        here = np.concatenate([self.nodes[old], asked])
        order = np.argsort(here)
        features = _stack([self.X[old], X])[order]
        place = np.empty(len(here), np.int64)
        place[order] = np.arange(len(here))
        matrix = self.matrix
        if self.grows and here.max() >= count:
            matrix = _grown(matrix, int(here.max()) + 1)
        here = here[order]
        return AskedRows(features, self._operator(matrix[here][:, here]), place[len(self.nodes[old]) :])

    def new_edges(self, X: Matrix) -> tuple[NDArray[np.int64], NDArray[np.int64], Any]:
        """Return the place in ``fit`` of each row, -1 for a new one; which are new; and what these receive, (m, n)."""
        place = np.array([self.places.get(key, -1) for key in _keys(X)], dtype=np.int64)
        new = np.flatnonzero(place < 0)
        count = self.X.shape[0]
        if not len(new):
            return place, new, sp.csr_array((0, count))
        near = self.search.kneighbors(as_dense(X[new]), return_distance=False)
        start = np.arange(len(new) + 1) * self.neighbours
        return place, new, sp.csr_array((np.ones(near.size), near.ravel(), start), shape=(len(new), count))

    def _attached(self, X: Matrix) -> AskedRows:
        place, new, edges = self.new_edges(X)
        count = self.X.shape[0]
        if not len(new):
            return AskedRows(self.X, self.matrix, place)
        place[new] = count + np.arange(len(new))
        matrix = sp.csr_array(sp.block_array([[self.matrix, None], [edges, sp.csr_array((len(new), len(new)))]]))
        return AskedRows(_stack([self.X, X[new]]), matrix, place)

    # ----------------------------------------------------------------------------------------------------------- nodes

    def _numbers(self, nodes: Any, rows: int) -> NDArray[np.int64]:
        """Return the number of the node of each row."""
        count = self.matrix.shape[0]
        insist = not isinstance(nodes, FrameIndex)
        if nodes is not None:
            found = self._named(nodes.values if isinstance(nodes, FrameIndex) else nodes, insist)
            if found is not None:
                return self._checked(found, rows)
        if rows == count or (self.grows and rows > count and not len(self.nodes)):
            if rows > count:
                self.matrix = _grown(self.matrix, rows)
            return np.arange(rows)
        raise ShapeError(
            f"X has {rows} rows, but the graph {count} nodes: pass all of them, or say which nodes the rows are, by "
            "nodes= or by the index of a pandas DataFrame (in a pipeline: set_output(transform='pandas'))."
        )

    def _named(self, nodes: Any, insist: bool) -> NDArray[np.int64] | None:
        """Return the numbers of nodes by name; of names that the graph does not have None, or an error."""
        try:
            array = nodes.detach().cpu().numpy() if isinstance(nodes, Tensor) else np.asarray(nodes)
        except (TypeError, ValueError, RuntimeError) as error:
            raise DTypeError(f"nodes must be one node for each row, got {shown(nodes)}.") from error
        if self.names is not None:
            numbers = [self.names.get(name, -1) for name in array.ravel().tolist()]
            found = np.array(numbers, dtype=np.int64).reshape(array.shape)
        elif array.dtype.kind in "iu":
            inside = (array >= 0) & (array < np.iinfo(np.int32).max if self.grows else array < self.matrix.shape[0])
            found = np.where(inside, array, -1).astype(np.int64)
        else:
            found = np.full(array.shape, -1)
        if (found >= 0).all():
            return found
        if not insist:
            return None
        kind = "names of nodes of the graph"
        if self.names is None:
            kind = f"integers from 0 to {self.matrix.shape[0] - 1}"
        raise GraphError(f"nodes must be {kind}, got {shown(array[found < 0].tolist()[0])}.")

    def _checked(self, found: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
        if found.shape != (rows,):
            raise ShapeError(f"nodes must be one node for each of {rows} rows, got shape {found.shape}.")
        if len(np.unique(found)) != rows:
            raise GraphError("two rows are one node: each node may have one row.")
        if self.grows and rows and found.max() >= self.matrix.shape[0] and not len(self.nodes):
            self.matrix = _grown(self.matrix, int(found.max()) + 1)
        return found

    def _in_order(self, nodes: NDArray[np.int64]) -> bool:
        return len(nodes) == self.matrix.shape[0] and bool((nodes == np.arange(len(nodes))).all())

    def _operator(self, matrix: Any) -> Any:
        """Return the weights as they are; or an operator, where they are the values of one."""
        if self.op is None or matrix is self.matrix:
            return matrix if self.op is None else self.op
        csr = CSR.from_scipy(matrix, dtype=torch.float64, allow_empty=True)
        op = self.op
        return GraphOperator(
            csr.rowptr, csr.col, csr.value, csr.shape, kind=op.kind, symmetric=op.symmetric, shift=op.shift
        )


@dataclass(frozen=True, eq=False)
class FrameIndex:
    """The index of a data frame: it names nodes if all of it does, and is no error otherwise."""

    values: Any


def nodes_of(X: Any, nodes: Any) -> Any:
    """Return the nodes that were given, or else the index of a data frame, or else None."""
    if nodes is not None:
        return nodes
    return FrameIndex(X.index) if hasattr(X, "iloc") and hasattr(X, "index") else None


# ------------------------------------------------------------------------------------------------------------- matrices


def validated(estimator: Any, X: Any, *, reset: bool) -> Matrix:
    """Return features as scikit-learn wants them, an array or a CSR matrix; its errors become ours, with its words."""
    if sp.issparse(X):  # scikit-learn reads its arrays without a look at them
        CSR.from_scipy(X)
    try:
        X = X.detach() if isinstance(X, Tensor) else X
        return validate_data(estimator, X, accept_sparse="csr", dtype=FLOATS, reset=reset)
    except ArmagnnError:
        raise
    except (TypeError, RuntimeError) as error:  # a tensor that has no values, or is sparse
        raise DTypeError(str(error)) from error
    except (ValueError, OverflowError, MemoryError) as error:
        raise DataError(str(error)) from error


def as_graph(graph: Any) -> Any:
    """Return a graph of arrays as a tensor of edges, or as a sparse matrix; another as it is."""
    if not isinstance(graph, np.ndarray | list | tuple):
        return graph
    try:
        array = np.asarray(graph)
        if array.ndim == 2 and array.shape[0] != 2 and array.shape[0] == array.shape[1]:
            return sp.csr_array(array)
        return torch.from_numpy(np.ascontiguousarray(array))
    except (TypeError, ValueError, RuntimeError) as error:
        raise DTypeError(f"graph must be an array of numbers, got {shown(graph)}.") from error


def _read(graph: Any) -> tuple[Any, GraphOperator | None, dict[Any, int] | None, bool]:
    """Return the weights of a graph in any form, its operator, names of nodes, and whether there may be more nodes."""
    graph = as_graph(graph)
    edges = isinstance(graph, Tensor) and graph.layout is torch.strided
    names = None
    if hasattr(graph, "adjacency") and hasattr(graph, "number_of_nodes"):
        names = {name: number for number, name in enumerate(graph)}
    given = isinstance(graph, GraphOperator)
    op = graph if given else GraphOperator.from_graph(graph, kind="adjacency", dtype=torch.float64)
    op = op.detach().to("cpu", torch.float64)
    return op.to_scipy(), op if given and op.kind != "adjacency" else None, names, edges


def as_dense(X: Matrix) -> NDArray[np.floating[Any]]:
    """Return an array, of a sparse matrix too."""
    if not sp.issparse(X):
        return X  # type: ignore[no-any-return]
    with checks.room("X", *X.shape):
        return X.toarray()  # type: ignore[no-any-return]


def _keys(X: Matrix) -> list[bytes]:
    """Return what tells rows apart: two rows have the same bytes if they have the same numbers."""
    if not sp.issparse(X):
        rows = np.ascontiguousarray(X, dtype=np.float64) + 0.0  # -0 and 0 are the same number
        return [row.tobytes() for row in rows]
    X = sp.csr_array(X, dtype=np.float64, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    parts = zip(X.indptr, X.indptr[1:], strict=False)
    return [X.indices[a:b].astype(np.int64).tobytes() + X.data[a:b].tobytes() for a, b in parts]


def _stack(parts: list[Matrix]) -> Matrix:
    sparse = any(sp.issparse(part) for part in parts)
    return sp.csr_array(sp.vstack(parts)) if sparse else np.concatenate(parts)


def _grown(matrix: Any, count: int) -> Any:
    found = matrix.copy()
    found.resize((count, count))
    return found
