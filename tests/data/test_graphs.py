"""Parts of a set of graphs, against a plain loop; and real targets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn.data import GraphsDataset, load_graphs, statistics
from armagnn.data.arrays import pack_arrays
from armagnn.data.graphs_file import parse_graphs_file
from armagnn.errors import DataError, DTypeError, ParameterError
from data.draws import graph_sets
from data.tiny import graphs_arrays


@given(graph_sets(), st.data())
def test_a_selection_is_what_a_loop_gathers(data: GraphsDataset, draw: st.DataObject) -> None:
    ids = draw.draw(st.lists(st.integers(0, data.num_graphs - 1), min_size=1, max_size=7))
    part = data.select(torch.tensor(ids))
    assert (len(part), part.regression, part.num_outputs) == (len(ids), data.regression, data.num_outputs)
    owner = data.graph[data.edge_index[0]]
    start = edge = 0
    for place, graph in enumerate(ids):
        low, high = int(data.ptr[graph]), int(data.ptr[graph + 1])
        stop = start + high - low
        assert part.ptr[place : place + 2].tolist() == [start, stop]
        edges = data.edge_index[:, owner == graph]
        last = edge + edges.shape[1]
        assert torch.equal(part.edge_index[:, edge:last] - start, edges - low)
        assert torch.equal(part.y[place], data.y[graph])
        for name in ("node_labels", "node_attr"):
            if getattr(data, name) is not None:
                assert torch.equal(getattr(part, name)[start:stop], getattr(data, name)[low:high])
        if data.edge_labels is not None:
            assert torch.equal(part.edge_labels[edge:last], data.edge_labels[owner == graph])
        start, edge = stop, last
    assert (part.num_nodes, part.edge_index.shape[1]) == (start, edge)


def test_selections_tell_themselves_apart() -> None:
    data = load_graphs("mutag")
    assert len({data.sha256, data.select([0, 1]).sha256, data.select([1, 0]).sha256}) == 3
    assert data.select([0, 1]).sha256 == data.select(torch.tensor([0, 1])).sha256


@pytest.mark.parametrize("ids", [[], [188], [-1], [0.5], [[0]], [True]])
def test_impossible_selections_are_refused(ids: list[object]) -> None:
    with pytest.raises(ParameterError, match="ids"):
        load_graphs("mutag").select(ids)  # type: ignore[arg-type]


def regression(y: object) -> GraphsDataset:
    return parse_graphs_file(pack_arrays({**graphs_arrays(), "y": np.asarray(y)}), name="tiny", source="tiny.npz")


def test_real_targets_of_a_file() -> None:
    data = regression([[0.5, 1.0], [2.0, -1.0], [3.5, 0.0]])
    assert (data.regression, data.num_outputs, data.num_classes) == (True, 2, 0)
    assert data.y.dtype == torch.float32
    assert repr(data).endswith("targets=2)")
    assert regression([0.5, 1.0, 2.0]).y.tolist() == [[0.5], [1.0], [2.0]]
    found = statistics(data)
    assert found["targets"] == 2
    assert found["target 0, mean ± deviation"] == "2 ± 1.2247"
    assert "classes" not in found


@pytest.mark.parametrize("y", [[0.5, 1.0], [[[0.5]], [[0.5]], [[0.5]]], [0.5, np.nan, 1.0], np.empty((3, 0))])
def test_bad_targets_are_refused(y: object) -> None:
    with pytest.raises(DataError, match=r"tiny.npz: y has"):
        regression(y)


def test_a_target_that_all_graphs_share_is_refused() -> None:
    with pytest.raises(DataError, match=r"tiny.npz: y, column 2: all graphs have the target 0.5; there is nothing"):
        regression([[0.5, 0.5], [2.0, 0.5], [3.5, 0.5]])


# --------------------------------------------------------------------------------------------------------- one's own


@given(graph_sets(undirected=True), st.sampled_from([torch.as_tensor, np.asarray, list]))
def test_own_graphs_are_those_that_were_given(data: GraphsDataset, kind: Callable[[object], object]) -> None:
    parts = ("node_labels", "node_attr", "edge_labels")
    more = {name: getattr(data, name) for name in parts if getattr(data, name) is not None}
    ends = data.edge_index.sort(0).values  # one weight for both directions
    more["edge_weight"] = (ends[0] * 7 + ends[1] * 3) % 5 / 2.0
    given = {name: kind(value.tolist() if kind is list else value) for name, value in more.items()}
    made = GraphsDataset.of(
        *(kind(v.tolist() if kind is list else v) for v in (data.edge_index, data.ptr, data.y)), **given
    )
    for name, value in {"edge_index": data.edge_index, "ptr": data.ptr, "y": data.y, **more}.items():
        assert torch.equal(getattr(made, name), value), name
    assert (made.num_classes, made.regression) == (data.num_classes, data.regression)


def own(**changes: object) -> GraphsDataset:
    return GraphsDataset.of(**({name: array.copy() for name, array in graphs_arrays().items()} | changes))  # type: ignore[arg-type]


def test_own_graphs_tell_themselves_apart_by_what_they_hold() -> None:
    assert own().sha256 == own().sha256
    assert len({own(**change).sha256 for change in ({}, {"y": [0, 0, 1]}, {"edge_labels": None})}) == 3


def test_a_weight_goes_with_the_direction_that_is_added() -> None:
    made = GraphsDataset.of([[0, 2], [1, 3]], [0, 2, 4], [0, 1], edge_weight=[0.5, 0.0])
    assert made.edge_index.tolist() == [[0, 2, 1, 3], [1, 3, 0, 2]]
    assert made.edge_weight is not None
    assert made.edge_weight.tolist() == [0.5, 0.0, 0.5, 0.0]


def test_own_graphs_may_be_new_have_no_edges_and_be_of_types_that_numpy_lacks() -> None:
    new = GraphsDataset.of([[], []], [0, 2, 3], node_attr=torch.ones(3, 2, dtype=torch.bfloat16))
    assert (new.y.tolist(), new.edge_index.shape) == ([-1, -1], (2, 0))
    assert new.node_attr is not None
    assert new.node_attr.dtype == torch.float32
    single = GraphsDataset.of([[0], [1]], [0, 2], torch.tensor([0.5], dtype=torch.bfloat16), edge_weight=[2.0])
    assert single.y.tolist() == [[0.5]]
    assert statistics(single)["edge weights"] == "2 to 2"


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"edge_index": [[0], [9]]}, DataError, "graphs: edge_index holds 0 .. 9"),
        ({"edge_index": [[0], [2]]}, DataError, "joins nodes of different graphs"),
        ({"edge_index": [[0.5], [1.0]]}, DataError, "edge_index is float64"),
        ({"ptr": [0, 2, 2, 6]}, DataError, "ptr must rise"),
        ({"y": [0, 1, 3]}, DataError, "y "),
        ({"y": [0, 1]}, DataError, "2 labels for 3 graphs"),
        ({"y": [0.5, float("nan"), 1.0]}, DataError, "NaN"),
        ({"y": ["a", "b", "a"]}, DTypeError, "y must hold numbers"),
        ({"y": torch.tensor([0, 1, 0]).to_sparse()}, DTypeError, "y must be a dense tensor"),
        ({"node_attr": np.full((6, 2), np.inf)}, DataError, "node_attr has NaN or infinite"),
        ({"node_attr": np.ones((5, 2))}, DataError, "node_attr has shape"),
        ({"edge_weight": np.ones(5)}, DataError, r"edge_weight has shape \(5,\); it must be \(6,\)"),
        ({"edge_weight": np.full(6, -1.0)}, DataError, "must not be negative"),
        ({"edge_weight": np.full(6, np.nan)}, DataError, "NaN or infinite weights"),
        ({"edge_weight": np.full(6, -1e-60)}, DataError, "-1e-60; weights must not be negative"),
        ({"edge_weight": np.full(6, 1e-60)}, DataError, "1e-60, which float32 rounds to 0"),
        ({"ptr": None}, DTypeError, "ptr must hold numbers"),
        ({"edge_weight": [1, 2, 1, 1, 1, 1]}, DataError, "differs where nodes 1 and 0 are listed again"),
    ],
)
def test_what_is_wrong_with_own_graphs_is_said(changes: dict[str, object], error: type[Exception], said: str) -> None:
    if "edge_index" in changes:
        changes = {"edge_labels": None, **changes}
    with pytest.raises(error, match=said):
        own(**changes)
