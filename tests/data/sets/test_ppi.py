"""Many graphs with many labels a node: values, masks, parts, and everything that may be wrong with the file."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn.data import NodeDataset, fetch, load
from armagnn.data.arrays import Arrays, pack_arrays
from armagnn.data.edges import both_ways
from armagnn.data.sets.ppi import convert_ppi, parse_multilabel_file
from armagnn.errors import DataError, GraphError, ParameterError, UnknownNameError
from data.tiny import FEATURES, LABELS, multilabel_arrays

TINY = pack_arrays(multilabel_arrays())


def parse(content: bytes) -> NodeDataset:
    return parse_multilabel_file(content, name="tiny", source="tiny.npz")


def test_values() -> None:
    data = parse(TINY)
    assert data.multilabel
    assert (data.num_graphs, data.num_nodes, data.num_features, data.num_classes) == (3, 7, 3, 2)
    assert data.y.dtype == data.x.dtype == torch.float32
    assert torch.equal(data.y, torch.from_numpy(LABELS).float())
    assert data.graph is not None
    assert data.graph.tolist() == [0, 0, 1, 0, 1, 2, 2]
    assert [data.idx(part).tolist() for part in ("train", "val", "test")] == [[0, 1], [2, 4], [5, 6]]
    edges = {(0, 1), (1, 0), (1, 3), (3, 1), (2, 4), (4, 2), (5, 6), (6, 5), (6, 6)}
    assert {tuple(edge) for edge in data.edge_index.T.tolist()} == edges
    assert data.edge_index.shape == (2, 9)
    assert data.provenance == "tiny (rebuilt: 85.71 % of node labels)"


def test_features_have_the_statistics_of_the_training_graphs() -> None:
    x = parse(TINY).x
    train = FEATURES[[0, 1, 3]].astype(np.float64)  # node 3 is in a training graph, though its labels are unknown
    expected = (FEATURES - train.mean(0)) / np.maximum(train.std(0), 0.01)
    assert train.std(0)[2] == 0.0  # a constant feature stays finite
    torch.testing.assert_close(x, torch.from_numpy(expected).float())


def test_parts_are_the_graphs_of_a_split() -> None:
    data = parse(TINY)
    train = data.part("train")
    assert (train.num_nodes, train.num_graphs) == (3, 1)
    assert isinstance(train.x, torch.Tensor)
    assert isinstance(data.x, torch.Tensor)
    assert torch.equal(train.x, data.x[[0, 1, 3]])
    assert train.train_idx.tolist() == [0, 1]
    assert train.val_idx.tolist() == train.test_idx.tolist() == []
    assert {tuple(edge) for edge in train.edge_index.T.tolist()} == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert len({data.sha256, train.sha256, data.part("val").sha256}) == 3
    assert data.part("train").sha256 == train.sha256


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_a_part_gives_what_the_whole_gives(split: str) -> None:
    data = parse(TINY)
    part = data.part(split)
    whole = (data.operator() @ data.x)[data.idx(split)]
    torch.testing.assert_close((part.operator() @ part.x)[part.idx(split)], whole)
    assert torch.equal(part.y[part.idx(split)], data.y[data.idx(split)])


def test_what_has_no_parts() -> None:
    with pytest.raises(GraphError, match="one graph"):
        load("cora").part("train")
    with pytest.raises(UnknownNameError, match="Did you mean 'train'"):
        parse(TINY).part("trian")
    with pytest.raises(ParameterError, match="many labels"):
        parse(TINY).with_random_split(0)


def test_to_moves_the_graph_ids_too() -> None:
    moved = parse(TINY).to("meta")
    assert moved.graph is not None
    assert {t.device.type for t in (moved.x, moved.graph, moved.y)} == {"meta"}


Change = Callable[[Arrays], object]


def put(name: str, position: object, value: object) -> Change:
    return lambda arrays: arrays[name].__setitem__(position, value)


def swap(name: str, value: object) -> Change:
    return lambda arrays: arrays.__setitem__(name, np.asarray(value))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("edge_index", (0, 0), 7), "edge_index holds"),
        (put("edge_index", (0, 0), 2), "different graphs, 1 times"),
        (put("split", 0, 1), "split divides a graph"),
        (put("split", 0, 3), "split holds"),
        (swap("split", [0]), "split has shape"),
        (put("label_known", 0, False), "label_known is false"),
        (swap("label_known", np.ones(7, np.int8)), "7 bools"),
        (swap("label_known", np.ones(3, bool)), "7 bools"),
        (swap("n_features", 9), "features_packed"),
        (swap("n_features", 0), "features_packed"),
        (swap("n_labels", [2]), "n_labels is int64"),
        (swap("features_packed", np.zeros((7, 2), np.uint8)), "features_packed"),
        (swap("labels_packed", np.zeros((7, 1), np.int64)), "labels_packed"),
        (swap("graph_id", np.zeros(0, np.int64)), "graph_id is empty"),
        (swap("graph_id", np.zeros(7)), "graph_id is float64"),
        (lambda arrays: arrays.pop("label_known"), "lacks the arrays label_known"),
    ],
)
def test_what_is_wrong_is_named(change: Change, message: str) -> None:
    arrays = multilabel_arrays()
    change(arrays)
    with pytest.raises(DataError, match=message) as caught:
        parse(pack_arrays(arrays))
    assert str(caught.value).startswith("tiny.npz: ")


def test_a_split_needs_known_labels() -> None:
    arrays = multilabel_arrays()
    arrays["label_known"][[5, 6]] = False
    arrays["labels_packed"][[5, 6]] = 0
    with pytest.raises(DataError, match=r"split 2 \(test\) has no node"):
        parse(pack_arrays(arrays))


@settings(max_examples=200)
@given(position=st.integers(0, len(TINY) - 1), flip=st.integers(1, 255))
def test_damage_never_changes_the_data(position: int, flip: int) -> None:
    damaged = bytearray(TINY)
    damaged[position] ^= flip
    try:
        data, good = parse(bytes(damaged)), parse(TINY)
    except DataError:
        return
    assert isinstance(data.x, torch.Tensor)
    assert isinstance(good.x, torch.Tensor)
    for name in ("x", "y", "edge_index", "graph", "train_idx", "val_idx", "test_idx"):
        assert torch.equal(getattr(data, name), getattr(good, name))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30))
def test_both_ways(edges: list[tuple[int, int]]) -> None:
    found = both_ways(np.array(edges, dtype=np.int64).reshape(-1, 2).T, 6)
    assert [tuple(edge) for edge in found.T.tolist()] == sorted({*edges, *((v, u) for u, v in edges)})


def test_ppi(real: Callable[[str], str]) -> None:
    data = load(real("ppi"))
    assert repr(data) == (
        "NodeDataset('ppi', graphs=24, nodes=56944, edges=1612348, features=50, classes=121, split=44292/6446/5497)"
    )
    assert data.provenance == "PPI (rebuilt: 98.75 % of node labels)"
    zeros = 1.0 - data.y[data.test_idx].mean().item()
    assert zeros == pytest.approx(0.6999, abs=2e-4)  # the paper's GraphSAGE: element-wise accuracy of all zeros
    assert isinstance(data.x, torch.Tensor)
    assert bool(data.x.isfinite().all())
    parts = [data.part(split) for split in ("train", "val", "test")]
    assert [part.num_nodes for part in parts] == [44906, 6514, 5524]
    assert [part.num_graphs for part in parts] == [20, 2, 2]
    assert sum(part.edge_index.shape[1] for part in parts) == 1612348
    torch.testing.assert_close(parts[0].x.mean(0), torch.zeros(50), atol=1e-4, rtol=0)
    assert torch.equal(parts[2].y[parts[2].test_idx], data.y[data.test_idx])


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def ppi_zip(change: float = 0.0) -> bytes:
    order = [0, 1, 3, 2, 4, 5, 6]  # by graph
    feats = (FEATURES[order] - 0.3) / 0.2
    feats[0, 0] += change
    splits = {"train": (0, 3, [[0, 1], [1, 2]]), "valid": (3, 5, [[0, 1], [1, 0]]), "test": (5, 7, [[0, 1], [1, 1]])}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number, (split, (low, high, links)) in enumerate(splits.items(), 1):
            graph = {"links": [{"source": u, "target": v} for u, v in links]}
            archive.writestr(f"{split}_graph.json", json.dumps(graph))
            archive.writestr(f"{split}_feats.npy", npy(feats[low:high]))
            archive.writestr(f"{split}_labels.npy", npy(LABELS[order][low:high].astype(float)))
            archive.writestr(f"{split}_graph_id.npy", npy(np.full(high - low, number)))
    return file.getvalue()


def test_ppi_of_dgl(own_folder: Path) -> None:
    arrays = convert_ppi(ppi_zip())
    assert arrays["edge_index"].tolist() == [[0, 1, 3, 5, 6], [1, 2, 4, 6, 6]]  # each once, self-loops kept
    order = [0, 1, 3, 2, 4, 5, 6]
    assert np.array_equal(np.unpackbits(arrays["features_packed"], axis=1, count=3), FEATURES[order])
    assert np.array_equal(np.unpackbits(arrays["labels_packed"], axis=1, count=2), LABELS[order])
    fetch("ppi", get=lambda url: ppi_zip())
    data = load("ppi")
    assert (data.num_graphs, data.provenance) == (3, "PPI")  # all labels are known: nothing was rebuilt
    with pytest.raises(DataError, match="more than two values"):
        convert_ppi(ppi_zip(change=0.5))
    with pytest.raises(DataError, match="not DGL's release"):
        convert_ppi(b"no zip")
