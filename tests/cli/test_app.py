"""The frame of all commands: refusals, bugs, help and version."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import armagnn
from armagnn.cli import app
from armagnn.training import NodesConfig
from cli.quick_run import QUICK


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
        (["train", "--conv", "chebishev"], "Did you mean 'chebyshev'?"),
        (["train", "--last-stacks", "-1"], "last_stacks"),
        (["train", "--input-dropout", "2"], "input_dropout"),
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
    def bug(name: str, **options: str) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("armagnn.data.load", bug)
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
    for name in (*NodesConfig().to_json(), "out", "resume", "overwrite", "dropout"):
        assert f"--{name.replace('_', '-')}" in text


@pytest.mark.parametrize(
    "command",
    [
        ["bench", "cpu"], ["bench", "filter-learning"], ["figure", "training-time", "--dataset", "cora"],
        ["figure", "response"], ["figure", "claims"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_place_that_cannot_be_written_to_is_told_before_the_work(
    run: CliRunner, tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from armagnn import bench
    from armagnn.bench import filter_learning
    from armagnn_paper.cli import experiments

    def work(*_: object, **__: object) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr(bench, "compare_layers", work)
    monkeypatch.setattr(filter_learning, "filter_data", work)
    monkeypatch.setattr(experiments.times, "measure", work)
    monkeypatch.setattr(experiments, "load", work)
    monkeypatch.setattr(experiments, "measure", work)
    (tmp_path / "file").touch()
    result = run.invoke(app, [*command, "--out", str(tmp_path / "file" / "below" / "a.png")])
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
    monkeypatch.chdir(tmp_path)  # and a good place is not refused
    result = run.invoke(app, [*command, "--out", str(tmp_path / "new" / "a.png")])
    assert isinstance(result.exception, AssertionError)
