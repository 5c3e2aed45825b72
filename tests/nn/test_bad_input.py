from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from armagnn import GraphOperator
from armagnn.errors import ArmagnnError, DTypeError, ParameterError, ShapeError
from armagnn.nn import ARMAConv

OP = GraphOperator.from_edge_index(torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), num_nodes=5)

not_a_size = st.one_of(
    st.integers(max_value=0), st.floats(), st.booleans(), st.none(), st.text(max_size=3), st.just([2])
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["in_channels", "out_channels", "num_stacks", "num_layers"]), not_a_size)
def test_sizes(name: str, value: Any) -> None:
    if name == "in_channels" and value == -1:
        return
    options: dict[str, Any] = {"in_channels": 4, "out_channels": 3} | {name: value}
    with pytest.raises(ParameterError, match=name):
        ARMAConv(**options)


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.floats(max_value=0, exclude_max=True), st.floats(min_value=1), st.booleans(), st.none(), st.text(max_size=3),
        st.just(float("nan")),
    )
)  # fmt: skip
def test_dropout(value: Any) -> None:
    with pytest.raises(ParameterError, match="dropout"):
        ARMAConv(4, 3, dropout=value)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=8))
@example("zero")
def test_unknown_names(name: str) -> None:
    if name not in ("linear", "zero", "tied"):
        with pytest.raises(ParameterError, match="initial state"):
            ARMAConv(4, 3, init=name)  # type: ignore[arg-type]
    from armagnn.nn.activations import MODULES

    if name not in MODULES:
        with pytest.raises(ParameterError, match="activation"):
            ARMAConv(4, 3, act=name)


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(ParameterError, match="Did you mean 'leaky_relu'"):
        ARMAConv(4, 3, act="leakyrelu")
    with pytest.raises(ParameterError, match="Did you mean 'linear'"):
        ARMAConv(4, 3, init="linea")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="act must be"):
        ARMAConv(4, 3, act=3)  # type: ignore[arg-type]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=0, max_size=4))
def test_shapes_of_x(shape: list[int]) -> None:
    conv = ARMAConv(4, 3, 2, 2)
    if len(shape) >= 2 and shape[-2:] == [5, 4]:
        assert conv(torch.zeros(shape), OP).shape == (*shape[:-1], 3)
        return
    with pytest.raises(ShapeError, match="x "):
        conv(torch.zeros(shape), OP)


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.uint8, torch.bool, torch.float16, torch.complex64, torch.float64]
)
def test_types_of_x(dtype: torch.dtype) -> None:
    with pytest.raises(DTypeError, match="x "):
        ARMAConv(4, 3)(torch.zeros(5, 4, dtype=dtype), OP)


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.none(), st.integers(), st.text(max_size=3), st.just([[1.0]]), st.just({})))
def test_x_and_graph_of_foreign_types(thing: Any) -> None:
    conv = ARMAConv(4, 3)
    with pytest.raises(ArmagnnError, match="x must"):
        conv(thing, OP)
    with pytest.raises(ArmagnnError, match=r"graph|edge_index"):
        conv(torch.zeros(5, 4), thing)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 9), st.integers(-3, 9)), min_size=1, max_size=8),
    st.sampled_from([None, "nan", "inf", "negative", "short"]),
)
def test_graphs_built_on_the_fly(edges: list[tuple[int, int]], fault: str | None) -> None:
    index = torch.tensor(edges).T
    weight = torch.ones(len(edges))
    if fault == "short":
        weight = weight[:-1]
    elif fault is not None:
        weight[0] = {"nan": float("nan"), "inf": float("inf"), "negative": -1.0}[fault]
    good_ids = all(0 <= a < 5 and 0 <= b < 5 for a, b in edges)
    conv, x = ARMAConv(4, 3, 2, 2), torch.ones(5, 4)
    if good_ids and fault is None:
        assert conv(x, index, weight).isfinite().all()
        return
    with pytest.raises(ArmagnnError, match=r"edge_index|edge_weight|edge weights"):
        conv(x, index, weight)


def test_an_operator_that_does_not_fit() -> None:
    conv = ARMAConv(4, 3)
    with pytest.raises(DTypeError, match="operator"):
        conv(torch.zeros(5, 4), OP.to(torch.float64))
    with pytest.raises(DTypeError, match="weights"):
        conv(torch.zeros(5, 4, dtype=torch.float64), OP.to(torch.float64))
    with pytest.raises(ShapeError, match="5"):
        conv(torch.zeros(6, 4), OP)
    with pytest.raises(ArmagnnError, match="edge_weight"):
        conv(torch.zeros(5, 4), OP, torch.ones(4))
    with pytest.raises(ArmagnnError, match="meta"):
        conv(torch.zeros(5, 4, device="meta"), OP)


def test_sparse_x_that_does_not_fit() -> None:
    conv = ARMAConv(4, 3)
    with pytest.raises(ShapeError, match="rows"):
        conv(torch.eye(6, 4).to_sparse_csr(), OP)
    with pytest.raises(ShapeError, match="features"):
        conv(torch.eye(5, 3).to_sparse_csr(), OP)
    bad = torch.eye(5, 4)
    bad[0, 0] = float("nan")
    with pytest.raises(ArmagnnError, match="NaN"):
        conv(bad.to_sparse_csr(), OP)
