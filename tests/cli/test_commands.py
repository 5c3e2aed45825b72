"""The commands: what they print, where they write, and how they refuse."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import armagnn
from armagnn.cli import app
from armagnn.data import load
from armagnn.training import Run, TrainConfig, Watcher, train

QUICK = ["--hidden", "2", "--stacks", "1", "--epochs", "3", "--seeds", "2", "--jobs", "1"]
CONFIG = TrainConfig(hidden=2, stacks=1, epochs=3, seeds=2)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")
    return CliRunner()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    train(CONFIG, path)
    return path


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    class Interrupt(Watcher):
        def epoch(self, seed: int, epoch: int, val_loss: float, val_accuracy: float) -> None:
            if seed == 1:
                raise KeyboardInterrupt

    path = tmp_path / "interrupted"
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, path, watcher=Interrupt())
    return path


# ------------------------------------------------------------------------------------------------------------- train


def test_train_shows_every_seed_the_mean_and_the_paper(run: CliRunner, tmp_path: Path) -> None:
    result = run.invoke(app, ["train", "--out", str(tmp_path / "run"), *QUICK])
    assert result.exit_code == 0, result.output
    metrics = Run.open(tmp_path / "run").metrics()
    for trial in metrics["trials"]:
        assert f"{100 * trial['test_accuracy']:.1f}" in result.stdout
    accuracy = metrics["test_accuracy"]
    assert f"{100 * accuracy['mean']:.1f} ± {100 * accuracy['std']:.1f}" in result.stdout
    assert "83.4 ± 0.6" in result.stdout
    assert result.stderr == ""  # no progress display where there is no terminal


def test_flags_reach_the_configuration(run: CliRunner, tmp_path: Path) -> None:
    flags = {
        "hidden": 3, "stacks": 2, "layers": 2, "dropout": 0.1, "skip_dropout": 0.2, "act": "elu", "init": "tied",
        "l2": 0.001, "lr": 0.02, "epochs": 2, "patience": 7, "stop_on": "accuracy", "seed": 4, "seeds": 1,
        "device": "cpu", "dataset": "cora",
    }  # fmt: skip
    assert flags.keys() == TrainConfig().to_json().keys()  # a flag for every option
    arguments = [text for name, value in flags.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    result = run.invoke(app, ["train", "--out", str(tmp_path / "run"), *arguments])
    assert result.exit_code == 0, result.output
    assert Run.open(tmp_path / "run").config == TrainConfig(**flags)


def test_the_folder_is_named_after_the_data(run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run.invoke(app, ["train", *QUICK]).exit_code == 0
    assert Run.open("runs/cora").complete


def test_resume_needs_no_options(run: CliRunner, interrupted: Path, finished: Path) -> None:
    result = run.invoke(app, ["train", "--out", str(interrupted), "--resume"])
    assert result.exit_code == 0, result.output
    assert (interrupted / "metrics.json").read_bytes() == (finished / "metrics.json").read_bytes()
    assert (interrupted / "weights.safetensors").read_bytes() == (finished / "weights.safetensors").read_bytes()


def test_resume_refuses_a_changed_option(run: CliRunner, interrupted: Path) -> None:
    result = run.invoke(app, ["train", "--out", str(interrupted), "--resume", "--lr", "0.5", "--epochs", "3"])
    assert result.exit_code == 2
    assert "lr: 0.01 -> 0.5)" in result.stderr  # and epochs, which is the same, is not named
    assert not Run.open(interrupted).complete


def test_resume_says_when_versions_changed(run: CliRunner, interrupted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "9.9")
    result = run.invoke(app, ["train", "--out", str(interrupted), "--resume"])
    assert result.exit_code == 0
    assert "-> 9.9" in result.stderr


def test_an_existing_run_is_refused_then_overwritten(run: CliRunner, finished: Path, tmp_path: Path) -> None:
    path = shutil.copytree(finished, tmp_path / "copy")
    result = run.invoke(app, ["train", "--out", str(path), *QUICK])
    assert result.exit_code == 2
    assert "--resume" in result.stderr
    assert "--overwrite" in result.stderr
    result = run.invoke(app, ["train", "--out", str(path), *QUICK, "--seed", "8", "--overwrite"])
    assert result.exit_code == 0
    assert Run.open(path).finished_seeds == [8, 9]


def test_ctrl_c_says_how_to_resume(run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "run"
    monkeypatch.setattr("armagnn.cli.progress.ProgressBars.trial", stop)
    result = run.invoke(app, ["train", "--out", str(path), *QUICK])
    assert result.exit_code == 130
    assert f"1 of 2 trials are kept. Continue with: armagnn train --out {path} --resume" in result.stderr
    assert "Traceback" not in result.output


def test_ctrl_c_before_the_run(run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("armagnn.training.experiment.load", stop)
    result = run.invoke(app, ["train", "--out", str(tmp_path / "run"), *QUICK])
    assert result.exit_code == 130
    assert "before the run began" in result.stderr


# --------------------------------------------------------------------------------------------------- predict and show


def test_predict_writes_every_node(run: CliRunner, finished: Path) -> None:
    result = run.invoke(app, ["predict", str(finished)])
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert list(rows[0]) == ["node", "split", "label", *(f"p_{c}" for c in range(7))]
    assert [int(row["node"]) for row in rows] == list(range(2708))
    data = load("cora")
    splits = {"train": data.train_idx, "val": data.val_idx, "test": data.test_idx}
    for name, ids in splits.items():
        assert [int(row["node"]) for row in rows if row["split"] == name] == ids.tolist()
    for row in rows[::100]:
        p = [float(row[f"p_{c}"]) for c in range(7)]
        assert sum(p) == pytest.approx(1.0, abs=1e-5)
        assert p[int(row["label"])] == max(p)
    hits = sum(int(rows[node]["label"]) == int(data.y[node]) for node in data.test_idx.tolist())
    metrics = json.loads((finished / "metrics.json").read_text())
    best = next(trial for trial in metrics["trials"] if trial["seed"] == metrics["best_seed"])
    assert hits / 1000 == best["test_accuracy"]


def test_predict_to_a_file(run: CliRunner, finished: Path, tmp_path: Path) -> None:
    result = run.invoke(app, ["predict", str(finished), "--out", str(tmp_path / "labels.csv")])
    assert result.exit_code == 0
    assert result.stdout == ""
    assert (tmp_path / "labels.csv").read_text() == run.invoke(app, ["predict", str(finished)]).stdout


def test_predict_to_where_nothing_can_be_written(run: CliRunner, finished: Path, tmp_path: Path) -> None:
    result = run.invoke(app, ["predict", str(finished), "--out", str(tmp_path / "no" / "no" / "labels.csv")])
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def test_show(run: CliRunner, finished: Path) -> None:
    result = run.invoke(app, ["show", str(finished)])
    assert result.exit_code == 0
    for text in ("cora", "lr  0.01", "stop-on  loss", "2 of 2 trials", load("cora").sha256, "83.4 ± 0.6", "paper"):
        assert text in result.stdout


def test_an_unfinished_run(run: CliRunner, interrupted: Path) -> None:
    shown = run.invoke(app, ["show", str(interrupted)])
    assert shown.exit_code == 0
    assert "1 of 2 trials" in shown.stdout
    assert f"armagnn train --out {interrupted} --resume" in shown.stdout
    predicted = run.invoke(app, ["predict", str(interrupted)])
    assert predicted.exit_code == 2
    assert "1 of 2 trials are finished" in predicted.stderr


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("command", ["show", "predict"])
def test_a_damaged_run(run: CliRunner, finished: Path, tmp_path: Path, command: str) -> None:
    path = shutil.copytree(finished, tmp_path / "copy")
    weights = path / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    result = run.invoke(app, [command, str(path)])
    assert result.exit_code == 2
    assert "weights.safetensors: corrupt or truncated" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--dataset", "coar"], "Did you mean 'cora'?"),
        (["train", "--stop-on", "los"], "Did you mean 'loss'?"),
        (["train", "--act", "reluu"], "Did you mean 'relu'?"),
        (["train", "--init", "liner"], "Did you mean 'linear'?"),
        (["train", "--dropout", "1"], "dropout"),
        (["train", "--skip-dropout", "-0.5"], "skip_dropout"),
        (["train", "--stacks", "0"], "stacks"),
        (["train", "--layers", "0"], "layers"),
        (["train", "--hidden", "0"], "hidden"),
        (["train", "--lr", "nan"], "lr"),
        (["train", "--seeds", "0"], "seeds"),
        (["train", "--device", "gpu"], "device"),
        (["train", "--device", "cuda:77"], "Use 'cpu'"),
        (["train", "--jobs", "-1"], "jobs"),
        (["train", "--jobs", "0"], "jobs"),
        (["train", "--resume"], "not a run of armagnn"),
        (["train", "--dataset", "missing.npz"], "missing.npz"),
        (["show", "nowhere"], "not a run of armagnn"),
        (["predict", "nowhere"], "not a run of armagnn"),
    ],
)
def test_refusals_are_one_clear_line(
    run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run.invoke(app, arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []  # nothing was begun


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [(["train", "--datset", "cora"], "--dataset"), (["train", "--skipdropout", "0"], "--skip-dropout"),
     (["trian"], "train"), (["predcit", "x"], "predict")],
)  # fmt: skip
def test_unknown_options_and_commands_get_the_nearest(run: CliRunner, arguments: list[str], nearest: str) -> None:
    result = run.invoke(app, arguments)
    assert result.exit_code == 2
    assert nearest in result.stderr


def test_bugs_keep_their_traceback(run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(name: str) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("armagnn.training.experiment.load", bug)
    result = run.invoke(app, ["train", "--out", str(tmp_path / "run"), *QUICK])
    assert isinstance(result.exception, RuntimeError)


def test_help_and_version(run: CliRunner) -> None:
    assert run.invoke(app, ["--version"]).stdout.strip() == f"armagnn {armagnn.__version__}"
    overview = run.invoke(app, ["--help"])
    assert overview.exit_code == 0
    for command in ("train", "predict", "show"):
        assert command in overview.stdout
        assert run.invoke(app, [command, "-h"]).exit_code == 0
    text = " ".join(run.invoke(app, ["train", "--help"]).stdout.split())
    assert "the paper's text stops on validation accuracy" in text
    for name in (*TrainConfig().to_json(), "out", "resume", "overwrite", "jobs"):
        assert f"--{name.replace('_', '-')}" in text
