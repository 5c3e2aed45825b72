"""Other originals as the arrays of our files: TU's text files, PPI's JSON, MNIST and 20news by scikit-learn.

PyTorch Geometric's readers of TU and PPI do not fit: the one recodes node labels, the other removes self-loops.
"""

from __future__ import annotations

import gzip
import importlib
import io
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armagnn.data.archives import open_zip
from armagnn.data.arrays import Arrays
from armagnn.data.undirected import both_ways
from armagnn.errors import DataError


def convert_tu(name: str, content: bytes) -> Arrays:
    """Convert the zip of a TU dataset: ``NAME_A.txt``, ``NAME_graph_indicator.txt`` and so on, 1-based."""
    try:
        with open_zip(content, f"{name}.zip") as archive:
            there = {Path(member).name: member for member in archive.namelist()}

            def table(part: str, dtype: type) -> NDArray[Any] | None:
                file = f"{name}_{part}.txt"
                if file not in there:
                    return None
                text = io.StringIO(archive.read(there[file]).decode("ascii"))
                return np.loadtxt(text, dtype=dtype, delimiter=",", ndmin=2)

            return _tu_arrays({part: table(part, dtype) for part, dtype in _TU.items()})
    except (zipfile.BadZipFile, ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{name}.zip: is not a TU dataset ({error}).") from error


_TU: dict[str, type] = {
    "A": np.int64,
    "graph_indicator": np.int64,
    "graph_labels": np.int64,
    "node_labels": np.int64,
    "node_attributes": np.float64,
    "edge_labels": np.int64,
}


def _tu_arrays(tables: dict[str, NDArray[Any] | None]) -> Arrays:
    edges, graph, y_raw = tables["A"], tables["graph_indicator"], tables["graph_labels"]
    if edges is None or graph is None or y_raw is None:
        raise ValueError("it lacks A, graph_indicator or graph_labels")
    graph = graph[:, 0]
    if (np.diff(graph) < 0).any() or graph[0] != 1:
        raise ValueError("graph_indicator does not rise from 1")
    arrays: Arrays = {
        "edge_index": (edges.T - 1).astype(np.int32),
        "ptr": np.concatenate([[0], np.cumsum(np.bincount(graph)[1:])]).astype(np.int32),
        "y": np.unique(y_raw[:, 0], return_inverse=True)[1].astype(np.int8),
        "y_raw": _small(y_raw[:, 0]),
    }
    for part, name in (("node_labels", "node_labels"), ("edge_labels", "edge_labels")):
        column = tables[part]
        if column is not None:
            arrays[name] = _small(column[:, 0])
    attributes = tables["node_attributes"]
    if attributes is not None:
        arrays["node_attr"] = attributes.astype(np.float32)
    return arrays


def _small(values: NDArray[np.int64]) -> NDArray[Any]:
    fits = values.min() >= -128 and values.max() <= 127
    return values.astype(np.int8 if fits else np.int64)


def convert_ppi(content: bytes) -> Arrays:
    """Convert DGL's zip of PPI: ``{train,valid,test}_{graph.json,feats.npy,labels.npy,graph_id.npy}``.

    Its features are z-scored; each takes two values, of which the larger is 1. All labels are known.
    """
    try:
        with open_zip(content, "ppi.zip") as archive:
            there = {Path(member).name: member for member in archive.namelist()}
            parts = [_ppi_part(split, lambda file: archive.read(there[file])) for split in ("train", "valid", "test")]
    except (zipfile.BadZipFile, ValueError, TypeError, KeyError) as error:
        raise DataError(f"ppi.zip: is not DGL's release of PPI ({error}).") from error
    sizes = [len(part["graph_id"]) for part in parts]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    feats = np.concatenate([part["feats"] for part in parts])
    labels = np.concatenate([part["labels"] for part in parts]) > 0.5
    edges = np.concatenate([part["edges"] + start for part, start in zip(parts, starts, strict=True)], axis=1)
    edges = both_ways(edges, sum(sizes))
    low, high = feats.min(axis=0), feats.max(axis=0)
    if not (np.isclose(feats, low, atol=1e-6) | np.isclose(feats, high, atol=1e-6)).all():
        raise DataError("ppi.zip: a feature takes more than two values; it is not DGL's release of PPI.")
    return {
        "edge_index": edges[:, edges[0] <= edges[1]].astype(np.int32),
        "graph_id": np.concatenate([part["graph_id"] for part in parts]).astype(np.uint8),
        "split": np.repeat(np.arange(3), sizes).astype(np.uint8),
        "features_packed": np.packbits(feats > (low + high) / 2, axis=1),
        "n_features": np.array(feats.shape[1], dtype=np.int32),
        "labels_packed": np.packbits(labels, axis=1),
        "n_labels": np.array(labels.shape[1], dtype=np.int32),
        "label_known": np.ones(sum(sizes), dtype=np.bool_),
    }


def _ppi_part(split: str, read: Any) -> dict[str, NDArray[Any]]:
    links = json.loads(read(f"{split}_graph.json"))["links"]
    edges = np.array([[link["source"] for link in links], [link["target"] for link in links]], dtype=np.int64)
    names = ("feats", "labels", "graph_id")
    part = {name: np.load(io.BytesIO(read(f"{split}_{name}.npy")), allow_pickle=False) for name in names}
    return {**part, "edges": edges}


def convert_mnist() -> Arrays:
    """Get MNIST by scikit-learn from OpenML (text files, no pickle)."""
    with tempfile.TemporaryDirectory() as folder:
        x, y = _sklearn().fetch_openml(
            "mnist_784", version=1, return_X_y=True, as_frame=False, parser="liac-arff", data_home=folder
        )
    x, y = np.asarray(x).astype(np.uint8).reshape(-1, 28, 28), np.asarray(y).astype(np.uint8)
    return {"x_train": x[:60000], "y_train": y[:60000], "x_test": x[60000:], "y_test": y[60000:]}


def convert_20news() -> bytes:
    """Get 20news by scikit-learn, which checks the archive's SHA-256, into a fresh folder: no old pickle is read."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for split in ("train", "test"):
            found = _sklearn().fetch_20newsgroups(data_home=folder, subset=split, shuffle=False)
            for text, label, file in zip(found.data, found.target, found.filenames, strict=True):
                group = found.target_names[label]
                row = {"split": split, "label": int(label), "group": group, "id": Path(str(file)).name, "text": text}
                lines.append(json.dumps(row, ensure_ascii=False))
    return gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)


def _sklearn() -> Any:
    try:
        return importlib.import_module("sklearn.datasets")
    except ImportError as error:
        raise DataError("scikit-learn is needed to fetch this dataset: pip install scikit-learn") from error
