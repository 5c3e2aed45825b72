"""The paper's cells of ARMA in one table: which protocol counts, and whether the number is reached."""

from __future__ import annotations

import pytest

from armagnn_paper.headline import HONEST, TESTED, arma_cells, best_of, in_short, sampling_error, verdict
from armagnn_paper.published import READINGS
from armagnn_paper.summaries import Summary
from armagnn_paper.tables import GRAPHS, MOLECULAR, NODES, SIGNALS, TABLES

CELLS = {
    ("cora", "arma", "tuned"): Summary((82.0, 82.2), frozenset(), ("0", "0")),
    ("cora", "arma", "grid"): Summary((83.0, 83.4), frozenset(), ("0", "0")),
    ("ppi", "arma", "wide"): Summary((99.0,), frozenset(), ("0",)),
    ("ppi", "arma", "tuned"): Summary((90.0,), frozenset(), ("0",)),
}


def test_the_best_honest_protocol_is_named() -> None:
    best = best_of(NODES, CELLS, "cora", "arma")
    assert best is not None
    assert (best.name, best.cell.mean) == ("grid", pytest.approx(83.2))
    wide = best_of(NODES, CELLS, "ppi", "arma")
    assert wide is not None
    assert wide.name == "tuned", "what is beyond the paper does not count"
    assert best_of(NODES, CELLS, "pubmed", "arma") is None
    for table in TABLES.values():
        for way in {way for ways in table.leaks.values() for way in ways} & {"leak"}:
            assert way not in HONEST
    assert not {"split", "leak", "wide"} & set(HONEST)


def test_an_older_reading_counts_only_where_there_is_no_other() -> None:
    old, new = (Summary((value,), frozenset(), ("0",)) for value in (90.0, 70.0))
    cells = {("20news-plain", "arma", "tuned"): old}
    best = best_of(SIGNALS, cells, "20news", "arma")
    assert best is not None
    assert best.name == "tuned; plain words"
    best = best_of(SIGNALS, cells | {("20news", "arma", "all"): new}, "20news", "arma")
    assert best is not None
    assert (best.name, best.cell) == ("all documents", new)
    images = {("mnist", "arma", "tuned"): new, ("mnist-self", "arma", "tuned"): old}
    best = best_of(SIGNALS, images, "mnist", "arma")
    assert best is not None
    assert best.name == "tuned; a pixel is among its own 8 neighbours"
    assert set(READINGS) == {"20news-plain", "mnist-self"}


def test_of_errors_the_least_is_the_best_and_half_of_the_folds_do_not_count() -> None:
    cells = {
        ("qm9/mu", "arma", "paper"): Summary((0.4,), frozenset(), ("0",)),
        ("qm9/mu", "arma", "tuned"): Summary((0.3,), frozenset(), ("0",)),
    }
    best = best_of(MOLECULAR, cells, "qm9/mu", "arma")
    assert best is not None
    assert best.name == "tuned"
    assert best_of(GRAPHS, {("dd", "arma", "tuned"): Summary((1.0,), frozenset(), ("3",))}, "dd", "arma") is None


def test_verdicts() -> None:
    paper = (83.4, 0.6)
    assert verdict(82.8, paper, lower=False, error=1.2, digits=1) == "reached"
    assert verdict(82.2, paper, lower=False, error=1.2, digits=1) == "short by 1.2 (1.0 sampling errors)"
    assert verdict(0.4, (0.394, 0.005), lower=True, error=None, digits=3) == "short by 0.006"
    assert sampling_error("bench-hard", 73) == pytest.approx(1.046, abs=1e-3)
    assert sampling_error("ppi", 90) is None
    assert set(TESTED) == {*NODES.datasets, *SIGNALS.datasets, *GRAPHS.datasets} - {"ppi"}


def test_the_tables() -> None:
    shown = arma_cells([(NODES, CELLS, 1)])
    assert "| Cora | 83.4 ± 0.6 | 83.2 ± 0.3 | grid | 2 | 1.2 | reached |" in shown
    assert "| Pubmed | 78.9 ± 0.3 |  |  |  |  | not run |" in shown
    assert len(arma_cells([(t, {}, 1) for t in (NODES, SIGNALS, GRAPHS, MOLECULAR)]).splitlines()) == 2 + 20
    assert "83.4 / 83.2 ± 0.3 (2, grid)" in in_short(NODES, CELLS, NODES.published)
