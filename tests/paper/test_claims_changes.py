"""Noise, changed graphs and graphs of other kinds are what they are said to be."""

from __future__ import annotations

import pytest
import torch

from armagnn_paper import claims_changes

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])


def test_edges_are_removed_and_added_in_pairs() -> None:
    generator = torch.Generator().manual_seed(0)
    fewer = claims_changes.without_edges(EDGES, 0.5, generator)
    assert fewer.shape == (2, 4)
    more = claims_changes.with_edges(EDGES, 5, 1.5, generator)
    assert more.shape == (2, 20)  # all the pairs that there are
    for edges in (fewer, more):
        pairs = {tuple(pair) for pair in edges.T.tolist()}
        assert len(pairs) == edges.shape[1]
        assert pairs == {(b, a) for a, b in pairs}
        assert all(a != b for a, b in pairs)
    old = {tuple(pair) for pair in EDGES.T.tolist()}
    assert {tuple(pair) for pair in fewer.T.tolist()} <= old <= {tuple(pair) for pair in more.T.tolist()}
    assert torch.equal(
        claims_changes.without_edges(EDGES, 0.0, generator).sort(1).values,
        claims_changes.with_edges(EDGES, 5, 0.0, generator).sort(1).values,
    )


def test_noise_has_the_size_it_is_said_to_have() -> None:
    x = torch.rand(200, 50, generator=torch.Generator().manual_seed(1))
    noise = claims_changes.noisy(x, 2.0, torch.Generator().manual_seed(0)) - x
    assert noise.std().item() == pytest.approx(2 * x.square().mean().sqrt().item(), rel=0.03)


@pytest.mark.parametrize("name", list(claims_changes.KINDS))
def test_graphs_are_drawn_as_their_kind_says(name: str) -> None:
    kind = claims_changes.KINDS[name]
    kind = claims_changes.Kind(min(kind.nodes, 600), kind.degree, kind.mixing, kind.topology)
    graph = claims_changes.draw_graph(kind, 3)
    assert graph.num_nodes == kind.nodes
    assert graph.operator().symmetric
    degree = graph.edge_index.shape[1] / kind.nodes
    assert 0.7 * kind.degree < degree <= 1.1 * kind.degree
    source, target = graph.edge_index
    same = (graph.y[source] == graph.y[target]).double().mean().item()
    assert same == pytest.approx(1 - kind.mixing, abs=0.06) or kind.topology != "blocks"
    assert torch.equal(graph.x, claims_changes.draw_graph(kind, 3).x)
    assert not torch.equal(graph.x, claims_changes.draw_graph(kind, 4).x)
    if kind.topology == "hubs":
        assert torch.bincount(source).max() > 5 * degree


def test_a_small_measurement_of_transfer() -> None:
    home = claims_changes.measure_kind("gcn", "home", 2, epochs=20)
    assert {row.level for row in home} == set(claims_changes.KINDS)
    assert all(row.value > 30 for row in home)  # chance is 20
    assert claims_changes.draw_transfer(home).axes[0].get_ylim()[0] == 0  # lengths of bars are to be compared
    native = claims_changes.measure_kind("gcn", "degree 3", 1, epochs=2)
    assert [(row.variable, row.level) for row in native] == [("trained on degree 3", "degree 3")]
