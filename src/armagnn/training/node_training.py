"""Node classification as a training: its configuration, its network and task, and its predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import real_tensor
from armagnn.data import NodeDataset
from armagnn.errors import ShapeError
from armagnn.tasks import NodeNet, NodeTask, conv_options
from armagnn.tasks.node_task import target_scaler
from armagnn.training.experiment import Experiment, csv_text, split_names
from armagnn.training.task_configs import NodesConfig


class NodesExperiment(Experiment):
    """A dataset of nodes, and the paper's network of two convolutions on it.

    Example:
        >>> NodesConfig(conv="gcn").experiment().network().conv1
        GCNConv(1433, 16)
    """

    DATA = NodeDataset
    config: NodesConfig
    dataset: NodeDataset

    @property
    def nodes_at_once(self) -> int:
        """All nodes."""
        return self.dataset.num_nodes

    def network(self) -> NodeNet:
        """The network, with new weights from torch's global generator."""
        config = self.config
        start = {"init": config.init} if config.conv == "arma" else {}
        return NodeNet(
            config.conv,
            self.dataset.num_features,
            self.dataset.num_outputs,
            hidden=config.hidden,
            act=config.act,
            input_dropout=config.input_dropout,
            hidden_dropout=config.hidden_dropout,
            skip_dropout=config.skip_dropout,
            options=conv_options(config.conv, config.stacks, config.layers) | start,
            last=conv_options(config.conv, config.last_stacks or config.stacks, config.layers),
        )

    def task(self, net: NodeNet, fold: int | None, device: torch.device) -> NodeTask:
        """Loss and metrics on the splits of the dataset, which has one fold."""
        return NodeTask(self._moved if device == self.config.torch_device() else self.dataset.to(device), net)

    @cached_property
    def _moved(self) -> NodeDataset:
        return self.dataset.to(self.config.torch_device())

    @torch.no_grad()
    def predict(self, net: NodeNet) -> NodesPrediction | NodesValues:
        """What a network says of every node, on the CPU."""
        data = self.dataset
        logits = net(data.x, net.conv1.operator(data.edge_index, data.num_nodes, data.edge_weight))
        scaler = target_scaler(data)
        if scaler is not None:
            return NodesValues(data, scaler.inverse(logits).squeeze(-1))
        return NodesPrediction(data, torch.sigmoid(logits) if data.multilabel else torch.softmax(logits, dim=-1))


@checked
@dataclass(frozen=True, eq=False)
class NodesPrediction:
    """The probabilities (N, C) of every node of `dataset`: softmax(logits), or sigmoid(logits) with many labels."""

    dataset: NodeDataset
    probabilities: Tensor
    what: str = field(default="nodes", init=False)

    def __post_init__(self) -> None:
        real_tensor("probabilities", self.probabilities, "(N, C)")
        if len(self.probabilities) != self.dataset.num_nodes:
            raise ShapeError(f"probabilities has {len(self.probabilities)} rows for {self.dataset.num_nodes} nodes.")

    def labels(self) -> list[str]:
        """The most probable class of each node; with many labels, those above one half, e.g. ``"3 17"`` or ``""``.

        Example:
            >>> from armagnn.data import load
            >>> cora = load("cora")
            >>> NodesPrediction(cora, torch.eye(7)[cora.y]).labels()[:3]
            ['3', '4', '4']
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
        said: dict[str, Iterable[object]] = {"labels" if self.dataset.multilabel else "label": self.labels()}
        return _to_csv(self.dataset, said | {f"p_{c}": p for c, p in enumerate(self.probabilities.t().tolist())})


@checked
@dataclass(frozen=True, eq=False)
class NodesValues:
    """The values (N,) that a regression predicts for every node of `dataset`, in the target's own units."""

    dataset: NodeDataset
    values: Tensor
    what: str = field(default="nodes", init=False)

    def __post_init__(self) -> None:
        if real_tensor("values", self.values, "(N,)").shape != (self.dataset.num_nodes,):
            raise ShapeError(f"values has shape {tuple(self.values.shape)} for {self.dataset.num_nodes} nodes.")

    def to_csv(self) -> str:
        """One row per node: its id, its graph if there are several, its split (or nothing), and the predicted value."""
        return _to_csv(self.dataset, {"target": self.values.tolist()})


def _to_csv(data: NodeDataset, said: Mapping[str, Iterable[object]]) -> str:
    columns: dict[str, Iterable[object]] = {"node": range(data.num_nodes)}
    if data.graph is not None:
        columns["graph"] = data.graph.tolist()
    columns |= {"split": split_names(data.num_nodes, data.idx), **said}
    return csv_text(columns, zip(*columns.values(), strict=True))
