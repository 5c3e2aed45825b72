"""The other rooms that are attacked: layers, data, tasks, trainings, ranks; and the table of all."""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import armagnn.data as data
import armagnn.tasks as tasks
import armagnn.training as training
from armagnn import GraphOperator
from armagnn.data.arrays import pack_arrays
from armagnn.data.multilabel_file import parse_multilabel_file
from armagnn.data import Fold, GraphsDataset, NodeDataset, Scaler, SignalsDataset
from armagnn.nn import (
    ARMAConv,
    AvgPool,
    CayleyConv,
    ChebConv,
    GCNConv,
    GraclusPool,
    NonExpansive,
    ReservoirARMA,
    SumPool,
    make_conv,
)
from armagnn.operators import GraphBatches
from armagnn.solvers import FixedPoint
from attack import subjects
from attack.subjects import Call, edges, features, graph
from data.test_tu_folder import write
from data.tiny import multilabel_arrays
from own_graphs import rings_and_paths
from tiny_signals import tiny


def layers() -> Iterator[Call]:
    op, x, index = graph(), features(), edges()
    weight = torch.ones(index.shape[1])
    common = {"act": "relu", "dropout": 0.1, "bias": True}
    sizes = {"in_channels": 3, "out_channels": 2}
    made: dict[Any, dict[str, Any]] = {
        ARMAConv: {"num_stacks": 2, "num_layers": 2, "shared_weights": True, "init": "linear", "cached": False, "fixed_point": None},
        ChebConv: {"order": 2, "lambda_max": 2.0}, GCNConv: {"gamma": 1.0},
        CayleyConv: {"order": 1, "jacobi": 2, "zoom": 1.0, "train_zoom": True},
    }  # fmt: skip
    for cls, own in made.items():
        name, conv = f"nn.{cls.__name__}", cls(3, 2)
        call = {"x": x, "edge_index": index, "edge_weight": weight}

        def use(cls: Any = cls, **a: Any) -> Any:
            conv = cls(**a)
            out = conv(torch.ones(6, 3), index)
            out.sum().backward()
            return out, repr(conv)

        yield Call(name, use, sizes | own | common)
        yield Call(f"{name}.forward", lambda conv=conv, **a: conv(**a), call)
        yield Call(f"{name}.forward", lambda conv=conv, **a: conv(**a), {"x": x, "edge_index": graph(cls.kind)})
        yield Call(
            f"{name}.operator", lambda conv=conv, **a: conv.operator(**a),
            {"graph": index, "num_nodes": 6, "edge_weight": weight, "dtype": torch.float32},
        )  # fmt: skip
    arma = ARMAConv(3, 3, 2, 2)
    wide = ARMAConv(3, 2, 2, 2, act="tanh", fixed_point=FixedPoint())
    call = {"x": x, "edge_index": index, "edge_weight": weight}
    yield Call("nn.ARMAConv.stacks", lambda **a: wide.stacks(**a), call | {"initial": torch.rand(2, 6, 2)})
    yield Call("nn.ARMAConv.step", lambda **a: wide.step(**a), call | {"state": torch.rand(2, 6, 2)})
    yield Call("nn.ARMAConv.sequence", lambda **a: arma.sequence(**a), {"xs": [x, x], "graphs": [index, index], "edge_weight": [weight, weight]})
    yield Call("nn.ARMAConv.from_pyg", lambda conv: ARMAConv.from_pyg(conv)(x, index), {"conv": ARMAConv(3, 2, 2, 2).to_pyg()})
    yield Call("nn.CayleyConv.spectral_degree", lambda op: CayleyConv(3, 2).spectral_degree(op), {"op": op})
    batches = GraphBatches(GraphOperator.block_diagonal([op, op, op]), torch.tensor([0, 6, 12, 18]))
    batch = batches.take(torch.tensor([0, 2]))
    for pool in (AvgPool, SumPool):
        name = f"nn.{pool.__name__}"
        yield Call(f"{name}.forward", lambda pool=pool, **a: pool()(**a), {"x": torch.rand(12, 3), "batch": batch})
        yield Call(f"{name}.forward", lambda pool=pool, **a: pool()(**a), {"x": torch.rand(12, 3), "batch": batch.ptr})
    yield Call("nn.AvgPool", lambda slots: AvgPool(slots)(torch.rand(12, 3), batch), {"slots": 8})
    real = torch.tensor([True] * 5 + [False])
    yield Call("nn.GraclusPool", lambda **a: GraclusPool(**a)(x, real), {"stride": 2, "mode": "max"})
    yield Call("nn.GraclusPool.forward", lambda **a: GraclusPool(2)(**a), {"x": x, "real": real})
    yield Call("nn.NonExpansive", lambda function: NonExpansive(function)(x), {"function": torch.tanh})
    yield Call("nn.NonExpansive.forward", lambda x: NonExpansive(torch.tanh)(x), {"x": x})
    numbers, classes = x.numpy(), np.array([0, 1, 0, 1, 0, 1])
    yield Call(
        "nn.ReservoirARMA", lambda **a: ReservoirARMA(**a).fit(numbers, classes).transform(numbers),
        {"units": 4, "num_stacks": 2, "contraction": 0.9, "spread": 1.0, "input_scale": 0.3, "act": "tanh", "graph": index,
         "tol": 1e-5, "max_iter": 500, "random_state": 0},
    )  # fmt: skip
    fitted = ReservoirARMA(4, 2, graph=index, random_state=0).fit(numbers)
    fresh = functools.partial(ReservoirARMA, 4, 2, graph=index, random_state=0)
    for method in ("fit", "fit_transform"):
        yield Call(f"nn.ReservoirARMA.{method}", lambda method=method, **a: getattr(fresh(), method)(**a), {"X": numbers, "y": classes})
    yield Call("nn.ReservoirARMA.transform", lambda X: fitted.transform(X), {"X": numbers})
    for name, kind in (("arma", "arma"), ("gat", "adjacency"), ("sage", "adjacency"), ("gin", "adjacency"), ("mlp", "arma")):
        yield Call(
            "nn.make_conv", lambda own=graph(kind), **a: make_conv(**a)(torch.ones(6, 3), own),
            {"name": name, "in_channels": 3, "out_channels": 2} | common,
        )  # fmt: skip


