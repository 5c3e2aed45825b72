"""What is compared computes the same, and the rows of trials train the same seeds both ways."""

from __future__ import annotations

import sys

import pytest
import torch

from armagnn import GraphOperator
from armagnn.bench import cpu_rows
from armagnn.bench.cpu_rows import compare_peers, large_case, layers, peak_of_training_step, random_graph


def test_both_sides_of_peers_compute_the_same() -> None:
    torch.manual_seed(0)
    op = GraphOperator.from_edge_index(random_graph(30, 100), 30, kind="adjacency")
    edges = torch.stack([op.col.long(), op._rows()])
    x = torch.randn(30, 16)
    names = []
    for name, ours, theirs in layers(16):
        torch.testing.assert_close(ours(x, op), theirs(x, edges), rtol=1e-4, atol=1e-5)
        names.append(name)
    assert len(set(names)) == 3


def test_rows() -> None:
    rows = list(compare_peers(rounds=1, nodes=20, nonzeros=60, width=8))
    assert len(rows) == 3
    assert all(row.ours > 0 and row.ratio == row.peer / row.ours for row in rows)


def test_both_sides_compute_the_same() -> None:
    case = large_case(nodes=50, nonzeros=300)
    case.ours.load_state_dict(type(case.ours).from_pyg(case.pyg).state_dict())
    ours, pyg, edges = (case.forward(which)() for which in ("ours", "pyg", "edges"))
    torch.testing.assert_close(ours, pyg, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(edges, ours)
    for which in ("ours", "pyg"):
        case.training_step(which)()
    assert case.ours.weight.grad is not None
    assert case.pyg.weight.grad is not None


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_peak_memory_grows_with_the_step() -> None:
    ours = peak_of_training_step("ours")
    assert 10 < ours < 2000


def test_both_ways_train_every_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[int], int]] = []

    def fake(dataset: object, seeds: range, epochs: int) -> float:
        asked.append((list(seeds), epochs))
        return 1.0 if len(seeds) > 1 else 2.0

    monkeypatch.setattr(cpu_rows, "seconds_of_trials", fake)
    (row,) = cpu_rows.compare_trials(rounds=2, count=3, epochs=7)
    assert asked[2:] == 2 * [([0, 1, 2], 7), ([0], 7), ([1], 7), ([2], 7)]
    assert (row.ours, row.peer, row.ratio, row.required, row.met) == (1.0, 6.0, 6.0, 3.0, True)


def test_a_training_is_timed() -> None:
    assert cpu_rows.seconds_of_trials(cpu_rows.load("cora"), [0, 1], 2) > 0
