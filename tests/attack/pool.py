"""Bad values: what a user, or somebody hostile, may put in the place of an argument.

A value has a name, so that one input can be written down and given again: ``@nan`` is the pool's NaN, whatever the
argument was; ``~first=nan`` is a change of the valid argument, whose first entry becomes NaN.
"""

from __future__ import annotations

import copy
import io
import os
import struct
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

Make = Callable[[], Any]


class UserError(Exception):
    """What the user's own code raises: it must come back as it is."""


class Wrong(Exception):
    """An answer that is not the true one came back without an error."""


class _Hostile:
    """An object whose every habit raises."""

    def __getattr__(self, name: str) -> Any:
        raise UserError(name)

    def __len__(self) -> int:
        raise UserError("len")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise UserError("array")


class _Text(str):
    __slots__ = ()


def _raises(*args: Any, **kwargs: Any) -> Any:
    raise UserError("called")


def _deep(depth: int = 20000) -> list[Any]:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


def _loop() -> list[Any]:
    loop: list[Any] = [1.0]
    loop.append(loop)
    return loop


def _scipy(indptr: list[int], indices: list[int], count: int = 4) -> Any:
    """A matrix of scipy whose arrays were changed behind its back."""
    matrix = sp.csr_matrix(np.eye(count, dtype=np.float32))
    matrix.indptr, matrix.indices = np.array(indptr, dtype=np.int32), np.array(indices, dtype=np.int32)
    return matrix


def _torch_csr(rowptr: list[int], col: list[int], size: tuple[int, int] = (4, 4)) -> Tensor:
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        return torch.sparse_csr_tensor(
            torch.tensor(rowptr), torch.tensor(col), torch.ones(len(col)), size, check_invariants=False
        )


def _torch_coo(index: list[list[int]]) -> Tensor:
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        return torch.sparse_coo_tensor(torch.tensor(index), torch.ones(len(index[0])), (4, 4), check_invariants=False)


def _networkx(**attributes: Any) -> Any:
    graph = nx.path_graph(4)
    nx.set_edge_attributes(graph, attributes)
    for edge in graph.edges:
        graph.edges[edge].update(attributes)
    return graph


def _file(name: str, content: bytes | None) -> Path:
    """A path in the current folder, which is the harness's own; None makes a folder."""
    path = Path.cwd() / name
    if content is None:
        path.mkdir(exist_ok=True)
    elif not path.exists():
        path.write_bytes(content)
    return path


def _fifo() -> Path:
    path = Path.cwd() / "bad.fifo"
    if not path.exists():
        os.mkfifo(path)
    return path


def _sparse_file() -> Path:
    path = Path.cwd() / "bad_8_GiB.npz"
    if not path.exists():
        with open(path, "wb") as file:
            file.truncate(8 << 30)
    return path


def _bomb() -> bytes:
    """An archive of 3 MiB that unpacks to 3 GiB of zeros; one packed block of them is repeated, which takes no time."""
    head, size = _npy(np.zeros(0)).replace(b"(0,), } ", b"(%d,), }" % (3 << 27)), 1 << 24
    packer = zlib.compressobj(9, wbits=-15)
    packed = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(size)) + packer.flush(zlib.Z_FULL_FLUSH)
    packed += block * (8 * (3 << 27) // size) + packer.flush()
    whole = len(head) + 8 * (3 << 27)
    fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, len(packed), whole, 5, 0)
    local = b"PK\x03\x04" + fields + b"x.npy" + packed
    central = b"PK\x01\x02\x14\x00" + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0) + b"x.npy"
    return local + central + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _quantised() -> Tensor:
    return torch.quantize_per_tensor(torch.rand(6, 3), 0.1, 0, torch.quint8)


def _subclass() -> Tensor:
    class Odd(Tensor):
        pass

    return torch.rand(6, 3).as_subclass(Odd)


def _nested() -> Tensor:
    return torch.nested.nested_tensor([torch.rand(2, 3), torch.rand(4, 3)])


def _fake() -> Tensor:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.rand(6, 3)


