"""The search behind the tuned protocol: its trials, its choice, and its files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from armagnn.errors import DataError
from armagnn.sealed import write_sealed
from armagnn.training.config import Config
from armagnn.training.record import Record
from armagnn_paper import search
from armagnn_paper.search import (
    FINAL_SEED,
    FIRST_SEED,
    Budget,
    choose,
    final_trials,
    planned_trials,
    scores_csv,
    search_trials,
    write_search,
)
from armagnn_paper.table import Cell, Table
from armagnn_paper.tables import GRAPHS, MOLECULAR, NODES, SIGNALS, TABLES

PAPERS = {name: table for name, table in TABLES.items() if "paper" in table.protocols}
"""The tables of the paper; `test_heterophily_table` has that beyond it."""
EVERY = [(table, dataset) for table in PAPERS.values() for dataset in table.datasets]
each_dataset = pytest.mark.parametrize(("table", "dataset"), EVERY, ids=[f"{t.name}-{d}" for t, d in EVERY])


def records(
    table: Table, dataset: str, budget: Budget, *scores: tuple[float, float], method: str = "arma", fold: int = 0
) -> list[Record]:
    """A record of each trial of one fold, in their order, with these validation accuracies and losses."""
    trials = [trial for trial in search_trials(table, dataset, method, budget) if trial.fold == fold]
    return [
        Record(
            f"{table.name}-search", *trial.cell, trial.run, fold, trial.seed, table.stored(trial.cell, trial.config),
            {"val_accuracy": accuracy, "val_loss": loss}, epochs=3,
        )
        for trial, (accuracy, loss) in zip(trials, scores, strict=False)
    ]  # fmt: skip


def stored(table: Table, dataset: str, config: Config, method: str = "arma") -> dict[str, Any]:
    return table.stored(Cell(dataset, method, "tuned"), config)


# -------------------------------------------------------------------------------------------------------------- trials


@each_dataset
def test_no_setting_is_tried_twice_and_no_seed_is_a_reported_one(table: Table, dataset: str) -> None:
    budget = replace(table.search.budgets[dataset], settings=12, seeds=2)
    reported = {trial.seed for trial in table.trials(Cell(dataset, "arma", "paper"), 100)}
    for method in table.methods:
        trials = search_trials(table, dataset, method, budget)
        assert len({(trial.config, trial.seed, trial.fold) for trial in trials}) == len(trials)
        assert reported.isdisjoint(trial.seed for trial in trials)
        assert {trial.seed for trial in trials} == {FIRST_SEED, FIRST_SEED + 1}
        assert {trial.fold for trial in trials} == set(range(budget.folds))
        whole = table.search.settings(dataset, method, 1)[0].epochs
        assert {trial.config.epochs for trial in trials} == {budget.epochs or whole}
        places = [(trial.fold, trial.run) for trial in trials]
        assert len(set(places)) == len(places)
        assert len(trials) <= 12 * 2 * budget.folds


def test_the_budgets() -> None:
    assert len(search_trials(SIGNALS, "20news", "arma", SIGNALS.search.budgets["20news"])) == 16
    assert len(search_trials(SIGNALS, "mnist", "arma", SIGNALS.search.budgets["mnist"])) == 8
    assert {GRAPHS.search.budgets[dataset].folds for dataset in GRAPHS.datasets} == {10}
    assert {budget.folds for budget in MOLECULAR.search.budgets.values()} == {1}
    assert (MOLECULAR.search.budgets["qm9/mu"].epochs, SIGNALS.search.budgets["mnist"].epochs) == (4, 2)
    # without skip connections, two of the settings of QM9 are one
    one = Budget(6, 3, folds=2)
    assert len(search_trials(MOLECULAR, "qm9/mu", "gcn", one)) < len(search_trials(MOLECULAR, "qm9/mu", "arma", one))


# -------------------------------------------------------------------------------------------------------------- choice


def test_accuracy_chooses_then_loss_and_only_of_a_complete_search() -> None:
    budget = Budget(3, 2)
    only = {"20news": budget}
    space = [stored(SIGNALS, "20news", config) for config in SIGNALS.search.settings("20news", "arma", 3)]
    scores = [(90, 1.0), (80, 1.0), (86, 5.0), (86, 5.0), (70, 0.1), (70, 0.1)]  # means 85, 86, 70
    done = records(SIGNALS, "20news", budget, *scores)
    assert choose(SIGNALS, done, only) == {"20news/arma": space[1]}
    for missing in range(6):
        assert choose(SIGNALS, done[:missing] + done[missing + 1 :], only) == {}
    assert choose(SIGNALS, done, {"20news": replace(budget, settings=4)}) == {}
    equal = records(SIGNALS, "20news", budget, *[(60, loss) for loss in (3, 3, 2, 2, 1, 1)])
    assert choose(SIGNALS, equal, only) == {"20news/arma": space[2]}
    same = records(SIGNALS, "20news", budget, *[(60, 1.0)] * 6)
    assert choose(SIGNALS, same, only) == {"20news/arma": space[0]}
    old = replace(done[0], config=done[0].config | {"l2": 0.5}, metrics={"val_accuracy": 99.0, "val_loss": 0.0})
    assert choose(SIGNALS, [*done, old, old], only) == {"20news/arma": space[1]}


def test_each_fold_chooses_for_itself() -> None:
    budget = Budget(3, 2, folds=10)
    done = [
        *records(GRAPHS, "mutag", budget, (90, 1), (80, 1), (86, 5), (86, 5), (70, 0.1), (70, 0.1)),  # the second
        *records(GRAPHS, "mutag", budget, *[(90, loss) for loss in (2, 2, 1.5, 1.5, 1, 1)], fold=1),  # the lowest loss
        *records(GRAPHS, "mutag", budget, *[(99, 0.1)] * 5, fold=2),  # not complete: no choice
    ]
    chosen = choose(GRAPHS, done, {"mutag": budget})
    space = GRAPHS.search.settings("mutag", "arma", 3)
    assert sorted(chosen) == ["mutag/arma/0", "mutag/arma/1"]
    assert [chosen[f"mutag/arma/{fold}"]["lr"] for fold in (0, 1)] == [space[1].lr, space[2].lr]
    late = [record for record in done if record.seed > FIRST_SEED]
    assert choose(GRAPHS, late, {"mutag": budget}) == {}
    rows = list(csv.DictReader(scores_csv(GRAPHS, done).splitlines()))
    assert len(rows) == 6 + 6 + 5
    assert {row["fold"] for row in rows} == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("table", "dataset"), [(NODES, "ppi"), (SIGNALS, "mnist"), (GRAPHS, "proteins"), (MOLECULAR, "qm9/mu")]
)
def test_short_trainings_choose_what_is_trained_to_its_end(table: Table, dataset: str) -> None:
    budget = replace(table.search.budgets[dataset], settings=4, folds=1)
    done = records(table, dataset, budget, *[(90 - abs(index - 2), 1.0) for index in range(4)])
    assert {record.config["epochs"] for record in done} == {budget.epochs}
    place = f"{dataset}/arma/0" if table.by_fold else f"{dataset}/arma"
    wanted = table.search.settings(dataset, "arma", 4)[2]
    assert choose(table, done, {dataset: budget}) == {place: stored(table, dataset, wanted)}
    assert wanted.epochs > budget.epochs
    assert final_trials(table, done, dataset, "arma", budget) == []
    other = [replace(record, config=record.config | {"epochs": budget.epochs + 1}) for record in done]
    assert choose(table, other, {dataset: budget}) == {}  # those of another budget


def test_finals_decide() -> None:
    budget = Budget(5, 1, 2, 3)
    first = records(NODES, "cora", budget, *[(value, 1.0) for value in (70, 90, 80, 60, 50)], method="gcn")
    wanted = NODES.search.settings("cora", "gcn", 5)
    trials = final_trials(NODES, first, "cora", "gcn", budget)
    assert [trial.config for trial in trials] == [wanted[1]] * 3 + [wanted[2]] * 3
    assert {trial.seed for trial in trials} == {FINAL_SEED, FINAL_SEED + 1, FINAL_SEED + 2}

    def chosen(found: list[Record], seeds: int) -> dict[str, Any]:
        return choose(NODES, found, {"cora": replace(budget, final_seeds=seeds)})["cora/gcn"]

    def late(index: int, accuracy: float) -> Record:
        config = stored(NODES, "cora", wanted[index], "gcn")
        cell = Cell("cora", "gcn", "tuned")
        return Record(f"{NODES.name}-search", *cell, index, 0, FINAL_SEED, config, {"val_accuracy": accuracy})

    one, two = (stored(NODES, "cora", wanted[index], "gcn") for index in (1, 2))
    finals = [late(1, 75.0), late(2, 79.0)]
    assert chosen(first, 1) == one  # the finals are still to come
    assert chosen([*first, *finals], 1) == two
    assert chosen([*first, *finals[1:]], 1) == one  # finals not held to their end
    assert chosen([*first, *finals], 2) == one
    rows = list(csv.DictReader(scores_csv(NODES, [*first, *finals]).splitlines()))
    assert len(rows) == 7
    assert sum(int(row["seed"]) >= FINAL_SEED for row in rows) == 2


def test_a_plan_has_the_trials_of_the_finals_too() -> None:
    budget = Budget(5, 1, 2, 3)
    first = records(NODES, "cora", budget, *[(value, 1.0) for value in (70, 90, 80, 60, 50)], method="gcn")
    assert len(planned_trials(NODES, [], "cora", "gcn", budget)) == 5 + 2 * 3
    known = planned_trials(NODES, first, "cora", "gcn", budget)
    assert known == search_trials(NODES, "cora", "gcn", budget) + final_trials(NODES, first, "cora", "gcn", budget)


# --------------------------------------------------------------------------------------------------------------- files


@each_dataset
def test_a_row_of_scores_is_a_trial(table: Table, dataset: str) -> None:
    budget = Budget(3, 1, epochs=3)
    done = records(table, dataset, budget, (61.234, 0.1234567), (62, 0.2), (63, 0.3))
    rows = list(csv.DictReader(scores_csv(table, done).splitlines()))
    assert [(row["dataset"], row["method"], row["fold"]) for row in rows] == [(dataset, "arma", "0")] * 3
    assert (rows[0]["val_accuracy"], rows[0]["val_loss"], rows[0]["epochs"]) == ("61.23", "0.12346", "3")
    for row, config in zip(rows, table.search.settings(dataset, "arma", 3), strict=True):
        content = {"edges": "plain", "l2_on": "all"} | stored(table, dataset, config)
        assert [row[name] for name in table.search.shown] == [str(content[name]) for name in table.search.shown]
    empty = replace(done[0], metrics={})
    assert [row["val_loss"] for row in csv.DictReader(scores_csv(table, [empty]).splitlines())] == [""]


def test_the_files_keep_what_they_have_of_other_cells(tmp_path: Path) -> None:
    out, scores = tmp_path / "chosen.json", tmp_path / "scores.csv"
    budget = Budget(2, 1, folds=1)
    only = {"mutag": budget, "dd": budget}
    gcn = records(GRAPHS, "mutag", budget, (80, 1), (90, 1), method="gcn")
    arma = records(GRAPHS, "mutag", budget, (80, 1), (70, 1))
    other = records(GRAPHS, "dd", budget, (80, 1), (70, 1), method="gcn")
    for found in (gcn, other, arma):
        write_search(GRAPHS, found, only, out, scores)
    assert list(json.loads(out.read_text())) == ["dd/gcn/0", "mutag/arma/0", "mutag/gcn/0"]
    rows = list(csv.DictReader(scores.read_text().splitlines()))
    cells = [("dd", "gcn")] * 2 + [("mutag", "arma")] * 2 + [("mutag", "gcn")] * 2
    assert [(row["dataset"], row["method"]) for row in rows] == cells
    before = out.read_bytes(), scores.read_bytes()
    write_search(GRAPHS, gcn, only, out, scores)
    assert (out.read_bytes(), scores.read_bytes()) == before
    write_search(GRAPHS, gcn[:1], only, out, scores)  # a cell that is searched anew chooses nothing before its end
    assert list(json.loads(out.read_text())) == ["dd/gcn/0", "mutag/arma/0"]


def test_a_cell_that_is_searched_anew_loses_its_old_folds_and_no_other_cell_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of datasets may hold a stroke; the files of a user need no digest."""
    head = "dataset,method,fold,score\n"
    monkeypatch.setattr(
        search,
        "choose",
        lambda table, records, budgets: {f"{r.dataset}/{r.method}/{r.fold}": r.config for r in records},
    )
    monkeypatch.setattr(
        search,
        "scores_csv",
        lambda table, records: head + "".join(f"{r.dataset},{r.method},{r.fold},50\n" for r in records),
    )
    done = [Record("some-search", "qm9/mu", "gcn", "tuned", 0, fold, 7, {"fold": fold}, {}) for fold in (0, 1)]
    out, scores = tmp_path / "chosen.json", tmp_path / "scores.csv"
    out.write_text(json.dumps({"qm9/mu/arma/0": {"lr": 1}, "qm9/mu/gcn/0": {"lr": 2}, "qm9/mu/gcn/9": {"lr": 3}}))
    scores.write_text(head + "qm9/mu,arma,0,77\nqm9/mu,gcn,0,11\nzinc,gcn,0,12\n")
    for _ in range(2):  # twice is once
        write_search(GRAPHS, done, {}, out, scores)
        assert list(json.loads(out.read_text()).items()) == [
            ("qm9/mu/arma/0", {"lr": 1}), ("qm9/mu/gcn/0", {"fold": 0}), ("qm9/mu/gcn/1", {"fold": 1}),
        ]  # fmt: skip
        assert scores.read_text() == head + "qm9/mu,arma,0,77\nqm9/mu,gcn,0,50\nqm9/mu,gcn,1,50\nzinc,gcn,0,12\n"


