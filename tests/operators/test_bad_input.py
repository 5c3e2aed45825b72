"""Bad edges, weights and options meet one typed error that names the argument, not NaN, a crash or a foreign error."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor

from armagnn import GraphOperator
from armagnn.errors import (
    DeviceError,
    DTypeError,
    GraphError,
    ParameterError,
    ShapeError,
    SymmetryError,
    UnknownNameError,
)
from armagnn.operators.building import KINDS
from operators.bad_inputs import (
    FORMS,
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

edges = st.lists(st.tuples(node, node), min_size=1, max_size=8).map(lambda e: torch.tensor(e).T.contiguous())


def from_graph(index: Any, nodes: Any = NODES, weight: Any = None, **options: Any) -> GraphOperator:
    return GraphOperator.from_graph(index, nodes, weight, **options)


entrances = st.sampled_from([from_edges, from_graph])


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


def test_enough_bad_inputs() -> None:
    assert GENERATED[__name__] >= 1700
