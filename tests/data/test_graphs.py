"""Parts of a set of graphs, against a plain loop; and real targets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn.data import GraphsDataset, load_graphs, statistics
from armagnn.data.arrays import pack_arrays
from armagnn.data.graphs_file import parse_graphs_file
from armagnn.errors import DataError, ParameterError
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
