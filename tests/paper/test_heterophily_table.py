"""The declaration of the heterophily tables: one space for all methods, splits as the axis of trials, the choice."""

from __future__ import annotations

import csv
import json
from dataclasses import fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armagnn_paper.table as tables
from armagnn.data.sets.heterophily import parse_splits_file
from armagnn.errors import ParameterError
from armagnn.training.record import Record
from armagnn_paper.heterophily_table import (
    DATASETS,
    DEGREES,
    FRAMES,
    HETEROPHILY,
    LARGE,
    METHODS,
    OWN_LINEAR,
    SMALL_FRAMES,
)
from armagnn_paper.search import FIRST_SEED, Budget, choose, scores_csv, search_trials
from armagnn_paper.table import Cell, metrics_of, work

each_dataset = pytest.mark.parametrize("dataset", DATASETS)


# --------------------------------------------------------------------------------------------------------------- space


@each_dataset
def test_all_methods_share_frames_and_rates(dataset: str) -> None:
    spaces = {method: HETEROPHILY.search.settings(dataset, method, 12) for method in METHODS}
    own = {"conv", "stacks", "last_stacks", "layers", "radius", "linear_skip"}
    for method, space in spaces.items():
        for index, (config, gcn) in enumerate(zip(space, spaces["gcn"], strict=True)):
            for name in (each.name for each in fields(config)):  # type: ignore[arg-type]
                assert name in own or getattr(config, name) == getattr(gcn, name), (method, name)
            frame = FRAMES.get(dataset, SMALL_FRAMES)[index % 4]
            found: Any = config
            assert (found.depth, found.hidden, found.norm) == (frame.depth, frame.hidden, frame.norm)
            assert found.linear_skip == (frame.linear and method not in OWN_LINEAR)
            assert found.stop_on == ("roc_auc" if dataset in LARGE else "accuracy")
            assert found.skip_dropout == 0
        assert HETEROPHILY.search.settings(dataset, method, 5) == space[:5]


@each_dataset
def test_what_a_method_alone_has_meets_every_frame(dataset: str) -> None:
    arma: list[Any] = HETEROPHILY.search.settings(dataset, "arma", 16)
    for frame in range(4):
        assert {(c.stacks, c.layers) for c in arma[frame::4]} == {(1, 1), (2, 1), (1, 2), (2, 2)}
    gpr: list[Any] = HETEROPHILY.search.settings(dataset, "gpr", 12)
    assert all(config.stacks in DEGREES[config.depth] for config in gpr)
    rational: list[Any] = HETEROPHILY.search.settings(dataset, "rational", 12)
    assert {config.radius for config in rational} <= ({0.5, 0.3} if dataset in LARGE else {0.8, 0.5})
    assert all(config.radius == 0.3 for config in rational if config.depth >= 6)


def test_the_first_setting_of_minesweeper_is_the_one_that_was_known() -> None:
    first: Any = HETEROPHILY.search.settings("minesweeper", "arma", 1)[0]
    assert (first.depth, first.hidden, first.norm, first.stacks, first.layers) == (12, 64, "batch", 1, 1)
    assert (first.hidden_dropout, first.input_dropout, first.lr, first.l2) == (0.2, 0.0, 0.01, 0.0)


@each_dataset
def test_a_setting_comes_back_from_the_store(dataset: str) -> None:
    for method in METHODS:
        cell = Cell(dataset, method, "tuned")
        for config in HETEROPHILY.search.settings(dataset, method, 12):
            content = HETEROPHILY.stored(cell, config)
            assert HETEROPHILY.kind.from_stored(content) == config


def test_there_is_no_text_to_read_literally() -> None:
    with pytest.raises(ParameterError, match="protocol"):
        HETEROPHILY.config(Cell("texas", "arma", "paper"))


# ------------------------------------------------------------------------------------------------------------- trials


def test_searches_and_runs_are_of_other_seeds_and_of_all_splits() -> None:
    for dataset, budget in HETEROPHILY.search.budgets.items():
        trials = search_trials(HETEROPHILY, dataset, "arma", budget)
        assert {trial.fold for trial in trials} == set(range({"minesweeper": 3, "tolokers": 1}.get(dataset, 10)))
        assert {trial.seed for trial in trials} == {FIRST_SEED}
        assert len(trials) == budget.settings * budget.folds
    runs = HETEROPHILY.places(HETEROPHILY.usual_runs("texas", "arma"))
    assert sorted(runs) == [(run, split) for run in range(3) for split in range(10)]
    assert HETEROPHILY.usual_runs("tolokers", "gcn") == 1


def made_file(path: Path, classes: int = 3) -> bytes:
    """A graph of 24 nodes with ten splits, as the benchmark's files have it."""
    rng = np.random.default_rng(0)
    edges = np.unique(np.sort(rng.integers(0, 24, (40, 2)), axis=1), axis=0)
    parts = np.stack([rng.permutation(24) for _ in range(10)])
    arrays = {
        "node_features": rng.normal(size=(24, 6)).astype(np.float32), "node_labels": np.arange(24) % classes,
        "edges": edges[edges[:, 0] != edges[:, 1]],
        "train_masks": parts < 12, "val_masks": (parts >= 12) & (parts < 18), "test_masks": parts >= 18,
    }  # fmt: skip
    np.savez(path, **arrays)
    return path.read_bytes()


