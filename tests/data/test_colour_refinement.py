"""Colour refinement: what it tells apart, and what it costs not to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn.data import GraphsDataset, NodeFeatures, bound, load_graphs, node_features, refined_classes
from armagnn.errors import ParameterError, ShapeError
from armagnn.operators.batches import GraphBatches
from armagnn.tasks import GraphNet

Graph = tuple[int, list[tuple[int, int]]]
TRIANGLES: Graph = 6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
HEXAGON: Graph = 6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]
PATH: Graph = 6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]


def dataset(*graphs: Graph, y: Any = None, labels: list[int] | None = None, **more: Any) -> GraphsDataset:
    ptr = torch.tensor([0, *(size for size, _ in graphs)]).cumsum(0)
    once = [(int(ptr[g]) + u, int(ptr[g]) + v) for g, (_, edges) in enumerate(graphs) for u, v in edges]
    edges = torch.tensor(once, dtype=torch.int64).reshape(-1, 2).t()
    y = torch.zeros(len(graphs), dtype=torch.int64) if y is None else torch.as_tensor(y)
    nodes = torch.tensor(labels if labels is not None else [0] * int(ptr[-1]))
    return GraphsDataset(
        "toys", torch.cat([edges, edges.flip(0)], 1), ptr, y, 0 if y.is_floating_point() else int(y.max()) + 1, "",
        node_labels=nodes, feature_kinds=("labels",), **more,
    )  # fmt: skip


def test_what_colours_do_not_see_and_what_they_do() -> None:
    one, other, path = refined_classes(dataset(TRIANGLES, HEXAGON, PATH)).tolist()
    assert one == other != path
    classes = refined_classes(dataset(PATH, PATH, PATH, labels=[0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]))
    assert classes[0] == classes[1] != classes[2]  # a path has two ends, and a label there is not one within


def test_sizes_graphs_without_edges_and_without_nodes() -> None:
    graphs = dataset((2, []), (3, []), (2, []), (0, []), (2, [(0, 1)]))
    assert len(set(refined_classes(graphs).tolist())) == 4
    assert refined_classes(graphs)[0] == refined_classes(graphs)[2]


def test_a_loop_is_no_neighbour_and_a_double_edge_no_single_one() -> None:
    loop, none = (2, [(0, 1), (0, 0)]), (4, [(0, 1), (1, 2), (2, 3)])
    classes = refined_classes(dataset(loop, loop, none, labels=[1, 0, 1, 0, 0, 1, 1, 0]))
    assert classes[0] == classes[1] != classes[2]
    once, twice = refined_classes(dataset(PATH, (6, [*PATH[1], *PATH[1]])))
    assert once != twice


def test_edge_labels_are_seen_if_asked_for() -> None:
    graphs = dataset(PATH, PATH, edge_labels=torch.tensor([7, 5, 5, 5, 5, 5, 5, 7, 5, 5] * 2))
    assert len(set(refined_classes(graphs).tolist())) == 1
    assert len(set(refined_classes(graphs, edge_labels=True).tolist())) == 2
    with pytest.raises(ParameterError, match="toys has no edge labels"):
        refined_classes(dataset(PATH), edge_labels=True)


@st.composite
def some_graphs(draw: st.DrawFn) -> GraphsDataset:
    graphs = []
    for _ in range(draw(st.integers(2, 5))):
        size = draw(st.integers(1, 6))
        pairs = [(u, v) for u in range(size) for v in range(u)]
        graphs.append((size, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []))
    labels = draw(st.lists(st.integers(0, 1), min_size=30, max_size=30))
    return dataset(*graphs, labels=[*labels, 0, 1][: sum(size for size, _ in graphs)])


@given(some_graphs(), st.randoms(use_true_random=False))
def test_classes_do_not_depend_on_the_order_of_nodes(graphs: GraphsDataset, random: Any) -> None:
    place = torch.arange(graphs.num_nodes)
    for start, end in zip(graphs.ptr[:-1].tolist(), graphs.ptr[1:].tolist(), strict=True):
        order = list(range(start, end))
        random.shuffle(order)
        place[start:end] = torch.tensor(order)
    assert graphs.node_labels is not None
    moved = replace(graphs, edge_index=place[graphs.edge_index], node_labels=graphs.node_labels[place.argsort()])
    both, ptr = torch.cat([graphs.edge_index, moved.edge_index + graphs.num_nodes], 1), graphs.ptr
    twice = replace(
        graphs, edge_index=both, ptr=torch.cat([ptr, ptr[1:] + graphs.num_nodes]), y=graphs.y.repeat(2),
        node_labels=torch.cat([graphs.node_labels, moved.node_labels]),  # type: ignore[list-item]
    )  # fmt: skip
    first, second = refined_classes(twice).chunk(2)
    assert first.tolist() == second.tolist()


@pytest.mark.parametrize("method", ["arma", "gcn", "chebyshev", "cayley", "gat", "gin", "sage"])
def test_networks_give_graphs_of_one_class_the_same_output(method: str) -> None:
    mutag = load_graphs("mutag")
    classes = refined_classes(mutag)
    torch.manual_seed(0)
    net = GraphNet(method, 9, 2, hidden=8).double().eval()
    graphs = GraphBatches(net.operator(mutag, torch.float64), mutag.ptr)
    x = node_features(mutag).x.double()
    batch = graphs.take(torch.arange(mutag.num_graphs))
    with torch.no_grad():
        outputs = net(x[batch.nodes], batch)
    for number in classes.unique():
        torch.testing.assert_close(*torch.broadcast_tensors(outputs[classes == number], outputs[classes == number][:1]))
    assert len(outputs.round(decimals=9).unique(dim=0)) > 150  # and most of the 175 are told apart


def test_the_bound_of_a_classification() -> None:
    graphs = dataset(TRIANGLES, HEXAGON, HEXAGON, PATH, y=[1, 0, 1, 0])
    found = bound(graphs, refined_classes(graphs))
    assert (found.classes, found.twins, found.best) == (2, 0.75, {"accuracy": 0.75})


def test_the_bound_of_a_regression() -> None:
    y = torch.tensor([[0.0, 5.0], [2.0, 5.0], [7.0, 5.0]])
    graphs = dataset(TRIANGLES, HEXAGON, PATH, y=y, targets=("a", "b"))
    found = bound(graphs, refined_classes(graphs))
    assert found.best["a"] == pytest.approx((1 + 1 + 0) / 3 / float(y[:, 0].var(correction=0)))
    assert found.best["b"] == 0.0  # nothing varies


def test_bad_input() -> None:
    graphs = dataset(PATH, HEXAGON)
    with pytest.raises(ShapeError, match="features are of 3 nodes, but the graphs have 12"):
        refined_classes(graphs, NodeFeatures(torch.zeros(3, 1), ("degree",)))
    with pytest.raises(ShapeError, match=r"classes must be of shape \(2,\), got \(3,\)"):
        bound(graphs, torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ParameterError, match="toys: 1 graphs have no label"):
        bound(replace(graphs, y=torch.tensor([0, -1])), refined_classes(graphs))


def test_weights_of_edges_are_seen() -> None:
    path = torch.tensor([[0, 1, 1, 2, 3, 4, 4, 5], [1, 0, 2, 1, 4, 3, 5, 4]])
    data = GraphsDataset("two", path, torch.tensor([0, 3, 6]), torch.zeros(2, dtype=torch.int64), 1, "")
    assert refined_classes(data).tolist() == [0, 0]
    weighted = replace(data, edge_weight=torch.tensor([1.0, 1, 3, 3, 1, 1, 1, 1]))
    assert len(refined_classes(weighted).unique()) == 2
    assert refined_classes(replace(data, edge_weight=torch.full((8,), 0.1))).tolist() == [0, 0]
