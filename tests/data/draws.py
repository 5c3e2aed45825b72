"""How hypothesis draws sets of graphs."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st

from armagnn.data import GraphsDataset


@st.composite
def graph_sets(draw: st.DrawFn, *, undirected: bool = False, sorted_edges: bool = False) -> GraphsDataset:
    """Draw any small set: lone nodes, self-loops, parallel edges, edges of different graphs mixed, parts absent."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=2, max_size=5))
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    owner = rng.integers(0, len(sizes), draw(st.integers(0, 30)))
    edges = ptr[owner] + rng.integers(0, np.array(sizes)[owner], (2, owner.size))
    labels = rng.integers(-3, 4, owner.size)
    if undirected:  # each edge once in either direction, as files are read
        first = np.unique(np.sort(edges, axis=0), axis=1, return_index=True)[1]
        edges, labels, owner = edges[:, first], labels[first], owner[first]
        proper = edges[0] != edges[1]
        edges = np.concatenate([edges, edges[::-1, proper]], axis=1)
        labels = np.concatenate([labels, labels[proper]])
        owner = np.concatenate([owner, owner[proper]])
    if sorted_edges:
        order = owner.argsort(kind="stable")
        edges, labels = edges[:, order], labels[order]
    count, nodes = len(sizes), int(ptr[-1])
    regression = draw(st.booleans())
    classes = np.unique(np.concatenate([[0, 1], rng.integers(0, 4, count - 2)]), return_inverse=True)[1]
    targets = rng.standard_normal((count, draw(st.integers(1, 3)))).astype(np.float32)
    there = draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    attributes = rng.standard_normal((nodes, draw(st.integers(1, 3)))).astype(np.float32)
    return GraphsDataset(
        "drawn",
        torch.from_numpy(np.ascontiguousarray(edges)),
        torch.from_numpy(ptr),
        torch.from_numpy(targets if regression else classes),
        0 if regression else int(classes.max()) + 1,
        "0" * 64,
        node_labels=torch.from_numpy(rng.integers(-5, 5, nodes)) if there[0] else None,
        node_attr=torch.from_numpy(attributes) if there[1] else None,
        edge_labels=torch.from_numpy(labels) if there[2] else None,
        targets=tuple(f"target {t}" for t in range(targets.shape[1])) if regression else (),
    )
