"""Arguments of the right type that no training, task or prediction can take: typed errors, before any work."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from armagnn.data import folds, node_features, read_node_file
from armagnn.errors import ArmagnnError, ParameterError
from armagnn.tasks import GraphNet, GraphTask, NodeNet, NodeTask, SignalNet, SignalTask
from armagnn.training import Description, GraphsPrediction, NodesConfig, Outcome, Run, Setting, Trials, predict, train
from own_graphs import folder_of, quick, rings_and_paths
from tiny_signals import tiny
from training.hostile import node_file

SETTING = Setting(0, 0.01, 0.0, (0.1, 0.1, 0.1))
RINGS = replace(rings_and_paths(), y=torch.arange(30) % 2)
VALUES = {"loss": 0.5, "accuracy": 0.5}
HISTORY = {"train_loss": [1.0], "val_loss": [0.5], "val_accuracy": [0.5]}
STEP = torch.zeros(1, dtype=torch.int64)


@pytest.fixture(scope="module")
def node_task(tmp_path_factory: pytest.TempPathFactory) -> NodeTask:
    return NodeTask(read_node_file(node_file(tmp_path_factory.mktemp("data") / "nodes.npz")), NodeNet("gcn", 3, 3))


def graph_task(**options: Any) -> GraphTask:
    net = GraphNet("gcn", node_features(RINGS).x.shape[1], 2, hidden=2)
    task = GraphTask(RINGS, net, folds(RINGS)[0], **{"batch_size": 5, **options})
    task.start(0)
    return task


def signal_task(**options: Any) -> SignalTask:
    data = tiny()
    return SignalTask(data, SignalNet("gcn", data.num_classes, data.num_nodes), **{"batch_size": 2, **options})


def trials(task: NodeTask, **options: Any) -> Trials:
    chosen = {"settings": [SETTING], "epochs": 2, "patience": 2, "stop_on": "loss", **options}
    build = chosen.pop("build", lambda: NodeNet("gcn", 3, 3))
    return Trials(build, task, chosen.pop("settings"), **chosen)


@pytest.mark.parametrize(
    "options",
    [
        {"settings": []},
        {"settings": [SETTING] * 10_000},
        {"settings": [SETTING, Setting(1, 0.01, 0.0, (0.1,))]},
        {"epochs": 0},
        {"epochs": 2**33},
        {"patience": 0},
        {"patience": 2**62 + 1},
        {"other_rules": ("best",)},
        {"device": "gpu"},
        {"device": "cuda:99"},
        {"build": lambda: None},
        {"build": lambda: torch.nn.Linear(2, 2)},
    ],
)
def test_trials(node_task: NodeTask, options: dict[str, Any]) -> None:
    with pytest.raises(ArmagnnError):
        trials(node_task, **options)


@pytest.mark.parametrize(
    "options",
    [{"seed": 2**63}, {"lr": -1.0}, {"lr": math.nan}, {"l2": -1.0}, {"rates": (1.0,)}, {"target": -1}],
    ids=str,
)
def test_settings(options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        replace(SETTING, **options)


def test_outcomes_have_a_loss_and_trials_finite_metrics() -> None:
    with pytest.raises(ParameterError, match="loss"):
        Outcome(SETTING, 1, 1, {}, VALUES, 0.0, HISTORY, {})
    outcome = Outcome(SETTING, 1, 1, VALUES, {"loss": math.inf, "accuracy": 0.5}, 0.0, HISTORY, {})
    with pytest.raises(ParameterError, match=r"diverged \(seed 0\).*Lower lr"):
        outcome.require_converged()


@pytest.mark.parametrize(
    "change",
    [
        {"best_epoch": 2},
        {"epochs": 9},
        {"test": {"loss": 0.5}},
        {"val": {"loss": 0.5, "accuracy": 50.0}},
        {"seconds": -1.0},
        {"history": {}},
        {"history": {**HISTORY, "val_loss": [0.5, 0.4]}},
    ],
    ids=str,
)
def test_a_trial_that_could_not_be_read_is_not_written(tmp_path: Path, change: dict[str, Any]) -> None:
    run = Run.create(tmp_path, NodesConfig(seeds=1, epochs=5), "0" * 64)
    trial = Outcome(SETTING, 1, 1, VALUES, VALUES, 0.0, HISTORY, {"weight": torch.ones(2)})
    run.keep(trial)
    with pytest.raises(ParameterError, match="cannot be kept"):
        run.keep(replace(trial, **change))
    assert run.load_trial(0).val == VALUES


@pytest.mark.parametrize("digest", ["", "0" * 63, "x" * 64])
def test_a_run_has_the_checksum_of_its_data(tmp_path: Path, digest: str) -> None:
    with pytest.raises(ParameterError, match="hexadecimal"):
        Run.create(tmp_path, NodesConfig(), digest)
    assert not list(tmp_path.iterdir())


# --------------------------------------------------------------------------------------------------------------- tasks


@pytest.mark.parametrize("make", [graph_task, signal_task])
@pytest.mark.parametrize("options", [{"batch_size": 0}, {"batch_size": 10**12}, {"device": "cuda:99"}], ids=str)
def test_tasks(make: Callable[..., Any], options: dict[str, Any]) -> None:
    with pytest.raises(ArmagnnError):
        make(**options)


@pytest.mark.parametrize("make", [graph_task, signal_task])
@pytest.mark.parametrize("step", [STEP - 1, STEP + 10**6, STEP.double(), STEP.repeat(2), STEP.squeeze()], ids=str)
def test_steps(make: Callable[..., Any], step: torch.Tensor) -> None:
    task = make()
    task.start(0)
    with pytest.raises(ParameterError, match="step"):
        task.batch(step, ())


def test_what_predicts_and_what_for(node_task: NodeTask) -> None:
    for task in (node_task, graph_task(), signal_task()):
        with pytest.raises(ParameterError, match="split"):
            task.metrics(lambda *inputs: torch.zeros(1), "validation")
        with pytest.raises(ParameterError, match="must return a tensor"):
            task.metrics(lambda *inputs: None, "val")  # type: ignore[arg-type, return-value]
        with pytest.raises(ParameterError, match="must return a tensor"):
            task.loss(lambda *inputs: [0.5], task.batch(STEP, ()))  # type: ignore[arg-type, return-value]
    with pytest.raises(ParameterError, match="target"):
        graph_task().metrics(lambda *inputs: torch.zeros(1), "val", torch.tensor([0.5]))


@pytest.mark.parametrize(
    "net", [NodeNet("gcn", 3, 3), GraphNet("gcn", 3, 2), SignalNet("gcn", 3, 5)], ids=lambda net: type(net).__name__
)
def test_networks_know_their_parameters(net: Any) -> None:
    assert {net.trial_axis(name) for name, _ in net.named_parameters()} <= {0, 1}
    with pytest.raises(ParameterError, match="parameter"):
        net.trial_axis("weight")


def test_a_network_of_a_billion_layers_is_none() -> None:
    with pytest.raises(ParameterError, match="depth"):
        GraphNet("gcn", 3, 2, depth=10**9)


# --------------------------------------------------------------------------------------------------------- predictions


@pytest.fixture(scope="module")
def on_graphs(tmp_path_factory: pytest.TempPathFactory) -> Run:
    root = tmp_path_factory.mktemp("graphs")
    return train(quick(folder_of(rings_and_paths(), root / "data"), epochs=2), root / "run")


def test_graphs_that_are_loaded_already_are_predicted(on_graphs: Run, tmp_path: Path) -> None:
    """Those of a folder, in memory: the same values, counted from 0."""
    folder = predict(on_graphs, folder_of(rings_and_paths(), tmp_path / "new"))
    loaded = predict(on_graphs, RINGS)
    assert torch.equal(loaded.values, folder.values)
    assert (loaded.first, folder.first, loaded.split) == (0, 1, None)


@pytest.mark.parametrize("data", [5, [], torch.ones(2), b"x", {"x": 1}], ids=lambda data: type(data).__name__)
def test_what_is_no_graphs_is_not_predicted(on_graphs: Run, data: Any) -> None:
    with pytest.raises(ArmagnnError, match=r"data must be .*GraphsDataset"):
        predict(on_graphs, data)


def test_a_path_is_no_run(on_graphs: Run) -> None:
    with pytest.raises(ArmagnnError, match="run must be"):
        predict(on_graphs.path)  # type: ignore[arg-type]


def test_predictions_have_a_number_for_every_output(on_graphs: Run) -> None:
    known = Description.from_json(on_graphs.description())
    with pytest.raises(ArmagnnError, match="values"):
        GraphsPrediction(known, torch.ones(4, 3))
    with pytest.raises(ArmagnnError, match="split"):
        GraphsPrediction(known, torch.ones(4, 2), split=["train"])
    with pytest.raises(ArmagnnError):
        described(targets=("a", "b"), classes=()).own_units(torch.ones(4, 3))


def described(**changes: Any) -> Description:
    found = Description.of(RINGS, node_features(RINGS), folds(RINGS)[0])
    return replace(found, target_mean=(0.0, 1.0), target_deviation=(1.0, 2.0), **changes)


@pytest.mark.parametrize("content", [None, [], 5, "x", {}, {"kinds": 5}], ids=str)
def test_what_describes_no_graphs(content: Any) -> None:
    with pytest.raises(ArmagnnError):
        Description.from_json(content)
