"""Trainings with valid arguments, all very short."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import armagnn.data as data
import armagnn.tasks as tasks
import armagnn.training as training
from attack.datasets import node_file, node_tables, rings
from attack.subjects import Call
from data.test_tu import write


def _of_copy(run: Any, method: str, **given: Any) -> Any:
    """A method of a run that writes, on a copy of it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = training.Run.open(shutil.copytree(run.path, Path(folder, "run")))
        return getattr(copy, method)(**given)


def _of_folds(config: Any, out: Any, **options: Any) -> Any:
    if isinstance(config, training.Config) and (config.seeds > 50 or config.epochs > 100):
        return config  # honest work, which takes its time
    try:
        return training.summary_of(training.train_folds(config, out, **options))
    finally:
        shutil.rmtree(Path.cwd() / "again", ignore_errors=True)


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
        if isinstance(config, training.Config) and (config.seeds > 50 or config.epochs > 100):
            return config  # honest work, which takes its time
        try:
            return training.train(config, folder if out is None else out, **options).metrics()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    yield Call("training.NodesConfig", lambda **a: trained(training.NodesConfig(**a)), quick)
    yield Call("training.GraphsConfig", lambda **a: trained(training.GraphsConfig(**a)), graphs)
    config = training.NodesConfig(**quick)
    yield Call(
        "training.train",
        trained,
        {
            "config": config,
            "out": here / "trained",
            "resume": False,
            "overwrite": True,
            "observer": training.Observer(),
        },
    )
    for cls, options in ((training.NodesConfig, quick), (training.GraphsConfig, graphs)):
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
        made = cls(**options)
        yield Call(f"{name}.defaults", lambda cls=cls, **a: cls.defaults(**a), {"source": "cora", "conv": "arma"})
        typed = {"seeds": 2, "conv": "gcn"}
        yield Call(f"{name}.begun", lambda typed, cls=cls: cls.begun(typed), {"typed": typed})
        yield Call(f"{name}.of_memory", lambda data, made=made: made.of_memory(data), {"data": made.load()})
        yield Call(f"{name}.is_path", lambda source, cls=cls: cls.is_path(source), {"source": "x.npz"})
        yield Call(f"{name}.from_stored", lambda content, cls=cls: cls.from_stored(content), {"content": made.stored()})
        yield Call(f"{name}.setting", lambda seed, made=made: made.setting(seed), {"seed": 3})
        yield Call(f"{name}.experiment", lambda data, made=made: made.experiment(data).sha256, {"data": made.load()})
    yield Call("training.Config.differences", lambda other: config.differences(other), {"other": config})
    finished, on_graphs = here / "finished", here / "finished-graphs"
    run = training.Run.open(finished) if finished.exists() else training.train(config, finished)
    second = (
        training.Run.open(on_graphs)
        if on_graphs.exists()
        else training.train(training.GraphsConfig(**graphs), on_graphs)
    )
    for each in (run, second):
        name = f"training.{type(each.config).__name__}"
        yield Call(f"{name}.predict", lambda run, each=each: each.config.predict(run).to_csv(), {"run": each})
    yield Call("training.Description.read", lambda run: training.Description.read(run), {"run": second})
    kept = run.load_trial(0)
    for method, given in (
        ("add", {"outcomes": [kept]}),
        ("get", {"key": "0"}),
        ("missing", {"keys": ["0", "7"]}),
        ("finish", {"baselines": None}),
    ):
        yield Call(f"training.Run.{method}", lambda method=method, **a: _of_copy(run, method, **a), given)
    yield Call(
        "training.NodesConfig.for_tables",
        lambda **a: training.NodesConfig.for_tables(**a),
        {"conv": "gcn", "nodes": "nodes.csv", "edges": "edges.csv", "seeds": 2},
    )
    whole = training.GraphsConfig(**graphs | {"folds": 10, "seeds": 1, "epochs": 1})
    folds = here / "folds"
    runs = training.open_folds(folds) if folds.exists() else training.train_folds(whole, folds)
    yield Call("training.has_folds", lambda path: training.has_folds(path), {"path": str(folds)})
    yield Call("training.open_folds", lambda path: training.open_folds(path), {"path": folds})
    yield Call(
        "training.predict_folds", lambda **a: training.predict_folds(**a).to_csv(), {"runs": runs, "data": str(tu)}
    )
    yield Call("training.summary_of", lambda runs: training.summary_of(runs), {"runs": runs})
    yield Call(
        "training.train_folds", _of_folds,
        {"config": whole, "out": here / "again", "resume": False, "overwrite": True, "observer": training.Observer()},
    )  # fmt: skip
    tables = data.NodeDataset.from_tables(*node_tables())
    yield Call(
        "training.TablePrediction", lambda **a: training.TablePrediction(**a).to_csv(),
        {"ids": tables.ids, "schema": tables.schema, "values": torch.full((8, 2), 0.5), "split": None, "notes": ()},
    )  # fmt: skip
    yield Call(
        "training.Outcome.from_json",
        lambda **a: training.Outcome.from_json(**a),
        {"content": kept.to_json(), "state": kept.state, "setting": kept.setting, "most_epochs": 2},
    )
    yield Call("training.predict", lambda run: training.predict(run).to_csv(), {"run": run})
    yield Call("training.predict", lambda **a: training.predict(**a).to_csv(), {"run": second, "data": str(tu)})
    yield Call(
        "training.NodesConfig.experiment",
        lambda data: config.experiment(data).network(),
        {"data": data.read_node_file(own)},
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
        {"path": here / "created", "config": config, "dataset_sha256": "0" * 64, "description": None},
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
            return training.Run.open(copy).keep(trial)
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    yield Call("training.Run.keep", saved, {"trial": run.load_trial(0)})
    described = training.Description.read(second)
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
         "other_rules": ("accuracy",), "device": "cpu", "dtype": torch.float32},
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
    yield Call("training.Outcome", lambda **a: training.Outcome(**a).require_converged().to_json(), dict(vars(outcome)))
    found = training.predict(run)
    yield Call(
        "training.NodesPrediction",
        lambda **a: training.NodesPrediction(**a).to_csv(),
        {"dataset": found.dataset, "probabilities": found.probabilities},
    )
    yield Call(
        "training.NodesValues",
        lambda **a: training.NodesValues(**a).to_csv(),
        {"dataset": found.dataset, "values": found.probabilities[:, 0]},
    )
    other = training.predict(second, str(tu))
    yield Call(
        "training.GraphsPrediction",
        lambda **a: training.GraphsPrediction(**a).to_csv(),
        {n: v for n, v in vars(other).items() if n != "what"},
    )
