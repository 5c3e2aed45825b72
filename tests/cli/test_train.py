"""``armagnn train``: what it prints, where it writes, how it goes on, and how Ctrl-C ends it."""

from __future__ import annotations

import shutil
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.errors import ParameterError
from armagnn.training import NodesConfig, Run
from armagnn.training.hyperparameters import NODES
from armagnn.training.shared_options import TABLES
from armagnn_paper.tables import METHODS
from cli.quick_run import QUICK


def test_train_shows_every_seed_the_mean_and_the_paper(run: CliRunner, tmp_path: Path) -> None:
    result = run.invoke(app, ["train", "--out", str(tmp_path / "run"), *QUICK])
    assert result.exit_code == 0, result.output
    metrics = Run.open(tmp_path / "run").metrics()
    for trial in metrics["trials"]:
        assert f"{100 * trial['test']['accuracy']:.1f}" in result.stdout
    accuracy = metrics["test"]["accuracy"]
    assert f"{100 * accuracy['mean']:.1f} ± {100 * accuracy['std']:.1f}" in result.stdout
    assert "83.4 ± 0.6" in result.stdout
    assert result.stderr == ""  # no progress display where there is no terminal


def test_flags_reach_the_configuration(run: CliRunner, tmp_path: Path) -> None:
    flags = {
        "dataset": "cora", "features": "rows", "conv": "arma", "hidden": 3, "stacks": 2, "layers": 2,
        "last_stacks": 1, "act": "elu", "depth": 3, "norm": "layer", "jk": "max", "radius": 0.9, "residual_scale": 0.5,
        "init": "tied", "input_dropout": 0.1, "hidden_dropout": 0.3, "skip_dropout": 0.2, "l2": 0.001, "lr": 0.02,
        "epochs": 2, "patience": 7, "stop_on": "accuracy", "seed": 4, "seeds": 1, "device": "cpu",
    }  # fmt: skip
    switches = {"balance": True, "baselines": False, "residual": True, "linear_skip": True}
    tables = {each.name for each in fields(NodesConfig) if each.metadata["panel"] == TABLES}
    assert flags.keys() | switches.keys() == NodesConfig().to_json().keys() - tables  # a flag for every option
    arguments = [text for name, value in flags.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    arguments += ["--balance", "--no-baselines", "--residual", "--linear-skip"]
    result = run.invoke(app, ["train", "--out", str(tmp_path / "run"), *arguments])
    assert result.exit_code == 0, result.output
    assert Run.open(tmp_path / "run").config == NodesConfig(**flags, **switches)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[NodesConfig]:
    """The configurations that the command begins with, and nothing more is done."""
    seen: list[NodesConfig] = []

    def stop(config: NodesConfig, *_: object, **__: object) -> None:
        seen.append(config)
        raise ParameterError("enough")

    monkeypatch.setattr("armagnn.training.trainer.train", stop)
    return seen


@pytest.mark.parametrize("conv", METHODS)
@pytest.mark.parametrize("dataset", [*NODES, "/mine.npz"])
def test_what_is_not_typed_is_the_papers(run: CliRunner, begun: list[NodesConfig], dataset: str, conv: str) -> None:
    run.invoke(app, ["train", "--dataset", dataset, "--conv", conv])
    paper, (config,) = NODES[dataset if dataset in NODES else "cora"], begun
    assert (config.dataset, config.conv, config.hidden, config.last_stacks) == (dataset, conv, paper.hidden, 0)
    assert (config.stacks, config.layers) == paper.orders.get(conv, paper.orders["gcn"])
    assert (config.l2, config.lr) == (paper.l2, paper.lr)
    assert {config.input_dropout, config.hidden_dropout, config.skip_dropout} == {paper.dropout}
    assert (config.stop_on, config.patience) == ("loss", 300 if dataset == "ppi" else 100)


def test_the_defaults_are_those_of_the_configuration(run: CliRunner, begun: list[NodesConfig]) -> None:
    run.invoke(app, ["train"])
    assert begun == [NodesConfig(act="elu")]


def test_dropout_is_short_for_two(run: CliRunner, begun: list[NodesConfig]) -> None:
    run.invoke(app, ["train", "--dropout", "0.1"])
    run.invoke(app, ["train", "--dropout", "0.1", "--hidden-dropout", "0.2"])
    rates = [(config.input_dropout, config.hidden_dropout, config.skip_dropout) for config in begun]
    assert rates == [(0.1, 0.1, 0.75), (0.1, 0.2, 0.75)]


@pytest.mark.parametrize(("conv", "published"), [("gcn", "81.5 ± 0.4"), ("gat", "83.1 ± 0.6"), ("mlp", None)])
def test_other_layers(run: CliRunner, tmp_path: Path, conv: str, published: str | None) -> None:
    path = str(tmp_path / "run")
    result = run.invoke(app, ["train", "--conv", conv, "--out", path, "--epochs", "3", "--hidden", "8", "--seeds", "2"])
    assert result.exit_code == 0, result.output
    assert f"{conv} (L=1) on cora" in result.stdout
    assert (published or "mean") in result.stdout
    assert ("paper" in result.stdout) == (published is not None)
    predicted = run.invoke(app, ["predict", path])
    assert predicted.exit_code == 0
    assert len(predicted.stdout.splitlines()) == 2709


def test_the_folder_is_named_after_the_data(run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run.invoke(app, ["train", *QUICK]).exit_code == 0
    assert Run.open("runs/cora-arma").complete


def test_resume_needs_no_options(run: CliRunner, interrupted: Path, finished: Path) -> None:
    result = run.invoke(app, ["train", "--out", str(interrupted), "--resume"])
    assert result.exit_code == 0, result.output
    assert (interrupted / "metrics.json").read_bytes() == (finished / "metrics.json").read_bytes()
    assert (interrupted / "weights.safetensors").read_bytes() == (finished / "weights.safetensors").read_bytes()


def test_resume_refuses_a_changed_option(run: CliRunner, interrupted: Path) -> None:
    result = run.invoke(app, ["train", "--out", str(interrupted), "--resume", "--lr", "0.5", "--epochs", "8"])
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
    monkeypatch.setattr("armagnn.cli.progress.TrainingProgress.trial", stop)
    result = run.invoke(app, ["train", "--out", str(path), *QUICK])
    assert result.exit_code == 130
    assert "1 of 2 trials are finished; all are kept." in result.stderr
    assert f"Continue with: armagnn train --out {path} --resume" in result.stderr
    assert "Traceback" not in result.output


def test_ctrl_c_before_the_run(run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(name: str, **options: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("armagnn.data.load", stop)
    result = run.invoke(app, ["train", "--out", str(tmp_path / "run"), *QUICK])
    assert result.exit_code == 130
    assert "before the run began" in result.stderr
