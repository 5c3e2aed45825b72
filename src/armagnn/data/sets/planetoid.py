"""The Planetoid release (``ind.NAME.x`` and seven more) as the arrays of our file."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from armagnn.data.arrays import NO_LABEL, Arrays
from armagnn.data.edges import both_ways
from armagnn.errors import DataError

PICKLES: Final = ("x", "tx", "allx", "y", "ty", "ally", "graph")
VALIDATION: Final = 500  # nodes after those of training


def convert_planetoid(name: str, get: Callable[[str], bytes]) -> Arrays:
    """Convert the files ``ind.NAME.*``, whose bytes `get` returns by file name.

    ``allx`` and ``ally`` have the nodes 0 .. n-1; ``tx`` and ``ty`` those that ``test.index`` names, in its order. A
    node that is nowhere (Citeseer has 15) becomes a row of zeros without a label. The training nodes are the rows of
    ``x``, the validation nodes the next 500, the test nodes those of ``test.index``.
    """
    parts = {part: read_pickle(get(f"ind.{name}.{part}"), f"ind.{name}.{part}") for part in PICKLES}
    try:
        return _arrays(parts, _test_index(get(f"ind.{name}.test.index")))
    except (ValueError, TypeError, AttributeError, IndexError, KeyError, OverflowError) as error:
        raise DataError(f"ind.{name}.*: the files do not fit together ({error}).") from error


def _test_index(content: bytes) -> NDArray[np.int64]:
    ids = np.array([int(line) for line in content.decode("ascii").split()], dtype=np.int64)
    if ids.size == 0 or np.unique(ids).size != ids.size or ids.min() < 0:
        raise ValueError("test.index must name each test node once")
    return ids


def _arrays(parts: dict[str, Any], test: NDArray[np.int64]) -> Arrays:
    known, train = parts["allx"].shape[0], parts["x"].shape[0]
    num_nodes = int(max(test.max() + 1, known))
    if test.min() < known:
        raise ValueError(f"test.index names node {test.min()}, which is a row of allx")
    if num_nodes > 10 * (known + test.size):
        raise ValueError(f"test.index names node {num_nodes - 1} of some {known + test.size}")
    rows = np.concatenate([np.arange(known), test])
    features = sp.vstack([parts["allx"], parts["tx"]], format="coo")
    x = sp.csr_array(
        (features.data.astype(np.float32), (rows[features.row], features.col)), shape=(num_nodes, features.shape[1])
    )
    x.sum_duplicates()
    x.eliminate_zeros()
    one_hot = np.vstack([parts["ally"], parts["ty"]])
    y = np.full(num_nodes, NO_LABEL, dtype=np.int8)
    y[rows] = np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), NO_LABEL)
    if not np.array_equal(parts["y"], parts["ally"][:train]):
        raise ValueError("y is not the beginning of ally")
    edges = [(node, other) for node, others in parts["graph"].items() for other in others]
    edge_index = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    if edge_index.size and (edge_index.min() < 0 or edge_index.max() >= num_nodes):
        raise ValueError(f"graph names nodes {edge_index.min()} .. {edge_index.max()} of {num_nodes}")
    return {
        "x_indptr": x.indptr.astype(np.int32),
        "x_indices": x.indices.astype(np.int16 if x.shape[1] < 2**15 else np.int32),
        "x_data": x.data,
        "x_shape": np.array(x.shape, dtype=np.int32),
        "edge_index": both_ways(edge_index, num_nodes).astype(np.int32),
        "y": y,
        "train_idx": np.arange(train, dtype=np.int32),
        "val_idx": np.arange(train, min(train + VALIDATION, known), dtype=np.int32),
        "test_idx": np.sort(test).astype(np.int32),
    }


MAX_BYTES: Final = 2**28


class _StandIn:
    """Remembers its arguments and its state. Defining ``__setstate__`` also keeps a pickle from altering the class."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _DType(_StandIn):
    def value(self) -> np.dtype[Any]:
        code = _text(self.arguments[0])
        if code not in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"):
            raise ValueError(f"numbers of type {code!r}")
        order = _text(self.state[1])
        if order not in ("<", ">", "|", "="):
            raise ValueError(f"byte order {order!r}")
        return np.dtype(order + code)


