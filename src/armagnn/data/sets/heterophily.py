"""The files of the heterophily benchmarks: one graph of labelled nodes and several fixed splits."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from armagnn.checks import integer
from armagnn.data.arrays import Arrays, Axes, class_labels, read_arrays, reals
from armagnn.data.node_files import edges_of, resolved, scaled
from armagnn.data.nodes import SPLITS, NodeDataset
from armagnn.data.scaling import OF_KIND, Features
from armagnn.errors import DataError
from armagnn.files import sha256_of

MASKS: Final = tuple(f"{part}_masks" for part in SPLITS)
AXES: Final[Axes] = {
    "node_features": ("N", "F"), "node_labels": ("N",), "edges": ("E", 2), **dict.fromkeys(MASKS, ("S", "N")),
}  # fmt: skip
DENSE: Final = 0.1
"""The share of nonzeros from which on features are kept dense."""


def parse_splits_file(
    content: bytes, *, name: str, source: str, provenance: str = "", features: Features = "auto", split: int = 0
) -> NodeDataset:
    """Turn the bytes of a file like ``minesweeper.npz`` into a dataset with one of its splits.

    The file has ``node_features`` (N, F), ``node_labels`` (N), ``edges`` (E, 2), each undirected edge once, and
    ``train_masks, val_masks, test_masks`` (S, N), a row for each split. Features are taken as they are. Two classes are
    judged by ROC-AUC, as the benchmark does, more by accuracy.
    """
    how = resolved(features, "splits", known=True)
    arrays = dict(read_arrays(content, AXES, source, what="heterophily", axes=AXES))
    split = integer("split", split, 0, len(arrays["train_masks"]) - 1)
    reals(arrays, "node_features", source)
    x = arrays["node_features"]
    arrays["edge_index"], arrays["y"] = arrays.pop("edges").T, arrays.pop("node_labels")
    edges = edges_of(arrays, len(x), source)
    y, num_classes = class_labels(arrays, len(x), source)
    idx = _ids(arrays, y, split, source)
    sparse = np.count_nonzero(x) < DENSE * x.size
    scaled_x, _ = scaled(sp.csr_array(x) if sparse else x, how, idx["train_idx"], source)
    tensors: dict[str, Any] = {part: torch.from_numpy(ids) for part, ids in idx.items()}
    data = NodeDataset(
        name=name if split == 0 else f"{name}, split {split}",
        x=scaled_x,
        edge_index=torch.from_numpy(edges.index),
        y=torch.from_numpy(y),
        num_classes=num_classes,
        sha256=sha256_of(content),
        provenance=provenance or name,
        features=how,
        metric="roc_auc" if num_classes == 2 else "accuracy",
        split_parts=torch.from_numpy(_parts(arrays)),
        **tensors,
    )
    data = data.derived(f"split {split}") if split else data
    return data if how == OF_KIND["splits"] else data.derived(f"features {how}")


def _parts(arrays: Arrays) -> NDArray[np.int8]:
    """The part of each node in each split, -1 for none."""
    found = np.full(arrays[MASKS[0]].shape, -1, dtype=np.int8)
    for part, name in enumerate(MASKS):
        found[arrays[name]] = part
    return found


def _ids(arrays: Arrays, y: NDArray[np.int64], split: int, source: str) -> dict[str, NDArray[np.int64]]:
    """The ids of the nodes of each part of a split."""
    seen = np.zeros(y.size, dtype=np.int64)
    found = {}
    for part, name in zip(SPLITS, MASKS, strict=True):
        mask = arrays[name]
        if mask.dtype != np.bool_ or mask.shape != arrays[MASKS[0]].shape:
            raise DataError(
                f"{source}: {name} is {mask.dtype} of shape {mask.shape}; it must be (splits, nodes) bools."
            )
        if not mask[split].any() or (y[mask[split]] < 0).any():
            raise DataError(f"{source}: {name} has no node in split {split}, or one without a label.")
        seen += mask[split]
        found[f"{part}_idx"] = np.flatnonzero(mask[split])
    if seen.max() > 1:
        raise DataError(f"{source}: a node is in two parts of split {split}; train, val and test are disjoint.")
    return found
