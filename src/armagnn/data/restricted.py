"""Read the pickles of the Planetoid release without running any code that they name.

A pickle names functions and classes, and an ordinary reader imports and calls them. This one knows a dozen names, and
for each has an inert stand-in that only remembers what it is given; every other name is refused. What was remembered
is then turned into arrays, with checks.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from armagnn.errors import DataError

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