@pytest.mark.parametrize("write", [write_sealed, Path.write_bytes], ids=["sealed", "plain"])
def test_files_of_something_else_are_refused_and_left_alone(
    tmp_path: Path, write: Callable[[Path, bytes], object]
) -> None:
    path = tmp_path / "file"
    done = records(GRAPHS, "mutag", Budget(1, 1), (80, 1))
    for text in (b"[1]\n", b"no json\n", b"{"):
        write(path, text)
        with pytest.raises(DataError, match=r"not the choices of a search.*Name another file"):
            write_search(GRAPHS, done, GRAPHS.search.budgets, path, None)
        assert path.read_bytes() == text
    write(path, b"a,b\n1,2\n")
    with pytest.raises(DataError, match="not the scores of this search"):
        write_search(GRAPHS, done, GRAPHS.search.budgets, None, path)
    assert path.read_bytes() == b"a,b\n1,2\n"


@pytest.mark.parametrize("table", PAPERS.values(), ids=list(PAPERS))
def test_the_committed_scores_have_this_form(table: Table) -> None:
    path = Path(__file__).parents[2] / "results" / "search" / f"{table.name}.csv"
    if not path.exists():
        pytest.skip("no results beside the tests: not a checkout")
    head, *_ = path.read_text().splitlines()
    assert head == scores_csv(table, []).strip()