def test_splits_are_trained_together_and_give_what_each_gives_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = parse_splits_file(made_file(tmp_path / "made.npz"), name="made", source="made.npz")
    monkeypatch.setattr(tables, "_data", lambda config: data)
    tables.experiment_of.cache_clear()
    trials = [
        replace(trial, config=replace(trial.config, epochs=3, hidden=4))
        for trial in search_trials(HETEROPHILY, "texas", "arma", Budget(1, 1, folds=10))
    ]
    jobs = HETEROPHILY.jobs(trials, checkpoints=tmp_path, search=True)
    assert [len(job.trials) for job in jobs] == [10]
    assert [setting.target for setting in jobs[0].settings()] == list(range(10))
    together = {record.fold: record for record in work(jobs[0]) if record is not None}
    alone = list(work(HETEROPHILY.jobs(trials[6:7], checkpoints=tmp_path, search=True)[0]))
    assert sorted(together) == list(range(10))
    assert alone[0] is not None
    assert alone[0].key == together[6].key
    assert alone[0].metrics == pytest.approx(together[6].metrics, rel=1e-4)
    assert len({record.metrics["val_loss"] for record in together.values()}) == 10  # each has a split of its own
    assert all(name.startswith("val_") for name in alone[0].metrics)
    tables.experiment_of.cache_clear()


# -------------------------------------------------------------------------------------------------------------- choice


def records(dataset: str, budget: Budget, scores: list[list[float]], metric: str) -> list[Record]:
    """A record for each setting and split with these scores."""
    found = []
    for trial in search_trials(HETEROPHILY, dataset, "gcn", budget):
        metrics = {metric: scores[trial.run][trial.fold], "val_loss": 1.0}
        content = HETEROPHILY.stored(trial.cell, trial.config)
        found.append(Record("heterophily-search", *trial.cell, trial.run, trial.fold, trial.seed, content, metrics))
    return found


def test_the_mean_over_the_splits_chooses_by_the_metric_of_the_dataset() -> None:
    budget = Budget(3, 1, folds=3, epochs=7)
    scores = [[90.0, 10.0, 10.0], [50.0, 50.0, 50.0], [60.0, 40.0, 40.0]]
    done = records("minesweeper", budget, scores, "val_roc_auc")
    settings = HETEROPHILY.search.settings("minesweeper", "gcn", 3)
    wanted = {"minesweeper/gcn": HETEROPHILY.stored(Cell("minesweeper", "gcn", "tuned"), settings[1])}
    assert choose(HETEROPHILY, done, {"minesweeper": budget}) == wanted
    for missing in range(9):  # a search that is not complete chooses nothing
        assert choose(HETEROPHILY, done[:missing] + done[missing + 1 :], {"minesweeper": budget}) == {}
    misled = [replace(record, metrics=record.metrics | {"val_accuracy": 90.0 * (record.run == 2)}) for record in done]
    assert choose(HETEROPHILY, misled, {"minesweeper": budget}) == wanted
    fewer = choose(HETEROPHILY, done, {"minesweeper": replace(budget, settings=2, folds=1)})
    assert fewer["minesweeper/gcn"]["lr"] == settings[0].lr  # type: ignore[attr-defined]
    assert fewer["minesweeper/gcn"]["depth"] == 12


def test_scores_show_both_metrics_and_what_is_not_stored() -> None:
    done = records("minesweeper", Budget(2, 1, folds=1), [[90.123], [50.0]], "val_roc_auc")
    rows = list(csv.DictReader(scores_csv(HETEROPHILY, done).splitlines()))
    assert [(row["val_roc_auc"], row["val_accuracy"], row["depth"]) for row in rows] == [
        ("90.12", "", "12"),
        ("50.00", "", "2"),
    ]


def test_roc_auc_is_in_per_cent() -> None:
    from armagnn.training.outcome import Outcome, Setting

    outcome = Outcome(
        Setting(0, 0.1, 0.0), 1, 1, {"loss": 1.0, "roc_auc": 0.5}, {"loss": 1.0, "roc_auc": 0.75}, 0, {}, {}
    )
    assert metrics_of(outcome, tests=True) == {"roc_auc": 75.0, "val_loss": 1.0, "val_roc_auc": 50.0}


def test_every_committed_choice_is_one_of_the_settings() -> None:
    content = json.loads(resources.files("armagnn_paper").joinpath("chosen/heterophily.json").read_text())
    assert content
    for place, entry in content.items():
        dataset, _, method = place.rpartition("/")
        cell = Cell(dataset, method, "tuned")
        config = HETEROPHILY.config(cell)
        assert HETEROPHILY.stored(cell, config) == entry
        assert config in HETEROPHILY.search.settings(dataset, method, HETEROPHILY.search.budgets[dataset].settings)
