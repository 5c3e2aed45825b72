"""The commands: what they print, where they write, and how they refuse."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import armagnn
from armagnn.cli import app
from armagnn.cli.progress import TrainingProgress
from armagnn.data import load
from armagnn.data.arrays import pack_arrays
from armagnn.data.data_folder import add
from armagnn.errors import ParameterError
from armagnn.training import NodesConfig, Observer, Run, train
from armagnn.training.hyperparameters import NODES
from armagnn_paper.tables import METHODS
from data.tiny import multilabel_arrays

QUICK = ["--hidden", "2", "--stacks", "1", "--epochs", "8", "--patience", "20", "--seeds", "2"]
CONFIG = NodesConfig(hidden=2, stacks=1, epochs=8, patience=20, seeds=2)


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
    class Interrupt(Observer):
        def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
            raise KeyboardInterrupt

    path = tmp_path / "interrupted"
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, path, observer=Interrupt())
    return path


# ------------------------------------------------------------------------------------------------------------- train


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
        "last_stacks": 1, "act": "elu",
        "init": "tied", "input_dropout": 0.1, "hidden_dropout": 0.3, "skip_dropout": 0.2, "l2": 0.001, "lr": 0.02,
        "epochs": 2, "patience": 7, "stop_on": "accuracy", "seed": 4, "seeds": 1, "device": "cpu",
    }  # fmt: skip
    assert flags.keys() == NodesConfig().to_json().keys()  # a flag for every option
    arguments = [text for name, value in flags.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    result = run.invoke(app, ["train", "--out", str(tmp_path / "run"), *arguments])
    assert result.exit_code == 0, result.output
    assert Run.open(tmp_path / "run").config == NodesConfig(**flags)


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
    assert (config.stacks, config.layers) == paper.order(conv)
    assert (config.l2, config.lr) == (paper.l2, paper.lr)
    assert {config.input_dropout, config.hidden_dropout, config.skip_dropout} == {paper.dropout}
    assert (config.stop_on, config.patience) == ("loss", 300 if dataset == "ppi" else 100)


def test_the_defaults_are_those_of_the_configuration(run: CliRunner, begun: list[NodesConfig]) -> None:
    run.invoke(app, ["train"])
    assert begun == [NodesConfig()]


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
    assert hits / 1000 == best["test"]["accuracy"]


def test_predict_to_a_file(run: CliRunner, finished: Path, tmp_path: Path) -> None:
    result = run.invoke(app, ["predict", str(finished), "--out", str(tmp_path / "labels.csv")])
    assert result.exit_code == 0
    assert result.stdout == ""
    assert (tmp_path / "labels.csv").read_text() == run.invoke(app, ["predict", str(finished)]).stdout


def test_predict_to_where_nothing_can_be_written(run: CliRunner, finished: Path, tmp_path: Path) -> None:
    result = run.invoke(app, ["predict", str(finished), "--out", str(finished / "config.json" / "labels.csv")])
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
    assert "0 of 2 trials" in shown.stdout
    assert f"armagnn train --out {interrupted} --resume" in shown.stdout
    predicted = run.invoke(app, ["predict", str(interrupted)])
    assert predicted.exit_code == 2
    assert "0 of 2 trials are finished" in predicted.stderr


@pytest.fixture
def many_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three graphs whose nodes have many labels, as PPI's."""
    monkeypatch.setenv("ARMAGNN_DATA", str(tmp_path / "data"))
    path = tmp_path / "many.npz"
    path.write_bytes(pack_arrays(multilabel_arrays()))
    return add(path)[0]


def test_many_labels_per_node(run: CliRunner, many_labels: str, tmp_path: Path) -> None:
    path = str(tmp_path / "run")
    result = run.invoke(app, ["train", "--dataset", many_labels, "--out", path, *QUICK])
    assert result.exit_code == 0, result.output
    metrics = Run.open(path).metrics()
    assert f"{100 * metrics['test']['micro_f1']['mean']:.1f} ±" in result.stdout
    assert "test micro-F1 %" in result.stdout
    assert "paper" not in result.stdout.replace("paper's", "")
    rows = list(csv.DictReader(io.StringIO(run.invoke(app, ["predict", path]).stdout)))
    data = load(many_labels)
    assert len(rows) == data.num_nodes
    assert data.graph is not None
    assert [int(row["graph"]) for row in rows] == data.graph.tolist()
    for row in rows:
        found = [c for c in range(data.num_classes) if float(row[f"p_{c}"]) > 0.5]
        assert row["labels"] == " ".join(map(str, found))
    entries = [[str(c) in row["labels"].split() for c in range(data.num_classes)] for row in rows]
    right = (torch.tensor(entries) == (data.y > 0))[data.test_idx].double().mean().item()
    best = next(trial for trial in metrics["trials"] if trial["seed"] == metrics["best_seed"])
    assert right == pytest.approx(best["test"]["accuracy"])


# ------------------------------------------------------------------------------------------------------ the progress


def test_the_bar_says_who_runs(finished: Path) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=150)
    with TrainingProgress(CONFIG, console) as bar:
        bar.trial(Run.open(finished).load_trial(0), new=True)
        bar.epochs(5, 1, 1.25, 0.5)
        bar._progress.refresh()
        assert "1 of 2 trials running, 1 finished; validation: loss 1.250, accuracy 50.0 %" in screen.getvalue()
        bar.stopping()
        bar._progress.refresh()
        assert "Ctrl-C: at once" in screen.getvalue()


@pytest.mark.parametrize(("terminal", "seconds", "lines"), [(False, 0.0, 2), (False, 1e9, 0), (True, 0.0, 0)])
def test_a_log_of_a_training_has_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, seconds: float, lines: int
) -> None:
    monkeypatch.setattr("armagnn.cli.progress.BETWEEN_LINES", seconds)
    text = io.StringIO()
    bar = TrainingProgress(
        CONFIG, Console(file=text, force_terminal=terminal, width=80)
    )  # not entered: no bar is drawn
    bar.epochs(5, 2, 1.25, 0.5)
    bar.epochs(8, 1, 1.0, float("nan"))
    assert (
        text.getvalue().splitlines()
        == [
            "epoch 5 of at most 8: 2 of 2 trials running, 0 finished; validation: loss 1.250, accuracy 50.0 %",
            "epoch 8 of at most 8: 1 of 2 trials running, 0 finished; validation: loss 1.000",
        ][:lines]
    )


def test_a_training_in_a_log_says_how_far_it_is(
    run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armagnn.cli.progress.BETWEEN_LINES", 0.0)
    result = run.invoke(app, ["train", "--out", str(tmp_path / "run"), *QUICK])
    assert result.exit_code == 0, result.output
    assert "epoch 5 of at most 8: 2 of 2 trials running" in result.stderr
    assert "epoch 5" not in result.stdout


def test_a_note_is_said_without_a_terminal() -> None:
    screen = io.StringIO()
    with TrainingProgress(CONFIG, Console(file=screen)) as bar:
        bar.epochs(5, 2, 1.0, 0.5)
        bar.stopping()
        assert screen.getvalue() == ""
        bar.note("it is so")
    assert screen.getvalue() == "Note: it is so\n"


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
