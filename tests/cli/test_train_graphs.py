"""``armagnn train graphs`` and ``predict --data``: what they print, where they write, and how they refuse."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.cli.progress import TrainingProgress
from armagnn.data.arrays import pack_arrays
from armagnn.errors import ParameterError
from armagnn.training import Config, GraphsConfig, NodesConfig, Observer, Run, train
from armagnn_paper.table import Cell
from armagnn_paper.tables import GRAPHS, METHODS, MOLECULAR
from own_graphs import folder_of, quick, rings_and_paths, unlabelled, with_numbers

QUICK = ["--hidden", "8", "--depth", "1", "--epochs", "12", "--batch", "8", "--lr", "0.05", "--seeds", "2"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")
    return CliRunner()


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(rings_and_paths(), tmp_path_factory.mktemp("data") / "rings")


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(with_numbers(rings_and_paths()), tmp_path_factory.mktemp("data") / "numbers")


@pytest.fixture(scope="module")
def finished(rings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    train(quick(rings), path)
    return path


@pytest.fixture
def interrupted(rings: Path, tmp_path: Path) -> Path:
    class Interrupt(Observer):
        def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
            raise KeyboardInterrupt

    path = tmp_path / "interrupted"
    with pytest.raises(KeyboardInterrupt):
        train(quick(rings), path, observer=Interrupt())
    return path


# ------------------------------------------------------------------------------------------------------------- train


def test_classes(run: CliRunner, rings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run.invoke(app, ["train", "graphs", "--data", str(rings), *QUICK])
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    metrics = Run.open("runs/rings-arma").metrics()
    accuracy = metrics["test"]["accuracy"]
    assert f"{100 * accuracy['mean']:.1f} ± {100 * accuracy['std']:.1f}" in result.stdout
    assert "ARMA (K=2, T=2) on rings" in result.stdout
    assert "Fold 0 of 10: 24 graphs for training, 3 for stopping, 3 for the test." in result.stdout
    assert "paper" not in result.stdout
    assert Run.open("runs/rings-arma").config == quick(rings)


def test_real_targets(run: CliRunner, numbers: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "run")
    result = run.invoke(app, ["train", "graphs", "--data", str(numbers), "--out", path, *QUICK])
    assert result.exit_code == 0, result.output
    metrics = Run.open(path).metrics()["test"]
    assert f"{metrics['mse']['mean']:.4f} ± {metrics['mse']['std']:.4f}" in result.stdout
    assert "test MSE" in result.stdout
    assert "acc." not in result.stdout
    for target in ("target 0", "target 1"):
        mean = metrics[f"mae {target}"]["mean"]
        assert f"{target}: mean absolute error on test graphs {mean:.4g} ± " in result.stdout
    shown = run.invoke(app, ["show", path])
    assert shown.exit_code == 0
    assert "test MSE" in shown.stdout
    assert "2 of 2 trials" in shown.stdout
    rows = list(csv.DictReader(io.StringIO(run.invoke(app, ["predict", path]).stdout)))
    assert list(rows[0]) == ["graph", "split", "target 0", "target 1"]


def test_flags_reach_the_configuration(run: CliRunner, begun: list[Config]) -> None:
    flags = {
        "data": "mutag", "target": "labels", "one_target": "x", "edges": "plain",
        "conv": "cayley", "hidden": 3, "depth": 2, "head": 7, "stacks": 1,
        "layers": 4, "act": "elu", "pooling": "padded", "slots": 4,
        "hidden_dropout": 0.1, "skip_dropout": 0.2, "l2": 0.001,
        "lr": 0.02, "batch": 5, "epochs": 2, "patience": 7, "stop_on": "accuracy", "fold": 3, "folds": 10,
        "split_seed": 2,
        "seed": 4, "seeds": 1, "device": "cuda", "own_split": False,
    }  # fmt: skip
    assert flags.keys() == GraphsConfig().to_json().keys()  # a flag for every option
    given = {name: value for name, value in flags.items() if value is not False}
    arguments = [text for name, value in given.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    run.invoke(app, ["train", "graphs", *arguments])
    assert begun == [GraphsConfig(**flags)]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations that the command begins with, and nothing more is done."""
    seen: list[Config] = []

    def stop(config: Config, *_: object, **__: object) -> None:
        seen.append(config)
        raise ParameterError("enough")

    monkeypatch.setattr("armagnn.training.trainer.train", stop)
    return seen


def test_the_defaults_are_those_of_the_configuration(run: CliRunner, begun: list[Config]) -> None:
    run.invoke(app, ["train", "graphs", "--data", "/my/graphs"])
    assert begun == [GraphsConfig(data="/my/graphs")]