@pytest.mark.parametrize("table", PAPERS.values(), ids=list(PAPERS))
def test_the_committed_searches_tried_the_settings_that_are_drawn_now(table: Table) -> None:
    """A seed that goes by the place of a dataset in a list would draw others as soon as the list is longer."""
    path = Path(__file__).parents[2] / "results" / "search" / f"{table.name}.csv"
    if not path.exists():
        pytest.skip("no results next to the tests: not a checkout")
    tried: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for row in csv.DictReader(path.read_text().splitlines()):
        tried.setdefault((row["dataset"], row["method"]), set()).add(tuple(row[name] for name in table.search.shown))
    for (dataset, method), settings in tried.items():
        drawn = table.search.settings(dataset, method, table.search.budgets[dataset].settings)
        contents = [{"edges": "plain", "l2_on": "all"} | stored(table, dataset, config, method) for config in drawn]
        now = {tuple(str(content[name]) for name in table.search.shown) for content in contents}
        assert settings <= now or now <= settings  # unfinished searches have fewer; PPI has an older one, too


def test_the_choice_on_mnist_self_is_that_of_the_trainings_that_judged() -> None:
    """Its protocol judges two settings from the seeds 0, 1 and 2 by their mean validation accuracy."""
    path = Path(__file__).parents[2] / "results" / "search" / f"{SIGNALS.name}.csv"
    if not path.exists():
        pytest.skip("no results next to the tests: not a checkout")
    judged: dict[float, dict[str, float]] = {}
    for row in csv.DictReader(path.read_text().splitlines()):
        if row["dataset"] == "mnist-self":
            judged.setdefault(float(row["l2"]), {})[row["seed"]] = float(row["val_accuracy"])
    assert [(l2, sorted(scores)) for l2, scores in judged.items()] == [(5e-4, ["0", "1", "2"]), (5e-5, ["0", "1", "2"])]
    best = max(judged, key=lambda l2: sum(judged[l2].values()))
    assert SIGNALS.config(Cell("mnist-self", "arma", "tuned")).l2 == best  # type: ignore[attr-defined]
