"""Signals on a graph as a training: its configuration, its network and task, and its predictions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.data import SignalsDataset
from armagnn.tasks import SignalNet, SignalTask, conv_options, pooled_nodes
from armagnn.training.experiment import Experiment, csv_text, split_names
from armagnn.training.task_configs import SignalsConfig


class SignalsExperiment(Experiment):
    """Signals on a graph, and a network on them."""

    DATA = SignalsDataset
    config: SignalsConfig
    dataset: SignalsDataset

    def __init__(self, config: SignalsConfig, data: SignalsDataset | None = None) -> None:
        super().__init__(config, data)
        if config.all_signals:
            together = torch.cat([self.dataset.train_idx, self.dataset.val_idx]).sort().values
            self.dataset = replace(self.dataset, train_idx=together)

    @property
    def nodes_at_once(self) -> int:
        """The nodes of all signals of a batch."""
        return self.config.batch * self.dataset.num_nodes

    @cached_property
    def _places(self) -> int:
        data = self.dataset
        return pooled_nodes(data.edge_index, data.num_nodes, self.config.strides, data.edge_weight)

    def network(self) -> SignalNet:
        """The network, with new weights from torch's global generator."""
        config = self.config
        table = self.dataset.table if config.features == "table" else None
        return SignalNet(
            config.conv,
            self.dataset.num_classes,
            self._places,
            widths=config.filters,
            strides=config.strides,
            head=(config.head,) if config.head else (),
            in_channels=1 if table is None else table.shape[1],
            average=config.average,
            hidden_dropout=config.hidden_dropout,
            skip_dropout=config.skip_dropout,
            options=conv_options(config.conv, config.stacks, config.layers),
            decay_head=config.l2_on == "all",
        )

    def task(self, net: SignalNet, fold: int | None, device: torch.device) -> SignalTask:
        """Batches, loss and metrics; the order of the batches is the fold's."""
        config = self.config
        return SignalTask(
            self.dataset, net, features=config.features, batch_size=config.batch, order=fold or 0, device=device
        )

    @torch.no_grad()
    def predict(self, net: SignalNet) -> SignalsPrediction:
        """What a network says of every signal, on the CPU."""
        task = self.task(net, None, torch.device("cpu"))
        ids = torch.arange(len(self.dataset.y))
        logits = torch.cat([net(task.inputs(part), task.levels) for part in torch.split(ids, self.config.batch)])
        return SignalsPrediction(self.dataset, torch.softmax(logits, dim=-1))


@checked
@dataclass(frozen=True, eq=False)
class SignalsPrediction:
    """The probabilities (M, C) of every signal of `dataset`."""

    dataset: SignalsDataset
    probabilities: Tensor
    what: str = field(default="signals", init=False)

    def to_csv(self) -> str:
        """One row per signal: its number, its split (or nothing), its label, p_0 .. p_{C-1}."""
        labels = self.probabilities.argmax(dim=-1).tolist()
        split = split_names(len(labels), self.dataset.idx)
        rows = zip(split, labels, self.probabilities.tolist(), strict=True)
        return csv_text(
            ["signal", "split", "label", *(f"p_{c}" for c in range(self.dataset.num_classes))],
            ([signal, split, label, *row] for signal, (split, label, row) in enumerate(rows)),
        )
