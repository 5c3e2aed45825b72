"""Tasks with valid arguments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import armagnn.data as data
import armagnn.tasks as tasks
from armagnn.operators import GraphBatches
from attack.datasets import node_file, rings
from attack.subjects import Call
from tiny_signals import tiny


def tasks_room() -> Iterator[Call]:
    node, sets, signals = data.read_node_file(node_file(Path.cwd() / "own.npz")), rings(), tiny()
    fold, width = data.folds(sets)[0], data.node_features(sets).x.shape[1]
    yield Call("tasks.conv_options", lambda **a: tasks.conv_options(**a), {"method": "arma", "k": 2, "t": 2})
    net = {
        "method": "arma",
        "hidden": 4,
        "act": "relu",
        "hidden_dropout": 0.1,
        "skip_dropout": 0.1,
        "options": {"num_stacks": 2},
    }

    def node_net(**a: Any) -> Any:
        made = tasks.NodeNet(**a)
        return made(node.x, node.operator()), repr(made)

    yield Call(
        "tasks.NodeNet",
        node_net,
        net | {"in_channels": 5, "num_classes": 3, "input_dropout": 0.1, "last": {"num_stacks": 1}},
    )
    one = tasks.NodeNet("arma", 5, 3)
    yield Call("tasks.NodeNet.forward", lambda **a: one(**a), {"x": node.x, "op": node.operator()})
    yield Call("tasks.NodeNet.forward", lambda **a: one(**a), {"x": node.x.to_dense(), "op": node.operator()})
    yield Call(
        "tasks.NodeNet.set_rates",
        lambda **a: (one.set_rates(**a), tasks.NodeNet.train(one)(node.x, node.operator())),
        {"input": 0.1, "hidden": 0.1, "skip": 0.1},
    )
    yield Call(
        "tasks.NodeNet.trial_axis",
        lambda name: one.trial_axis(name),
        {"name": next(iter(dict(one.named_parameters())))},
    )

    def node_task(**a: Any) -> Any:
        task = tasks.NodeTask(**a)
        return task.loss(one, task.batch()), task.metrics(one, "val")

    yield Call("tasks.NodeTask", node_task, {"dataset": node, "net": one, "dtype": torch.float32})
    yield from _task_methods("tasks.NodeTask", tasks.NodeTask(node, one), one)

    def graph_net(**a: Any) -> Any:
        made = tasks.GraphNet(**a)
        task = tasks.GraphTask(sets, made, fold, batch_size=5)
        return task.metrics(made, "val"), repr(made)

    yield Call(
        "tasks.GraphNet", graph_net, net | {"in_channels": width, "outputs": 2, "depth": 2, "head": (3,), "slots": None}
    )
    two = tasks.GraphNet("arma", width, 2, hidden=4)
    task = tasks.GraphTask(sets, two, fold, batch_size=5)
    task.start(0)
    batch = task.batch(torch.zeros(1, dtype=torch.int64), task.room(0))
    yield Call(
        "tasks.GraphNet.forward", lambda **a: two(**a), {"x": torch.rand(batch.num_nodes, width), "batch": batch}
    )
    yield Call("tasks.GraphNet.set_rates", lambda **a: two.set_rates(**a), {"hidden": 0.1, "skip": 0.1})
    yield Call(
        "tasks.GraphNet.trial_axis",
        lambda name: two.trial_axis(name),
        {"name": next(iter(dict(two.named_parameters())))},
    )
    yield Call("tasks.GraphNet.operator", lambda **a: two.operator(**a), {"dataset": sets, "dtype": torch.float32})
    batches = GraphBatches(two.operator(sets, torch.float32), sets.ptr)
    yield Call("tasks.GraphNet.wants_spectra", lambda graphs: two.wants_spectra(graphs), {"graphs": batches})

    def graph_task(**a: Any) -> Any:
        task = tasks.GraphTask(**a)
        task.start(0)
        return task.metrics(two, "val")

    yield Call(
        "tasks.GraphTask", graph_task,
        {"dataset": sets, "net": two, "fold": fold, "batch_size": 5, "order": 0, "features": data.node_features(sets),
         "device": "cpu",
         "dtype": torch.float32, "padded": None},
    )  # fmt: skip
    yield from _task_methods("tasks.GraphTask", task, two)
    yield Call(
        "tasks.pooled_nodes",
        lambda **a: tasks.pooled_nodes(**a),
        {"edge_index": signals.edge_index, "num_nodes": 36, "strides": (2, 2), "edge_weight": None},
    )
    size = tasks.pooled_nodes(signals.edge_index, 36, (2,))
    options = {
        "widths": (4,),
        "strides": (2,),
        "head": (3,),
        "in_channels": 1,
        "average": False,
        "num_classes": 3,
        "num_nodes": size,
    }

    def signal_net(**a: Any) -> Any:
        made = tasks.SignalNet(**a)
        levels = made.levels(signals.edge_index, 36)
        return made(signals.x[:2].float().unsqueeze(-1), levels), repr(made)

    rest = {name: value for name, value in net.items() if name != "hidden"}
    yield Call("tasks.SignalNet", signal_net, rest | options)
    three = tasks.SignalNet("arma", 3, size, widths=(4,), strides=(2,))
    levels = three.levels(signals.edge_index, 36)
    yield Call(
        "tasks.SignalNet.forward", lambda **a: three(**a), {"x": signals.x[:2].float().unsqueeze(-1), "levels": levels}
    )
    yield Call("tasks.SignalNet.set_rates", lambda a, b: three.set_rates(a, b), {"a": 0.1, "b": 0.1})
    yield Call("tasks.SignalNet.trial_axis", lambda name: three.trial_axis(name), {"name": "convs.0.bias"})
    yield Call(
        "tasks.SignalNet.levels", lambda **a: three.levels(**a),
        {"edge_index": signals.edge_index, "num_nodes": 36, "edge_weight": torch.ones(signals.edge_index.shape[1]),
         "table": None, "dtype": torch.float32},
    )  # fmt: skip

    def signal_task(**a: Any) -> Any:
        task = tasks.SignalTask(**a)
        task.start(0)
        return task.metrics(three, "val")

    yield Call(
        "tasks.SignalTask",
        signal_task,
        {
            "dataset": signals,
            "net": three,
            "features": "raw",
            "batch_size": 5,
            "order": 0,
            "device": "cpu",
            "dtype": torch.float32,
        },
    )
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