SCALARS: dict[str, Make] = {
    "none": lambda: None, "true": lambda: True, "false": lambda: False, "zero": lambda: 0, "one": lambda: 1,
    "minus": lambda: -1, "minus7": lambda: -7, "three": lambda: 3, "2^31": lambda: 2**31, "2^33": lambda: 2**33,
    "2^62": lambda: 2**62, "2^63": lambda: 2**63, "2^64": lambda: 2**64, "-2^63": lambda: -(2**63),
    "10^30": lambda: 10**30, "10^6": lambda: 10**6, "10^12": lambda: 10**12, "10^400": lambda: 10**400,
    "half": lambda: 0.5, "minus_half": lambda: -0.5, "2.0": lambda: 2.0, "nan": lambda: float("nan"),
    "inf": lambda: float("inf"), "minus_inf": lambda: float("-inf"), "tiny": lambda: 5e-324, "1e300": lambda: 1e300,
    "1e39": lambda: 1e39, "minus_zero": lambda: -0.0, "complex": lambda: 1 + 1j, "fraction": lambda: Fraction(1, 3),
    "np_int": lambda: np.int64(3), "np_nan": lambda: np.float64("nan"), "np_bool": lambda: np.True_,
    "np_void": lambda: np.void(b"abc"), "np_date": lambda: np.datetime64("2020-01-01"),
    "np_longdouble": lambda: np.longdouble("1e4000"),
}  # fmt: skip
TEXTS: dict[str, Make] = {
    "empty_text": lambda: "", "text": lambda: "arma", "markup": lambda: "[/x][bold]", "nul": lambda: "a\x00b",
    "long_text": lambda: "x" * 100_000, "surrogate": lambda: "\udc80", "bytes": lambda: b"arma",
    "text_subclass": lambda: _Text("arma"), "number_text": lambda: "3", "dots": lambda: "../../..",
    "newline": lambda: "a\nb", "bytearray": lambda: bytearray(b"ab"),
}  # fmt: skip
OBJECTS: dict[str, Make] = {
    "object": object, "class": lambda: int, "ellipsis": lambda: ..., "module": lambda: os,
    "hostile": _Hostile, "function": lambda: lambda *args: args[0] if args else None,
    "nan_function": lambda: lambda x, *rest: x * float("nan"), "raising": lambda: _raises,
    "none_function": lambda: lambda *args, **kwargs: None, "text_function": lambda: lambda *args: "x",
    "cut_function": lambda: lambda x, *rest: x[:1], "linear": lambda: torch.nn.Linear(3, 2),
    "dtype": lambda: torch.float16, "int_dtype": lambda: torch.int32, "complex_dtype": lambda: torch.complex64,
    "cuda": lambda: torch.device("cuda"), "meta_device": lambda: torch.device("meta"), "slice": lambda: slice(None),
    "bfloat16": lambda: torch.bfloat16, "float8": lambda: torch.float8_e4m3fn, "bits": lambda: torch.quint8,
}  # fmt: skip
CONTAINERS: dict[str, Make] = {
    "list": list, "tuple": tuple, "dict": dict, "set": lambda: {1, 2}, "ones": lambda: [1, 1],
    "texts": lambda: ["a", "b"], "nones": lambda: [None, None], "ragged": lambda: [[1], [1, 2]],
    "mapping": lambda: {"a": 1}, "huge_in_list": lambda: [10**30], "nan_in_list": lambda: [float("nan")],
    "iterator": lambda: iter([1, 2, 3]), "range": lambda: range(10**9), "deep": _deep, "loop": _loop,
    "bools": lambda: [True, False], "floats": lambda: [0.5, 1.5], "minus_in_list": lambda: [-1, 2],
    "objects": lambda: [object()], "size": lambda: torch.Size([2, 3]),
}  # fmt: skip
ARRAYS: dict[str, Make] = {
    "np_scalar": lambda: np.array(3), "np_vector": lambda: np.arange(3.0), "np_empty": lambda: np.zeros(0),
    "np_matrix": lambda: np.eye(4), "np_texts": lambda: np.array(["a", "b"]),
    "np_objects": lambda: np.array([None, {}], dtype=object), "np_struct": lambda: np.zeros(4, dtype="i4,f4"),
    "np_masked": lambda: np.ma.masked_array(np.eye(4), np.eye(4) > 0), "np_dates": lambda: np.zeros(4, "M8[s]"),
    "np_longdoubles": lambda: np.eye(4, dtype=np.longdouble), "np_half": lambda: np.eye(4, dtype=np.float16),
    "np_complex": lambda: np.eye(4, dtype=complex), "np_big_endian": lambda: np.eye(4, dtype=">f4"),
    "np_uint64": lambda: np.full((2, 3), 2**64 - 1, dtype=np.uint64), "np_back": lambda: np.arange(4.0)[::-1],
    "np_nan": lambda: np.full((4, 4), np.nan), "np_matrix_class": lambda: np.asmatrix(np.eye(4)),
    "np_huge": lambda: np.broadcast_to(np.float32(1), (2**17 + 1, 2**14)), "np_bool": lambda: np.eye(4, dtype=bool),
    "np_readonly": lambda: np.broadcast_to(1.0, (4, 4)),
}  # fmt: skip
TENSORS: dict[str, Make] = {
    "scalar": lambda: torch.tensor(3), "scalar_nan": lambda: torch.tensor(float("nan")),
    "vector": lambda: torch.rand(3),
    "empty": lambda: torch.zeros(0), "empty_matrix": lambda: torch.zeros(0, 3), "no_columns": lambda: torch.zeros(6, 0),
    "matrix": lambda: torch.rand(6, 3), "cube": lambda: torch.rand(2, 6, 3), "ten_axes": lambda: torch.rand([1] * 10),
    "doubles": lambda: torch.rand(6, 3).double(), "halves": lambda: torch.rand(6, 3).half(),
    "bfloats": lambda: torch.rand(6, 3).bfloat16(), "complexes": lambda: torch.rand(6, 3) + 1j,
    "ints": lambda: torch.ones(6, 3).long(), "bytes_tensor": lambda: torch.ones(6, 3).byte(),
    "bool_tensor": lambda: torch.ones(6, 3).bool(), "nan_tensor": lambda: torch.full((6, 3), float("nan")),
    "inf_tensor": lambda: torch.full((6, 3), float("inf")), "large": lambda: torch.full((6, 3), 1e30),
    "ids": lambda: torch.tensor([[0, 1], [1, 0]]), "ids_out": lambda: torch.tensor([[0, 99], [99, 0]]),
    "ids_far": lambda: torch.tensor([[0, 2**40], [2**40, 0]]), "ids_minus": lambda: torch.tensor([[0, -1], [-1, 0]]),
    "ids_int32": lambda: torch.tensor([[0, 1], [1, 0]], dtype=torch.int32),
    "meta": lambda: torch.rand(6, 3, device="meta"), "nested": _nested, "quantised": _quantised, "fake": _fake,
    "parameter": lambda: torch.nn.Parameter(torch.rand(6, 3)), "subclass": _subclass,
    "huge": lambda: torch.ones(1, 1).expand(2**17 + 1, 2**14), "huge_vector": lambda: torch.ones(1).expand(2**33),
    "strided": lambda: torch.rand(12, 6)[::2, ::2], "mkldnn": lambda: torch.rand(6, 3).to_mkldnn(),
    "named": lambda: torch.rand(6, 3, names=("a", "b")), "conj": lambda: (torch.rand(6, 3) + 1j).conj().imag,
    "inference": lambda: _inference(), "float8s": lambda: torch.ones(6, 3).to(torch.float8_e4m3fn),
    "uint16s": lambda: torch.ones(6, 3).to(torch.uint16),
}  # fmt: skip
SPARSE: dict[str, Make] = {
    "scipy": lambda: sp.csr_matrix(np.eye(4)), "scipy_back": lambda: _scipy([0, 3, 1, 4, 4], [0, 1, 2, 3]),
    "scipy_out": lambda: _scipy([0, 1, 2, 3, 4], [0, 1, 2, 999]),
    "scipy_minus": lambda: _scipy([0, 1, 2, 3, 4], [0, -5, 2, 3]),
    "scipy_beyond": lambda: _scipy([0, 1, 2, 3, 2**30], [0, 1, 2, 3]),
    "scipy_start": lambda: _scipy([-7, 1, 2, 3, 4], [0, 1, 2, 3]), "scipy_short": lambda: _scipy([0, 4], [0, 1, 2, 3]),
    "scipy_coo": lambda: sp.coo_array(np.eye(4)), "scipy_bool": lambda: sp.csr_array(np.eye(4, dtype=bool)),
    "scipy_complex": lambda: sp.csr_array(np.eye(4, dtype=complex)), "scipy_wide": lambda: sp.csr_array((4, 9)),
    "scipy_empty": lambda: sp.csr_array((0, 0)), "scipy_nan": lambda: sp.csr_array(np.full((4, 4), np.nan)),
    "scipy_vector": lambda: sp.coo_array(np.ones(4)), "scipy_huge": lambda: sp.csr_array((2**40, 2**40)) if 0 else
    sp.coo_array(([1.0], ([0], [0])), shape=(2**40, 2**40)), "scipy_lil": lambda: sp.lil_array(np.eye(4)),
    "csr": lambda: torch.eye(4).to_sparse_csr(), "coo": lambda: torch.eye(4).to_sparse(),
    "csc": lambda: torch.eye(4).to_sparse_csc(), "bsr": lambda: torch.eye(4).to_sparse_bsr((2, 2)),
    "csr_back": lambda: _torch_csr([0, 3, 1, 4, 4], [0, 1, 2, 3]),
    "csr_beyond": lambda: _torch_csr([0, 1, 2, 3, 2**40], [0, 1, 2, 3]),
    "csr_out": lambda: _torch_csr([0, 1, 2, 3, 4], [0, 1, 2, 2**40]),
    "csr_minus": lambda: _torch_csr([0, 1, 2, 3, 4], [0, 1, 2, -9]),
    "coo_out": lambda: _torch_coo([[0, 1, 2**40], [0, 1, 2]]), "coo_minus": lambda: _torch_coo([[0, -3], [0, 1]]),
    "coo_hybrid": lambda: torch.rand(4, 3).to_sparse(1), "csr_batch": lambda: torch.rand(2, 4, 4).to_sparse_csr(),
}  # fmt: skip
GRAPHS: dict[str, Make] = {
    "nx": lambda: nx.path_graph(4), "nx_empty": nx.Graph, "nx_multi": lambda: nx.MultiGraph([(0, 1), (0, 1)]),
    "nx_directed": lambda: nx.DiGraph([(0, 1)]), "nx_text": lambda: _networkx(weight="heavy"),
    "nx_nan": lambda: _networkx(weight=float("nan")), "nx_none": lambda: _networkx(weight=None),
    "nx_array": lambda: _networkx(weight=np.ones(3)), "nx_huge": lambda: _networkx(weight=1e300),
    "pyg": lambda: _pyg(), "pyg_empty": lambda: _pyg(edge_index=None), "pyg_odd": lambda: _pyg(edge_index="x"),
}  # fmt: skip
FILES: dict[str, Make] = {
    "missing": lambda: Path.cwd() / "missing" / "nothing.npz", "folder": lambda: _file("folder", None),
    "empty_file": lambda: _file("empty.npz", b""), "garbage": lambda: _file("garbage.npz", b"\x80\x04garbage" * 50),
    "pickle": lambda: _file("pickle.npz", b"\x80\x04\x8c\x02os\x94\x8c\x06getcwd\x94\x93\x94)R."),
    "npy": lambda: _file("one.npy", _npy(np.eye(3))), "npy_objects": lambda: _file("o.npy", _npy(np.array([{}]))),
    "npz": lambda: _file("other.npz", _npz(a=np.eye(3))), "bomb": lambda: _file("bomb.npz", _bomb()),
    "fifo": _fifo, "sparse_file": _sparse_file, "path_nul": lambda: Path("a\x00b"),
    "path_long": lambda: Path("x" * 5000), "text_file": lambda: _file("text.csv", b"a,b\n1,2\n"),
    "path_dots": lambda: Path("."), "path_text": lambda: str(_file("garbage.npz", b"\x80\x04garbage" * 50)),
}  # fmt: skip


