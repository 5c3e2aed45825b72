"""Bad matrices, graphs of other libraries, operands and batches meet one typed error that names the argument."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse
import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from armagnn import CSR, GraphOperator
from armagnn.errors import (
    DeviceError,
    DTypeError,
    GraphError,
    ShapeError,
)
from operators.bad_inputs import (
    GENERATED,
    NODES,
    RING,
    bad_inputs,
    forms,
    from_edges,
    garbage,
    kinds,
    node,
    not_finite,
    read,
    refused,
    with_degrees,
    wrong_types,
)

OP = GraphOperator.from_edge_index(torch.cat([RING, RING.flip(0)], 1), NODES)


classes = st.sampled_from([CSR, GraphOperator])


@bad_inputs(100, rows=st.integers(0, 9), cols=st.integers(0, 9), form=forms, kind=kinds, seed=st.integers(0, 99))
def test_matrices_that_are_not_square(rows: int, cols: int, form: str, kind: str, seed: int) -> None:
    assume(rows != cols)
    assume(form != "nested lists" or rows)
    matrix = torch.rand(rows, cols, generator=torch.Generator().manual_seed(seed)).round()
    message = refused(ShapeError, "square", lambda: read(form, matrix, kind=kind))
    assert f"{rows} × {cols}" in message


@bad_inputs(
    100, form=forms, cls=classes, bad=not_finite, row=node, col=node, double=st.booleans()
)  # fmt: skip
def test_matrices_that_are_not_finite(form: str, cls: type[CSR], bad: float, row: int, col: int, double: bool) -> None:
    matrix = torch.eye(NODES, dtype=torch.float64 if double else torch.float32)
    matrix[row, col] = bad
    refused(GraphError, "matrix.*NaN or infinite", lambda: read(form, matrix, cls))


@bad_inputs(60, form=forms, kind=with_degrees, bad=st.floats(-100, -0.01), row=node, col=node)
def test_matrices_with_negative_entries(form: str, kind: str, bad: float, row: int, col: int) -> None:
    matrix = torch.eye(NODES)
    matrix[row, col] = bad
    refused(GraphError, "weights must not be negative", lambda: read(form, matrix, kind=kind))


@bad_inputs(60, shape=st.lists(st.integers(0, 3), max_size=4), numpy=st.booleans(), cls=classes)
def test_arrays_that_are_no_matrices(shape: list[int], numpy: bool, cls: type[CSR]) -> None:
    assume(len(shape) != 2)
    matrix = np.ones(shape) if numpy else torch.ones(shape)
    refused(ShapeError, r"two axes|\(N, N\)", lambda: cls.from_dense(matrix))


@bad_inputs(60, thing=garbage, reader=st.sampled_from(["from_scipy", "from_torch_sparse"]), cls=classes)
def test_garbage_as_a_sparse_matrix(thing: Any, reader: str, cls: type[CSR]) -> None:
    refused(DTypeError, "sparse", lambda: getattr(cls, reader)(thing))


@bad_inputs(
    40,
    thing=st.one_of(
        st.none(), st.text(max_size=5), st.binary(min_size=1, max_size=5), st.complex_numbers(),
        st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
        st.lists(st.lists(st.text(min_size=1, max_size=2), min_size=2, max_size=2), min_size=1, max_size=3),
        st.lists(st.lists(st.complex_numbers(), min_size=2, max_size=2), min_size=1, max_size=3),
    ),
    cls=classes,
)  # fmt: skip
def test_garbage_as_a_dense_matrix(thing: Any, cls: type[CSR]) -> None:
    refused(DTypeError, "matrix of real numbers", lambda: cls.from_dense(thing))


@bad_inputs(30, lengths=st.lists(st.integers(0, 4), min_size=2, max_size=5), cls=classes)
def test_ragged_lists(lengths: list[int], cls: type[CSR]) -> None:
    assume(len(set(lengths)) > 1)
    refused(ShapeError, "matrix", lambda: cls.from_dense([[1.0] * length for length in lengths]))


def test_other_matrices() -> None:
    for cls in (CSR, GraphOperator):
        refused(DTypeError, "from_torch_sparse", lambda cls=cls: cls.from_dense(torch.eye(3).to_sparse()))
        refused(DTypeError, "from_dense", lambda cls=cls: cls.from_torch_sparse(torch.eye(3)))
        for dtype in (torch.complex64, torch.float16):
            eye = torch.eye(3).to(dtype)
            refused(DTypeError, "matrix", lambda cls=cls, eye=eye: cls.from_torch_sparse(eye.to_sparse()))
            refused(DTypeError, "matrix", lambda cls=cls, eye=eye: cls.from_dense(eye))
        refused(DTypeError, "matrix", lambda cls=cls: cls.from_scipy(scipy.sparse.eye_array(3, dtype=complex)))
        refused(ShapeError, r"two axes|\(N, N\)", lambda cls=cls: cls.from_scipy(scipy.sparse.coo_array(np.ones(3))))
        refused(ShapeError, r"two axes|\(N, N\)", lambda cls=cls: cls.from_torch_sparse(torch.ones(3).to_sparse()))
        refused(
            ShapeError, r"two axes|\(N, N\)", lambda cls=cls: cls.from_torch_sparse(torch.ones(3, 3, 2).to_sparse(2))
        )


@bad_inputs(
    40,
    bad=st.one_of(st.integers(NODES, 10**9), st.integers(-(10**9), -1)),
    form=st.sampled_from(["scipy", "torch coo"]),
    axis=st.booleans(),
)
def test_corrupt_matrices(bad: int, form: str, axis: bool) -> None:
    """Libraries let ids out of range in; here they would be reads and writes outside of memory."""
    if form == "scipy":
        matrix = scipy.sparse.coo_array(np.eye(NODES))
        (matrix.row if axis else matrix.col)[2] = bad
    else:
        index = torch.arange(NODES).repeat(2, 1)
        index[int(axis), 2] = bad
        matrix = torch.sparse_coo_tensor(index, torch.ones(NODES), (NODES, NODES), check_invariants=False)
    reader = CSR.from_scipy if form == "scipy" else CSR.from_torch_sparse
    for read_it in (reader, GraphOperator.from_graph):
        refused(GraphError, "ids outside 0 to 4", lambda read_it=read_it: read_it(matrix))


@bad_inputs(
    60,
    bad=st.one_of(st.integers(4, 10**12), st.integers(-(10**12), -1)),
    name=st.sampled_from(["row", "col"]),
    where=st.integers(0, 2),
)
def test_entries_out_of_range(bad: int, name: str, where: int) -> None:
    places = {"row": torch.tensor([0, 1, 2]), "col": torch.tensor([0, 3, 1])}
    places[name][where] = bad
    refused(GraphError, rf"\b{name}\b", lambda: CSR.from_coo(**places, value=torch.ones(3), shape=(3, 4)))


@bad_inputs(
    100,
    name=st.sampled_from(["row", "col", "value"]),
    thing=st.one_of(garbage, wrong_types.map(lambda dtype: torch.ones(3).to(dtype))),
)
def test_garbage_as_entries(name: str, thing: Any) -> None:
    assume(not isinstance(thing, Tensor) or name == "value" or thing.dtype not in (torch.int64, torch.int32))
    entries = {"row": torch.arange(3), "col": torch.arange(3), "value": torch.ones(3)} | {name: thing}
    names = "matrix" if isinstance(thing, Tensor) and name == "value" else rf"\b{name}\b"
    refused(DTypeError, names, lambda: CSR.from_coo(**entries, shape=(3, 3)))


@bad_inputs(60, shapes=st.lists(st.lists(st.integers(0, 3), max_size=2), min_size=3, max_size=3))
def test_shapes_of_entries(shapes: list[list[int]]) -> None:
    assume(len({tuple(shape) for shape in shapes}) > 1 or len(shapes[0]) != 1)
    row, col, value = (torch.zeros(shape, dtype=torch.int64) for shape in shapes)
    refused(ShapeError, "row, col and value|must have shape", lambda: CSR.from_coo(row, col, value.float(), (3, 3)))


@bad_inputs(
    40, shape=st.one_of(garbage, st.tuples(st.integers(-9, -1), st.integers(0, 3)), st.tuples(st.integers(0, 9)))
)
def test_shape_of_a_matrix(shape: Any) -> None:
    one = torch.zeros(1, dtype=torch.int64)
    refused(ShapeError, "shape", lambda: CSR.from_coo(one, one, torch.ones(1), shape))


@bad_inputs(
    40,
    bad=st.one_of(
        not_finite, st.text(min_size=1, max_size=3).filter(str.isalpha), st.complex_numbers(), st.just([1.0])
    ),
    directed=st.booleans(),
    at=node,
)
def test_networkx_weights(bad: Any, directed: bool, at: int) -> None:
    assume(not isinstance(bad, str) or bad.lower() not in ("nan", "inf"))
    graph = nx.DiGraph() if directed else nx.Graph()
    nx.add_path(graph, range(NODES + 1), weight=1.0)
    graph[at][at + 1]["weight"] = bad
    refused(GraphError, "weight|matrix", lambda: GraphOperator.from_networkx(graph))


@bad_inputs(30, bad=st.floats(-100, -0.01), kind=with_degrees, at=node)
def test_networkx_negative_weights(bad: float, kind: str, at: int) -> None:
    graph = nx.path_graph(NODES + 1)
    graph[at][at + 1]["weight"] = bad
    refused(GraphError, "weight", lambda: GraphOperator.from_networkx(graph, kind))


@bad_inputs(40, thing=garbage)
def test_garbage_as_networkx(thing: Any) -> None:
    refused(DTypeError, "networkx", lambda: GraphOperator.from_networkx(thing))


@bad_inputs(40, thing=garbage)
def test_garbage_as_data(thing: Any) -> None:
    refused(GraphError, "edge_index", lambda: GraphOperator.from_data(thing))


@bad_inputs(40, bad=st.one_of(st.integers(NODES, 10**9), st.integers(-(10**9), -1)), where=st.integers(0, 9))
def test_data_with_ids_out_of_range(bad: int, where: int) -> None:
    index = RING.clone()
    index.view(-1)[where] = bad
    refused(GraphError, "edge_index", lambda: GraphOperator.from_graph(Data(edge_index=index, num_nodes=NODES)))


def test_other_data() -> None:
    refused(GraphError, "edge_index", lambda: GraphOperator.from_data(Data(x=torch.ones(3, 1))))
    refused(GraphError, "edge_index", lambda: GraphOperator.from_graph(Data(x=torch.ones(3, 1))))
    refused(DTypeError, "HeteroData", lambda: GraphOperator.from_graph(HeteroData()))
    wrong = Data(edge_index=RING, edge_weight=torch.ones(4), num_nodes=5)
    refused(ShapeError, "edge_weight", lambda: GraphOperator.from_data(wrong))


OPERATORS = {dtype: OP.to(dtype) for dtype in (torch.float32, torch.float64, torch.bfloat16)}


operators = st.sampled_from(list(OPERATORS.values()))


@bad_inputs(150, shape=st.lists(st.integers(0, 7), max_size=4), op=operators)
def test_shape_of_x(shape: list[int], op: GraphOperator) -> None:
    assume(len(shape) < 2 or shape[-2] != NODES)
    message = refused(ShapeError, r"\bx\b", lambda: op @ torch.zeros(shape, dtype=op.dtype))
    assert "(..., 5, F)" in message
    assert str(tuple(shape)) in message


@bad_inputs(60, lead=st.lists(st.integers(1, 3), max_size=2), width=st.integers(0, 4), dtype=wrong_types, op=operators)
def test_type_of_x(lead: list[int], width: int, dtype: torch.dtype, op: GraphOperator) -> None:
    refused(DTypeError, r"\bx\b", lambda: op @ torch.zeros(*lead, NODES, width).to(dtype))


@bad_inputs(
    60,
    lead=st.lists(st.integers(1, 3), max_size=2),
    width=st.integers(0, 4),
    dtype=st.sampled_from(list(OPERATORS)),
    op=operators,
)
def test_x_of_another_type(lead: list[int], width: int, dtype: torch.dtype, op: GraphOperator) -> None:
    assume(dtype != op.dtype)
    message = refused(DTypeError, r"\bx\b", lambda: op @ torch.zeros(*lead, NODES, width, dtype=dtype))
    assert f"op.to({dtype})" in message


@bad_inputs(60, thing=garbage, op=operators)
def test_garbage_as_x(thing: Any, op: GraphOperator) -> None:
    assume(not isinstance(thing, np.ndarray))  # numpy has its own opinion of @, checked below
    refused(DTypeError, r"\bx\b", lambda: op @ thing)


def test_other_operands() -> None:
    refused(DTypeError, "from_torch_sparse", lambda: OP @ torch.eye(NODES).to_sparse())
    refused(DTypeError, r"\bx\b", lambda: OP @ np.ones((NODES, 2), dtype=np.float32))
    refused(DTypeError, r"\bx\b", lambda: OP @ OP)
    refused(DeviceError, r"\bx\b", lambda: OP @ torch.ones(NODES, 2, device="meta"))


@bad_inputs(60, shape=st.lists(st.integers(0, 12), max_size=3), op=operators)
def test_shape_of_values(shape: list[int], op: GraphOperator) -> None:
    assume(shape != [op.nnz])
    refused(ShapeError, r"value.*\(10,\)", lambda: op.with_value(torch.zeros(shape, dtype=op.dtype)))


@bad_inputs(60, thing=st.one_of(garbage, wrong_types.map(lambda dtype: torch.ones(10).to(dtype))), op=operators)
def test_garbage_as_values(thing: Any, op: GraphOperator) -> None:
    refused(DTypeError, "value", lambda: op.with_value(thing))


def test_values_elsewhere() -> None:
    refused(DeviceError, "value", lambda: OP.with_value(torch.ones(10, device="meta")))


@bad_inputs(10, dtype=wrong_types, op=operators)
def test_conversion_to_another_type(dtype: torch.dtype, op: GraphOperator) -> None:
    refused(DTypeError, "values", lambda: op.to(dtype))


@bad_inputs(60, thing=garbage, before=st.integers(0, 2), after=st.integers(0, 2))
def test_garbage_in_a_batch(thing: Any, before: int, after: int) -> None:
    refused(DTypeError, "block_diagonal", lambda: GraphOperator.block_diagonal([OP] * before + [thing] + [OP] * after))


@bad_inputs(40, thing=garbage)
def test_garbage_as_a_batch(thing: Any) -> None:
    empty = isinstance(thing, list | dict | str | bytes) and not thing
    refused(GraphError if empty else DTypeError, "block_diagonal", lambda: GraphOperator.block_diagonal(thing))


@bad_inputs(40, wanted=st.lists(st.tuples(kinds, st.sampled_from(list(OPERATORS))), min_size=2, max_size=5))
def test_batches_of_different_operators(wanted: list[tuple[str, torch.dtype]]) -> None:
    assume(len(set(wanted)) > 1)
    several = [from_edges(RING, kind=kind, dtype=dtype) for kind, dtype in wanted]
    first = wanted[0]
    other = next(pair for pair in wanted if pair != first)
    error = GraphError if other[0] != first[0] else DTypeError
    refused(error, "cannot join", lambda: GraphOperator.block_diagonal(several))


def test_a_matrix_is_not_a_graph() -> None:
    refused(DTypeError, "block_diagonal", lambda: GraphOperator.block_diagonal([CSR.from_dense(torch.eye(2))]))
    refused(GraphError, "block_diagonal", lambda: GraphOperator.block_diagonal([]))


def test_enough_bad_inputs() -> None:
    assert GENERATED[__name__] >= 1540
