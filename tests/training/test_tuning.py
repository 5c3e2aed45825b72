"""The search for hyperparameters: what is proposed, that it resumes to the same, and that the test stays unseen."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from armagnn.data import NodeDataset
from armagnn.errors import ArmagnnError, ParameterError, RunError, UnknownNameError, UnsupportedError
from armagnn.training import GraphsConfig, NodesConfig, SignalsConfig, trainer
from armagnn.training.tuning import BEST, SEARCH, TuneObserver, read_options, tune
from data.tables.small_tables import people
from tiny_signals import tiny

pytest.importorskip("optuna")
CONFIG = NodesConfig.for_tables(epochs=6, seeds=2, hidden=8)


@pytest.fixture(scope="module")
def data() -> NodeDataset:
    return NodeDataset.from_tables(*people(), "label", ignore="income")


def search(folder: Path, data: Any, **options: Any) -> Any:
    return tune(CONFIG, folder, data=data, **{"trials": 6, "batch": 3} | options)


def test_it_keeps_all_and_writes_the_best(data: NodeDataset, tmp_path: Path) -> None:
    found = search(tmp_path, data)
    assert len(found.trials) == 6
    scores = [trial.score for trial in found.trials]
    assert found.best.score == min(scores)
    own = found.trials[0].options  # the first is the configuration itself
    assert replace(CONFIG, **own) == CONFIG
    options = read_options(tmp_path / BEST, NodesConfig)
    assert replace(CONFIG, **options) == found.best_config()
    assert options["seeds"] == 2
    assert not (tmp_path / "checkpoint").exists() or not any((tmp_path / "checkpoint").iterdir())


def test_settings_of_a_batch_have_one_shape(data: NodeDataset, tmp_path: Path) -> None:
    found = search(tmp_path, data, trials=8, batch=4)
    shapes = [replace(CONFIG, **trial.options).shape() for trial in found.trials]
    assert [len(set(shapes[:4])), len(set(shapes[4:]))] == [1, 1]
    assert len({trial.options["lr"] for trial in found.trials}) == 8


def test_its_scores_are_those_of_trainings(data: NodeDataset, tmp_path: Path) -> None:
    found = search(tmp_path, data, trials=3, seeds=2)
    for trial in found.trials:
        config = replace(CONFIG, **trial.options)
        experiment = config.experiment(data)
        alone = [next(iter(experiment.trials([config.setting(seed)]).run())).val["loss"] for seed in (0, 1)]
        assert trial.score == pytest.approx(sum(alone) / 2, rel=1e-4)


def test_the_test_is_not_looked_at(data: NodeDataset, tmp_path: Path) -> None:
    y = data.y.clone()
    y[data.test_idx] = 1 - y[data.test_idx]
    first = search(tmp_path / "a", data)
    other = search(tmp_path / "b", replace(data, y=y))
    assert (tmp_path / "a" / SEARCH).read_bytes() == (tmp_path / "b" / SEARCH).read_bytes()
    assert first.best_config() == other.best_config()


def test_it_resumes_to_the_same(data: NodeDataset, tmp_path: Path) -> None:
    whole = search(tmp_path / "whole", data, trials=9)
    search(tmp_path / "parts", data, trials=3)
    search(tmp_path / "parts", data, trials=6, resume=True)
    found = search(tmp_path / "parts", data, trials=9, resume=True)
    assert found.trials == whole.trials
    again = search(tmp_path / "parts", data, trials=9, resume=True)  # nothing is left to do
    assert again.trials == whole.trials


class Interrupt(TuneObserver):
    """Ctrl-C after so many looks."""

    def __init__(self, after: int) -> None:
        self.left = after

    def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [1, 2, 3])
def test_it_resumes_after_an_interrupt(
    data: NodeDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setitem(sys.modules["armagnn.training.trials"].LOOK, "cpu", 2)
    monkeypatch.setattr(trainer, "EVERY", 60.0)  # the checkpoint is that of the interrupt
    whole = search(tmp_path / "whole", data)
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "parts", data, observer=Interrupt(after))
    found = search(tmp_path / "parts", data, resume=True)
    assert found.trials == whole.trials
    assert (tmp_path / "parts" / BEST).read_bytes() == (tmp_path / "whole" / BEST).read_bytes()


def test_a_training_that_diverges_has_no_score(data: NodeDataset, tmp_path: Path) -> None:
    found = search(tmp_path, data, over=["lr=1e-3|1e30"], trials=6)
    lost = [trial for trial in found.trials if trial.options["lr"] == 1e30]
    assert all(trial.score is None or trial.score > 1 for trial in lost)
    assert found.best_config().lr == 1e-3


def test_higher_is_better_for_accuracy(data: NodeDataset, tmp_path: Path) -> None:
    found = search(tmp_path, data, metric="accuracy", trials=3)
    assert found.best.score == max(trial.score for trial in found.trials)
    with pytest.raises(UnknownNameError, match="accuracy"):
        search(tmp_path / "b", data, metric="acuracy", trials=1)


def test_other_kinds_and_layers(tmp_path: Path) -> None:
    graphs = tune(GraphsConfig(data="mutag", epochs=2, hidden=4), tmp_path / "g", trials=2, batch=2, over=["lr", "l2"])
    assert len(graphs.trials) == 2
    signals = SignalsConfig(widths="4", epochs=2, features="table")
    assert tune(signals, tmp_path / "s", trials=2, batch=2, over=["lr"], data=tiny()).best is not None


def test_layers_are_searched_too(data: NodeDataset, tmp_path: Path) -> None:
    found = search(tmp_path, data, over=["conv=arma|gcn|mlp", "lr"], trials=6, batch=1)
    assert {trial.options["conv"] for trial in found.trials} > {"arma"}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"over": ["hiden"]}, UnknownNameError),
        ({"over": ["seeds"]}, UnknownNameError),
        ({"over": ["lr", "lr"]}, ParameterError),
        ({"over": ["lr=0.1..0.01"]}, ParameterError),
        ({"over": ["lr=a..b"]}, ParameterError),
        ({"over": ["lr=0..1"]}, ParameterError),
        ({"over": ["hidden=0|4"]}, ParameterError),
        ({"over": ["act"]}, ParameterError),
        ({"over": ["conv=arma|arme"]}, ArmagnnError),
        ({"trials": 0}, ParameterError),
        ({"batch": 0}, ParameterError),
        ({"seeds": 0}, ParameterError),
        ({"resume": True}, RunError),
        ({"resume": True, "overwrite": True}, ParameterError),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(
    data: NodeDataset, tmp_path: Path, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        search(tmp_path / "new", data, **options)
    assert not (tmp_path / "new").exists() or options.get("over") == ["conv=arma|arme"]


def test_a_folder_is_not_lost(data: NodeDataset, tmp_path: Path) -> None:
    search(tmp_path, data, trials=1)
    with pytest.raises(RunError, match="--resume"):
        search(tmp_path, data)
    with pytest.raises(RunError, match="batch"):
        search(tmp_path, data, batch=2, resume=True)
    search(tmp_path, data, trials=1, overwrite=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match="left alone"):
        search(tmp_path / "other", data, overwrite=True)


def test_damage_is_seen(data: NodeDataset, tmp_path: Path) -> None:
    search(tmp_path, data, trials=1)
    path = tmp_path / SEARCH
    content = path.read_bytes()
    for damaged in (b"", b"{}", content[:-9], content.replace(b'"score": 0', b'"score": 1'), b"[" * 10**5):
        if damaged == content:
            continue
        path.write_bytes(damaged)
        with pytest.raises(RunError):
            search(tmp_path, data, resume=True)


def test_without_optuna_it_says_how_to_install_it(
    data: NodeDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UnsupportedError, match=r"armagnn\[tune\]"):
        search(tmp_path, data)


# --------------------------------------------------------------------------------------------------------- config files


def test_files_of_options(tmp_path: Path) -> None:
    toml = tmp_path / "a.toml"
    toml.write_text('conv = "gcn"\nlr = 1\nhidden-dropout = 0.5\nbalance = true\n')
    assert read_options(toml, NodesConfig) == {"conv": "gcn", "lr": 1.0, "hidden_dropout": 0.5, "balance": True}
    run = tmp_path / "config.json"
    run.write_text(json.dumps({"format": "armagnn-run", "kind": "nodes", "config": NodesConfig(lr=0.5).to_json()}))
    assert NodesConfig(**read_options(run, NodesConfig)) == NodesConfig(lr=0.5)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "is no JSON"),
        ("a.toml", "lr = ", "is no TOML"),
        ("a.json", "[1]", "no options by name"),
        ("a.json", '{"learning_rate": 1}', "learning_rate"),
        ("a.json", '{"lr": "1"}', "lr must be of type float"),
        ("a.json", '{"hidden": 8.0}', "hidden must be of type int"),
        ("a.json", '{"kind": "graphs"}', "not on nodes"),
        ("a.json", "\ud800", "cannot be read"),
        (None, "", "cannot be read"),
    ],
)
def test_bad_files_of_options(tmp_path: Path, name: str | None, text: str, message: str) -> None:
    if name is not None:
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ParameterError, match=message):
        read_options(tmp_path / (name or "missing.json"), NodesConfig)
