"""The search behind the tuned protocol of Tables 3 and 4."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.paper import graph_search as search
from armagnn.paper.choices import FIRST_SEED
from armagnn.paper.graph_tables import graph_config, graph_trials
from armagnn.paper.jobs import content_of
from armagnn.paper.published_graphs import CLASSIFIERS, REGRESSORS
from armagnn.training.record import Record
from armagnn.training.store import Store


@pytest.mark.parametrize(("dataset", "methods"), [("mutag", CLASSIFIERS), ("dd", CLASSIFIERS), ("qm9/mu", REGRESSORS)])
def test_the_settings_are_the_same_for_all_methods(dataset: str, methods: tuple[str, ...]) -> None:
    spaces = {method: search.graph_space(dataset, method, 12) for method in methods}
    for method, space in spaces.items():
        assert len(space) == 12
        assert len(set(space)) == (10 if dataset == "qm9/mu" and method != "arma" else 12)
        assert space[0].lr == 1e-3
        for own, other in zip(space, spaces["arma"], strict=True):
            for name in ("act", "slots", "hidden_dropout", "l2", "lr", "edges"):
                assert getattr(own, name) == getattr(other, name)
            assert own.skip_dropout == (other.skip_dropout if method == "arma" else 0)
            assert (own.k, own.t, own.protocol) == (
                graph_config(dataset, method).k,
                graph_config(dataset, method).t,
                "tuned",
            )
    assert search.graph_space("mutag", "arma", 12)[1:] != search.graph_space("dd", "arma", 12)[1:]


def test_no_setting_is_tried_twice() -> None:
    for method in REGRESSORS:
        trials = search.search_trials("qm9/mu", method, search.SETTINGS, 3, 2)
        assert len({(trial.config, trial.seed, trial.fold) for trial in trials}) == len(trials)
    assert len(trials) == 4 * 3 * 2  # without skip connections


def test_no_seed_is_a_reported_one() -> None:
    reported = {trial.seed for trial in graph_trials("mutag", "arma", "paper", 10)}
    assert reported.isdisjoint(trial.seed for trial in search.search_trials("mutag", "arma", 12, 3, 10))


def record(fold: int, index: int, seed: int, accuracy: float, loss: float) -> Record:
    config = search.search_trials("mutag", "arma", 3, 1, 10)[index].config
    metrics = {"val_accuracy": accuracy, "val_loss": loss}
    table = search.SEARCH_TABLES[False]
    return Record(table, "mutag", "arma", "tuned", index, fold, FIRST_SEED + seed - 1, content_of(config), metrics)


def test_each_fold_chooses_by_accuracy_then_loss() -> None:
    records = [
        record(0, 0, 1, 90, 1.0), record(0, 0, 2, 80, 1.0),  # 85
        record(0, 1, 1, 86, 5.0), record(0, 1, 2, 86, 5.0),  # 86: the best
        record(0, 2, 1, 70, 0.1), record(0, 2, 2, 70, 0.1),
        *(record(1, 0, seed, 90, 2.0) for seed in (1, 2)), *(record(1, 1, seed, 90, 1.5) for seed in (1, 2)),
        *(record(1, 2, seed, 90, 1.0) for seed in (1, 2)),  # equal: the lowest loss
        record(2, 0, 1, 99, 0.1), record(2, 0, 2, 99, 0.1), record(2, 1, 1, 99, 0.1),  # not complete: no choice
    ]  # fmt: skip
    chosen = search.choose_graphs(records, 3, 2)
    space = search.graph_space("mutag", "arma", 3)
    assert sorted(chosen) == ["mutag/arma/0", "mutag/arma/1"]
    assert [chosen[f"mutag/arma/{fold}"]["lr"] for fold in (0, 1)] == [space[1].lr, space[2].lr]
    fewer = search.choose_graphs(records, 3, 1)  # a search of one seed: what others had does not count
    assert fewer["mutag/arma/0"]["lr"] == space[0].lr
    assert search.choose_graphs([r for r in records if r.seed > FIRST_SEED], 3, 1) == {}
    rows = list(csv.DictReader(search.graph_scores_csv(records).splitlines()))
    assert len(rows) == 15
    assert {row["fold"] for row in rows} == {"0", "1", "2"}


def test_a_property_chooses_from_short_trainings_and_trains_long() -> None:
    (trial,) = search.search_trials("qm9/mu", "arma", 1, 1, 1)
    assert (trial.config.epochs, trial.fold) == (search.SHORT["qm9"], 0)
    metrics = {"val_loss": 0.4, "val_mse": 0.4}
    found = search.choose_graphs(
        [Record("t", "qm9/mu", "arma", "tuned", 0, 0, trial.seed, content_of(trial.config), metrics)], 1, 1
    )
    assert {place: config["epochs"] for place, config in found.items()} == {"qm9/mu/arma/0": search.LONG}


@pytest.mark.parametrize("dataset", ["proteins", "dd"])
def test_a_large_set_chooses_from_short_trainings_and_trains_long(dataset: str) -> None:
    (trial,) = search.search_trials(dataset, "arma", 1, 1, 1)
    whole = graph_config(dataset, "arma").epochs
    assert trial.config.epochs == search.SHORT[dataset] < whole
    metrics = {"val_loss": 0.4, "val_accuracy": 70.0}
    found = search.choose_graphs(
        [Record("t", dataset, "arma", "tuned", 0, 0, trial.seed, content_of(trial.config), metrics)], 1, 1
    )
    assert found[f"{dataset}/arma/0"]["epochs"] == whole
    assert all(graph_config(dataset, "arma", "tuned", fold).epochs == whole for fold in range(10))  # the committed


def test_the_command_searches_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    monkeypatch.setattr(search, "graph_config", lambda *a: replace(graph_config(*a), epochs=1, hidden=4, t=1))
    out, scores, store = (tmp_path / name for name in ("chosen.json", "scores.csv", "store.sqlite"))
    command = [
        "reproduce", "graph-classification-search", "--dataset", "mutag", "--method", "gcn", "--settings", "1",
        "--seeds", "1", "--store", str(store), "--out", str(out), "--scores", str(scores),
    ]  # fmt: skip
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert sorted(json.loads(out.read_text())) == [f"mutag/gcn/{fold}" for fold in range(10)]
    assert len(scores.read_text().splitlines()) == 11
    with Store(store) as opened:
        assert all("accuracy" not in record.metrics for record in opened.select())  # test data is not looked at
    assert graph_config("mutag", "gcn", "tuned", 7, out).hidden == 4


def test_a_cell_that_is_named_twice_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("armagnn.cli.searches.do_trials", lambda trials, *a, **k: asked.append(len(trials)))
    command = ["reproduce", "graph-classification-search", "--method", "gcn", "--store", str(tmp_path / "s.sqlite")]
    for datasets in (["--dataset", "mutag"], ["--dataset", "mutag"] * 2):
        assert CliRunner().invoke(app, [*command, *datasets]).exit_code == 0
    assert asked == [60, 60]


@pytest.mark.parametrize(
    "command", ["graph-classification-search", "graph-regression-search", "node-classification-search"]
)
@pytest.mark.parametrize("option", ["--out", "--scores"])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path, command: str, option: str) -> None:
    (tmp_path / "file").touch()
    arguments = ["reproduce", command, "--method", "gcn", "--store", str(tmp_path / "store.sqlite")]
    result = CliRunner().invoke(app, [*arguments, option, str(tmp_path / "file" / "chosen.json")])
    assert result.exit_code == 2
    assert "cannot be written" in result.output
    assert not (tmp_path / "store.sqlite").exists()


@pytest.mark.parametrize("command", ["graph-classification", "graph-regression", "graph-signal", "node-classification"])
def test_choices_that_are_not_there_are_refused(tmp_path: Path, command: str) -> None:
    """A mistyped name must not pass for a search that has not been made."""
    arguments = ["reproduce", command, "--store", str(tmp_path / "store.sqlite"), "--chosen", str(tmp_path / "no.json")]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert "--chosen" in result.output
    assert "does not exist" in result.output
