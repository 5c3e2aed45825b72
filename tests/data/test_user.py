"""The user's own catalogue: what is added is checked, known by name, and watched over."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from armagnn.data import CATALOGUE, GraphsDataset, NodeDataset, add, all_entries, load, load_graphs, verify
from armagnn.data.arrays import pack_arrays
from armagnn.data.registry import FILE, read_registry
from armagnn.data.store import Place, folders, user_folder
from armagnn.data.user import read_own, remove
from armagnn.errors import ArmagnnError, DataError, UnknownNameError
from data.tiny import graphs_arrays, multilabel_arrays, node_arrays

NODES, GRAPHS, MANY = (pack_arrays(make()) for make in (node_arrays, graphs_arrays, multilabel_arrays))


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    path = tmp_path / "papers.npz"
    path.write_bytes(NODES)
    return path


def test_add_then_load_by_name(papers: Path, own_folder: Path) -> None:
    name, found = add(papers)
    assert (name, found["nodes"]) == ("papers", 6)
    papers.unlink()  # the data folder has its own copy
    data = load("papers")
    assert (data.name, data.num_nodes) == ("papers", 6)
    row = read_registry(own_folder)["papers"]
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


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": "other", "datasets": {}}', '{"format": "armagnn data catalogue 1", "datasets": 3}',
     '{"format": "armagnn data catalogue 1", "datasets": {"a": {"file": "x"}}}'],
)  # fmt: skip
def test_a_damaged_catalogue_is_named(text: str, papers: Path, own_folder: Path) -> None:
    own_folder.mkdir()
    (own_folder / FILE).write_text(text)
    with pytest.raises(DataError, match=r"catalogue\.json"):
        load("papers")
    assert load("cora").num_nodes == 2708  # embedded: not concerned


def test_a_catalogue_cannot_point_outside_its_folder(papers: Path, own_folder: Path) -> None:
    add(papers)
    document = json.loads((own_folder / FILE).read_text())
    document["datasets"]["papers"]["file"] = "../papers.npz"
    del document["sha256"]
    (own_folder / FILE).write_text(json.dumps(document))
    with pytest.raises(DataError, match="not a catalogue"):
        load("papers")


def test_many_at_once(papers: Path, own_folder: Path) -> None:
    names = [f"set{i}" for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: add(papers, name), names))
    assert sorted(read_registry(own_folder)) == names


def test_a_folder_that_cannot_be_written(papers: Path, own_folder: Path) -> None:
    own_folder.write_text("a file, not a folder")
    with pytest.raises(DataError, match="cannot be written"):
        add(papers)


def test_where_files_are_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("ARMAGNN_DATA", raising=False)
    assert folders() == [tmp_path / "armagnn", Path("../shared/data")]
    monkeypatch.setenv("ARMAGNN_DATA", str(tmp_path / "mine"))
    assert user_folder() == tmp_path / "mine"
    assert folders() == [tmp_path / "mine", tmp_path / "armagnn", Path("../shared/data")]


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


def test_a_flipped_byte_of_the_catalogue_is_seen(papers: Path, own_folder: Path) -> None:
    add(papers)
    whole = (own_folder / FILE).read_bytes()
    before = read_registry(own_folder)
    for position in range(len(whole)):
        for bit in (0x01, 0x10, 0x20):
            damaged = bytearray(whole)
            damaged[position] ^= bit
            (own_folder / FILE).write_bytes(damaged)
            with pytest.raises(DataError, match=r"catalogue\.json"):
                read_registry(own_folder)
    for length in range(len(whole)):
        (own_folder / FILE).write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"catalogue\.json"):
            read_registry(own_folder)
    (own_folder / FILE).write_bytes(whole)
    assert read_registry(own_folder) == before


def unsealed(folder: Path) -> bytes:
    """What armagnn 0.1 wrote: the catalogue without its checksum."""
    document = json.loads((folder / FILE).read_bytes())
    del document["sha256"]
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def test_an_old_catalogue_is_accepted_and_rewritten(papers: Path, own_folder: Path) -> None:
    add(papers)
    sealed, rows = (own_folder / FILE).read_bytes(), read_registry(own_folder)
    (own_folder / FILE).write_bytes(unsealed(own_folder))
    assert read_registry(own_folder) == rows
    assert (own_folder / FILE).read_bytes() == sealed


def test_an_old_catalogue_of_a_folder_that_cannot_be_written(
    papers: Path, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(papers)
    old, rows = unsealed(own_folder), read_registry(own_folder)
    (own_folder / FILE).write_bytes(old)

    def refuse(path: Path, content: bytes) -> None:
        raise DataError("cannot be written")

    monkeypatch.setattr("armagnn.data.registry.write_atomic", refuse)
    assert read_registry(own_folder) == rows
    assert (own_folder / FILE).read_bytes() == old


def test_remove(papers: Path, own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(papers)
    add(papers, "others")
    assert remove("papers") == str(own_folder / "papers.npz")
    assert list(read_registry(own_folder)) == ["others"]
    assert sorted(file.name for file in own_folder.glob("*.npz")) == ["others.npz"]
    assert papers.exists()
    for name, message in (("papers", "others"), ("cora", "known to armagnn itself"), (None, "cannot name a dataset")):
        with pytest.raises(ArmagnnError, match=message):
            remove(name)  # type: ignore[arg-type]
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    own_folder.rename(tmp_path / "armagnn")
    with pytest.raises(DataError, match="set ARMAGNN_DATA to it"):
        remove("others")


def test_read_own_finds_the_kind(tmp_path: Path) -> None:
    for content, kind in ((NODES, NodeDataset), (GRAPHS, GraphsDataset), (MANY, NodeDataset)):
        (tmp_path / "some.npz").write_bytes(content)
        assert isinstance(read_own(tmp_path / "some.npz"), kind)
