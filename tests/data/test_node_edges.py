"""The edges of a node file: undirected and weighted by the same rule as those of a file of graphs."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn.data import NodeDataset, load
from armagnn.data.arrays import pack_arrays
from armagnn.data.graphs_file import parse_graphs_file
from armagnn.data.multilabel_file import parse_multilabel_file
from armagnn.data.node_file import parse_node_file
from armagnn.errors import DataError
from armagnn.operators import CSR
from armagnn.tasks import NodeNet, NodeTask
from data.tiny import multilabel_arrays, node_arrays


def nodes(edges: Any, weight: Any = None) -> NodeDataset:
    arrays = {**node_arrays(), "edge_index": np.asarray(edges, dtype=np.int64).reshape(2, -1)}
    arrays |= {} if weight is None else {"edge_weight": np.asarray(weight)}
    return parse_node_file(pack_arrays(arrays), name="tiny", source="tiny.npz", features="rows")


def test_a_missing_direction_is_added_and_reported() -> None:
    data = nodes([[0, 1, 1, 4], [1, 0, 2, 4]])
    assert data.edge_index.tolist() == [[0, 1, 1, 4, 2], [1, 0, 2, 4, 1]]
    assert data.notes[1:] == ("edges: 1 were listed in one direction; the other direction was added.",)
    assert data.operator().symmetric


def test_an_edge_that_is_listed_again_counts_once() -> None:
    data = nodes([[0, 1, 0], [1, 0, 1]])
    assert data.edge_index.tolist() == [[0, 1], [1, 0]]
    assert data.notes[1:] == ("edges: 1 were listed again; each counts once.",)


def test_a_node_without_incoming_edges_keeps_its_messages() -> None:
    data = nodes([[0], [1]])  # listed from 0 to 1 only
    assert data.operator().to_dense()[0, 1] == data.operator().to_dense()[1, 0] == 1


def test_weights_are_used() -> None:
    data = nodes([[0, 1], [1, 2]], [4.0, 1.0])
    assert data.edge_weight is not None
    assert data.edge_weight.tolist() == [4.0, 1.0, 4.0, 1.0]
    assert data.notes[-1] == "edges: weights are used, 1 to 4."
    # D^-1/2 A D^-1/2 with degrees 4, 5, 1
    expected = torch.zeros(6, 6)
    expected[0, 1] = expected[1, 0] = 4 / 20**0.5
    expected[1, 2] = expected[2, 1] = 1 / 5**0.5
    torch.testing.assert_close(data.operator().to_dense(), expected)
    task = NodeTask(data, NodeNet("arma", 4, 3, hidden=2))
    assert task.parts["train"].op is not None
    torch.testing.assert_close(task.parts["train"].op.to_dense(), expected)
    assert data.to("meta").edge_weight.device.type == "meta"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0], r"edge_weight has shape \(1,\)"),
        ([1.0, -1.0], "must not be negative"),
        ([1.0, np.nan], "NaN or infinite weights"),
        ([1.0, 2.0], "differs where nodes 1 and 0 are listed again"),
    ],
)
def test_bad_weights_are_named(weight: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        nodes([[0, 1], [1, 0]], weight)


def test_only_a_change_of_the_graph_changes_the_checksum() -> None:
    """Runs of armagnn 0.1 went by the edges as they are listed: they are known by the checksum of the file alone."""

    def same(edges: Any, weight: Any = None) -> bool:
        arrays = {**node_arrays(), "edge_index": np.array(edges)}
        content = pack_arrays(arrays if weight is None else {**arrays, "edge_weight": np.array(weight)})
        data = parse_node_file(content, name="tiny", source="tiny.npz", features="kind")
        return data.sha256 == hashlib.sha256(content).hexdigest()

    assert same([[0, 1, 1, 2, 3], [1, 0, 2, 1, 3]])
    assert not same([[0, 1], [1, 2]])
    assert not same([[0, 1, 0], [1, 0, 1]])
    assert not same([[0, 1], [1, 0]], [1.0, 1.0])


EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


@given(EDGES, st.booleans())
def test_nodes_and_graphs_have_one_rule(pairs: list[tuple[int, int]], weighted: bool) -> None:
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    weight = np.array([1 + a * b for a, b in pairs], dtype=np.float32) if weighted else None
    one = nodes(edges, weight)
    arrays = {"edge_index": edges, "ptr": np.array([0, 6]), "y": np.array([0.5])}
    arrays |= {} if weight is None else {"edge_weight": weight}
    other = parse_graphs_file(pack_arrays(arrays), name="graph", source="graph.npz")
    assert torch.equal(one.edge_index, other.edge_index)
    assert (one.edge_weight is None) == (other.edge_weight is None)
    if one.edge_weight is not None and other.edge_weight is not None:
        assert torch.equal(one.edge_weight, other.edge_weight)
    assert one.notes[1:] == other.notes
    listed = {tuple(pair) for pair in one.edge_index.T.tolist()}
    assert listed == {*pairs, *((b, a) for a, b in pairs)}
    assert len(listed) == one.edge_index.shape[1]


def test_weights_of_many_graphs_follow_their_edges() -> None:
    arrays = {**multilabel_arrays(), "edge_weight": np.array([2.0, 3.0, 4.0, 5.0, 6.0])}
    data = parse_multilabel_file(pack_arrays(arrays), name="many", source="many.npz")
    part = data.part("test")  # nodes 5 and 6, an edge of weight 5 and a loop of weight 6
    assert part.edge_weight is not None
    weights = {tuple(e): w for e, w in zip(part.edge_index.T.tolist(), part.edge_weight.tolist(), strict=True)}
    assert weights == {(0, 1): 5.0, (1, 0): 5.0, (1, 1): 6.0}


def test_edges_lie_side_by_side_in_memory() -> None:
    for data in (load("cora"), nodes([[0, 1], [1, 2]]), load("cora").with_random_split(0)):
        assert data.edge_index.is_contiguous()
    many = parse_multilabel_file(pack_arrays(multilabel_arrays()), name="many", source="many.npz")
    assert many.part("train").edge_index.is_contiguous()
    assert isinstance(load("cora").x, CSR)