@pytest.mark.parametrize("conv", METHODS)
@pytest.mark.parametrize("data", ["mutag", "bench-hard", "qm9"])
def test_what_is_not_typed_is_the_papers(run: CliRunner, begun: list[Config], data: str, conv: str) -> None:
    run.invoke(app, ["train", "graphs", "--data", data, "--conv", conv])
    (config,) = begun
    assert isinstance(config, GraphsConfig)
    if data == "qm9" and conv in ("gat", "sage", "gin"):  # which the paper does not have there
        assert config.head == 128
        return
    table, dataset = (MOLECULAR, "qm9/mu") if data == "qm9" else (GRAPHS, data)
    paper = table.config(Cell(dataset, conv, "paper"))
    assert isinstance(paper, GraphsConfig)
    assert (config.stacks, config.layers) == (paper.stacks, paper.layers)
    for name in ("hidden", "depth", "head", "act", "hidden_dropout", "skip_dropout", "l2", "lr", "batch", "patience"):
        assert getattr(config, name) == getattr(paper, name), name
    assert config.pooling == ("padded" if paper.slots else "mean")


def test_resume_needs_no_options(run: CliRunner, interrupted: Path, finished: Path) -> None:
    result = run.invoke(app, ["train", "graphs", "--out", str(interrupted), "--resume"])
    assert result.exit_code == 0, result.output
    for name in ("metrics.json", "weights.safetensors", "graphs.json", "curve.png"):
        assert (interrupted / name).read_bytes() == (finished / name).read_bytes()


