"""Node features against networkx, and scaling that test graphs cannot touch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn.data import GraphsDataset, Scaler, clustering, folds, load_graphs, node_features, nodes_of
from armagnn.data.features import one_hot
from armagnn.errors import DataError, ParameterError, ShapeError, UnknownNameError
from data.draws import graph_sets

KINDS = ("degree", "clustering")


def networkx_of(data: GraphsDataset) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(data.num_nodes))
    graph.add_edges_from((a, b) for a, b in data.edge_index.T.tolist() if a != b)
    return graph


@given(graph_sets())
def test_degree_and_clustering_are_those_of_networkx(data: GraphsDataset) -> None:
    """Directions, self-loops and parallel edges included."""
    graph = networkx_of(data)
    found = node_features(data, kinds=KINDS)
    assert found.names == KINDS
    assert found.x[:, 0].tolist() == [graph.degree[node] for node in range(data.num_nodes)]
    oracle = np.array([nx.clustering(graph, node) for node in range(data.num_nodes)], dtype=np.float32)
    np.testing.assert_allclose(found.x[:, 1].numpy(), oracle, rtol=1e-6)
    assert torch.equal(found.x[:, 1], clustering(data))


@settings(max_examples=20)
@given(st.integers(2, 40), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_dense_graphs_are_those_of_networkx(nodes: int, density: float, seed: int) -> None:
    pairs = np.triu(np.random.default_rng(seed).random((nodes, nodes)) < density, 1)
    edges = torch.from_numpy(np.stack((pairs | pairs.T).nonzero()))
    data = GraphsDataset("dense", edges, torch.tensor([0, nodes]), torch.tensor([0]), 2, "")
    np.testing.assert_allclose(clustering(data), list(nx.clustering(networkx_of(data)).values()), rtol=1e-6)


def test_columns_of_the_paper() -> None:
    data = load_graphs("mutag")
    attributes = torch.arange(2.0 * data.num_nodes).reshape(-1, 2)
    found = node_features(replace(data, node_attr=attributes))
    labels = [f"label {value}" for value in range(7)]
    assert found.names == ("degree", "clustering", *labels, "attribute 0", "attribute 1")
    assert found.vocabulary == tuple(range(7))
    assert (found.x.dtype, found.x.shape) == (torch.float32, (3371, 11))
    assert torch.equal(found.x[:, 2:9].argmax(1), data.node_labels)
    assert torch.equal(found.x[:, 9:], attributes)
    assert node_features(data, kinds=["labels"]).x.shape == (3371, 7)


def test_a_part_is_described_like_the_whole_by_its_vocabulary() -> None:
    data = load_graphs("mutag")
    whole = node_features(data)
    part = data.select([5, 2])
    assert len(node_features(part).vocabulary) < 7
    again = node_features(part, vocabulary=whole.vocabulary)
    first = whole.x[data.ptr[5] : data.ptr[6]]
    assert again.names == whole.names
    assert torch.equal(again.x[: len(first)], first)


def test_what_cannot_be_described_is_refused() -> None:
    data = load_graphs("mutag")
    with pytest.raises(UnknownNameError, match="Did you mean 'degree'"):
        node_features(data, kinds=["degre"])
    with pytest.raises(ParameterError, match="none of the node features attributes"):
        node_features(data, kinds=["attributes"])
    with pytest.raises(DataError, match=r"node_labels holds \[6\]"):
        node_features(data, vocabulary=range(6))
    with pytest.raises(DataError, match="does not have"):
        one_hot(torch.tensor([1]), ())


@given(st.integers(0, 9), st.floats(-1e6, 1e6, width=32), st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_test_graphs_cannot_influence_the_scaling(k: int, intruder: float, seed: int) -> None:
    data = load_graphs("mutag")
    x = node_features(data).x
    fold = folds(data)[k]
    rows = nodes_of(data, fold.train)
    scaler = Scaler.fit(x, rows)
    changed = x.clone()
    unseen = nodes_of(data, torch.cat([fold.val, fold.test]))
    assert torch.equal(rows, ~unseen)
    changed[unseen] = intruder * torch.rand(int(unseen.sum()), x.shape[1], generator=torch.manual_seed(seed))
    other = Scaler.fit(changed, rows)
    assert torch.equal(scaler.mean, other.mean)
    assert torch.equal(scaler.deviation, other.deviation)
    assert torch.equal(scaler(x)[rows], other(changed)[rows])


@given(st.integers(0, 2**32 - 1))
def test_scaled_training_rows_have_mean_0_and_deviation_1(seed: int) -> None:
    generator = torch.manual_seed(seed)
    x = torch.randn(50, 3, generator=generator) * torch.tensor([1.0, 100.0, 0.0]) + torch.tensor([5.0, -3.0, 2.0])
    ids = torch.randperm(50, generator=generator)[:30]
    scaler = Scaler.fit(x, ids)
    scaled = scaler(x)
    torch.testing.assert_close(scaled[ids].mean(0), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(scaled[ids].std(0, correction=0), torch.tensor([1.0, 1.0, 0.0]), atol=1e-4, rtol=0)
    torch.testing.assert_close(scaler.inverse(scaled), x)
    assert float(scaler.deviation[2]) == 2.0  # constant: divided by its size
    assert torch.equal(scaler.deviation, Scaler.fit(x, ids, floor=0).deviation)
    assert scaler.to("meta").mean.device.type == "meta"


@given(st.integers(0, 2**32 - 1), st.integers(-60, 60))
def test_the_unit_of_a_feature_does_not_matter(seed: int, power: int) -> None:
    generator = torch.manual_seed(seed)
    x = torch.randn(40, 4, generator=generator)
    x[:, 1] = 3.0  # constant
    x[:, 2] = (torch.arange(40) == 7).float()  # rare
    x[:, 3] += 50.0
    ids = torch.arange(40)
    factor = 2.0**power  # exact
    torch.testing.assert_close(Scaler.fit(x * factor, ids)(x * factor), Scaler.fit(x, ids)(x), rtol=1e-6, atol=1e-6)


def test_a_nearly_constant_feature_is_not_blown_up() -> None:
    x = torch.zeros(100_000, 1)
    x[0] = 1.0
    found = Scaler.fit(x, torch.arange(len(x)))
    assert float(found.deviation) == pytest.approx(0.01, rel=1e-4)  # the population's is 0.003
    assert float(Scaler.fit(x, torch.arange(len(x)), floor=0).deviation) == pytest.approx(1e5**-0.5, rel=1e-4)


def test_small_differences_of_large_numbers_are_differences() -> None:
    x = torch.tensor([[1000000.0], [1000001.0]] * 5)  # which float32 tells apart
    for floor in (0.0, 0.01):
        assert float(Scaler.fit(x, torch.arange(10), floor=floor).deviation) == 0.5


def test_a_constant_feature_has_no_rounding_for_a_deviation() -> None:
    x = torch.full((1000, 1), 0.1)
    assert float(Scaler.fit(x, torch.arange(999)).deviation) == pytest.approx(0.1)


def test_a_hub_costs_as_many_edges_as_it_has() -> None:
    leaves = 200_000  # with A², 320 GB
    star = torch.stack([torch.zeros(leaves, dtype=torch.int64), torch.arange(1, leaves + 1)])
    edges = torch.cat([star, torch.tensor([[1, 2], [2, 1]])], dim=1)  # and one triangle
    data = GraphsDataset("star", edges, torch.tensor([0, leaves + 1]), torch.tensor([0]), 1, "0" * 64)
    found = clustering(data)
    assert found[:4].tolist() == [pytest.approx(2 / (leaves * (leaves - 1))), 1.0, 1.0, 0.0]


def test_labels_that_are_ids_are_refused() -> None:
    with pytest.raises(DataError, match=r"40000 labels for 40000 nodes.*ids rather than kinds"):
        one_hot(torch.arange(40_000), range(40_000))


def test_one_hot_columns_may_stay_as_they_are() -> None:
    found = node_features(load_graphs("mutag"))
    assert found.numeric.tolist() == [True, True] + [False] * 7
    nodes = torch.arange(100)
    some, whole = Scaler.fit(found.x, nodes, columns=found.numeric), Scaler.fit(found.x, nodes)
    assert torch.equal(some(found.x)[:, 2:], found.x[:, 2:])
    assert torch.equal(some(found.x)[:, :2], whole(found.x)[:, :2])


def test_scalers_refuse_what_they_cannot_fit() -> None:
    with pytest.raises(ParameterError, match="empty"):
        Scaler.fit(torch.ones(3, 2), torch.tensor([], dtype=torch.int64))
    with pytest.raises(ShapeError):
        Scaler.fit(torch.ones(3), torch.tensor([0]))


def test_dd_in_seconds(real: Callable[[str], str]) -> None:
    data = load_graphs(real("dd"))
    start = time.perf_counter()
    found = node_features(data)
    assert time.perf_counter() - start < 20  # about 1 s on a free core
    assert found.x.shape == (334925, 84)
    some = data.select([7, 500])
    oracle = list(nx.clustering(networkx_of(some)).values())
    np.testing.assert_allclose(clustering(some), oracle, rtol=1e-6)
    assert torch.equal(clustering(some)[: some.ptr[1]], found.x[data.ptr[7] : data.ptr[8], 1])