def _node_arrays() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    x = (generator.random((30, 5)) < 0.5).astype(np.float32)
    ring = np.arange(30)
    pairs = np.stack([ring, (ring + 1) % 30])
    return {
        "x_indptr": np.arange(31, dtype=np.int32) * 5, "x_indices": np.tile(np.arange(5, dtype=np.int16), 30),
        "x_data": x.reshape(-1) + 1, "x_shape": np.array([30, 5], dtype=np.int32),
        "edge_index": np.concatenate([pairs, pairs[::-1]], 1).astype(np.int32), "y": (ring % 3).astype(np.int8),
        "train_idx": np.arange(9, dtype=np.int32), "val_idx": np.arange(9, 18, dtype=np.int32),
        "test_idx": np.arange(18, 30, dtype=np.int32),
    }  # fmt: skip


def node_file(path: Path) -> Path:
    """A node file that is well-formed; written once."""
    if not path.exists():
        np.savez_compressed(path, **_node_arrays())
    return path


def graphs_file(path: Path, found: GraphsDataset) -> Path:
    if not path.exists():
        np.savez_compressed(
            path, edge_index=found.edge_index.numpy(), ptr=found.ptr.numpy(), y=found.y.clamp(min=0).numpy() % 2,
            node_labels=found.node_labels.numpy() if found.node_labels is not None else [],
        )  # fmt: skip
    return path


def rings() -> GraphsDataset:
    found = rings_and_paths()
    return replace(found, y=torch.arange(len(found)) % 2)


