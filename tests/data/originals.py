"""Originals written from our arrays: the inverse of what is tested."""

from __future__ import annotations

import pickle
from collections import defaultdict

import numpy as np
import scipy.sparse as sp

from armagnn.data.arrays import Arrays


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
