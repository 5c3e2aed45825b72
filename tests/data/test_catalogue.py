"""The catalogues: armagnn's own, the user's, watched over by its checksum, and those of other packages."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.data import CATALOGUE, add, all_entries, load, load_graphs, verify
from armagnn.data.arrays import pack_arrays
from armagnn.data.catalogue import FILE, _check, folders, read_user_catalogue, user_folder
from armagnn.errors import DataError, UnknownNameError
from data.tiny import node_arrays


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
    assert sorted(read_user_catalogue(own_folder)) == names


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
    before = read_user_catalogue(own_folder)
    for position in range(len(whole)):
        for bit in (0x01, 0x10, 0x20):
            damaged = bytearray(whole)
            damaged[position] ^= bit
            (own_folder / FILE).write_bytes(damaged)
            with pytest.raises(DataError, match=r"catalogue\.json"):
                read_user_catalogue(own_folder)
    for length in range(len(whole)):
        (own_folder / FILE).write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"catalogue\.json"):
            read_user_catalogue(own_folder)
    (own_folder / FILE).write_bytes(whole)
    assert read_user_catalogue(own_folder) == before


def unsealed(folder: Path) -> bytes:
    """What armagnn 0.1 wrote: the catalogue without its checksum."""
    document = json.loads((folder / FILE).read_bytes())
    del document["sha256"]
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def test_an_old_catalogue_is_accepted_and_rewritten(papers: Path, own_folder: Path) -> None:
    add(papers)
    sealed, rows = (own_folder / FILE).read_bytes(), read_user_catalogue(own_folder)
    (own_folder / FILE).write_bytes(unsealed(own_folder))
    assert read_user_catalogue(own_folder) == rows
    assert (own_folder / FILE).read_bytes() == sealed


def test_an_old_catalogue_of_a_folder_that_cannot_be_written(
    papers: Path, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(papers)
    old, rows = unsealed(own_folder), read_user_catalogue(own_folder)
    (own_folder / FILE).write_bytes(old)

    def refuse(path: Path, content: bytes) -> None:
        raise DataError("cannot be written")

    monkeypatch.setattr("armagnn.data.catalogue.write_atomic", refuse)
    assert read_user_catalogue(own_folder) == rows
    assert (own_folder / FILE).read_bytes() == old


# --------------------------------------------------------------------------------------------------- of other packages

CONTENT = pack_arrays(node_arrays())
TOML = f"""
[theirs]
title = "Theirs"
file = "theirs.npz"
sha256 = "{hashlib.sha256(CONTENT).hexdigest()}"
embedded = true
licence = "CC0"
source = "somewhere"

[elsewhere]
file = "elsewhere.npz"
sha256 = "{"0" * 64}"
kind = "graphs"
source = "somewhere"

[elsewhere.paper]
graphs = "3"
"""
MODULE = "from pathlib import Path\nDATASETS = Path(__file__).with_name('datasets.toml')\n"
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package that offers datasets, as pip does it."""

    def installed(module: str = MODULE, toml: str = TOML) -> Path:
        site = tmp_path / "site"
        package, facts = site / "theirs_package", site / "theirs_package-1.0.dist-info"
        for folder in (package / "embedded", facts):
            folder.mkdir(parents=True)
        (package / "__init__.py").write_text(module)
        (package / "datasets.toml").write_text(toml)
        (package / "embedded" / "theirs.npz").write_bytes(CONTENT)
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs-package\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text("[armagnn.datasets]\nmine = theirs_package:DATASETS\n")
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.delitem(sys.modules, "theirs_package", raising=False)
        return package

    return installed


def test_datasets_of_another_package_are_known_by_name(install: Install, papers: Path) -> None:
    package = install()
    add(papers)
    assert list(all_entries()) == [*CATALOGUE, "papers", "theirs", "elsewhere"]
    data = load("theirs")
    assert (data.name, data.provenance, data.num_nodes, data.features) == ("theirs", "Theirs", 6, "standardise")
    assert [check.state for check in verify(["theirs", "elsewhere"])] == ["ok", "missing"]
    with pytest.raises(UnknownNameError, match="Did you mean 'theirs'"):
        load("their")
    with pytest.raises(DataError, match=r"elsewhere\.npz.*was not found in"):
        load_graphs("elsewhere")
    papers.write_bytes(pack_arrays(node_arrays() | {"y": np.array([1, 1, 2, -1, 1, 0])}))
    with pytest.raises(DataError, match="'theirs' is taken"):
        add(papers, "theirs")
    (package / "embedded" / "theirs.npz").write_bytes(CONTENT[:-1])
    with pytest.raises(DataError, match="SHA-256"):
        load("theirs")
    (package / "embedded" / "theirs.npz").unlink()
    with pytest.raises(DataError, match="Install again the package"):
        load("theirs")


def test_the_commands_know_them(install: Install, tmp_path: Path) -> None:
    install()

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    assert any(line.split()[:2] == ["theirs", "nodes"] for line in run("data", "list").splitlines())
    assert "CC0" in run("data", "info", "theirs")
    options = ["--epochs", "2", "--seeds", "1", "--hidden", "2", "--out", str(tmp_path / "run")]
    run("train", "--dataset", "theirs", *options)
    assert "theirs" in run("show", str(tmp_path / "run"))


def test_a_mapping_of_entries_will_do(install: Install) -> None:
    install(
        "from pathlib import Path\nfrom armagnn.data import Entry\n"
        f"SHA256 = {hashlib.sha256(CONTENT).hexdigest()!r}\n"
        "FOLDER = str(Path(__file__).with_name('embedded'))\n"
        "DATASETS = {'mapped': Entry('theirs.npz', SHA256, '', embedded=True, folder=FOLDER),\n"
        "            'cora': Entry('theirs.npz', SHA256, '', embedded=True, folder=FOLDER)}\n"
    )
    assert load("mapped").num_nodes == 6
    assert load("cora").num_nodes == 2708, "armagnn's own names stay its own"
    assert all_entries()["cora"] == CATALOGUE["cora"]


@pytest.mark.parametrize(
    ("module", "toml", "message"),
    [
        ("import nothing_of_this_name", TOML, "No module named"),
        ("DATASETS = 3", TOML, "not iterable"),
        ("DATASETS = {'a b': 3}", TOML, "'a b' cannot name a dataset"),
        ("DATASETS = {'ab': 3}", TOML, "ab is no Entry"),
        (MODULE, "[theirs", "is not a catalogue of datasets"),
        (MODULE, "theirs = 3", "is not a catalogue of datasets"),
        (MODULE, TOML.replace("licence", "license"), "license"),
        (MODULE, TOML.replace("graphs", "pictures"), "is not a dataset"),
        (MODULE, TOML.replace("elsewhere.npz", "../elsewhere.npz"), "is not a dataset"),
        (MODULE, TOML.replace("0" * 64, ""), "is not a dataset"),
    ],
)
def test_a_package_whose_datasets_cannot_be_read_is_named(
    module: str, toml: str, message: str, install: Install
) -> None:
    install(module, toml)
    with pytest.raises(DataError, match=rf"entry point mine = theirs_package:DATASETS.*{message}.*uninstall it"):
        load("theirs")
    assert load("cora").num_nodes == 2708  # not concerned


def test_the_catalogue_of_armagnn_is_sound() -> None:
    for name, entry in CATALOGUE.items():
        _check(name, entry)
        assert entry.source
        assert entry.title
        assert entry.embedded == Path(entry.folder, entry.file).is_file()
