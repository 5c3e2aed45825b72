"""Table 1: configurations, batches, the search, and a command that survives kills."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.data import load
from armagnn.errors import DataError, ParameterError, UnknownNameError
from armagnn.nn.stack import Stack
from armagnn.paper import node_classification as node
from armagnn.paper import search
from armagnn.paper.choices import NotTunedError
from armagnn.paper.jobs import CellTrial, make_jobs, work
from armagnn.paper.published import ACCURACY, DATASETS, HYPERPARAMETERS, METHODS
from armagnn.paper.search import Budget
from armagnn.training.checkpoint import Checkpoint
from armagnn.training.engine import execute
from armagnn.training.record import Record
from armagnn.training.store import Store


def short(method: str, epochs: int = 4) -> node.NodeConfig:
    return replace(node.paper_config("cora", method), epochs=epochs)


def test_the_paper_protocol_is_the_text() -> None:
    for dataset in DATASETS:
        row = HYPERPARAMETERS[dataset]
        for method in METHODS:
            config = node.paper_config(dataset, method)
            assert (config.epochs, config.patience, config.stop_on, config.act) == (2000, 50, "accuracy", "relu")
            assert (config.l2, config.lr, config.hidden) == (row.l2, row.lr, row.hidden)
            assert config.input_dropout == config.hidden_dropout == row.dropout
            assert config.skip_dropout == (row.dropout if method == "arma" else 0)
    assert HYPERPARAMETERS["ppi"].hidden == 64
    assert ACCURACY["arma"] == {"cora": (83.4, 0.6), "citeseer": (72.5, 0.4), "pubmed": (78.9, 0.3), "ppi": (90.5, 0.3)}


@pytest.mark.parametrize("method", ["gcn", "gat", "sage", "gin"])
def test_every_place_holds_the_stack_that_the_paper_says(method: str) -> None:
    cora = load("cora")
    deep = replace(node.paper_config("ppi", method), hidden=8).network(cora)  # L = 2
    for conv in (deep.conv1, deep.conv2):
        assert isinstance(conv, Stack)
        assert len(conv) == 2
    shallow = node.paper_config("cora", method).network(cora)  # L = 1
    assert not isinstance(shallow.conv1, Stack)


def test_orders_reach_the_layers() -> None:
    cora = load("cora")
    arma = node.paper_config("citeseer", "arma").network(cora)
    assert (arma.conv1.num_stacks, arma.conv1.num_layers) == (3, 1)
    assert replace(node.paper_config("citeseer", "arma"), last_k=1).network(cora).conv2.num_stacks == 1
    assert node.paper_config("pubmed", "chebyshev").network(cora).conv2.order == 3
    cayley = node.paper_config("pubmed", "cayley").network(cora)
    assert (cayley.conv1.order, cayley.conv1.jacobi) == (2, 5)


def test_names_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="cora"):
        node.paper_config("corra", "arma")
    with pytest.raises(UnknownNameError, match="arma"):
        node.paper_config("cora", "armma")
    with pytest.raises(UnknownNameError, match="paper"):
        node.config_of("cora", "arma", "papper")
    with pytest.raises(ParameterError, match="ppi"):
        node.config_of("cora", "arma", "wide")
    assert node.config_of("ppi", "arma", "wide").hidden == 512


def test_choices_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "chosen.json"
    wanted = search.space("cora", "gat", 3)[2]
    path.write_text(json.dumps({"cora/gat": asdict(wanted)}))
    assert node.config_of("cora", "gat", "tuned", path) == wanted
    with pytest.raises(NotTunedError, match=r"--method sage --out chosen\.json"):
        node.config_of("cora", "sage", "tuned", path)
    path.write_text("[1]")
    with pytest.raises(ParameterError, match="not the choices of a search"):
        node.config_of("cora", "gat", "tuned", path)
    with pytest.raises(DataError, match=r"mistyped.json: cannot be read"):
        node.config_of("cora", "gat", "tuned", tmp_path / "mistyped.json")


def test_commands_refuse_what_cannot_be_done(tmp_path: Path) -> None:
    run = CliRunner()
    store = ["--store", str(tmp_path / "store.sqlite")]
    for extra, message in (
        (["--device", "foo"], "use 'cpu'"),
        (["--runs", "0"], "at least 1"),
        (["--dataset", "corra"], "cora"),
    ):
        result = run.invoke(app, ["reproduce", "node-classification", *store, *extra])
        assert result.exit_code == 2, result.output
        assert message in result.output
    assert not (tmp_path / "store.sqlite").exists()


def test_a_checkpoint_of_other_software_is_not_used(tmp_path: Path) -> None:
    (job,) = make_jobs([CellTrial(short("gcn"), 0, 0)], table=node.TABLE, checkpoints=tmp_path)
    Checkpoint(tmp_path, job.name).save({"versions": {"torch": "0"}, "trials": {}})
    assert len(list(work(job))) == 1
    assert Checkpoint(tmp_path, job.name).load() is None


def test_a_diverged_trial_is_marked(tmp_path: Path) -> None:
    trial = CellTrial(replace(short("gcn"), lr=1e30), 0, 0)
    (job,) = make_jobs([trial], table=node.TABLE, checkpoints=tmp_path)
    (record,) = work(job)
    assert record.metrics["diverged"] == 1


def test_trials_of_one_shape_are_one_job(tmp_path: Path) -> None:
    trials = [CellTrial(short(method), run, run) for method in ("arma", "gat") for run in range(3)]
    trials.append(CellTrial(replace(short("arma"), l2=0.1), 3, 3))  # a continuous one: the same batch
    trials.append(CellTrial(replace(short("arma"), act="elu"), 4, 4))  # another network
    jobs = make_jobs(trials, table=node.TABLE, checkpoints=tmp_path)
    assert sorted(len(job.trials) for job in jobs) == [1, 3, 4]
    assert len({key for job in jobs for key in job.keys}) == 8
    part = jobs[0].only(jobs[0].keys[1:3])
    assert part.keys == jobs[0].keys[1:3]
    assert part.name == jobs[0].name


def test_work_gives_the_records_that_were_promised(tmp_path: Path) -> None:
    trials = [CellTrial(short(method), run, run) for method in ("gcn", "sage") for run in range(2)]
    jobs = make_jobs(trials, table=node.TABLE, checkpoints=tmp_path / "checkpoints")
    with Store(tmp_path / "store.sqlite") as store:
        assert execute(jobs, work, store) == 4
        assert execute(jobs, work, store) == 0
        records = store.select(table=node.TABLE)
    assert {record.key for record in records} == {key for job in jobs for key in job.keys}
    for record in records:
        assert set(record.metrics) == {"accuracy", "val_accuracy", "val_loss"}
        assert 0 <= record.metrics["accuracy"] <= 100
        assert record.epochs == 4
        assert record.data_sha256 == load("cora").sha256


def test_the_search_is_the_same_for_all_methods_and_never_sees_test_data(tmp_path: Path) -> None:
    arma, gcn = search.space("cora", "arma", 20), search.space("cora", "gcn", 20)
    for ours, theirs in zip(arma, gcn, strict=True):
        assert (ours.input_dropout, ours.hidden_dropout, ours.l2, ours.act) == (
            theirs.input_dropout, theirs.hidden_dropout, theirs.l2, theirs.act,
        )  # fmt: skip
    assert {config.last_k for config in arma} == {1, 2}
    assert {config.stop_on for config in arma} == {"loss"}
    assert arma[0] == replace(
        node.paper_config("cora", "arma"), protocol="tuned", stop_on="loss", patience=100
    )  # the first is the paper's
    seeds = {trial.seed for trial in search.trials("cora", "arma", Budget(5, 3))}
    assert min(seeds) >= search.FIRST_SEED > 1000
    trials = search.trials("cora", "gcn", Budget(2, 2, epochs=3))
    with Store(tmp_path / "store.sqlite") as store:
        execute(make_jobs(trials, table=search.TABLE, checkpoints=tmp_path), work, store)
        records = store.select(table=search.TABLE)
    assert all(set(record.metrics) == {"val_accuracy", "val_loss"} for record in records)


def scored(index: int, seed: int, accuracy: float) -> Record:
    config = asdict(search.space("cora", "gcn", 5)[index])
    return Record(search.TABLE, "cora", "gcn", "tuned", index, 0, seed, config, {"val_accuracy": accuracy})


def test_finals_decide() -> None:
    first = [scored(index, search.FIRST_SEED, accuracy) for index, accuracy in enumerate((70, 90, 80, 60, 50))]
    trials = search.finals(first, "cora", "gcn", Budget(finalists=2, final_seeds=3))
    wanted = search.space("cora", "gcn", 5)
    assert [trial.config for trial in trials] == [wanted[1]] * 3 + [wanted[2]] * 3
    assert {trial.seed for trial in trials}.isdisjoint({record.seed for record in first})
    assert search.choose(first)["cora/gcn"] == asdict(wanted[1])  # the finals are still to come
    late = [scored(1, search.FINAL_SEED, 75.0), scored(2, search.FINAL_SEED, 79.0)]
    one, two = ({"cora": Budget(finalists=2, final_seeds=seeds)} for seeds in (1, 2))
    assert search.choose([*first, *late], one)["cora/gcn"] == asdict(wanted[2])
    assert search.choose([*first, *late[1:]], one)["cora/gcn"] == asdict(wanted[1])  # finals not held to their end
    assert search.choose([*first, *late], two)["cora/gcn"] == asdict(wanted[1])
    table = list(csv.DictReader(search.scores_csv([*first, *late]).splitlines()))
    assert len(table) == 7
    assert {row["stage"] for row in table} == {"search", "finals"}


def test_short_trainings_choose_what_is_trained_to_its_end() -> None:
    """As on PPI, where there are no finals."""
    budget = search.BUDGETS["ppi"]
    trials = search.trials("ppi", "arma", budget)
    assert {trial.config.epochs for trial in trials} == {budget.epochs} == {1000}
    rates = [(c.input_dropout, c.hidden_dropout, c.skip_dropout) for c in search.space("ppi", "arma", 8)]
    assert (0, 0, 0) in rates  # PPI needs little regularisation
    records = [
        Record(
            search.TABLE, "ppi", "arma", "tuned", trial.run, 0, trial.seed, asdict(trial.config), {"val_accuracy": v}
        )
        for trial, v in zip(trials, (70.0, 72.0, 79.0, 75.0, 60.0, 61.0, 62.0, 63.0), strict=True)
    ]
    assert search.finals(records, "ppi", "arma", budget) == []
    assert search.choose(records)["ppi/arma"] == asdict(search.space("ppi", "arma", 8)[2])
    assert search.space("ppi", "arma", 8)[2].epochs == node.paper_config("ppi", "arma").epochs == 2000


def command(folder: Path) -> list[str]:
    return [
        sys.executable, "-m", "armagnn.cli", "reproduce", "node-classification", "--dataset", "cora", "--method", "mlp",
        "--protocol", "paper", "--runs", "3", "--store", str(folder / "store.sqlite"),
    ]  # fmt: skip


def rows(folder: Path) -> list[dict[str, str]]:
    tool = [sys.executable, "-m", "armagnn.cli", "results", "export", str(folder / "store.sqlite")]
    subprocess.run([*tool, "--out", str(folder)], check=True, capture_output=True)
    with (folder / "node-classification.csv").open() as file:
        return [{name: value for name, value in row.items() if name != "seconds"} for row in csv.DictReader(file)]


def test_kill_9_loses_nothing(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    subprocess.run(command(whole), check=True, capture_output=True)
    for moment in (5.0, 7.0):
        process = subprocess.Popen(command(killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moment)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run(command(killed), check=True, capture_output=True)
    assert rows(killed) == rows(whole)
    assert len(rows(whole)) == 3 * 3  # runs, metrics