@pytest.mark.parametrize(("command", "flag"), [("train", "dataset"), ("graphs", "data")])
def test_data_are_found_from_everywhere(
    run: CliRunner, begun: list[Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, flag: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graphs").mkdir()
    command_line = ["train"] if command == "train" else ["train", "graphs"]
    run.invoke(app, [*command_line, f"--{flag}", "mine.npz"])
    assert getattr(begun[0], flag) == str(tmp_path / "mine.npz")
    if command == "graphs":
        run.invoke(app, ["train", "graphs", "--data", "graphs"])
        assert getattr(begun[1], flag) == str(tmp_path / "graphs")


def test_resume_by_the_wrong_command(run: CliRunner, interrupted: Path, tmp_path: Path) -> None:
    result = run.invoke(app, ["train", "--out", str(interrupted), "--resume"])
    assert result.exit_code == 2
    assert f"is a run on graphs. Continue with: armagnn train graphs --out {interrupted} --resume" in result.stderr
    train(NodesConfig(hidden=1, stacks=1, epochs=1, seeds=1), tmp_path / "nodes")
    result = run.invoke(app, ["train", "graphs", "--out", str(tmp_path / "nodes"), "--resume"])
    assert result.exit_code == 2
    assert f"is a run on nodes. Continue with: armagnn train --out {tmp_path / 'nodes'} --resume" in result.stderr


def test_ctrl_c_says_how_to_resume(
    run: CliRunner, rings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "run"
    monkeypatch.setattr("armagnn.cli.progress.TrainingProgress.epochs", stop)
    result = run.invoke(app, ["train", "graphs", "--data", str(rings), "--out", str(path), *QUICK])
    assert result.exit_code == 130
    assert f"Continue with: armagnn train graphs --out {path} --resume" in result.stderr


# ------------------------------------------------------------------------------------------------------------ predict


def test_predict_new_graphs(run: CliRunner, finished: Path, tmp_path: Path) -> None:
    few = [3, 12, 8]
    new = unlabelled(rings_and_paths().select(few), tmp_path / "new")
    result = run.invoke(app, ["predict", str(finished), "--data", str(new)])
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert list(rows[0]) == ["graph", "label", "p_-1", "p_5"]
    assert [row["graph"] for row in rows] == ["1", "2", "3"]
    own = list(csv.DictReader(io.StringIO(run.invoke(app, ["predict", str(finished)]).stdout)))
    assert list(own[0]) == ["graph", "split", "label", "p_-1", "p_5"]
    for row, graph in zip(rows, few, strict=True):
        assert own[graph]["graph"] == str(graph + 1)
        assert row["label"] == own[graph]["label"]
        assert float(row["p_5"]) == pytest.approx(float(own[graph]["p_5"]), abs=1e-5)
        assert row["label"] == ("5" if float(row["p_5"]) > 0.5 else "-1")
    out = tmp_path / "new.csv"
    again = run.invoke(app, ["predict", str(finished), "--data", str(new), "--out", str(out)])
    assert again.exit_code == 0
    assert again.stderr.strip() == f"{out}: 3 graphs"
    assert out.read_text() == result.stdout


def test_predict_new_graphs_of_a_file(run: CliRunner, finished: Path, tmp_path: Path) -> None:
    few, path = rings_and_paths().select([3, 8, 12]), tmp_path / "new.npz"
    folder = run.invoke(app, ["predict", str(finished), "--data", str(unlabelled(few, tmp_path / "new"))])
    arrays = {"edge_index": few.edge_index.numpy(), "ptr": few.ptr.numpy()}
    if few.node_labels is not None:
        arrays["node_labels"] = few.node_labels.numpy()
    if few.node_attr is not None:
        arrays["node_attr"] = few.node_attr.numpy()
    for y in ({}, {"y": np.zeros(3, dtype=np.int64)}, {"y": np.full(3, -1)}):
        path.write_bytes(pack_arrays({**arrays, **y}))
        result = run.invoke(app, ["predict", str(finished), "--data", str(path)])
        assert result.exit_code == 0, result.output
        rows, others = ([line.split(",")[1:] for line in text.stdout.splitlines()] for text in (result, folder))
        assert rows == others


def test_nodes_have_no_new_graphs(run: CliRunner, rings: Path, tmp_path: Path) -> None:
    train(NodesConfig(hidden=1, stacks=1, epochs=1, seeds=1), tmp_path / "nodes")
    result = run.invoke(app, ["predict", str(tmp_path / "nodes"), "--data", str(rings)])
    assert result.exit_code == 2
    assert "is a run on the nodes of cora" in result.stderr
    assert "new tables" in result.stderr


# ----------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "data is missing: name a folder of graphs with --data FOLDER."),
        (["--resume"], "out is missing: name the run folder to continue with --out FOLDER."),
        (["--data", "muttag"], "Did you mean 'mutag'?"),
        (["--data", "my/graphs"], "my/graphs: is not a folder"),
        (["--data", "missing.npz"], "missing.npz"),
        (["--data", "cora"], "load reads it"),
        (["--data", "mutag", "--conv", "chebishev"], "Did you mean 'chebyshev'?"),
        (["--data", "mutag", "--pooling", "padd"], "Did you mean 'padded'?"),
        (["--data", "mutag", "--target", "label"], "chooses between the files of a folder"),
        (["--data", "mutag", "--fold", "10"], "fold must be an integer from 0 to 9, got 10"),
        (["--data", "mutag", "--batch", "0"], "batch must be an integer from 1 to 65536, got 0"),
        (["--data", "mutag", "--stop-on", "los"], "Did you mean 'loss'?"),
        (["--data", "mutag", "--skip-dropout", "1"], "skip_dropout"),
        (["--data", "mutag", "--conv", "gat", "--hidden", "12"], "multiple of 8"),
        (["--data", "mutag", "--device", "cuda:77"], "Use 'cpu'"),
        (["--data", "mutag", "--resume"], "not a run of armagnn"),
    ],
    ids=str,
)
def test_refusals_are_one_clear_line(
    run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run.invoke(app, ["train", "graphs", *arguments])
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []  # nothing was begun


def test_a_malformed_folder_is_named_with_file_and_line(run: CliRunner, tmp_path: Path) -> None:
    folder = folder_of(rings_and_paths(), tmp_path / "rings")
    (folder / "DS_A.txt").write_text("1, 2\n2, 999\n")
    result = run.invoke(app, ["train", "graphs", "--data", str(folder), "--out", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert f"{folder / 'DS_A.txt'}, line 2: names a node beyond the 150" in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("flag", [["--lr", "0.1"], ["--out", "x"], ["--overwrite"], ["--dropout", "0.5"]], ids=str)
def test_options_stand_after_the_command(run: CliRunner, flag: list[str]) -> None:
    result = run.invoke(app, ["train", *flag, "graphs", "--data", "mutag"])
    assert result.exit_code == 2
    assert f"{flag[0]} stands before 'graphs'; write the options after it" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "nearest"), [(["train", "grpahs"], "graphs"), (["train", "graphs", "--dat", "x"], "--data")]
)
def test_unknown_options_and_commands_get_the_nearest(run: CliRunner, arguments: list[str], nearest: str) -> None:
    result = run.invoke(app, arguments)
    assert result.exit_code == 2
    assert nearest in result.stderr


def test_help(run: CliRunner) -> None:
    assert "graphs" in run.invoke(app, ["train", "-h"]).stdout
    text = run.invoke(app, ["train", "graphs", "-h"]).stdout
    for name in (*GraphsConfig().to_json(), "out", "resume", "overwrite"):
        assert f"--{name.replace('_', '-')}" in text


def test_the_bar_of_a_regression_has_no_accuracy() -> None:
    screen = io.StringIO()
    with TrainingProgress(GraphsConfig(), Console(file=screen, force_terminal=True, width=150)) as bar:
        bar.epochs(5, 1, 1.25, float("nan"))
        bar._progress.refresh()
        assert "validation: loss 1.250" in screen.getvalue()
        assert "nan" not in screen.getvalue()


@pytest.mark.parametrize("name", ["x[b]$^$", "a\udcff"], ids=ascii)
def test_any_name_of_a_folder_can_be_told(name: str, rings: Path, tmp_path: Path) -> None:
    try:
        folder = Path(shutil.copytree(rings, tmp_path / name))
    except OSError as error:
        pytest.skip(f"no such names here ({error})")
    command = [sys.executable, "-m", "armagnn.cli", "train", "graphs", "--data", os.fsencode(folder)]
    strict = os.environ | {"PYTHONIOENCODING": "utf-8:strict", "COLUMNS": "120"}
    out = ["--out", os.fsencode(tmp_path / f"run {name}"), "--conv", "mlp", "--epochs", "1", "--seeds", "1"]
    done = subprocess.run([*command, *out], capture_output=True, env=strict, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert f"on {name.replace(chr(0xDCFF), '?')}" in done.stdout.decode()