def _inference() -> Tensor:
    with torch.inference_mode():
        return torch.rand(6, 3)


def _pyg(**changes: Any) -> Any:
    from torch_geometric.data import Data

    return Data(**{"x": torch.rand(4, 3), "edge_index": torch.tensor([[0, 1], [1, 0]])} | changes)


POOL: dict[str, Make] = SCALARS | TEXTS | OBJECTS | CONTAINERS | ARRAYS | TENSORS | SPARSE | GRAPHS | FILES
"""All values that do not depend on the argument they stand for."""


# ----------------------------------------------------------------------------------------------- changes of an argument


def _poked(place: int, value: Any) -> Callable[[Tensor], Tensor]:
    def poke(tensor: Tensor) -> Tensor:
        tensor = tensor.detach().clone()
        tensor.view(-1)[place] = value
        return tensor

    return poke


OF_TENSOR: dict[str, Callable[[Tensor], Any]] = {
    "shorter": lambda t: t[:-1], "longer": lambda t: torch.cat([t, t[-1:]]), "none_left": lambda t: t[:0],
    "axis": lambda t: t.unsqueeze(0), "last_axis": lambda t: t.unsqueeze(-1), "flat": lambda t: t.flatten(),
    "turned": lambda t: t.mT if t.dim() > 1 else t.flip(0), "narrow": lambda t: t[..., :-1], "first": lambda t: t[0],
    "wide": lambda t: torch.cat([t, t], -1), "doubles": lambda t: t.double(), "halves": lambda t: t.half(),
    "floats": lambda t: t.float(), "bfloats": lambda t: t.bfloat16(), "complexes": lambda t: t + 0j,
    "ints": lambda t: t.long(), "int32": lambda t: t.int(), "uint8": lambda t: t.byte(), "bools": lambda t: t.bool(),
    "nan": _poked(0, float("nan")), "inf": _poked(-1, float("inf")), "minus_inf": _poked(-1, float("-inf")),
    "1e30": _poked(0, 1e30), "3e38": _poked(0, 3e38), "minus": _poked(0, -1), "minus_last": _poked(-1, -1),
    "2^40": _poked(-1, 2**40), "2^62": _poked(0, 2**62), "-2^62": _poked(0, -(2**62)), "99": _poked(-1, 99),
    "back": lambda t: t.flip(-1), "same": lambda t: t[..., :1].expand(t.shape), "zeros": lambda t: t * 0,
    "sparse": lambda t: t.to_sparse(), "sparse_csr": lambda t: t.to_sparse_csr(), "meta": lambda t: t.to("meta"),
    "learned": lambda t: t.detach().clone().float().requires_grad_(), "array": lambda t: t.detach().numpy(),
    "listed": lambda t: t.tolist(), "strided": lambda t: torch.stack([t, t], -1)[..., 0],
    "repeated": lambda t: t[:1].expand(2**33, *t.shape[1:]), "huge_rows": lambda t: t.flatten()[:1].expand(2**20,
    2**14),
    "nested": lambda t: torch.nested.nested_tensor([t, t]), "named": lambda t: t.rename(*"abcdef"[: t.dim()]),
    "twice": lambda t: torch.cat([t, t]), "text": lambda t: str(t), "subnormal": lambda t: t * 1e-40,
    "quantised": lambda t: torch.quantize_per_tensor(t.float(), 0.1, 0, torch.qint8),
}  # fmt: skip
OF_NUMBER: dict[str, Callable[[Any], Any]] = {
    "minus": lambda n: -n, "plus": lambda n: n + 1, "thousand": lambda n: n * 1000, "million": lambda n: n * 10**6,
    "float": lambda n: float(n), "half_more": lambda n: n + 0.5, "text": str, "tensor": lambda n: torch.tensor(n),
    "array": lambda n: np.array(n), "vector": lambda n: torch.tensor([n, n]), "listed": lambda n: [n],
    "numpy": lambda n: np.float64(n), "np_int": lambda n: np.int64(n), "np_uint": lambda n: np.uint8(n),
    "bool": lambda n: n > 0, "complex": lambda n: n + 0j, "meta": lambda n: torch.tensor(n, device="meta"),
    "tiny": lambda n: n * 1e-300, "vast": lambda n: n * 1e300, "fraction": lambda n: Fraction(n),
    "learned": lambda n: torch.tensor(float(n), requires_grad=True),
}  # fmt: skip
OF_TEXT: dict[str, Callable[[str], Any]] = {
    "upper": str.upper, "more": lambda s: s + "x", "less": lambda s: s[:-1], "bytes": str.encode,
    "space": lambda s: f" {s}",
    "subclass": _Text, "listed": lambda s: [s], "tuple": lambda s: (s,), "array": lambda s: np.array(s),
    "np_str": np.str_, "dict": lambda s: {s: s},
}  # fmt: skip
OF_SEQUENCE: dict[str, Callable[[Any], Any]] = {
    "none_left": lambda v: v[:0], "shorter": lambda v: v[:-1], "twice": lambda v: v + v, "back": lambda v: v[::-1],
    "listed": lambda v: [v], "set": lambda v: set(map(str, v)), "iterator": lambda v: iter(v),
    "array": lambda v: np.array(v),
    "nan": lambda v: [*v[:-1], float("nan")], "none": lambda v: [*v[:-1], None], "text": lambda v: [*v[:-1], "x"],
    "minus": lambda v: [*v[:-1], -1], "huge": lambda v: [*v[:-1], 10**12], "half": lambda v: [*v[:-1], 0.5],
    "2^70": lambda v: [*v[:-1], 2**70], "true": lambda v: [*v[:-1], True], "nested": lambda v: [*v[:-1], [1, [2]]],
    "tensor": lambda v: [*v[:-1], torch.rand(2)], "many": lambda v: v * 10000, "object": lambda v: [*v, object()],
}  # fmt: skip
OF_MAPPING: dict[str, Callable[[dict[Any, Any]], Any]] = {
    "none_left": lambda m: {}, "more": lambda m: m | {"strange": 1}, "number": lambda m: m | {1: 2},
    **{f"{name}_values": (lambda m, value=value: dict.fromkeys(m, value)) for name, value in
       (("nan", float("nan")), ("none", None), ("text", "x"), ("huge", 10**12), ("minus", -1), ("list", [1]))},
    "pairs": lambda m: list(m.items()), "keys": lambda m: list(m),
}  # fmt: skip