def data_room() -> Iterator[Call]:
    here = Path.cwd()
    nodes, graphs, tu = node_file(here / "own.npz"), graphs_file(here / "graphs.npz", rings()), here / "tu"
    if not tu.exists():
        tu.mkdir()
        write(rings(), tu)
    node, sets, signals = data.read_node_file(nodes), rings(), tiny()
    few = sets.select(list(range(6)))
    described = data.node_features(sets)
    fold = data.folds(sets)[0]
    digest = data.read_node_file(nodes).sha256
    yield Call("data.read_node_file", lambda **a: data.read_node_file(**a), {"path": nodes, "sha256": None})
    yield Call("data.read_node_file", lambda **a: data.read_node_file(**a), {"path": str(nodes), "sha256": digest})
    yield Call("data.read_graphs_file", lambda **a: data.read_graphs_file(**a), {"path": graphs, "sha256": None, "labelled": True})
    yield Call("data.read_tu_folder", lambda **a: data.read_tu_folder(**a), {"path": tu, "target": "auto"})
    yield Call("data.load", lambda **a: data.load(**a), {"name": str(nodes), "split": "public", "seed": None})
    yield Call("data.load", lambda **a: data.load(**a), {"name": "cora", "split": "random", "seed": 1})
    yield Call("data.load_graphs", lambda name: data.load_graphs(name), {"name": str(graphs)})
    yield Call("data.load_signals", lambda name: _typed(data.load_signals, name), {"name": "mnist"})
    yield Call("data.add", lambda **a: _added(**a), {"path": nodes, "name": "papers"})
    yield Call("data.fetch", lambda name, get: data.fetch(name, get=get), {"name": "cora", "get": lambda url: b"nothing"})
    yield Call("data.fetch", lambda name, get: _typed(functools.partial(data.fetch, get=get), name), {"name": "mutag", "get": lambda url: b"nothing"})
    yield Call("data.verify", lambda names: data.verify(names), {"names": ["cora"]})
    yield Call("data.statistics", lambda **a: data.statistics(**a), {"data": node, "paths": True})
    yield Call("data.statistics", lambda **a: data.statistics(**a), {"data": sets, "paths": False})
    yield Call("data.statistics_of", lambda **a: data.statistics_of(**a), {"name": "cora", "paths": False})
    yield Call("data.make_bench_hard", lambda **a: data.make_bench_hard(**a), {"seed": 0, "small": True, "per_class": 2})
    yield Call("data.make_news", lambda **a: _typed(lambda _: data.make_news(**a), None), {"seed": 0, "force": False})
    yield Call("data.node_features", lambda dataset, **a: data.node_features(dataset, **a), {"dataset": sets, "kinds": ["degree", "labels"], "vocabulary": [0, 2, 7]})
    yield Call("data.NodeFeatures", lambda **a: data.NodeFeatures(**a).numeric, {"x": described.x, "names": described.names, "vocabulary": (0, 2, 7)})
    yield Call("data.clustering", lambda dataset: data.clustering(dataset), {"dataset": sets})
    yield Call("data.nodes_of", lambda **a: data.nodes_of(**a), {"dataset": sets, "graphs": torch.tensor([0, 3])})
    yield Call("data.folds", lambda dataset, seed: data.folds(dataset, seed=seed), {"dataset": sets, "seed": 3})
    yield Call("data.own_split", lambda dataset: data.own_split(dataset), {"dataset": replace(sets, split=torch.arange(30) % 3)})
    yield Call("data.refined_classes", lambda dataset, features, edge_labels: data.refined_classes(dataset, features, edge_labels=edge_labels), {"dataset": sets, "features": described, "edge_labels": False})
    yield Call("data.bound", lambda **a: data.bound(**a), {"dataset": sets, "classes": data.refined_classes(sets)})
    yield Call("data.with_bond_orders", lambda molecules: _typed(data.with_bond_orders, molecules), {"molecules": sets})
    yield Call("data.Fold", lambda **a: repr(Fold(**a)), {"train": fold.train, "val": fold.val, "test": fold.test})
    yield Call("data.Bound", lambda **a: repr(data.Bound(**a)), {"classes": 2, "twins": 0.5, "best": {"a": 1.0}})
    yield Call("data.Entry", lambda **a: data.Entry(**a).files, {"file": "a.npz", "sha256": digest, "source": "x", "kind": "nodes", "also": {}})
    x, rows = torch.rand(9, 3), torch.tensor([0, 1, 4])
    yield Call("data.Scaler.fit", lambda x, nodes, floor, columns: data.Scaler.fit(x, nodes, floor=floor, columns=columns)(x), {"x": x, "nodes": rows, "floor": 0.01, "columns": torch.tensor([True, False, True])})
    scaler = Scaler.fit(x, rows)
    yield Call("data.Scaler", lambda rows, **a: Scaler(**a)(rows), {"mean": torch.zeros(3), "deviation": torch.ones(3), "rows": x})
    yield Call("data.Scaler.call", lambda x: scaler(x), {"x": x})
    yield Call("data.Scaler.inverse", lambda x: scaler.inverse(x), {"x": x})
    yield Call("data.Scaler.to", lambda device: scaler.to(device), {"device": "cpu"})
    yield Call(
        "data.GraphsDataset.of", lambda **a: repr(GraphsDataset.of(**a)),
        {"edge_index": few.edge_index, "ptr": few.ptr, "y": torch.arange(6) % 2, "node_labels": few.node_labels, "node_attr": few.node_attr,
         "edge_labels": torch.zeros(few.edge_index.shape[1]).long(), "edge_weight": torch.ones(few.edge_index.shape[1]), "split": torch.tensor([0, 0, 1, 1, 2, 2])},
    )  # fmt: skip
    yield Call("data.GraphsDataset", lambda **a: GraphsDataset(**a).num_graphs, {"name": "x", "edge_index": few.edge_index, "ptr": few.ptr, "y": few.y, "num_classes": 2, "sha256": ""})
    yield Call("data.GraphsDataset.select", lambda ids: sets.select(ids), {"ids": torch.tensor([3, 0])})
    yield Call("data.GraphsDataset.select", lambda ids: sets.select(ids), {"ids": [3, 0]})
    yield Call("data.GraphsDataset.to", lambda device: sets.to(device), {"device": "cpu"})
    yield Call("data.GraphsDataset.getitem", lambda item: sets[item] if hasattr(sets, "__getitem__") else None, {"item": 0})
    yield Call(
        "data.NodeDataset", lambda **a: NodeDataset(**a).num_nodes,
        {name: getattr(node, name) for name in ("name", "x", "edge_index", "y", "train_idx", "val_idx", "test_idx", "num_classes", "sha256")},
    )  # fmt: skip
    yield Call("data.NodeDataset.idx", lambda split: node.idx(split), {"split": "train"})
    many = parse_multilabel_file(pack_arrays(multilabel_arrays()), name="many", source="many")
    yield Call("data.NodeDataset.part", lambda split: many.part(split), {"split": "train"})
    yield Call("data.NodeDataset.to", lambda device: node.to(device), {"device": "cpu"})
    yield Call("data.NodeDataset.operator", lambda **a: node.operator(**a), {"kind": "arma", "gamma": 1.0, "dtype": torch.float32})
    yield Call("data.NodeDataset.with_random_split", lambda **a: node.with_random_split(**a), {"seed": 0, "per_class": 2, "val": 5, "test": 5})
    yield Call(
        "data.SignalsDataset.of", lambda **a: repr(SignalsDataset.of(**a)),
        {"edge_index": signals.edge_index, "x": signals.x, "y": signals.y, "train": range(16), "val": range(16, 23), "test": torch.arange(23, 30),
         "edge_weight": torch.ones(signals.edge_index.shape[1])},
    )  # fmt: skip
    yield Call(
        "data.SignalsDataset", lambda **a: SignalsDataset(**a).num_nodes,
        {name: getattr(signals, name) for name in ("name", "edge_index", "x", "y", "num_classes", "train_idx", "val_idx", "test_idx", "sha256")},
    )  # fmt: skip
    yield Call("data.SignalsDataset.idx", lambda split: signals.idx(split), {"split": "train"})
    yield Call("data.SignalsDataset.to", lambda device: signals.to(device), {"device": "cpu"})


