"""Node classification on all fixed splits of a graph at once: each trial has a split of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import choice
from armagnn.data import NodeDataset
from armagnn.data.nodes import SPLITS
from armagnn.errors import ParameterError
from armagnn.tasks.contract import Predict, ask, check_target
from armagnn.tasks.node_task import NodeNet, NodeTask, Part
from armagnn.tasks.roc_auc import roc_auc


class SplitTask(NodeTask):
    """Loss and metrics of a network on one of the fixed splits of a dataset, whose number is the trial's ``target``.

    All splits share the graph, and so one forward pass of many trials. What `NodeTask` takes from the nodes of a split
    is here a sum over all nodes with weights of 0 and 1, because splits may differ in size.

    Example:
        >>> import torch
        >>> from armagnn.data import load
        >>> wisconsin = load("wisconsin")  # doctest: +SKIP
        >>> net = NodeNet("arma", wisconsin.num_features, wisconsin.num_classes)  # doctest: +SKIP
        >>> sorted(SplitTask(wisconsin, net).metrics(net.eval(), "val", torch.tensor(3)))  # doctest: +SKIP
        ['accuracy', 'loss']
    """

    @checked
    def __init__(
        self, dataset: NodeDataset, net: NodeNet, dtype: torch.dtype = torch.float32, *, balance: bool = False
    ) -> None:
        if dataset.split_parts is None:
            raise ParameterError(f"{dataset.name} has no fixed splits to train on at once.")
        if balance:
            raise ParameterError("balance needs the split of a trial: it does not go with all fixed splits at once.")
        super().__init__(dataset, net, dtype)
        self.masks = {split: (dataset.split_parts == part).to(dtype) for part, split in enumerate(SPLITS)}
        self.labels = dataset.y.clamp(min=0)

    def _split(self, split: str, target: Tensor | None) -> Tensor:
        """Which nodes count, (N), 0 or 1."""
        check_target(target)
        number = self.labels.new_zeros(1) if target is None else target.reshape(1)
        return self.masks[choice("split", split, self.masks)].index_select(0, number).squeeze(0)

    def _loss(self, logits: Tensor, mask: Tensor) -> Tensor:
        each = -logits.log_softmax(-1).gather(-1, self.labels.unsqueeze(-1)).squeeze(-1)
        return (each * mask).sum() / mask.sum()

    @checked
    def loss(self, predict: Predict, batch: Part, target: Tensor | None = None) -> Tensor:
        """The loss on the training nodes of the trial's split, a tensor without axes."""
        return self._loss(ask(predict, batch.x, batch.op), self._split("train", target))

    @checked
    def metrics(self, predict: Predict, split: str, target: Tensor | None = None) -> dict[str, Tensor]:
        """Loss, accuracy and, where the dataset is judged by it, roc_auc on a part of the trial's split."""
        part, mask = self.parts[choice("split", split, self.parts)], self._split(split, target)
        logits = ask(predict, part.x, part.op)
        right = (logits.argmax(-1) == self.labels).double()
        found = {"loss": self._loss(logits, mask).double(), "accuracy": (right * mask).sum() / mask.sum()}
        return found | ({"roc_auc": roc_auc(logits, self.labels, mask)} if self.dataset.metric == "roc_auc" else {})
