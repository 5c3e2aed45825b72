"""Originals become our files: the arrays are the same, and without a network one sentence says what to do."""

from __future__ import annotations

import io
import json
import pickle
import types
import urllib.error
import zipfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from armagnn.data import CATALOGUE, fetch, fetching, load, load_graphs, originals, verify
from armagnn.data.arrays import Arrays, pack_arrays, read_arrays
from armagnn.data.node_file import ARRAYS
from armagnn.data.originals import convert_ppi, convert_tu
from armagnn.data.planetoid import convert_planetoid
from armagnn.data.store import locate
from armagnn.errors import DataError
from data.tiny import FEATURES, LABELS, graphs_arrays


def planetoid(name: str, arrays: Arrays, seed: int = 0) -> dict[str, bytes]:
    """Write our arrays as the eight files of Planetoid: the inverse of what is tested."""
    nodes, features = (int(size) for size in arrays["x_shape"])
    indices = arrays["x_indices"].astype(np.int32)
    x = sp.csr_matrix((arrays["x_data"], indices, arrays["x_indptr"]), shape=(nodes, features))
    y = np.zeros((nodes, int(arrays["y"].max()) + 1), dtype=np.int32)
    labelled = arrays["y"] >= 0
    y[labelled, arrays["y"][labelled]] = 1
    known = int(arrays["test_idx"].min())
    test = np.random.default_rng(seed).permutation(arrays["test_idx"])
    graph: dict[int, list[int]] = defaultdict(list)
    for u, v in arrays["edge_index"].T.tolist():
        if u <= v:  # the release lists an edge at both ends or at one
            graph[v].append(u)
    train = len(arrays["train_idx"])
    parts = {"x": x[:train], "tx": x[test], "allx": x[:known], "y": y[:train], "ty": y[test], "ally": y[:known]}
    files = {f"ind.{name}.{part}": pickle.dumps(value, 2) for part, value in parts.items()}
    files[f"ind.{name}.graph"] = pickle.dumps(graph, 2)
    files[f"ind.{name}.test.index"] = "".join(f"{node}\n" for node in test).encode()
    return files


def synthetic() -> Arrays:
    """600 training and validation nodes, then tests of which node 606 is missing, as in Citeseer."""
    rng = np.random.default_rng(0)
    x = sp.random(610, 9, density=0.4, format="lil", dtype=np.float32, random_state=1)
    x[606] = 0
    x = x.tocsr()
    edges = rng.integers(0, 606, (2, 900))
    edges = np.unique(np.hstack([edges, edges[::-1]]), axis=1)
    y = rng.integers(0, 3, 610).astype(np.int8)
    y[606] = -1
    return {
        "x_indptr": x.indptr.astype(np.int32),
        "x_indices": x.indices.astype(np.int16),
        "x_data": x.data,
        "x_shape": np.array([610, 9], dtype=np.int32),
        "edge_index": edges.astype(np.int32),
        "y": y,
        "train_idx": np.arange(60, dtype=np.int32),
        "val_idx": np.arange(60, 560, dtype=np.int32),
        "test_idx": np.array([601, 602, 603, 604, 605, 607, 608, 609], dtype=np.int32),
    }


def assert_same(found: Arrays, expected: Arrays) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        assert np.array_equal(found[name], array), name


def test_planetoid_gives_our_arrays_also_where_test_nodes_are_missing() -> None:
    assert_same(convert_planetoid("toy", planetoid("toy", synthetic()).__getitem__), synthetic())


def test_planetoid_gives_the_embedded_cora_back() -> None:
    content = locate(CATALOGUE["cora"], "cora").content()
    arrays = read_arrays(content, ARRAYS, "cora.npz")
    converted = convert_planetoid("cora", planetoid("cora", arrays).__getitem__)
    assert_same(converted, arrays)