def _of_operator(name: str) -> Callable[[Any], Any]:
    """Other graphs than the one that fits."""
    from armagnn import CSR, GraphOperator

    edges = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 1, 2]])
    if name.startswith("kind:"):
        return lambda op: GraphOperator.from_edge_index(edges[:, :4], op.num_nodes, kind=name[5:])
    return {
        "double": lambda op: op.to(torch.float64),
        "meta": lambda op: op.to("meta"),
        "directed": lambda op: GraphOperator.from_edge_index(edges, op.num_nodes),
        "smaller": lambda op: GraphOperator.from_edge_index(edges),
        "edgeless": lambda op: GraphOperator.from_edge_index(edges[:, :0], op.num_nodes),
        "nodeless": lambda op: GraphOperator.from_edge_index(edges[:, :0], 0),
        "learned": lambda op: op.with_value(op.value.detach().clone().requires_grad_()),
        "two": lambda op: GraphOperator.block_diagonal([op, op]),
        "csr": lambda op: CSR.from_dense(op.to_dense()),
        "wide": lambda op: CSR.from_dense(torch.rand(op.shape[0], 3)),
        "dense": lambda op: op.to_dense(),
        "transposed": lambda op: op.T,
        "half": lambda op: op.to(torch.float16),
        "signed": lambda op: GraphOperator.from_dense(-torch.ones(op.shape[0], op.shape[0]), kind="adjacency"),
        "heavy": lambda op: GraphOperator.from_dense(1e30 * torch.ones(op.shape[0], op.shape[0]), kind="adjacency"),
    }[name]


