"""Statistics and shortest paths, against plain searches, and beside the paper's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import shortest_path

from armagnn.data import CATALOGUE, load, statistics, statistics_of
from armagnn.data.arrays import pack_arrays
from armagnn.data.dataset_statistics import path_lengths
from armagnn.data.graph_files import parse_graphs_file
from armagnn.data.node_files import parse_node_file
from armagnn.data.nodes import select_rows
from armagnn.data.sets.ppi import parse_multilabel_file
from armagnn.operators import CSR
from data.tiny import graphs_arrays, multilabel_arrays, node_arrays


@given(st.integers(1, 150), st.integers(0, 300), st.integers(0, 2**32 - 1))
def test_path_lengths_are_those_of_dijkstra(nodes: int, edges: int, seed: int) -> None:
    edge_index = np.random.default_rng(seed).integers(0, nodes, (2, edges))
    matrix = sp.coo_array((np.ones(edges), tuple(edge_index)), shape=(nodes, nodes))
    distance = shortest_path(matrix.tocsr(), directed=False, unweighted=True)
    reached = distance[np.isfinite(distance) & ~np.eye(nodes, dtype=bool)]
    found = path_lengths(edge_index, nodes)
    assert (found.exact, found.pairs) == (True, reached.size)
    if reached.size:
        assert found.mean == pytest.approx(reached.mean())
        assert found.deviation == pytest.approx(reached.std())
    else:
        assert str(found) == "no paths"


def test_sampled_paths_say_so_and_are_near() -> None:
    cora = load("cora")
    edge_index = cora.edge_index.numpy()
    exact = path_lengths(edge_index, 2708)
    sampled = path_lengths(edge_index, 2708, samples=300, most_work=0)
    assert (sampled.exact, sampled.sources) == (False, 300)
    assert sampled == path_lengths(edge_index, 2708, samples=300, most_work=0)
    assert sampled.mean == pytest.approx(exact.mean, abs=0.3)
    assert "from 300 random sources, seed 0" in str(sampled)
    assert str(exact) == "6.31 ± 1.98 (all pairs)"


def test_statistics_of_nodes() -> None:
    found = statistics(parse_node_file(pack_arrays(node_arrays()), name="tiny", source="tiny.npz"))
    assert found == {
        "nodes": 6, "features": 4, "classes": 3, "labels a node": "one", "split": "2/1/2", "nodes without a label": 1,
        "edges, directed": 6, "edges, each once": 3, "self-loops": 0, "isolated nodes": 1, "components": 3,
        "average shortest path": "1.25 ± 0.43 (all pairs)",
    }  # fmt: skip


def test_statistics_of_many_labels() -> None:
    data = parse_multilabel_file(pack_arrays(multilabel_arrays()), name="tiny", source="tiny.npz")
    found = statistics(data, paths=False)
    assert found == {
        "graphs": 3, "split of graphs": "1/1/1", "nodes": 7, "features": 3, "classes": 2, "labels a node": "many",
        "split": "2/2/2", "nodes in no split": 1, "edges, directed": 9, "edges, each once": 5, "self-loops": 1,
        "isolated nodes": 0, "components": 3,
    }  # fmt: skip


def test_statistics_of_graphs() -> None:
    found = statistics(parse_graphs_file(pack_arrays(graphs_arrays()), name="tiny", source="tiny.npz"))
    assert (found["nodes, average"], found["edges, each once, average"], found["node labels"]) == (
        2.0,
        1.0,
        "yes, 3 values",
    )
    assert (found["split"], found["isolated nodes"], found["graphs a class"]) == ("1/1/1", 1, "1/2")


EXACT = ("nodes", "features", "classes", "graphs", "split of graphs", "edges, directed", "nodes, average",
         "edges, each once, average", "images", "documents")  # fmt: skip


DIFFERENT = (("mnist", "edges, directed"),)


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed", "ppi", "enzymes", "proteins", "dd", "mutag", "mnist"])
def test_the_files_have_the_papers_numbers(name: str, real: Callable[[str], str]) -> None:
    if not CATALOGUE[name].embedded:
        real(name)
    found = statistics_of(name, paths=False)
    for key in EXACT:
        if key in CATALOGUE[name].paper and (name, key) not in DIFFERENT:
            assert str(found[key]) == CATALOGUE[name].paper[key]


def test_the_grid_of_mnist_has_more_edges_than_the_papers(real: Callable[[str], str]) -> None:
    found = statistics_of(real("mnist"))
    assert (found["edges, directed"], found["average shortest path"]) == (6396, "11.96 ± 5.51 (all pairs)")
    assert str(found["edges, directed"]) in CATALOGUE["mnist"].differences


def test_qm9(real: Callable[[str], str]) -> None:
    found = statistics_of(real("qm9"))
    assert (found["molecules"], found["nodes, average"], found["elements"]) == (130831, 8.8, 4)


def test_20news(real: Callable[[str], str]) -> None:
    found = statistics_of(real("20news"), paths=False)
    assert {key: found[key] for key in ("documents", "classes", "split in the file")} == {
        "documents": 18846,
        "classes": 20,
        "split in the file": "11314/7532",
    }


@given(st.lists(st.integers(0, 4), max_size=8))
def test_rows_of_sparse_features(nodes: list[int]) -> None:
    dense = torch.tensor([[1.0, 0, 2], [0, 0, 0], [0, 3, 0], [4, 5, 6], [0, 0, 7]])
    ids = torch.tensor(nodes, dtype=torch.int64)
    rows = select_rows(CSR.from_dense(dense), ids)
    assert isinstance(rows, CSR)
    assert torch.equal(rows.to_dense(), dense[ids])
