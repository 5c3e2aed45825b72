"""The user's own catalogue: what is added is checked, known by name, and watched over. Originals become our files: the
arrays are the same, and without a network one sentence says what to do."""

from __future__ import annotations

import pickle
import types
import urllib.error
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armagnn.data import CATALOGUE, add, all_entries, data_folder, fetch, load, load_graphs, verify
from armagnn.data.arrays import pack_arrays
from armagnn.data.catalogue import read_user_catalogue
from armagnn.data.data_folder import remove
from armagnn.data.sets.mnist import convert_mnist
from armagnn.errors import ArmagnnError, DataError, UnknownNameError
from data.originals import planetoid, synthetic
from data.tiny import graphs_arrays, multilabel_arrays, node_arrays

NODES, GRAPHS, MANY = (pack_arrays(make()) for make in (node_arrays, graphs_arrays, multilabel_arrays))


def test_add_then_load_by_name(papers: Path, own_folder: Path) -> None:
    name, found = add(papers)
    assert (name, found["nodes"]) == ("papers", 6)
    papers.unlink()  # the data folder has its own copy
    data = load("papers")
    assert (data.name, data.num_nodes) == ("papers", 6)
    row = read_user_catalogue(own_folder)["papers"]
    assert row.sha256 == load("papers", features="rows").sha256 != data.sha256  # standardised, it is another dataset
    assert row.statistics["components"] == 3
    assert "papers" in all_entries()
    with pytest.raises(UnknownNameError, match="Did you mean 'papers'"):
        load("paperz")


@pytest.mark.parametrize(("content", "kind"), [(NODES, "nodes"), (GRAPHS, "graphs"), (MANY, "multilabel")])
def test_every_kind_and_a_flipped_byte(content: bytes, kind: str, tmp_path: Path, own_folder: Path) -> None:
    path = tmp_path / "some.npz"
    path.write_bytes(content)
    add(path, "mine")
    assert all_entries()["mine"].kind == kind
    read = load_graphs if kind == "graphs" else load
    read("mine")
    copy = own_folder / "mine.npz"
    for position in range(0, len(content), 97):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        copy.write_bytes(damaged)
        with pytest.raises(DataError, match="SHA-256"):
            read("mine")
    assert [check.state for check in verify(["mine"])] == ["corrupt"]
    copy.unlink()
    assert [check.state for check in verify(["mine"])] == ["missing"]
    with pytest.raises(DataError, match="not found"):
        read("mine")


def test_the_same_bytes_again_are_fine_others_are_not(papers: Path, own_folder: Path) -> None:
    add(papers)
    add(papers)
    arrays = node_arrays()
    arrays["y"][0] = 1
    papers.write_bytes(pack_arrays(arrays))
    with pytest.raises(DataError, match="'papers' is taken"):
        add(papers)
    with pytest.raises(DataError, match="'cora' is taken"):
        add(papers, "cora")
    assert load("papers").y[0] == 0


def test_a_file_that_lies_there_is_not_overwritten(papers: Path, own_folder: Path) -> None:
    own_folder.mkdir()
    (own_folder / "papers.npz").write_bytes(b"mine")
    with pytest.raises(DataError, match="another file of this name"):
        add(papers)
    assert (own_folder / "papers.npz").read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "x.npz", "a" * 101, "-x"])
def test_names_that_cannot_be(name: str, papers: Path, own_folder: Path) -> None:
    with pytest.raises(DataError, match="cannot name a dataset"):
        add(papers, name)
    assert not own_folder.exists()


def test_a_bad_file_is_not_added(papers: Path, own_folder: Path) -> None:
    arrays = node_arrays()
    arrays["x_data"][0] = np.nan
    papers.write_bytes(pack_arrays(arrays))
    with pytest.raises(DataError, match="NaN"):
        add(papers)
    papers.write_bytes(b"hello")
    with pytest.raises(DataError, match=r"not an \.npz file"):
        add(papers)
    with pytest.raises(DataError, match="No such file"):
        add(papers.with_name("none.npz"))
    assert not own_folder.exists()


def test_a_folder_that_cannot_be_written(papers: Path, own_folder: Path) -> None:
    own_folder.write_text("a file, not a folder")
    with pytest.raises(DataError, match="cannot be written"):
        add(papers)