OF_OPERATOR = (
    "double", "meta", "directed", "smaller", "edgeless", "nodeless", "learned", "two", "csr", "wide", "dense",
    "transposed", "half", "signed", "heavy", "kind:gcn", "kind:laplacian", "kind:adjacency",
)  # fmt: skip


def changes(value: Any) -> dict[str, Callable[[Any], Any]]:
    """The changes that a valid argument of this type can suffer."""
    from armagnn import CSR

    if isinstance(value, CSR):
        return {name: (lambda op, name=name: _of_operator(name)(op)) for name in OF_OPERATOR}
    if isinstance(value, Tensor):
        return OF_TENSOR
    if isinstance(value, bool) or value is None:
        return {}
    if isinstance(value, int | float):
        return OF_NUMBER
    if isinstance(value, str):
        return OF_TEXT
    if isinstance(value, list | tuple):
        return OF_SEQUENCE
    return OF_MAPPING if isinstance(value, dict) else {}


def names_for(value: Any) -> list[str]:
    """All bad values for an argument whose valid value is this."""
    return [f"@{name}" for name in POOL] + [f"~{name}" for name in changes(value)]


def bad(name: str, value: Any) -> Any:
    """The bad value of a name, in the place of a valid one; ``=17`` is the number itself."""
    if name[0] == "=":
        return int(name[1:])
    if name[0] == "@":
        return POOL[name[1:]]()
    if isinstance(value, list | dict):
        value = copy.copy(value)
    return changes(value)[name[1:]](value)
