"""Label propagation against a dense inverse."""

from __future__ import annotations

import pytest
import torch

from armagnn import GraphOperator
from armagnn.errors import ParameterError, ShapeError
from armagnn.tasks.label_propagation import propagate, spread_labels


def ring(count: int = 10) -> GraphOperator:
    nodes = torch.arange(count)
    pairs = torch.stack([nodes, (nodes + 1) % count])
    return GraphOperator.from_edge_index(torch.cat([pairs, pairs.flip(0)], 1), count, dtype=torch.float64)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.8])
def test_it_is_the_response_of_an_arma_filter(alpha: float) -> None:
    op = ring()
    known = torch.randn(10, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact = (1 - alpha) * torch.linalg.solve(torch.eye(10, dtype=torch.float64) - alpha * op.to_dense(), known)
    assert torch.allclose(propagate(op, known, alpha, steps=200), exact, atol=1e-10)


def test_scores_of_classes_are_shares() -> None:
    y = torch.tensor([0, 0, 0, 1, 1, 1, 1, -1, -1, 0])
    scores = spread_labels(ring(), y, torch.tensor([0, 4]), 2, 0.5)
    assert torch.allclose(scores.sum(1), torch.ones(10, dtype=torch.float64))
    assert scores.argmax(1).tolist()[:7] == [0, 0, 0, 1, 1, 1, 1] or float(scores[2, 0]) == pytest.approx(0.5)


def test_only_the_training_nodes_are_looked_at() -> None:
    y = torch.tensor([0, 1] * 5)
    train = torch.tensor([0, 3])
    other = torch.where(torch.isin(torch.arange(10), train), y, 1 - y)
    assert torch.equal(spread_labels(ring(), y, train, 2, 0.9), spread_labels(ring(), other, train, 2, 0.9))


def test_a_constant_number_stays_and_an_island_has_the_mean() -> None:
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 3)
    found = spread_labels(op, torch.tensor([4.0, 8.0, torch.nan]), torch.tensor([0]), 0, 0.9)
    assert found.flatten().tolist() == pytest.approx([4.0, 4.0, 4.0])


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ParameterError, match="alpha"):
        propagate(ring(), torch.zeros(10, 1), 1.0)
    with pytest.raises(ShapeError, match="known"):
        propagate(ring(), torch.zeros(3, 1), 0.5)
