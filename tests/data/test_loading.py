"""Datasets by name: the embedded one, those in a folder, and the names that do not exist."""

from __future__ import annotations

import importlib.resources
import os
import shutil
from pathlib import Path

import pytest
import torch

from armagnn.data import (
    CATALOGUE,
    GraphsDataset,
    NodeDataset,
    load,
    load_graphs,
    load_signals,
    verify,
)
from armagnn.data.arrays import pack_arrays
from armagnn.data.loading import Place, read_own
from armagnn.errors import DataError, UnknownNameError
from data.tiny import graphs_arrays, multilabel_arrays, node_arrays

EMBEDDED = importlib.resources.files("armagnn.data").joinpath("embedded", "cora.npz")
NODES, GRAPHS, MANY = (pack_arrays(make()) for make in (node_arrays, graphs_arrays, multilabel_arrays))


CHECKOUT = Path(__file__).resolve().parents[2]


def real_data(name: str) -> Path:
    """The folder with the file of a dataset that the package does not carry."""
    for folder in (os.environ.get("ARMAGNN_DATA"), CHECKOUT.parent / "shared" / "data"):
        if folder and (Path(folder) / CATALOGUE[name].file).is_file():
            return Path(folder)
    pytest.skip(f"{CATALOGUE[name].file} is not here: set ARMAGNN_DATA to the folder that holds it")


def test_cora_is_the_graph_of_the_paper(cora: NodeDataset) -> None:
    assert (cora.num_nodes, cora.num_features, cora.num_classes) == (2708, 1433, 7)
    assert cora.edge_index.shape == (2, 10556)
    assert (len(cora.train_idx), len(cora.val_idx), len(cora.test_idx)) == (140, 500, 1000)
    assert torch.bincount(cora.y[cora.train_idx]).tolist() == [20] * 7  # 20 labels a class
    assert cora.x.nnz == 49216
    assert cora.name == "cora"
    assert cora.sha256 == CATALOGUE["cora"].sha256


def test_the_rows_of_cora_sum_to_one(cora: NodeDataset) -> None:
    sums = cora.x @ torch.ones(cora.num_features, 1)
    torch.testing.assert_close(sums, torch.ones(cora.num_nodes, 1))


def test_edges_of_cora_go_both_ways(cora: NodeDataset) -> None:
    edges = {tuple(edge) for edge in cora.edge_index.T.tolist()}
    assert len(edges) == 10556
    assert all((v, u) in edges for u, v in edges)


def test_the_embedded_file_is_small() -> None:
    assert len(EMBEDDED.read_bytes()) < 150_000


@pytest.mark.parametrize(
    ("name", "nodes", "features", "classes", "edges", "unlabelled"),
    [("citeseer", 3327, 3703, 6, 9228, 15), ("pubmed", 19717, 500, 3, 88651, 0)],
)
def test_the_other_citation_graphs(
    name: str, nodes: int, features: int, classes: int, edges: int, unlabelled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMAGNN_DATA", str(real_data(name)))
    data = load(name)
    assert (data.num_nodes, data.num_features, data.num_classes) == (nodes, features, classes)
    assert data.edge_index.shape[1] == edges
    assert int((data.y < 0).sum()) == unlabelled
    sums = (data.x @ torch.ones(features, 1)).squeeze()
    assert int((sums == 0).sum()) == unlabelled  # the nodes without a label have no words either
    torch.testing.assert_close(sums[sums > 0], torch.ones(nodes - unlabelled))


def test_the_shared_folder_is_found_from_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = real_data("citeseer")
    shared, checkout = tmp_path / "shared" / "data", tmp_path / "checkout"
    shared.mkdir(parents=True)
    checkout.mkdir()
    shutil.copy(source / "citeseer.npz", shared)
    monkeypatch.delenv("ARMAGNN_DATA", raising=False)
    monkeypatch.chdir(checkout)
    assert load("citeseer").num_nodes == 3327


def test_a_missing_file_says_where_it_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMAGNN_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"citeseer\.npz.*not found in.*ARMAGNN_DATA") as caught:
        load("citeseer")
    assert str(tmp_path) in str(caught.value)


def test_another_file_under_a_known_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "citeseer.npz").write_bytes(EMBEDDED.read_bytes())
    monkeypatch.setenv("ARMAGNN_DATA", str(tmp_path))
    with pytest.raises(DataError, match="SHA-256"):
        load("citeseer")


@pytest.mark.parametrize(("wrong", "near"), [("coar", "cora"), ("Citeseer", "citeseer"), ("pubmd", "pubmed")])
def test_an_unknown_name_gets_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(UnknownNameError, match=f"Did you mean '{near}'"):
        load(wrong)


def test_a_name_like_nothing_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"citeseer, cora, .*pubmed"):
        load("zzz")


def test_the_wrong_loader_names_the_right_one() -> None:
    with pytest.raises(DataError, match="load reads it"):
        load_signals("cora")
    with pytest.raises(DataError, match="load_signals reads it"):
        load_graphs("mnist")


def test_read_own_finds_the_kind(tmp_path: Path) -> None:
    for content, kind in ((NODES, NodeDataset), (GRAPHS, GraphsDataset), (MANY, NodeDataset)):
        (tmp_path / "some.npz").write_bytes(content)
        assert isinstance(read_own(tmp_path / "some.npz"), kind)


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if entry.embedded])
def test_a_flipped_byte_of_an_embedded_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = Place.raw
    monkeypatch.setattr(Place, "raw", lambda self: raw(self)[:-1] + bytes([raw(self)[-1] ^ 1]))
    assert [check.state for check in verify([name])] == ["corrupt"]
    with pytest.raises(DataError, match="SHA-256"):
        (load if name == "cora" else load_graphs)(name)


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if not entry.embedded])
def test_every_kind_of_file_must_be_the_catalogues(name: str, own_folder: Path) -> None:
    own_folder.mkdir()
    assert {check.state for check in verify([name])} == {"missing"}
    for file in CATALOGUE[name].files:
        (own_folder / file).write_bytes(b"damaged")
    assert {check.state for check in verify([name])} == {"corrupt"}
