"""The catalogues: armagnn's own, the user's, watched over by its checksum, and those of other packages."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from armagnn.data import add, load
from armagnn.data.catalogue import FILE, folders, read_registry, user_folder
from armagnn.errors import DataError


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


def test_where_files_are_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("ARMAGNN_DATA", raising=False)
    assert folders() == [tmp_path / "armagnn", Path("../shared/data")]
    monkeypatch.setenv("ARMAGNN_DATA", str(tmp_path / "mine"))
    assert user_folder() == tmp_path / "mine"
    assert folders() == [tmp_path / "mine", tmp_path / "armagnn", Path("../shared/data")]


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

    monkeypatch.setattr("armagnn.data.catalogue.write_atomic", refuse)
    assert read_registry(own_folder) == rows
    assert (own_folder / FILE).read_bytes() == old