def test_remove(papers: Path, own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(papers)
    add(papers, "others")
    assert remove("papers") == str(own_folder / "papers.npz")
    assert list(read_user_catalogue(own_folder)) == ["others"]
    assert sorted(file.name for file in own_folder.glob("*.npz")) == ["others.npz"]
    assert papers.exists()
    for name, message in (("papers", "others"), ("cora", "known to armagnn itself"), (None, "cannot name a dataset")):
        with pytest.raises(ArmagnnError, match=message):
            remove(name)  # type: ignore[arg-type]
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    own_folder.rename(tmp_path / "armagnn")
    with pytest.raises(DataError, match="set ARMAGNN_DATA to it"):
        remove("others")


# ----------------------------------------------------------------------------------------------------------- data fetch


def test_fetch_converts_registers_and_leaves_alone(own_folder: Path) -> None:
    files = planetoid("citeseer", synthetic())
    asked = []

    def get(url: str) -> bytes:
        asked.append(url)
        return files[url.rpartition("/")[2]]

    path = own_folder / "citeseer.npz"
    assert fetch("citeseer", get=get) == str(path)
    assert len(asked) == 8
    assert all(url.startswith("https://") for url in asked)
    data = load("citeseer")  # these are not the catalogue's bytes: the checksum registered beside them holds
    assert (data.num_nodes, data.name, data.provenance) == (610, "citeseer", "Citeseer")
    assert fetch("citeseer", get=get) == str(path)
    assert len(asked) == 8
    damaged = bytearray(path.read_bytes())
    damaged[100] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(DataError, match="SHA-256"):
        load("citeseer")
    assert [check.state for check in verify(["citeseer"])] == ["corrupt"]
    fetch("citeseer", get=get)  # what is corrupt is replaced
    assert load("citeseer").num_nodes == 610
    assert sorted(file.name for file in own_folder.iterdir() if file.suffix != ".lock") == [
        "catalogue.json", "citeseer.npz"
    ]  # fmt: skip


def test_a_hostile_original_leaves_nothing(own_folder: Path) -> None:
    with pytest.raises(DataError, match="refused"):
        fetch("pubmed", get=lambda url: pickle.dumps(print))
    assert not own_folder.exists()


def test_images_and_documents_by_scikit_learn(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch_openml(*_: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        assert options["parser"] == "liac-arff"
        return np.full((60002, 784), 7.0), np.array(["3"] * 60002, dtype=object)

    def fetch_20newsgroups(data_home: str, subset: str, **_: Any) -> types.SimpleNamespace:
        return types.SimpleNamespace(
            data=[f"From: a\n{subset} é"], target=[0], filenames=[f"{data_home}/a/17"], target_names=["alt.atheism"]
        )

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    monkeypatch.setattr("sklearn.datasets.fetch_20newsgroups", fetch_20newsgroups)
    arrays = convert_mnist()
    assert arrays["x_train"].shape == (60000, 28, 28)
    assert arrays["y_test"].tolist() == [3, 3]
    assert arrays["x_train"].dtype == np.uint8
    fetch("20news")
    assert {check.state for check in verify(["20news"])} == {"ok"}


def test_without_a_network_one_sentence_says_where_the_file_goes(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr("urllib.request.urlopen", no_network)
    for name in ("citeseer", "ppi", "dd"):
        with pytest.raises(DataError, match=r"was not fetched: https://.*no network.*Put .* into") as caught:
            fetch(name)
        assert str(own_folder) in str(caught.value)
        assert CATALOGUE[name].file in str(caught.value)
    for function in ("fetch_openml", "fetch_20newsgroups"):
        monkeypatch.setattr(f"sklearn.datasets.{function}", no_network)
    for name in ("mnist", "20news"):
        with pytest.raises(DataError, match=r"was not fetched: .*no network.*Put .* into"):
            fetch(name)
    with pytest.raises(DataError, match="converted safely"):
        fetch("bench-hard")


def test_only_https() -> None:
    with pytest.raises(DataError, match="only https"):
        data_folder.download("file:///etc/passwd")
