"""The file of many graphs whose nodes have many labels (PPI), and what is checked when it is read."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn.data.arrays import Arrays, Axes, as_tensor, integers, open_zip, read_arrays
from armagnn.data.edges import both_ways
from armagnn.data.node_files import edges_of, resolved, scaled
from armagnn.data.nodes import SPLITS, NodeDataset
from armagnn.data.scaling import OF_KIND, Features
from armagnn.errors import DataError
from armagnn.files import sha256_of
from armagnn.operators import CSR

ARRAYS: Final = (
    "edge_index", "graph_id", "split", "features_packed", "n_features", "labels_packed", "n_labels", "label_known",
)  # fmt: skip
AXES: Final[Axes] = {
    "edge_index": (2, "E"), "edge_weight": ("E",), "graph_id": ("N",), "split": ("N",), "features_packed": ("N",),
    "labels_packed": ("N",), "label_known": ("N",),
}  # fmt: skip
SMALLEST_DEVIATION: Final = 0.01
"""Features are divided by their deviation or by this, whichever is larger: one of PPI's 50 is constant."""


def parse_multilabel_file(
    content: bytes, *, name: str, source: str, provenance: str = "", features: Features = "auto"
) -> NodeDataset:
    """Turn the bytes of a file like ``ppi.npz`` into one dataset of G components.

    Edges (each once in the file) go both ways, self-loops stay single; they may have weights, ``edge_weight`` (E,).
    Features are z-scored with the mean and the deviation of the training graphs' nodes, unless `features` asks
    otherwise. A node whose labels are unknown is in no split, so it enters neither a loss nor a metric; it still passes
    messages on.
    """
    how = resolved(features, "multilabel", known=True)  # bits are standardised, the user's own ones too
    arrays = read_arrays(content, ARRAYS, source, what="multi-label", axes=AXES)
    raw_graph = integers(arrays, "graph_id", source)
    num_nodes = raw_graph.size
    if not num_nodes:
        raise DataError(f"{source}: graph_id is empty; there must be nodes.")
    graph = np.unique(raw_graph, return_inverse=True)[1].astype(np.int64)
    edges = edges_of(arrays, num_nodes, source, graph)
    split = _split(arrays, graph, source)
    x = _bits(arrays, "features", num_nodes, source)
    y = _bits(arrays, "labels", num_nodes, source)
    known = arrays["label_known"]
    if known.dtype != np.bool_ or known.shape != (num_nodes,):
        raise DataError(f"{source}: label_known is {known.dtype} of shape {known.shape}; it must be {num_nodes} bools.")
    if y[~known].any():
        raise DataError(f"{source}: labels_packed has labels where label_known is false; those rows must be zero.")
    idx: dict[str, Any] = {}
    for number, part in enumerate(SPLITS):
        idx[f"{part}_idx"] = torch.from_numpy(np.flatnonzero((split == number) & known))
        if not len(idx[f"{part}_idx"]):
            raise DataError(f"{source}: split {number} ({part}) has no node with known labels.")
    title, share = provenance or name, 100 * float(known.mean())
    train = split == 0
    if how == "standardise":
        features_x: Tensor | CSR = torch.from_numpy(standardised(x, train))
    else:
        features_x, _ = scaled(x.astype(np.float32), how, np.flatnonzero(train), source)
    data = NodeDataset(
        name=name,
        x=features_x,
        edge_index=torch.from_numpy(edges.index),
        y=torch.from_numpy(y.astype(np.float32)),
        num_classes=y.shape[1],
        sha256=sha256_of(content),
        graph=torch.from_numpy(graph),
        edge_weight=as_tensor(edges.weight),
        provenance=title if known.all() else f"{title} (rebuilt: {share:.2f} % of node labels)",
        features=how,
        notes=() if edges.weight is None else edges.notes,  # each edge is listed once in such files
        **idx,
    )
    # the checksum of a file alone means what armagnn 0.1 made of it
    data = data if edges.weight is None else data.derived("edges weighted")
    return data if how == OF_KIND["multilabel"] else data.derived(f"features {how}")


def standardised(x: NDArray[np.uint8], train: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return (x - mean) / max(deviation, floor), with mean and deviation of the rows `train`."""
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
    scaled: NDArray[np.float32] = ((x - mean) / np.maximum(deviation, SMALLEST_DEVIATION)).astype(np.float32)
    return scaled


def _split(arrays: Arrays, graph: NDArray[np.int64], source: str) -> NDArray[np.int64]:
    split = integers(arrays, "split", source, shape=graph.shape, within=(0, len(SPLITS)))
    pairs = np.unique(np.stack([graph, split]), axis=1).shape[1]
    if pairs != int(graph.max()) + 1:
        raise DataError(f"{source}: split divides a graph; all nodes of a graph belong to one of 0, 1, 2.")
    return split


def _bits(arrays: Arrays, what: str, num_nodes: int, source: str) -> NDArray[np.uint8]:
    packed, count = arrays[f"{what}_packed"], int(integers(arrays, f"n_{what}", source, ndim=0))
    width = -(-count // 8)
    if count < 1 or packed.dtype != np.uint8 or packed.shape != (num_nodes, width):
        raise DataError(
            f"{source}: {what}_packed is {packed.dtype} of shape {packed.shape}; it must be uint8 of shape "
            f"({num_nodes}, {width}), {count} bits a row."
        )
    return np.unpackbits(packed, axis=1, count=count)


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
