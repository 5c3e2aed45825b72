"""Datasets from PyTorch Geometric and networkx."""

from __future__ import annotations

import networkx
import pytest
import torch
from torch_geometric.data import Data

from armagnn.data import GraphsDataset, NodeDataset, load
from armagnn.errors import DataError, DTypeError


def ring(count: int = 12, **more: torch.Tensor) -> Data:
    nodes = torch.arange(count)
    edge_index = torch.stack([nodes, (nodes + 1) % count])
    given = {"x": torch.randn(count, 3, generator=torch.Generator().manual_seed(0)), "y": nodes % 2}
    return Data(edge_index=edge_index, **{**given, **more})


def test_cora_by_way_of_pyg_is_cora() -> None:
    cora = load("cora")
    masks = {f"{part}_mask": torch.zeros(2708, dtype=torch.bool) for part in ("train", "val", "test")}
    for part in ("train", "val", "test"):
        masks[f"{part}_mask"][cora.idx(part)] = True
    data = NodeDataset.from_pyg(Data(x=cora.x.to_dense(), edge_index=cora.edge_index, y=cora.y, **masks))
    assert torch.equal(data.x, cora.x.to_dense())
    assert torch.equal(data.y, cora.y)
    assert torch.equal(data.operator().to_dense(), cora.operator().to_dense())
    for part in ("train", "val", "test"):
        assert torch.equal(data.idx(part), cora.idx(part).sort().values)


def test_directions_are_added_or_kept() -> None:
    assert NodeDataset.from_pyg(ring()).edge_index.shape == (2, 24)
    assert NodeDataset.from_pyg(ring(), directed=True).edge_index.shape == (2, 12)


def test_the_target_is_recognised() -> None:
    assert NodeDataset.from_pyg(ring(y=torch.rand(12))).regression
    assert NodeDataset.from_pyg(ring(y=torch.eye(3).repeat(4, 1))).multilabel
    seven = NodeDataset.from_pyg(ring(y=torch.tensor([7, 9, -1] * 4)))
    assert seven.class_names == ("7", "9")
    assert seven.y.tolist() == [0, 1, -1] * 4


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"edge_index": torch.tensor([[0], [99]])}, "edge_index holds 0 .. 99"),
        ({"y": torch.zeros(12, dtype=torch.long)}, "1 classes"),
        ({"y": torch.rand(12, 2)}, "labels of 0 and 1"),
        ({"edge_weight": -torch.ones(12)}, "not negative"),
    ],
    ids=["ends", "constant", "numbers", "weights"],
)
def test_what_is_wrong_is_named(change: dict[str, torch.Tensor], said: str) -> None:
    data = ring()
    for name, value in change.items():
        data[name] = value
    with pytest.raises(DataError, match=said):
        NodeDataset.from_pyg(data)


def test_other_things_are_refused() -> None:
    with pytest.raises(DTypeError):
        NodeDataset.from_pyg(3)
    with pytest.raises(DTypeError):
        GraphsDataset.from_pyg([])
    with pytest.raises(DTypeError):
        NodeDataset.from_networkx("graph")


def test_networkx_keeps_ids_and_attributes() -> None:
    club = networkx.karate_club_graph()
    data = NodeDataset.from_networkx(club, "club")
    assert data.class_names == ("Mr. Hi", "Officer")
    assert data.ids is not None
    assert list(data.ids) == list(range(34))
    found = {(a, b) for a, b in data.edge_index.T.tolist() if a < b}
    assert found == {(min(pair), max(pair)) for pair in club.edges}
    assert data.edge_weight is not None


def test_a_list_of_pyg_graphs_is_a_set() -> None:
    items = [ring(n, y=torch.tensor([n % 2 + 3])) for n in range(3, 9)]
    data = GraphsDataset.from_pyg(items)
    assert data.ptr.diff().tolist() == list(range(3, 9))
    assert data.y.tolist() == [1, 0, 1, 0, 1, 0]
    assert data.class_values == (3, 4)
    assert data.node_attr is not None
    assert torch.equal(data.node_attr[:3], items[0].x)
    assert GraphsDataset.from_pyg([ring(n, y=torch.rand(1, 2)) for n in range(3, 9)]).y.shape == (6, 2)