def _typed(function: Callable[..., Any], argument: Any) -> Any:
    """A call that is refused here even with valid arguments (no network, no originals)."""
    return function(argument)


def _added(path: Any, name: Any) -> Any:
    folder = Path(os.environ["ARMAGNN_DATA"])
    try:
        return data.add(path, name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()


def tasks_room() -> Iterator[Call]:
    node, sets, signals = data.read_node_file(node_file(Path.cwd() / "own.npz")), rings(), tiny()
    fold, width = data.folds(sets)[0], data.node_features(sets).x.shape[1]
    yield Call("tasks.conv_options", lambda **a: tasks.conv_options(**a), {"method": "arma", "k": 2, "t": 2})
    net = {"method": "arma", "hidden": 4, "act": "relu", "hidden_dropout": 0.1, "skip_dropout": 0.1, "options": {"num_stacks": 2}}

    def node_net(**a: Any) -> Any:
        made = tasks.NodeNet(**a)
        return made(node.x, node.operator()), repr(made)

    yield Call("tasks.NodeNet", node_net, net | {"in_channels": 5, "num_classes": 3, "input_dropout": 0.1, "last": {"num_stacks": 1}})
    one = tasks.NodeNet("arma", 5, 3)
    yield Call("tasks.NodeNet.forward", lambda **a: one(**a), {"x": node.x, "op": node.operator()})
    yield Call("tasks.NodeNet.forward", lambda **a: one(**a), {"x": node.x.to_dense(), "op": node.operator()})
    yield Call("tasks.NodeNet.set_rates", lambda **a: (one.set_rates(**a), tasks.NodeNet.train(one)(node.x, node.operator())), {"input": 0.1, "hidden": 0.1, "skip": 0.1})
    yield Call("tasks.NodeNet.trial_axis", lambda name: one.trial_axis(name), {"name": next(iter(dict(one.named_parameters())))})

    def node_task(**a: Any) -> Any:
        task = tasks.NodeTask(**a)
        return task.loss(one, task.batch()), task.metrics(one, "val")

    yield Call("tasks.NodeTask", node_task, {"dataset": node, "net": one, "dtype": torch.float32})
    yield from _task_methods("tasks.NodeTask", tasks.NodeTask(node, one), one)

    def graph_net(**a: Any) -> Any:
        made = tasks.GraphNet(**a)
        task = tasks.GraphTask(sets, made, fold, batch_size=5)
        return task.metrics(made, "val"), repr(made)

    yield Call("tasks.GraphNet", graph_net, net | {"in_channels": width, "outputs": 2, "depth": 2, "head": (3,), "slots": None})
    two = tasks.GraphNet("arma", width, 2, hidden=4)
    task = tasks.GraphTask(sets, two, fold, batch_size=5)
    task.start(0)
    batch = task.batch(torch.zeros(1, dtype=torch.int64), task.room(0))
    yield Call("tasks.GraphNet.forward", lambda **a: two(**a), {"x": torch.rand(batch.num_nodes, width), "batch": batch})
    yield Call("tasks.GraphNet.set_rates", lambda **a: two.set_rates(**a), {"hidden": 0.1, "skip": 0.1})
    yield Call("tasks.GraphNet.trial_axis", lambda name: two.trial_axis(name), {"name": next(iter(dict(two.named_parameters())))})
    yield Call("tasks.GraphNet.operator", lambda **a: two.operator(**a), {"dataset": sets, "dtype": torch.float32})
    batches = GraphBatches(two.operator(sets, torch.float32), sets.ptr)
    yield Call("tasks.GraphNet.wants_spectra", lambda graphs: two.wants_spectra(graphs), {"graphs": batches})

    def graph_task(**a: Any) -> Any:
        task = tasks.GraphTask(**a)
        task.start(0)
        return task.metrics(two, "val")

    yield Call(
        "tasks.GraphTask", graph_task,
        {"dataset": sets, "net": two, "fold": fold, "batch_size": 5, "order": 0, "features": data.node_features(sets), "device": "cpu",
         "dtype": torch.float32, "padded": None},
    )  # fmt: skip
    yield from _task_methods("tasks.GraphTask", task, two)
    yield Call("tasks.pooled_nodes", lambda **a: tasks.pooled_nodes(**a), {"edge_index": signals.edge_index, "num_nodes": 36, "strides": (2, 2), "edge_weight": None})
    size = tasks.pooled_nodes(signals.edge_index, 36, (2,))
    options = {"widths": (4,), "strides": (2,), "head": (3,), "in_channels": 1, "average": False, "num_classes": 3, "num_nodes": size}

    def signal_net(**a: Any) -> Any:
        made = tasks.SignalNet(**a)
        levels = made.levels(signals.edge_index, 36)
        return made(signals.x[:2].float().unsqueeze(-1), levels), repr(made)

    rest = {name: value for name, value in net.items() if name != "hidden"}
    yield Call("tasks.SignalNet", signal_net, rest | options)
    three = tasks.SignalNet("arma", 3, size, widths=(4,), strides=(2,))
    levels = three.levels(signals.edge_index, 36)
    yield Call("tasks.SignalNet.forward", lambda **a: three(**a), {"x": signals.x[:2].float().unsqueeze(-1), "levels": levels})
    yield Call("tasks.SignalNet.set_rates", lambda a, b: three.set_rates(a, b), {"a": 0.1, "b": 0.1})
    yield Call("tasks.SignalNet.trial_axis", lambda name: three.trial_axis(name), {"name": "convs.0.bias"})
    yield Call(
        "tasks.SignalNet.levels", lambda **a: three.levels(**a),
        {"edge_index": signals.edge_index, "num_nodes": 36, "edge_weight": torch.ones(signals.edge_index.shape[1]), "table": None, "dtype": torch.float32},
    )  # fmt: skip

    def signal_task(**a: Any) -> Any:
        task = tasks.SignalTask(**a)
        task.start(0)
        return task.metrics(three, "val")

    yield Call("tasks.SignalTask", signal_task, {"dataset": signals, "net": three, "features": "raw", "batch_size": 5, "order": 0, "device": "cpu", "dtype": torch.float32})
    last = tasks.SignalTask(signals, three, batch_size=5)
    last.start(0)
    yield from _task_methods("tasks.SignalTask", last, three)
    yield Call("tasks.SignalTask.inputs", lambda ids: last.inputs(ids), {"ids": torch.tensor([0, 2])})


def _task_methods(name: str, task: Any, net: Any) -> Iterator[Call]:
    step = torch.zeros(1, dtype=torch.int64)
    batch = task.batch(step, task.room(0))
    yield Call(f"{name}.batch", lambda **a: task.batch(**a), {"step": step, "room": task.room(0)})
    yield Call(f"{name}.loss", lambda **a: task.loss(**a), {"predict": net, "batch": batch, "target": None})
    yield Call(f"{name}.metrics", lambda **a: task.metrics(**a), {"predict": net, "split": "val", "target": None})
    yield Call(f"{name}.room", lambda step: task.room(step), {"step": 0})
    yield Call(f"{name}.start", lambda epoch: task.start(epoch), {"epoch": 1})


def training_room() -> Iterator[Call]:
    here = Path.cwd()
    own, tu = node_file(here / "own.npz"), here / "tu"
    if not tu.exists():
        tu.mkdir()
        write(rings(), tu)
    quick = {
        "dataset": str(own), "conv": "arma", "hidden": 4, "stacks": 2, "layers": 1, "last_stacks": 0, "act": "relu", "init": "linear",
        "input_dropout": 0.1, "hidden_dropout": 0.1, "skip_dropout": 0.1, "l2": 0.0005, "lr": 0.01, "epochs": 2, "patience": 2,
        "stop_on": "loss", "seed": 0, "seeds": 2, "device": "cpu",
    }  # fmt: skip
    graphs = {
        "data": str(tu), "target": "auto", "conv": "arma", "hidden": 4, "depth": 1, "head": 0, "stacks": 2, "layers": 1, "act": "relu",
        "pooling": "mean", "hidden_dropout": 0.1, "skip_dropout": 0.1, "l2": 0.0, "lr": 0.01, "batch": 8, "epochs": 2, "patience": 2,
        "stop_on": "loss", "fold": 0, "split_seed": 0, "seed": 0, "seeds": 2, "device": "cpu",
    }  # fmt: skip

    def trained(config: Any, out: Any = None, **options: Any) -> Any:
        folder = here / "trained"
        try:
            return training.train(config, folder if out is None else out, **options).metrics()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    yield Call("training.TrainConfig", lambda **a: trained(training.TrainConfig(**a)), quick)
    yield Call("training.GraphsConfig", lambda **a: trained(training.GraphsConfig(**a)), graphs)
    config = training.TrainConfig(**quick)
    yield Call("training.train", trained, {"config": config, "out": here / "trained", "resume": False, "overwrite": True, "watcher": training.Watcher()})
    for cls, options in ((training.TrainConfig, quick), (training.GraphsConfig, graphs)):
        name = f"training.{cls.__name__}"
        yield Call(f"{name}.from_json", lambda content, cls=cls: cls.from_json(content), {"content": cls(**options).to_json()})
        for field, value in cls(**options).to_json().items():  # each field of a hostile configuration
            yield Call(
                f"{name}.from_json", lambda value, cls=cls, field=field, options=options: cls.from_json(cls(**options).to_json() | {field: value}),
                {"value": value},
            )  # fmt: skip
        yield Call(f"{name}.differences", lambda other, cls=cls, options=options: cls(**options).differences(other), {"other": cls(**options)})
    yield Call("training.RunConfig.differences", lambda other: config.differences(other), {"other": config})
    finished, on_graphs = here / "finished", here / "finished-graphs"
    run = training.Run.open(finished) if finished.exists() else training.train(config, finished)
    second = (
        training.Run.open(on_graphs) if on_graphs.exists() else training.train(training.GraphsConfig(**graphs), on_graphs)
    )
    yield Call("training.predict", lambda run: training.predict(run).to_csv(), {"run": run})
    yield Call("training.predict_graphs", lambda **a: training.predict_graphs(**a).to_csv(), {"run": second, "data": str(tu)})
    yield Call("training.build_network", lambda **a: training.build_network(**a), {"config": config, "dataset": data.read_node_file(own)})
    yield Call("training.Run.open", lambda path: training.Run.open(path), {"path": finished})
    yield Call("training.Run.open", lambda path: training.Run.open(path), {"path": str(finished)})

    def created(path: Any, **options: Any) -> Any:
        try:
            shutil.rmtree(here / "created", ignore_errors=True)
            (here / "created").mkdir()
            return training.Run.create(path, **options)
        finally:
            shutil.rmtree(here / "created", ignore_errors=True)

    yield Call("training.Run.create", created, {"path": here / "created", "config": config, "dataset_sha256": "0" * 64, "graphs": None})
    yield Call("training.Run", lambda **a: repr(training.Run(**a).finished_seeds), {"path": finished, "config": config, "dataset_sha256": "0" * 64, "versions": {}, "manifest": run.manifest})
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
    yield Call("training.Description.of", lambda **a: training.Description.of(**a), {"dataset": sets, "features": data.node_features(sets), "fold": data.folds(sets)[0]})
    yield Call("training.Description.from_json", lambda content: training.Description.from_json(content), {"content": content})
    for field, value in content.items():
        yield Call(
            "training.Description.from_json", lambda value, field=field: training.Description.from_json(content | {field: value}),
            {"value": value},
        )  # fmt: skip
    yield Call("training.Description", lambda **a: repr(training.Description(**a)), dict(vars(described)))
    yield Call("training.Description.features", lambda data: described.features(data), {"data": data.read_tu_folder(tu)})
    scaled = replace(described, classes=(), targets=("a", "b"), target_mean=(0.0, 1.0), target_deviation=(1.0, 2.0))
    yield Call("training.Description.own_units", lambda outputs: scaled.own_units(outputs), {"outputs": torch.rand(3, 2)})

    def stopping(epoch: Any, loss: Any, accuracy: Any, stop_on: Any = "loss", patience: Any = 3) -> Any:
        rule = training.EarlyStopping(stop_on, patience)
        return rule.improves(epoch, loss, accuracy), rule.exhausted(epoch)

    numbers = {"epoch": 1, "loss": 0.5, "accuracy": 0.5}
    yield Call("training.EarlyStopping", stopping, numbers | {"stop_on": "accuracy", "patience": 3})
    yield Call("training.EarlyStopping.improves", stopping, numbers)
    yield Call("training.EarlyStopping.exhausted", lambda epoch: training.EarlyStopping("loss", 3).exhausted(epoch), {"epoch": 3})
    setting = training.Setting(0, 0.01, 0.0, (0.1, 0.1, 0.1))
    node = data.read_node_file(own)

    def build() -> Any:
        return tasks.NodeNet("arma", 5, 3, hidden=4)

    task = tasks.NodeTask(node, build())

    def trials(**a: Any) -> Any:
        made = training.Trials(a.pop("build", build), a.pop("task", task), a.pop("settings", [setting]), **({"epochs": 2, "patience": 2, "stop_on": "loss"} | a))
        return [outcome.val for outcome in made.run()]

    yield Call(
        "training.Trials", trials,
        {"build": build, "task": task, "settings": [setting], "epochs": 2, "patience": 2, "stop_on": "loss", "beside": ("accuracy",), "device": "cpu", "dtype": torch.float32},
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
    found = training.predict(run)
    yield Call("training.Prediction", lambda **a: training.Prediction(**a).to_csv(), {"dataset": found.dataset, "probabilities": found.probabilities})
    other = training.predict_graphs(second, str(tu))
    yield Call("training.GraphsPrediction", lambda **a: training.GraphsPrediction(**a).to_csv(), dict(vars(other)))


def distributed() -> Iterator[Call]:
    import torch.distributed as dist

    from armagnn.distributed import ParallelStacks, parallelize_stacks

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    group = dist.group.WORLD
    conv = ARMAConv(3, 2, 2, 2)
    for name, make in (("ParallelStacks", ParallelStacks), ("parallelize_stacks", parallelize_stacks)):
        yield Call(f"distributed.{name}", lambda make=make, **a: make(**a)(features(), graph()), {"conv": conv, "mesh": group})
    parallel = parallelize_stacks(conv, group)
    call = {"x": features(), "edge_index": edges(), "edge_weight": torch.ones(14)}
    yield Call("distributed.ParallelStacks.forward", lambda **a: parallel(**a), call)
    yield Call("distributed.ParallelStacks.forward", lambda **a: parallel(**a), {"x": features(), "edge_index": graph()})
    yield Call("distributed.ParallelStacks.operator", lambda **a: parallel.operator(**a), {"graph": edges(), "num_nodes": 6, "edge_weight": torch.ones(14)})
    yield Call("distributed.ParallelStacks.load_state_dict", lambda state: parallel.load_state_dict(state), {"state": parallel.state_dict()})


ROOMS: dict[str, Callable[[], Iterator[Call]]] = {
    "operators": subjects.operators, "kernels": subjects.kernels_room, "solvers": subjects.solvers, "filters": subjects.filters,
    "spectral": subjects.spectral, "nn": layers, "data": data_room, "tasks": tasks_room, "training": training_room,
    "distributed": distributed,
}  # fmt: skip
"""Every room of the public API. The functions read and write files in the current folder."""
