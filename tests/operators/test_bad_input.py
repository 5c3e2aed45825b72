"""Bad input meets one typed error that names the argument: never a NaN, a crash or somebody else's error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from armagnn import CSR, GraphOperator
from armagnn.errors import (
    ArmagnnError,
    DeviceError,
    DTypeError,
    GraphError,
    ParameterError,
    ShapeError,
    SymmetryError,
    UnknownNameError,
)
from armagnn.operators.building import KINDS

GENERATED = 0
"""How many bad inputs the tests of this file generate; each test checks that it reached its share."""

Check = Callable[..., None]


def bad_inputs(number: int, **strategies: st.SearchStrategy[Any]) -> Callable[[Check], Callable[[], None]]:
    """Run a check on this many generated inputs, all of them different, and fail if there were fewer."""
    global GENERATED
    GENERATED += number

    def decorate(check: Check) -> Callable[[], None]:
        def test() -> None:
            count = 0

            def run(**drawn: Any) -> None:
                nonlocal count
                check(**drawn)
                count += 1

            run.__name__ = check.__name__
            settings(max_examples=number)(given(**strategies)(run))()
            assert count >= number, f"only {count} of {number} inputs were generated"

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate


def refused(error: type[ArmagnnError], names: str, call: Callable[[], Any]) -> str:
    """Check that the call raises exactly this error, that users can catch it as a built-in one, and what it says."""
    with pytest.raises(ArmagnnError) as caught:
        call()
    raised = caught.value
    assert type(raised) is error, f"{type(raised).__name__} instead of {error.__name__}: {raised}"
    assert isinstance(raised, TypeError if error is DTypeError else ValueError)
    assert re.search(names, str(raised)), f"{str(raised)!r} does not name {names!r}"
    return str(raised)


# ---------------------------------------------------------------------------------------------------------- good graphs

NODES = 5
node = st.integers(0, NODES - 1)
edges = st.lists(st.tuples(node, node), min_size=1, max_size=8).map(lambda e: torch.tensor(e).T.contiguous())
kinds = st.sampled_from(KINDS)
with_degrees = st.sampled_from(["arma", "gcn", "laplacian"])
good_weights = st.floats(0, 100, width=32)
RING = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
OP = GraphOperator.from_edge_index(torch.cat([RING, RING.flip(0)], 1), NODES)

FORMS: dict[str, Callable[[Tensor], Any]] = {
    "scipy": lambda a: scipy.sparse.coo_array(a.double().numpy()),
    "torch coo": lambda a: a.to_sparse_coo(),
    "torch csr": lambda a: a.to_sparse_csr(),
    "dense": lambda a: a,
    "numpy": lambda a: a.double().numpy(),
    "nested lists": lambda a: a.tolist(),
}
READERS = {"scipy": "from_scipy", "torch coo": "from_torch_sparse", "torch csr": "from_torch_sparse"}
forms = st.sampled_from(list(FORMS))
classes = st.sampled_from([CSR, GraphOperator])


def read(form: str, matrix: Tensor, cls: type[CSR] = GraphOperator, **options: Any) -> CSR:
    built: CSR = getattr(cls, READERS.get(form, "from_dense"))(FORMS[form](matrix), **options)
    return built


def from_edges(index: Any, nodes: Any = NODES, weight: Any = None, **options: Any) -> GraphOperator:
    return GraphOperator.from_edge_index(index, nodes, weight, **options)


def from_graph(index: Any, nodes: Any = NODES, weight: Any = None, **options: Any) -> GraphOperator:
    return GraphOperator.from_graph(index, nodes, weight, **options)


entrances = st.sampled_from([from_edges, from_graph])

garbage = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=3),
    st.complex_numbers(),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.sampled_from([object(), np.zeros((2, 3), dtype=int), np.ones(4), torch.float32, int, len]),
)
"""Anything but a tensor, a matrix or a graph."""

not_finite = st.sampled_from([float("nan"), float("inf"), -float("inf")])
wrong_types = st.sampled_from([torch.float16, torch.complex64, torch.complex128, torch.int64, torch.int32, torch.bool])


# ----------------------------------------------------------------------------------------------------------- edge_index


@bad_inputs(
    200,
    index=edges,
    where=st.integers(0, 15),
    bad=st.one_of(st.integers(NODES, 10**9), st.integers(-(10**9), -1)),
    entrance=entrances,
    kind=kinds,
    dtype=st.sampled_from([torch.int64, torch.int32]),
)
def test_ids_out_of_range(index: Tensor, where: int, bad: int, entrance: Any, kind: str, dtype: torch.dtype) -> None:
    index = index.to(dtype)
    index.view(-1)[where % index.numel()] = bad
    message = refused(GraphError, "edge_index", lambda: entrance(index, kind=kind))
    assert str(bad) in message  # which id
    assert "0 to 4" in message  # what is allowed


@bad_inputs(50, index=edges, where=st.integers(0, 15), bad=st.integers(-(10**9), -1))
def test_negative_ids_when_the_number_of_nodes_is_open(index: Tensor, where: int, bad: int) -> None:
    index.view(-1)[where % index.numel()] = bad
    refused(GraphError, "edge_index", lambda: from_edges(index, None))


@bad_inputs(100, shape=st.lists(st.integers(0, 5), max_size=4), entrance=entrances)
def test_shape_of_edge_index(shape: list[int], entrance: Any) -> None:
    assume(len(shape) != 2 or shape[0] != 2)
    message = refused(ShapeError, r"edge_index.*\(2, E\)", lambda: entrance(torch.zeros(shape, dtype=torch.int64)))
    assert str(tuple(shape)) in message


@bad_inputs(
    50,
    index=edges,
    dtype=st.sampled_from([torch.float32, torch.float64, torch.float16, torch.bool, torch.complex64, torch.int8]),
    entrance=entrances,
)
def test_type_of_edge_index(index: Tensor, dtype: torch.dtype, entrance: Any) -> None:
    refused(DTypeError, "edge_index.*integers", lambda: entrance(index.to(dtype)))


@bad_inputs(60, thing=garbage)
def test_garbage_as_edge_index(thing: Any) -> None:
    refused(DTypeError, "edge_index must be a dense torch.Tensor", lambda: from_edges(thing))


@bad_inputs(60, thing=garbage)
def test_garbage_as_a_graph(thing: Any) -> None:
    refused(DTypeError, "cannot read a graph from", lambda: GraphOperator.from_graph(thing))


def test_sparse_edge_index() -> None:
    refused(DTypeError, "edge_index", lambda: from_edges(RING.to_sparse()))


@bad_inputs(
    60,
    index=edges,
    nodes=st.one_of(
        st.integers(max_value=-1), st.integers(min_value=2**62), st.floats(), st.booleans(), st.text(max_size=3),
        st.just([5]), st.just(np.float64(5)), st.just(torch.tensor(5.0)),
    ),
)  # fmt: skip
def test_number_of_nodes(index: Tensor, nodes: Any) -> None:
    refused(GraphError, "num_nodes", lambda: from_edges(index, nodes))


@bad_inputs(40, index=edges, expected=st.integers(6, 99), form=st.sampled_from(["scipy", "torch coo", "torch csr"]))
def test_number_of_nodes_of_a_matrix(index: Tensor, expected: int, form: str) -> None:
    a = torch.zeros(NODES, NODES)
    a[index[1], index[0]] = 1.0
    refused(ShapeError, f"5 nodes, but {expected}", lambda: GraphOperator.from_graph(FORMS[form](a), expected))


# ---------------------------------------------------------------------------------------------------------- edge_weight


@bad_inputs(100, index=edges, shape=st.lists(st.integers(0, 9), max_size=3), entrance=entrances, kind=kinds)
def test_shape_of_weights(index: Tensor, shape: list[int], entrance: Any, kind: str) -> None:
    count = index.shape[1]
    assume(shape not in ([count], [count, 1]))
    message = refused(ShapeError, "edge_weight", lambda: entrance(index, NODES, torch.ones(shape), kind=kind))
    assert f"({count},)" in message


@bad_inputs(
    100, index=edges, where=st.integers(0, 15), bad=not_finite, entrance=entrances, kind=kinds, double=st.booleans()
)
def test_weights_that_are_not_finite(
    index: Tensor, where: int, bad: float, entrance: Any, kind: str, double: bool
) -> None:
    weight = torch.ones(index.shape[1], dtype=torch.float64 if double else torch.float32)
    weight[where % len(weight)] = bad
    refused(GraphError, "edge_weight.*NaN or infinite", lambda: entrance(index, NODES, weight, kind=kind))


@bad_inputs(
    100,
    index=edges,
    where=st.integers(0, 15),
    bad=st.floats(-1e30, -1e-30),
    entrance=entrances,
    kind=with_degrees,
    symmetrize=st.sampled_from([None, "mean"]),
)
def test_negative_weights(index: Tensor, where: int, bad: float, entrance: Any, kind: str, symmetrize: Any) -> None:
    """Also where a positive one makes up for it: a sum that hides the sign is as wrong."""
    weight = torch.ones(index.shape[1])
    weight[where % len(weight)] = bad
    message = refused(
        GraphError, "edge weights must not be negative",
        lambda: entrance(index, NODES, weight, kind=kind) if symmetrize is None else entrance(
            torch.tensor([[0, 1], [1, 0]]), NODES, torch.tensor([bad, bad]), kind=kind, symmetrize=symmetrize
        ),
    )  # fmt: skip
    assert repr(kind) in message
    assert "adjacency" in message  # the way out


@bad_inputs(60, index=edges, thing=garbage)
def test_garbage_as_weights(index: Tensor, thing: Any) -> None:
    assume(thing is not None)
    refused(DTypeError, "edge_weight", lambda: from_edges(index, NODES, thing))


@bad_inputs(40, index=edges, dtype=st.sampled_from([torch.float16, torch.complex64, torch.complex128]), kind=kinds)
def test_type_of_weights(index: Tensor, dtype: torch.dtype, kind: str) -> None:
    weight = torch.ones(index.shape[1], dtype=dtype)
    refused(DTypeError, "edge_weight", lambda: from_edges(index, NODES, weight, kind=kind))


@bad_inputs(
    40,
    index=edges,
    exponent=st.floats(38.3, 38.5),
    kind=kinds,
)
def test_weights_whose_sums_are_not_finite(index: Tensor, exponent: float, kind: str) -> None:
    """Each is a number of float32, their sum is not."""
    twice = torch.cat([index, index], dim=1)
    weight = torch.full((twice.shape[1],), 10**exponent, dtype=torch.float32)
    assert bool(weight.isfinite().all())
    refused(GraphError, "edge weights|parallel edges", lambda: from_edges(twice, NODES, weight, kind=kind))
    wide = from_edges(twice, NODES, weight.double(), kind=kind)  # the advice helps
    assert bool(wide.value.isfinite().all())


@bad_inputs(20, index=edges, tiny=st.floats(2e-45, 1e-39), kind=st.sampled_from(["arma", "laplacian"]))
def test_weights_whose_degrees_cannot_be_inverted(index: Tensor, tiny: float, kind: str) -> None:
    weight = torch.full((index.shape[1],), tiny, dtype=torch.float32)
    refused(GraphError, "edge weights.*degree", lambda: from_edges(index, NODES, weight, kind=kind))
    assert bool(from_edges(index, NODES, weight.double(), kind=kind).value.isfinite().all())


def test_weights_elsewhere() -> None:
    refused(DeviceError, "edge_weight", lambda: from_edges(RING, NODES, torch.ones(5, device="meta")))
    refused(DTypeError, "edge_weight", lambda: from_edges(RING, NODES, torch.ones(5).to_sparse()))
    a = torch.ones(NODES, NODES).to_sparse()
    refused(GraphError, "edge_weight", lambda: GraphOperator.from_graph(a, NODES, torch.ones(5)))


# -------------------------------------------------------------------------------------------------------------- options


@st.composite
def misspelt(draw: st.DrawFn) -> tuple[str, str]:
    """A known kind with one letter changed, left out, doubled or put in."""
    kind = draw(kinds)
    at = draw(st.integers(0, len(kind) - 1))
    letter = draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz_-"))
    typo = kind[:at] + draw(st.sampled_from(["", letter, letter + kind[at]])) + kind[at + 1 :]
    assume(typo not in KINDS)
    return kind, typo


@bad_inputs(100, word=misspelt(), form=st.sampled_from(["edges", *FORMS]))
def test_misspelt_kind(word: tuple[str, str], form: str) -> None:
    kind, typo = word
    eye = torch.eye(NODES)
    build = (lambda: from_edges(RING, kind=typo)) if form == "edges" else (lambda: read(form, eye, kind=typo))
    message = refused(UnknownNameError, "kind", build)
    assert f"Did you mean {kind!r}?" in message


@bad_inputs(80, kind=st.one_of(garbage, st.text(max_size=12)))
def test_unknown_kind(kind: Any) -> None:
    assume(not (isinstance(kind, str) and kind in KINDS))
    message = refused(UnknownNameError, "kind", lambda: from_edges(RING, kind=kind))
    assert "adjacency, arma, gcn, laplacian" in message
    assert issubclass(UnknownNameError, KeyError)


@bad_inputs(40, how=st.one_of(garbage, st.text(max_size=5)))
def test_unknown_way_to_symmetrize(how: Any) -> None:
    assume(how is not None and not (isinstance(how, str) and how in ("max", "mean")))
    refused(UnknownNameError, "symmetrize", lambda: from_edges(RING, symmetrize=how))


not_a_number = st.one_of(
    not_finite, st.none(), st.booleans(), st.text(max_size=4), st.complex_numbers(), st.just([1.0]),
    st.integers(min_value=10**309), st.just(np.array([1.0, 2.0])), st.just(torch.tensor([1.0, 2.0])),
)  # fmt: skip


@bad_inputs(80, gamma=st.one_of(not_a_number, st.floats(max_value=-1e-300), st.integers(max_value=-1)), kind=kinds)
def test_gamma(gamma: Any, kind: str) -> None:
    refused(ParameterError, "gamma", lambda: from_edges(RING, kind=kind, gamma=gamma))


@bad_inputs(80, bound=not_a_number, name=st.sampled_from(["lambda_min", "lambda_max"]), kind=kinds)
def test_lambda(bound: Any, name: str, kind: str) -> None:
    assume(not isinstance(bound, str) or bound != "computed")
    refused(ParameterError, name, lambda: from_edges(RING, kind=kind, **{name: bound}))


@bad_inputs(40, kind=st.sampled_from(["arma", "laplacian", "adjacency"]), gamma=st.floats(0, 100))
def test_gamma_of_another_kind(kind: str, gamma: float) -> None:
    assume(gamma != 1.0)
    refused(ParameterError, "gamma", lambda: from_edges(RING, kind=kind, gamma=gamma))


@bad_inputs(40, low=st.floats(-100, 100), gap=st.floats(1e-3, 100))
def test_lambda_upside_down(low: float, gap: float) -> None:
    refused(ParameterError, "lambda_max", lambda: from_edges(RING, lambda_min=low, lambda_max=low - gap))


@bad_inputs(
    40, kind=st.sampled_from(["gcn", "laplacian", "adjacency"]), bound=st.floats(0.1, 1.9), computed=st.booleans()
)
def test_lambda_of_another_kind(kind: str, bound: float, computed: bool) -> None:
    value = "computed" if computed else bound
    refused(ParameterError, "lambda_max", lambda: from_edges(RING, kind=kind, lambda_max=value))


@bad_inputs(20, big=st.floats(1e39, 1e300), name=st.sampled_from(["gamma", "lambda_max"]))
def test_numbers_too_large_for_the_type(big: float, name: str) -> None:
    kind = "gcn" if name == "gamma" else "arma"
    refused(ParameterError, name, lambda: from_edges(RING, kind=kind, **{name: big}))


@bad_inputs(20, index=edges, name=st.sampled_from(["lambda_min", "lambda_max"]))
def test_computed_range_of_a_directed_graph(index: Tensor, name: str) -> None:
    one_way = torch.cat([index, torch.tensor([[0], [1]])], dim=1)
    a = torch.zeros(NODES, NODES)
    a.index_put_((one_way[1], one_way[0]), torch.ones(one_way.shape[1]), accumulate=True)
    assume(not torch.equal(a, a.T))
    message = refused(SymmetryError, "lambda_min or lambda_max", lambda: from_edges(one_way, **{name: "computed"}))
    assert "symmetrize" in message


@bad_inputs(40, name=st.text("abdgilmnorstxyz_", min_size=1, max_size=9), form=forms)
def test_unknown_option(name: str, form: str) -> None:
    assume(name not in ("gamma", "lambda_min", "lambda_max", "symmetrize", "dtype", "kind", "matrix"))
    message = refused(UnknownNameError, "option", lambda: read(form, torch.eye(NODES), **{name: 1}))
    assert "gamma, lambda_max, lambda_min, symmetrize" in message


def test_misspelt_option() -> None:
    eye = torch.eye(NODES).to_sparse()
    message = refused(UnknownNameError, "option", lambda: GraphOperator.from_torch_sparse(eye, gama=2.0))
    assert "Did you mean 'gamma'?" in message


@bad_inputs(
    40,
    dtype=st.one_of(wrong_types, st.sampled_from(["float32", "double", float, int, np.float32, 32, True])),
    form=st.sampled_from(["edges", "weights", *FORMS]),
)
def test_type_that_is_asked_for(dtype: Any, form: str) -> None:
    weight = torch.ones(5) if form == "weights" else None
    if form in ("edges", "weights"):
        refused(DTypeError, "dtype", lambda: from_edges(RING, NODES, weight, dtype=dtype))
    else:
        refused(DTypeError, "dtype", lambda: read(form, torch.eye(NODES), dtype=dtype))


# ------------------------------------------------------------------------------------------------------------- matrices


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


# ------------------------------------------------------------------------------------------------------------- from_coo


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


# ----------------------------------------------------------------------------------------------------- PyG and networkx


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


# --------------------------------------------------------------------------------------------------------------- op @ x

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


# --------------------------------------------------------------------------------------- with_value, to, block_diagonal


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
    assert GENERATED >= 2000
