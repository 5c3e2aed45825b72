"""How hypothesis draws graphs."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from oracles import Graph

WEIGHTS = st.one_of(st.just(0.0), st.just(1.0), st.floats(0.01, 10.0))


@st.composite
def graphs(
    draw: st.DrawFn, max_nodes: int = 8, max_edges: int = 20, weights: st.SearchStrategy[float] = WEIGHTS
) -> Graph:
    """Draw any directed graph: self-loops, parallel edges, lone nodes, zero weights, or no edge at all."""
    nodes = draw(st.integers(1, max_nodes))
    node = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(node, node, weights), max_size=max_edges))
    source, target, weight = (np.array(part) for part in zip(*edges, strict=True)) if edges else (np.empty(0),) * 3
    return Graph(nodes, source.astype(np.int64), target.astype(np.int64), weight.astype(np.float64))


def undirected(max_nodes: int = 8, max_edges: int = 12) -> st.SearchStrategy[Graph]:
    """Draw any undirected graph."""
    return graphs(max_nodes, max_edges).map(Graph.both_ways)
