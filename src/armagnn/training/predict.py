"""What a trained run says about every node of its graph, or graphs."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import real_tensor
from armagnn.data import NodeDataset
from armagnn.errors import ParameterError, RunError, ShapeError, shown
from armagnn.training.config import TrainConfig
from armagnn.training.nodes import build_network, load_nodes
from armagnn.training.run import Run
from armagnn.training.sizes import Net, outline


@checked
@dataclass(frozen=True, eq=False)
class Prediction:
    """The probabilities (N, C) of every node of `dataset`: softmax(logits), or sigmoid(logits) with many labels."""

    dataset: NodeDataset
    probabilities: Tensor

    def __post_init__(self) -> None:
        real_tensor("probabilities", self.probabilities, "(N, C)")
        if len(self.probabilities) != self.dataset.num_nodes:
            raise ShapeError(f"probabilities has {len(self.probabilities)} rows for {self.dataset.num_nodes} nodes.")

    def labels(self) -> list[str]:
        """The most probable class of each node; with many labels, those above one half, e.g. ``"3 17"`` or ``""``.

        Example:
            >>> from armagnn.data import load
            >>> Prediction(load("cora"), torch.eye(7)[:3]).labels()
            ['0', '1', '2']
        """
        if not self.dataset.multilabel:
            return [str(label) for label in self.probabilities.argmax(dim=-1).tolist()]
        found: list[list[str]] = [[] for _ in range(len(self.probabilities))]
        for node, label in (self.probabilities > 0.5).nonzero().tolist():
            found[node].append(str(label))
        return [" ".join(each) for each in found]

    def to_csv(self) -> str:
        """One row per node: its id, its graph if there are several, its split (or nothing), label(s), p_0 .. p_{C-1}.

        The column is ``label``, or ``labels`` (separated by blanks) where a node may have many.
        """
        data = self.dataset
        split = [""] * data.num_nodes
        for name in ("train", "val", "test"):
            for node in data.idx(name).tolist():
                split[node] = name
        graph = None if data.graph is None else data.graph.tolist()
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        head = ["node", *([] if graph is None else ["graph"]), "split", "labels" if data.multilabel else "label"]
        writer.writerow([*head, *(f"p_{c}" for c in range(data.num_classes))])
        for node, (label, row) in enumerate(zip(self.labels(), self.probabilities.tolist(), strict=True)):
            place = [node] if graph is None else [node, graph[node]]
            writer.writerow([*place, split[node], label, *(f"{p:.9g}" for p in row)])  # 9 digits: all of a float32
        return table.getvalue()


@checked
def predict(run: Run) -> Prediction:
    """Probabilities from the best weights of a finished run, on all graphs of its dataset.

    It runs on the CPU, wherever the run was trained.

    Example:
        >>> predict(Run.open("runs/cora")).probabilities.shape  # doctest: +SKIP
        torch.Size([2708, 7])
    """
    config = opened(run).config
    if not isinstance(config, TrainConfig):
        raise RunError(f"{run.path}: is a run on {config.kind}; use predict_graphs.")
    dataset = load_nodes(config)
    run.check_data(dataset.sha256)
    net = trained(run, lambda: build_network(config, dataset))
    with torch.no_grad():
        logits = net(dataset.x, net.conv1.operator(dataset.edge_index, dataset.num_nodes, dataset.edge_weight))
    return Prediction(dataset, torch.sigmoid(logits) if dataset.multilabel else torch.softmax(logits, dim=-1))


def opened(run: Run) -> Run:
    """The run, if it is one."""
    if not isinstance(run, Run):
        raise ParameterError(f"run must be a run that is open, as Run.open(path) gives it, got {shown(run)}.")
    return run


def trained(run: Run, build: Callable[[], Net]) -> Net:
    """The network that `build` makes, with the weights of a finished run, ready to predict.

    The network takes no memory before its shapes are known to be those of the weights.
    """
    weights = run.weights()
    try:
        net = outline(build)
    except ParameterError as error:
        raise RunError(f"{run.path}: the network of the configuration cannot be made ({error})") from error
    expected = net.state_dict()
    for name in sorted(expected.keys() | weights.keys()):
        sides = [(tuple(w.shape), w.dtype) if w is not None else None for w in (weights.get(name), expected.get(name))]
        if sides[0] != sides[1]:
            has, wants = (f"of shape {side[0]} and {side[1]}" if side else "missing" for side in sides)
            raise RunError(
                f"{run.path}: the weights do not fit the configuration ({shown(name)} is {has} in the run, {wants} in "
                "the network)."
            )
    net.load_state_dict(weights, assign=True)
    net.eval()
    return net