class _Array(_StandIn):
    def value(self) -> NDArray[Any]:
        _, shape, dtype, fortran, content = self.state
        if not isinstance(dtype, _DType) or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError("an array without type or shape")
        raw = content.encode("latin1") if isinstance(content, str) else content
        if isinstance(raw, _Bytes):
            raw = raw.value()
        if not isinstance(raw, bytes):
            raise ValueError(f"an array of {type(raw).__name__}")
        flat = np.frombuffer(raw, dtype=dtype.value())
        return flat.reshape(shape, order="F" if fortran else "C")


class _Csr(_StandIn):
    def value(self) -> sp.csr_array:
        state = {_text(key): value for key, value in self.state.items()}
        shape = state["_shape"] if "_shape" in state else state["shape"]
        data, indices, indptr = (state[name].value() for name in ("data", "indices", "indptr"))
        rows, columns = shape
        if not all(array.ndim == 1 for array in (data, indices, indptr)) or indices.dtype.kind not in "iu":
            raise ValueError("a sparse matrix of the wrong arrays")
        matrix = sp.csr_array((data, indices, indptr), shape=(int(rows), int(columns)))
        matrix.check_format(full_check=True)
        return matrix


class _Bytes(_StandIn):
    """``_codecs.encode(text, "latin1")``, by which Python 3 writes bytes in old protocols."""

    def value(self) -> bytes:
        text, codec = self.arguments
        if codec != "latin1":
            raise ValueError(f"bytes in {codec!r}")
        return bytes(text.encode("latin1"))


class _Graph(dict[Any, Any]):
    """``defaultdict(list)`` without its factory."""

    def __init__(self, factory: Any = None) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        raise ValueError("a graph with a state")


class _Object(_StandIn):
    pass


class _Reconstructor(_StandIn):
    """``copy_reg._reconstructor(cls, object, None)`` and numpy's ``_reconstruct(ndarray, (0,), b"b")``."""

    def __new__(cls, kind: Any, *_: Any) -> Any:
        if kind not in (_Csr, _Array):
            raise ValueError("something else than a matrix or an array")
        return kind()


_KNOWN: Final[dict[tuple[str, str], type]] = {
    **{(module, "_reconstructor"): _Reconstructor for module in ("copy_reg", "copyreg")},
    **{(module, "object"): _Object for module in ("__builtin__", "builtins")},
    **{(module, "list"): list for module in ("__builtin__", "builtins")},
    **{(f"scipy.sparse.{module}", "csr_matrix"): _Csr for module in ("csr", "_csr")},
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Reconstructor for core in ("core", "_core")},
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
    ("collections", "defaultdict"): _Graph,
    ("_codecs", "encode"): _Bytes,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not allowed") from None


def read_pickle(content: bytes, source: str) -> dict[int, list[int]] | NDArray[Any] | sp.csr_array:
    """Read a CSR matrix, an array or a graph (node -> neighbours); anything else is a :class:`DataError`.

    Example:
        >>> read_pickle(pickle.dumps({0: [1], 1: [0]}), "ind.tiny.graph")
        {0: [1], 1: [0]}
        >>> read_pickle(pickle.dumps(print), "ind.tiny.x")
        Traceback (most recent call last):
        ...
        armagnn.errors.DataError: ind.tiny.x: refused, it asks for builtins.print, which is not allowed.
    """
    if len(content) > MAX_BYTES:
        raise DataError(f"{source}: refused, {len(content)} bytes are more than any file of Planetoid has.")
    try:
        found = _Reader(io.BytesIO(content), encoding="latin1").load()
        if isinstance(found, _Array | _Csr):
            return found.value()
        if isinstance(found, dict):
            return {_id(node): [_id(other) for other in others] for node, others in found.items()}
        raise ValueError(f"it holds {type(found).__name__}, not a matrix, an array or a graph")
    except Exception as error:  # a hostile file can raise anything, and it is always the file's fault
        raise DataError(f"{source}: refused, {error or type(error).__name__}.") from error


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("latin1")
    if not isinstance(value, str):
        raise ValueError(f"a name that is {type(value).__name__}")
    return value


def _id(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"a node that is {type(value).__name__}")
    return value
