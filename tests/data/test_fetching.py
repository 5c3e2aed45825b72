"""Originals become our files: the arrays are the same, and without a network one sentence says what to do."""

from __future__ import annotations

import pickle
import types
import urllib.error
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armagnn.data import CATALOGUE, fetch, fetching, load, verify
from armagnn.data.sets.mnist import convert_mnist
from armagnn.errors import DataError
from data.originals import planetoid, synthetic


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
        fetching.download("file:///etc/passwd")
