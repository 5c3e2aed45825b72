"""The search behind the tuned protocol of Table 2."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.paper import graph_signal as signals
from armagnn.paper import signal_search as search
from armagnn.paper.choices import FIRST_SEED
from armagnn.paper.graph_signal import published_config, signal_config
from armagnn.paper.jobs import make_jobs, work
from armagnn.paper.published_signals import SIGNAL_METHODS, SIGNAL_SETS
from armagnn.paper.search import Budget
from armagnn.training.record import Record
from armagnn.training.store import Store


@pytest.mark.parametrize("dataset", SIGNAL_SETS)
def test_the_settings_are_the_same_for_all_methods(dataset: str) -> None:
    spaces = {method: search.signal_space(dataset, method, 40) for method in SIGNAL_METHODS}
    for method, space in spaces.items():
        base = published_config(dataset, method, "defferrard")
        assert space[0] == replace(base, protocol="tuned")
        for own, arma in zip(space, spaces["arma"], strict=True):
            chosen = {name: getattr(arma, name) for name in ("hidden_dropout", "l2", "lr")}
            skip = arma.skip_dropout if method == "arma" else 0.0
            assert own == replace(base, protocol="tuned", skip_dropout=skip, **chosen)  # and nothing else differs
    drawn = spaces["arma"][1:]
    assert all(0 <= config.hidden_dropout <= 0.9 and 0 <= config.skip_dropout <= 0.9 for config in drawn)
    assert all(1e-7 <= config.l2 <= 1e-3 and 3e-4 <= config.lr <= 5e-3 for config in drawn)
    assert 10 < sum(config.skip_dropout == 0 for config in drawn) < 30
    assert search.signal_space(dataset, "arma", 8) == spaces["arma"][:8]  # a longer search tries these, too
    assert len(set(spaces["arma"])) == 40


def test_each_dataset_has_settings_of_its_own() -> None:
    rates = {tuple(config.hidden_dropout for config in search.signal_space(d, "gcn", 8)[1:]) for d in SIGNAL_SETS}
    assert len(rates) == 2


def test_budgets_and_seeds() -> None:
    news = search.signal_search_trials("20news", "arma", search.BUDGETS["20news"])
    images = search.signal_search_trials("mnist", "arma", search.BUDGETS["mnist"])
    assert (len(news), len(images)) == (16, 8)
    assert {trial.config.epochs for trial in news} == {20}
    assert {trial.config.epochs for trial in images} == {2}
    assert [trial.run for trial in news] == list(range(16))
    reported = {trial.seed for trial in signals.signal_trials("20news", "arma", "paper", 100)}
    assert reported.isdisjoint(trial.seed for trial in news + images)
    assert {trial.seed for trial in news} == {FIRST_SEED, FIRST_SEED + 1}
    assert "search" in search.SEARCH_TABLE  # so that jobs leave out the metrics of test data


def records(dataset: str, *scores: tuple[float, float], budget: Budget) -> list[Record]:
    """A record of each trial, in their order, with these validation accuracies and losses."""
    trials = search.signal_search_trials(dataset, "arma", budget)
    return [
        Record(
            search.SEARCH_TABLE, dataset, "arma", "tuned", trial.run, 0, trial.seed, asdict(trial.config),
            {"val_accuracy": accuracy, "val_loss": loss},
        )
        for trial, (accuracy, loss) in zip(trials, scores, strict=False)
    ]  # fmt: skip


def test_accuracy_chooses_then_loss_and_only_of_a_complete_search() -> None:
    budget = Budget(3, 2, 0, 0)
    space = search.signal_space("20news", "arma", 3)
    scores = [(90, 1.0), (80, 1.0), (86, 5.0), (86, 5.0), (70, 0.1), (70, 0.1)]  # means 85, 86, 70
    done = records("20news", *scores, budget=budget)
    assert search.choose_signals(done, {"20news": budget}) == {"20news/arma": asdict(space[1])}
    for missing in range(6):
        assert search.choose_signals(done[:missing] + done[missing + 1 :], {"20news": budget}) == {}
    assert search.choose_signals(done, {"20news": replace(budget, settings=4)}) == {}
    equal = records("20news", *[(60, loss) for loss in (3, 3, 2, 2, 1, 1)], budget=budget)
    assert search.choose_signals(equal, {"20news": budget}) == {"20news/arma": asdict(space[2])}
    same = records("20news", *[(60, 1.0)] * 6, budget=budget)
    assert search.choose_signals(same, {"20news": budget}) == {"20news/arma": asdict(space[0])}
    old = replace(done[0], config=done[0].config | {"l2": 0.5}, metrics={"val_accuracy": 99.0, "val_loss": 0.0})
    assert search.choose_signals([*done, old, old], {"20news": budget}) == {"20news/arma": asdict(space[1])}


def test_short_trainings_choose_what_is_trained_for_all_epochs() -> None:
    budget = search.BUDGETS["mnist"]
    done = records("mnist", *[(90 - abs(index - 4), 1.0) for index in range(8)], budget=budget)
    chosen = search.choose_signals(done)
    assert chosen == {"mnist/arma": asdict(search.signal_space("mnist", "arma", 8)[4])}
    assert chosen["mnist/arma"]["epochs"] == 20
    long = [replace(record, config=record.config | {"epochs": 20}) for record in done]
    assert search.choose_signals(long) == {}  # those of another budget


def test_the_command_searches_and_writes(
    tiny_data: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(signals, "EPOCHS", 3)
    out, scores, store = (tmp_path / name for name in ("chosen.json", "scores.csv", "store.sqlite"))
    command = [
        "reproduce", "graph-signal-search", "--dataset", "20news", "--method", "gcn", "--method", "arma", "--settings",
        "2", "--seeds", "2", "--epochs", "1", "--store", str(store), "--out", str(out), "--scores", str(scores),
    ]  # fmt: skip
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    with Store(store) as opened:
        tried = opened.select()
    assert {record.table for record in tried} == {"graph-signal-search"}
    assert len(tried) == 8
    assert {record.epochs for record in tried} == {1}
    assert all(set(record.metrics) == {"val_accuracy", "val_loss"} for record in tried)  # no test data
    choices = json.loads(out.read_text())
    assert sorted(choices) == ["20news/arma", "20news/gcn"]
    for method in ("arma", "gcn"):
        config = signal_config("20news", method, "tuned", out)
        assert config in search.signal_space("20news", method, 2)
        assert (config.epochs, config.protocol, config.reading) == (3, "tuned", "defferrard")
    rows = list(csv.DictReader(scores.read_text().splitlines()))
    assert len(rows) == 8
    assert {float(row["lr"]) for row in rows} == {config.lr for config in search.signal_space("20news", "gcn", 2)}
    assert {row["seed"] for row in rows} == {"1000000", "1000001"}


def test_the_plan_trains_nothing(tiny_data: None, tmp_path: Path) -> None:
    store, out = tmp_path / "store.sqlite", tmp_path / "chosen.json"
    command = [
        "reproduce", "graph-signal-search", "--dataset", "mnist", "--method", "gcn", "--plan", "--store", str(store),
        "--settings", "2", "--out", str(out),
    ]  # fmt: skip
    result = CliRunner().invoke(app, command, env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert "2 trainings to do: about " in result.output
    assert not store.exists()
    assert not out.exists()


def test_the_command_asks_for_what_the_budgets_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("armagnn.cli.searches.do_trials", lambda trials, *a, **k: asked.append(len(trials)))
    command = ["reproduce", "graph-signal-search", "--store", str(tmp_path / "store.sqlite")]
    for extra in ([], ["--dataset", "mnist"], ["--dataset", "20news"] * 2, ["--method", "gcn", "--seeds", "3"]):
        assert CliRunner().invoke(app, [*command, *extra]).exit_code == 0
    assert asked == [4 * (8 + 16), 4 * 8, 4 * 16, 2 * 24]


def test_the_command_refuses_what_cannot_be_done(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for arguments, message in (
        (["--dataset", "mist"], "mnist"),
        (["--method", "gat"], "arma"),
        (["--settings", "0"], "settings, seeds and epochs must all be at least 1."),
        (["--epochs", "0"], "settings, seeds and epochs must all be at least 1."),
        (["--out", str(tmp_path / "file" / "chosen.json")], "cannot be written"),
    ):
        command = ["reproduce", "graph-signal-search", "--store", str(tmp_path / "store.sqlite"), *arguments]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 2
        assert message in result.output
    assert not (tmp_path / "store.sqlite").exists()


@pytest.mark.parametrize("method", ["gcn", "chebyshev", "cayley"])
def test_settings_of_a_batch_give_what_each_gives_alone(tiny_data: None, tmp_path: Path, method: str) -> None:
    trials = search.signal_search_trials("mnist", method, Budget(4, 1, 0, 0, epochs=2))
    assert len({trial.config.hidden_dropout for trial in trials}) == len({trial.config.lr for trial in trials}) == 4
    (together,) = make_jobs(trials, table=search.SEARCH_TABLE, checkpoints=tmp_path / "together")
    alone = [
        job for trial in trials for job in make_jobs([trial], table=search.SEARCH_TABLE, checkpoints=tmp_path / "alone")
    ]
    found = {record.run: record for record in work(together)}
    assert len(found) == 4
    assert len({record.metrics["val_loss"] for record in found.values()}) == 4
    for job in alone:
        (record,) = work(job)
        assert record.config == found[record.run].config
        for name, value in record.metrics.items():
            assert found[record.run].metrics[name] == pytest.approx(value, rel=1e-4)


def test_what_fills_a_device_is_trained_alone(tiny_data: None, tmp_path: Path) -> None:
    for dataset, method in (("mnist", "arma"), ("20news", "gcn")):
        trials = search.signal_search_trials(dataset, method, Budget(3, 1, 0, 0, epochs=1))
        assert len(make_jobs(trials, table=search.SEARCH_TABLE, checkpoints=tmp_path)) == 3
