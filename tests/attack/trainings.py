"""Trainings with valid arguments, all very short."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import armagnn.data as data
import armagnn.tasks as tasks
import armagnn.training as training
from attack.datasets import node_file, rings
from attack.subjects import Call
from data.test_tu_folder import write


def training_room() -> Iterator[Call]:
    here = Path.cwd()
    own, tu = node_file(here / "own.npz"), here / "tu"
    if not tu.exists():
        tu.mkdir()
        write(rings(), tu)
    quick = {
        "dataset": str(own), "conv": "arma", "hidden": 4, "stacks": 2, "layers": 1, "last_stacks": 0, "act": "relu",
        "init": "linear",
        "input_dropout": 0.1, "hidden_dropout": 0.1, "skip_dropout": 0.1, "l2": 0.0005, "lr": 0.01, "epochs": 2,
        "patience": 2,
        "stop_on": "loss", "seed": 0, "seeds": 2, "device": "cpu",
    }  # fmt: skip
    graphs = {
        "data": str(tu), "target": "auto", "conv": "arma", "hidden": 4, "depth": 1, "head": 0, "stacks": 2,
        "layers": 1, "act": "relu",
        "pooling": "mean", "hidden_dropout": 0.1, "skip_dropout": 0.1, "l2": 0.0, "lr": 0.01, "batch": 8, "epochs": 2,
        "patience": 2,
        "stop_on": "loss", "fold": 0, "split_seed": 0, "seed": 0, "seeds": 2, "device": "cpu",
    }  # fmt: skip

    def trained(config: Any, out: Any = None, **options: Any) -> Any:
        folder = here / "trained"
        if isinstance(config, training.RunConfig) and (config.seeds > 50 or config.epochs > 100):
            return config  # honest work, which takes its time
        try:
            return training.train(config, folder if out is None else out, **options).metrics()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    yield Call("training.TrainConfig", lambda **a: trained(training.TrainConfig(**a)), quick)
    yield Call("training.GraphsConfig", lambda **a: trained(training.GraphsConfig(**a)), graphs)
    config = training.TrainConfig(**quick)
    yield Call(
        "training.train",
        trained,
        {"config": config, "out": here / "trained", "resume": False, "overwrite": True, "watcher": training.Watcher()},
    )
    for cls, options in ((training.TrainConfig, quick), (training.GraphsConfig, graphs)):
        name = f"training.{cls.__name__}"
        yield Call(
            f"{name}.from_json", lambda content, cls=cls: cls.from_json(content), {"content": cls(**options).to_json()}
        )
        for field, value in cls(**options).to_json().items():  # each field of a hostile configuration
            yield Call(
                f"{name}.from_json", lambda value, cls=cls, field=field,
                options=options: cls.from_json(cls(**options).to_json() | {field: value}),
                {"value": value},
            )  # fmt: skip
        yield Call(
            f"{name}.differences",
            lambda other, cls=cls, options=options: cls(**options).differences(other),
            {"other": cls(**options)},
        )
    yield Call("training.RunConfig.differences", lambda other: config.differences(other), {"other": config})
    finished, on_graphs = here / "finished", here / "finished-graphs"
    run = training.Run.open(finished) if finished.exists() else training.train(config, finished)
    second = (
        training.Run.open(on_graphs)
        if on_graphs.exists()
        else training.train(training.GraphsConfig(**graphs), on_graphs)
    )
    yield Call("training.predict", lambda run: training.predict(run).to_csv(), {"run": run})
    yield Call(
        "training.predict_graphs", lambda **a: training.predict_graphs(**a).to_csv(), {"run": second, "data": str(tu)}
    )
    yield Call(
        "training.build_network",
        lambda **a: training.build_network(**a),
        {"config": config, "dataset": data.read_node_file(own)},
    )
    yield Call("training.Run.open", lambda path: training.Run.open(path), {"path": finished})
    yield Call("training.Run.open", lambda path: training.Run.open(path), {"path": str(finished)})

    def created(path: Any, **options: Any) -> Any:
        try:
            shutil.rmtree(here / "created", ignore_errors=True)
            (here / "created").mkdir()
            return training.Run.create(path, **options)
        finally:
            shutil.rmtree(here / "created", ignore_errors=True)

    yield Call(
        "training.Run.create",
        created,
        {"path": here / "created", "config": config, "dataset_sha256": "0" * 64, "graphs": None},
    )
    yield Call(
        "training.Run",
        lambda **a: repr(training.Run(**a).finished_seeds),
        {"path": finished, "config": config, "dataset_sha256": "0" * 64, "versions": {}, "manifest": run.manifest},
    )
    yield Call("training.Run.check_data", lambda sha256: run.check_data(sha256), {"sha256": run.dataset_sha256})
    yield Call("training.Run.load_trial", lambda seed: run.load_trial(seed), {"seed": 0})

    def saved(trial: Any) -> Any:
        copy = here / "copied"
        try:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(finished, copy)
            return training.Run.open(copy).save_trial(trial)
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    yield Call("training.Run.save_trial", saved, {"trial": run.load_trial(0)})
    described = second.graphs()
    content = json.loads(json.dumps(described.to_json()))
    sets = rings()
    yield Call(
        "training.Description.of",
        lambda **a: training.Description.of(**a),
        {"dataset": sets, "features": data.node_features(sets), "fold": data.folds(sets)[0]},
    )
    yield Call(
        "training.Description.from_json", lambda content: training.Description.from_json(content), {"content": content}
    )
    for field, value in content.items():
        yield Call(
            "training.Description.from_json", lambda value,
            field=field: training.Description.from_json(content | {field: value}),
            {"value": value},
        )  # fmt: skip
    yield Call("training.Description", lambda **a: repr(training.Description(**a)), dict(vars(described)))
    yield Call(
        "training.Description.features", lambda data: described.features(data), {"data": data.read_tu_folder(tu)}
    )
    scaled = replace(described, classes=(), targets=("a", "b"), target_mean=(0.0, 1.0), target_deviation=(1.0, 2.0))
    yield Call(
        "training.Description.own_units", lambda outputs: scaled.own_units(outputs), {"outputs": torch.rand(3, 2)}
    )

    def stopping(epoch: Any, loss: Any, accuracy: Any, stop_on: Any = "loss", patience: Any = 3) -> Any:
        rule = training.EarlyStopping(stop_on, patience)
        return rule.improves(epoch, loss, accuracy), rule.exhausted(epoch)

    numbers = {"epoch": 1, "loss": 0.5, "accuracy": 0.5}
    yield Call("training.EarlyStopping", stopping, numbers | {"stop_on": "accuracy", "patience": 3})
    yield Call("training.EarlyStopping.improves", stopping, numbers)
    yield Call(
        "training.EarlyStopping.exhausted",
        lambda epoch: training.EarlyStopping("loss", 3).exhausted(epoch),
        {"epoch": 3},
    )
    setting = training.Setting(0, 0.01, 0.0, (0.1, 0.1, 0.1))
    node = data.read_node_file(own)

    def build() -> Any:
        return tasks.NodeNet("arma", 5, 3, hidden=4)

    task = tasks.NodeTask(node, build())

    def trials(**a: Any) -> Any:
        made = training.Trials(
            a.pop("build", build),
            a.pop("task", task),
            a.pop("settings", [setting]),
            **({"epochs": 2, "patience": 2, "stop_on": "loss"} | a),
        )
        return [outcome.val for outcome in made.run()]

    yield Call(
        "training.Trials", trials,
        {"build": build, "task": task, "settings": [setting], "epochs": 2, "patience": 2, "stop_on": "loss",
         "beside": ("accuracy",), "device": "cpu", "dtype": torch.float32},
    )  # fmt: skip
    yield Call(
        "training.Setting", lambda **a: trials(settings=[training.Setting(**a)]),
        {"seed": 0, "lr": 0.01, "l2": 0.0, "rates": (0.1, 0.1, 0.1), "target": 0},
    )  # fmt: skip

    def turns(look: Any = None, steps: Any = 1, method: str = "run") -> Any:
        made = training.Trials(build, task, [setting], epochs=2, patience=2, stop_on="loss")
        return made.probe(steps) if method == "probe" else list(getattr(made, method)(look))

    yield Call("training.Trials.run", lambda look: turns(look), {"look": lambda trials: None})
    yield Call("training.Trials.in_turns", lambda look: turns(look, method="in_turns"), {"look": lambda trials: None})
    yield Call("training.Trials.probe", lambda steps: turns(steps=steps, method="probe"), {"steps": 2})
    state = training.Trials(build, task, [setting], epochs=2, patience=2, stop_on="loss").state()

    def restored(**a: Any) -> Any:
        made = training.Trials(build, task, [setting], epochs=2, patience=2, stop_on="loss")
        return made.restore(**a), list(made.run())

    yield Call("training.Trials.restore", restored, {"state": state, "settings": [setting]})
    outcome = next(iter(training.Trials(build, task, [setting], epochs=2, patience=2, stop_on="loss").run()))
    yield Call("training.Outcome", lambda **a: training.Trial.of(training.Outcome(**a)), dict(vars(outcome)))
    yield Call("training.Trial.of", lambda outcome: training.Trial.of(outcome), {"outcome": outcome})
    yield Call("training.Trial", lambda **a: repr(training.Trial(**a)), dict(vars(run.load_trial(0))))
    trial = run.load_trial(0)
    kept = json.loads(json.dumps({name: value for name, value in vars(trial).items() if name != "state"}))
    yield Call(
        "training.Trial.from_json", lambda **a: training.Trial.from_json(**a),
        {"content": kept, "state": trial.state, "seed": 0, "most_epochs": 2},
    )  # fmt: skip
    for field in kept:
        yield Call(
            "training.Trial.from_json",
            lambda value, field=field: training.Trial.from_json(kept | {field: value}, trial.state, 0, 2),
            {"value": kept[field]},
        )
    found = training.predict(run)
    yield Call(
        "training.Prediction",
        lambda **a: training.Prediction(**a).to_csv(),
        {"dataset": found.dataset, "probabilities": found.probabilities},
    )
    other = training.predict_graphs(second, str(tu))
    yield Call("training.GraphsPrediction", lambda **a: training.GraphsPrediction(**a).to_csv(), dict(vars(other)))
