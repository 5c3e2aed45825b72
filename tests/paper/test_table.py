"""What all tables do: cells, choices, trials, batches, and the records that work gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from armagnn.data import load
from armagnn.errors import DataError, ParameterError, UnknownNameError
from armagnn.training.checkpoint import Checkpoint
from armagnn.training.engine import execute
from armagnn.training.outcome import Outcome, Setting
from armagnn.training.record import Record
from armagnn.training.results_store import Store
from armagnn_paper.search import Budget, search_trials
from armagnn_paper.table import Cell, CellTrial, NotTunedError, Table, metrics_of, table_of, work
from armagnn_paper.tables import GRAPHS, MOLECULAR, NODES, SIGNALS, TABLES

PAPERS = {name: table for name, table in TABLES.items() if "paper" in table.protocols}
"""The tables of the paper; `test_heterophily_table` has that beyond it."""
each_table = pytest.mark.parametrize("table", PAPERS.values(), ids=list(PAPERS))


def cell_of(table: Table, protocol: str = "paper", method: str = "arma") -> Cell:
    return Cell("mutag" if table is GRAPHS else table.datasets[0], method, protocol)


def quick(method: str, run: int = 0, epochs: int = 4, **changes: Any) -> CellTrial:
    """A trial of Cora with few epochs."""
    cell = Cell("cora", method, "paper")
    return CellTrial(cell, replace(NODES.config(cell), epochs=epochs, **changes), run, run)


def graph(method: str, run: int = 0) -> CellTrial:
    """A trial of a fold of MUTAG with few epochs and units."""
    cell = Cell("mutag", method, "paper")
    config = replace(GRAPHS.config(cell), epochs=2, hidden=8, stacks=1, layers=1)
    return CellTrial(cell, config, run, run, 3)


# ---------------------------------------------------------------------------------------------------------------- cells


@each_table
def test_names_are_checked(table: Table) -> None:
    dataset, method, protocol = cell_of(table)
    for cell, known in (
        (Cell(f"{dataset}x", method, protocol), dataset),
        (Cell(dataset, "armma", protocol), "arma"),
        (Cell(dataset, method, "papper"), "paper"),
    ):
        with pytest.raises(UnknownNameError, match=known):
            table.config(cell)
    assert table_of(table.name) is table
    with pytest.raises(UnknownNameError, match=table.name):
        table_of(f"{table.name}x")


@each_table
def test_choices_of_ones_own(table: Table, tmp_path: Path) -> None:
    path, cell = tmp_path / "chosen.json", cell_of(table, "tuned", "gcn")
    wanted = table.search.settings(cell.dataset, "gcn", 3)[2]
    place = f"{cell.dataset}/gcn/4" if table.by_fold else f"{cell.dataset}/gcn"
    path.write_text(json.dumps({place: table.stored(cell, wanted)}))
    assert table.config(cell, 4, path) == wanted
    with pytest.raises(NotTunedError, match=rf"{table.name}-search --dataset {cell.dataset} --method arma --out"):
        table.config(cell._replace(method="arma"), 4, path)
    if table.by_fold:
        with pytest.raises(NotTunedError, match="fold 5 of"):
            table.config(cell, 5, path)
    else:
        trials = table.trials(cell, 3, path)
        assert [(trial.config, trial.run, trial.seed) for trial in trials] == [(wanted, run, run) for run in range(3)]
    for text in ("[1]", "no json", json.dumps({place: {"lr": 1}}), json.dumps({place: [1]})):
        path.write_text(text)
        with pytest.raises(ParameterError, match="not the choices of a search"):
            table.config(cell, 4, path)
    path.write_text(json.dumps({place: table.stored(cell, wanted) | {"protocol": "paper"}}))
    with pytest.raises(ParameterError, match="not the choices of a search"):
        table.config(cell, 4, path)
    with pytest.raises(DataError, match=r"mistyped.json: cannot be read"):
        table.config(cell, 4, tmp_path / "mistyped.json")


@each_table
def test_trials_of_other_settings_are_not_current(table: Table) -> None:
    for protocol in ("paper", "tuned"):
        cell = cell_of(table, protocol)
        config = table.stored(cell, table.config(cell))
        record = Record(table.name, *cell, 0, 0, 0, config, {"accuracy": 1.0})
        assert table.is_current(record)
        for other in (config | {"lr": 0.5}, config | {"protocol": "other"}, {}):
            assert not table.is_current(replace(record, config=other))
        assert not table.is_current(replace(record, dataset="minst"))
        assert not table.is_current(replace(record, method="no-such-method"))
        assert not table.is_current(replace(record, protocol="no-such-protocol"))


# --------------------------------------------------------------------------------------------------------------- trials


@each_table
def test_run_n_has_seed_n_in_every_fold(table: Table) -> None:
    trials = table.trials(cell_of(table), 10)
    assert all(trial.seed == trial.run for trial in trials)
    folds = range(10) if table is GRAPHS else range(1)
    if table is not MOLECULAR:
        assert sorted((trial.fold, trial.run) for trial in trials) == [(f, r) for f in folds for r in range(10)]
    assert table.num_folds == len(folds)
    with pytest.raises(ParameterError, match="runs"):
        table.trials(cell_of(table), 0)


def test_three_runs_of_a_property_share_a_fold_and_the_folds_begin_again_after_thirty_runs() -> None:
    trials = MOLECULAR.trials(Cell("qm9/mu", "gcn", "paper"), 64)
    assert [(trial.run, trial.seed) for trial in trials] == [(run, run) for run in range(64)]
    folds = "000111222333444555666777888999" * 2 + "0001"
    assert "".join(str(trial.fold) for trial in trials) == folds


@each_table
def test_what_is_whole_is_finished(table: Table) -> None:
    places = [(trial.run, trial.fold) for trial in table.trials(cell_of(table), 5)]
    assert table.finished(places) == set(places)
    assert table.finished([]) == set()
    half = [place for place in places if place != (1, 0)]  # of the first fold
    others = {place for place in half if place[1] != 0}
    left = {(0, 0)} if table is MOLECULAR else others  # there every run has a fold of its own
    assert table.finished(half) == left


# ----------------------------------------------------------------------------------------------------------------- jobs


def test_trials_of_one_shape_are_one_job(tmp_path: Path) -> None:
    trials = [quick(method, run) for method in ("arma", "gat") for run in range(3)]
    trials.append(quick("arma", 3, l2=0.1))  # a continuous one: the same batch
    trials.append(quick("arma", 4, act="elu"))  # another network
    jobs = NODES.jobs(trials, checkpoints=tmp_path)
    assert sorted(len(job.trials) for job in jobs) == [1, 3, 4]
    assert len({key for job in jobs for key in job.keys}) == 8
    part = jobs[0].only(jobs[0].keys[1:3])
    assert part.keys == jobs[0].keys[1:3]
    assert part.checkpoint == jobs[0].checkpoint


def test_a_fold_is_a_batch(tmp_path: Path) -> None:
    jobs = GRAPHS.jobs(GRAPHS.trials(Cell("mutag", "arma", "paper")), checkpoints=tmp_path)
    assert [len(job.trials) for job in jobs] == [10] * 10
    assert len({key for job in jobs for key in job.keys}) == 100
    assert len(GRAPHS.jobs(GRAPHS.trials(Cell("mutag", "gat", "paper"), 1), checkpoints=tmp_path)) == 10


def test_the_properties_of_a_molecule_are_one_batch(real: Callable[[str], str], tmp_path: Path) -> None:
    real("qm9")
    trials = [trial for name in MOLECULAR.datasets for trial in MOLECULAR.trials(Cell(name, "gcn", "paper"), 4)]
    jobs = MOLECULAR.jobs(trials, checkpoints=tmp_path)
    assert [(len(job.trials), job.trials[0].fold) for job in jobs] == [(27, 0), (9, 1)]
    settings = jobs[0].settings()
    assert sorted({(s.target, s.seed) for s in settings}) == [(t, r) for t in range(9) for r in range(3)]


def test_what_fills_a_device_is_trained_alone(tiny_data: None, tmp_path: Path) -> None:
    for dataset, method in (("mnist", "arma"), ("20news", "gcn")):
        trials = search_trials(SIGNALS, dataset, method, Budget(3, 1, epochs=1))
        assert len(SIGNALS.jobs(trials, checkpoints=tmp_path, search=True)) == 3


# ----------------------------------------------------------------------------------------------------------------- work


def test_work_gives_the_records_that_were_promised(tmp_path: Path) -> None:
    trials = [quick(method, run) for method in ("gcn", "sage") for run in range(2)]
    jobs = NODES.jobs(trials, checkpoints=tmp_path / "checkpoints")
    with Store(tmp_path / "store.sqlite") as store:
        assert execute(jobs, work, store) == 4
        assert execute(jobs, work, store) == 0
        records = store.select(table=NODES.name)
    assert {record.key for record in records} == {key for job in jobs for key in job.keys}
    for record in records:
        assert set(record.metrics) == {"accuracy", "val_accuracy", "val_loss"}
        assert 0 <= record.metrics["accuracy"] <= 100
        assert record.epochs == 4
        assert record.data_sha256 == load("cora").sha256


def test_other_stopping_rules_and_the_fold_are_kept(tmp_path: Path) -> None:
    trials = [graph(method, run) for method in ("gcn", "arma", "sage") for run in range(2)]
    records = [record for job in GRAPHS.jobs(trials, checkpoints=tmp_path) for record in work(job) if record]
    assert len(records) == 6
    assert {record.fold for record in records} == {3}
    for record in records:
        assert set(record.metrics) == {
            "accuracy", "accuracy_loss", "accuracy_last", "accuracy_first", "val_accuracy", "val_loss",
        }  # fmt: skip
        assert 0 <= record.metrics["accuracy_last"] <= 100
        assert not GRAPHS.is_current(record)  # two epochs are not the paper's


def test_a_search_never_sees_test_data(tmp_path: Path) -> None:
    trials = search_trials(NODES, "cora", "gcn", Budget(2, 2, epochs=3))
    for job in NODES.jobs(trials, checkpoints=tmp_path, search=True):
        for record in work(job):
            assert record is not None
            assert record.table == "node-classification-search"
            assert set(record.metrics) == {"val_accuracy", "val_loss"}


def test_a_checkpoint_of_other_software_is_not_used(tmp_path: Path) -> None:
    (job,) = NODES.jobs([quick("gcn")], checkpoints=tmp_path)
    Checkpoint(tmp_path, job.checkpoint).save({"versions": {"torch": "0"}, "trials": {}})
    assert len(list(work(job))) == 1
    assert Checkpoint(tmp_path, job.checkpoint).load() is None


def test_a_diverged_trial_is_marked() -> None:
    metrics = {"loss": 2.0, "accuracy": 0.25}
    outcome = Outcome(Setting(0, 0.1, 0.0), 3, 9, metrics, metrics, 1.0, {}, {})
    assert "diverged" not in metrics_of(outcome, tests=True)
    assert metrics_of(replace(outcome, best_epoch=0), tests=True)["diverged"] == 1


@pytest.mark.parametrize("method", ["gcn", "chebyshev", "cayley"])
def test_settings_of_a_batch_give_what_each_gives_alone(tiny_data: None, tmp_path: Path, method: str) -> None:
    trials = search_trials(SIGNALS, "mnist", method, Budget(4, 1, epochs=2))
    rates = {trial.config.hidden_dropout for trial in trials}  # type: ignore[attr-defined]
    assert len(rates) == len({trial.config.lr for trial in trials}) == 4
    (together,) = SIGNALS.jobs(trials, checkpoints=tmp_path / "together", search=True)
    alone = [
        job for trial in trials for job in SIGNALS.jobs([trial], checkpoints=tmp_path / "alone", search=True)
    ]  # fmt: skip
    found = {record.run: record for record in work(together) if record}
    assert len(found) == 4
    assert len({record.metrics["val_loss"] for record in found.values()}) == 4
    for job in alone:
        (record,) = work(job)
        assert record is not None
        assert record.config == found[record.run].config
        for name, value in record.metrics.items():
            assert found[record.run].metrics[name] == pytest.approx(value, rel=1e-4)