def test_planetoid_gives_citeseer_back(real: Callable[[str], str]) -> None:
    arrays = read_arrays(locate(CATALOGUE["citeseer"], real("citeseer")).content(), ARRAYS, "citeseer.npz")
    assert_same(convert_planetoid("citeseer", planetoid("citeseer", arrays).__getitem__), arrays)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("test.index", b""),
        ("test.index", b"601\n601\n"),
        ("test.index", b"-1\n"),
        ("test.index", b"601\nhello\n"),
        ("test.index", b"5\n601\n602\n603\n604\n605\n607\n608\n"),
        ("test.index", b"601\n602\n603\n604\n605\n607\n608\n99999999999\n"),
        ("graph", pickle.dumps({0: [610]})),
        ("graph", pickle.dumps(np.arange(3), 2)),
        ("tx", pickle.dumps(sp.csr_matrix((8, 7)), 2)),
        ("y", pickle.dumps(np.zeros((60, 3)), 2)),
        ("ally", pickle.dumps(np.zeros(4), 2)),
        ("allx", pickle.dumps(print)),
    ],
)
def test_files_that_do_not_fit(file: str, content: bytes) -> None:
    files = planetoid("toy", synthetic())
    files[f"ind.toy.{file}"] = content
    with pytest.raises(DataError, match=r"ind\.toy\."):
        convert_planetoid("toy", files.__getitem__)


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


def tu_zip(name: str) -> bytes:
    arrays = graphs_arrays()
    texts = {
        "A": "".join(f"{u + 1}, {v + 1}\n" for u, v in arrays["edge_index"].T.tolist()),
        "graph_indicator": "1\n1\n2\n2\n2\n3\n",
        "graph_labels": "5\n-1\n5\n",
        "node_labels": "".join(f"{label}\n" for label in arrays["node_labels"]),
        "edge_labels": "".join(f"{label}\n" for label in arrays["edge_labels"]),
        "node_attributes": "".join(f"{a}, {b}\n" for a, b in arrays["node_attr"]),
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for part, text in texts.items():
            archive.writestr(f"{name}/{name}_{part}.txt", text)
    return file.getvalue()


def test_tu_text_files(own_folder: Path) -> None:
    expected = {key: array for key, array in graphs_arrays().items() if key not in ("split", "edge_weight")}
    found = convert_tu("ENZYMES", tu_zip("ENZYMES"))
    assert found.pop("y_raw").tolist() == [5, -1, 5]
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
    fetch("enzymes", get=lambda url: tu_zip("ENZYMES"))
    assert load_graphs("enzymes").num_graphs == 3


@pytest.mark.parametrize("content", [b"", b"no zip", tu_zip("OTHER")])
def test_what_is_no_tu_dataset(content: bytes) -> None:
    with pytest.raises(DataError, match="not a TU dataset"):
        convert_tu("ENZYMES", content)


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


def test_images_and_documents_by_scikit_learn(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch_openml(*_: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        assert options["parser"] == "liac-arff"
        return np.full((60002, 784), 7.0), np.array(["3"] * 60002, dtype=object)

    def fetch_20newsgroups(data_home: str, subset: str, **_: Any) -> types.SimpleNamespace:
        return types.SimpleNamespace(
            data=[f"From: a\n{subset} é"], target=[0], filenames=[f"{data_home}/a/17"], target_names=["alt.atheism"]
        )

    fake = types.SimpleNamespace(fetch_openml=fetch_openml, fetch_20newsgroups=fetch_20newsgroups)
    monkeypatch.setattr(originals, "_sklearn", lambda: fake)
    arrays = originals.convert_mnist()
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
    fake = types.SimpleNamespace(fetch_openml=no_network, fetch_20newsgroups=no_network)
    monkeypatch.setattr(originals, "_sklearn", lambda: fake)
    for name in ("mnist", "20news"):
        with pytest.raises(DataError, match=r"was not fetched: .*no network.*Put .* into"):
            fetch(name)
    with pytest.raises(DataError, match="converted safely"):
        fetch("bench-hard")


def test_only_https() -> None:
    with pytest.raises(DataError, match="only https"):
        fetching.download("file:///etc/passwd")


def test_objects_are_never_packed() -> None:
    with pytest.raises(DataError, match="Python objects"):
        pack_arrays({"y": np.array([print], dtype=object)})
