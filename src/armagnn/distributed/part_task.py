"""Node classification and regression over ranks: a rank's nodes, and sums over all ranks."""

from __future__ import annotations

from typing import Final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from armagnn import checks
from armagnn.data import Scaler
from armagnn.distributed.collectives import summed
from armagnn.distributed.part_folder import GraphPart
from armagnn.distributed.part_operator import part_operator
from armagnn.distributed.rank_groups import gathered
from armagnn.errors import ParameterError
from armagnn.nn.layer_registry import LayerSequence
from armagnn.tasks import NodeNet
from armagnn.tasks.contract import Predict, WholeBatch
from armagnn.tasks.node_task import Part
from armagnn.tasks.roc_auc import roc_auc

SPLITS: Final = ("train", "val", "test")


class PartTask(WholeBatch):
    """Loss and metrics of a network on a partition; all ranks ask for them together, and get the same.

    They are those of `armagnn.tasks.NodeTask` on the whole graph, up to the order in which a sum is taken.

    Args:
        part: what this rank holds.
        net: whose layers say which operator they want.
        group: the ranks.
        dtype: of all numbers.
        balance: let all classes count alike in the loss.
        device: where to compute.
    """

    small = False

    def __init__(
        self,
        part: GraphPart,
        net: NodeNet,
        group: dist.ProcessGroup,
        dtype: torch.dtype = torch.float32,
        *,
        balance: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        self.part, self.group = part, group
        rows = part.facts.rows
        first = next(iter(net.conv1)) if isinstance(net.conv1, LayerSequence) else net.conv1
        # layers without a graph still drop by the numbers of nodes in the whole
        self.op = part_operator(part, group, first.kind or "adjacency", dtype=dtype, device=device, **first._options())
        x = part.x.to(device).to(dtype)
        self.scaler = scaler_of(part, device) if part.regression else None
        y, split = part.tensor("y"), part.tensor("split")
        assert y is not None
        assert split is not None
        self.parts: dict[str, Part] = {}
        self.sizes: dict[str, int] = {}
        self.spread: dict[str, Tensor] = {}
        for number, name in enumerate(SPLITS):
            idx = (split == number).nonzero().squeeze(1)
            target = y.index_select(0, idx).to(device)
            if self.scaler is not None:
                target = self.scaler(target[:, None]).to(dtype)
            elif target.dim() == 2:
                target = target.to(dtype)
            self.parts[name] = Part(x, self.op, idx.to(device), target)
            self.sizes[name] = int(rows["sizes"][number])
            if self.scaler is not None:
                sums = self._sum([target.double().sum(), target.double().square().sum()])
                self.spread[name] = sums[1] / self.sizes[name] - (sums[0] / self.sizes[name]) ** 2
        self.weight = weights_of_classes(part).to(dtype).to(device) if balance else None
        of_train = self.parts["train"].y
        self._weighed = float(self.sizes["train"])
        if self.weight is not None and of_train.dim() == 1:
            self._weighed = float(self._sum([self.weight.index_select(0, of_train).double().sum()])[0])

    def _sum(self, numbers: list[Tensor]) -> Tensor:
        """Return numbers of this rank, summed over all."""
        found = torch.stack([number.detach().double() for number in numbers])
        return summed(found, self.group)

    def loss(self, predict: Predict, batch: Part, target: Tensor | None = None) -> Tensor:
        """The loss on the training nodes of all ranks; its gradient on a rank is that of its own nodes' part."""
        outputs = batch.logits(predict)
        return summed(self._loss_sum(outputs, batch.y) / self._weighed, self.group)

    def _loss_sum(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The losses of this rank's nodes, added up: of labels their means over a node's."""
        if self.scaler is not None:
            return F.mse_loss(outputs, y, reduction="sum")
        if y.dim() == 2:
            found = F.binary_cross_entropy_with_logits(outputs, y, pos_weight=self.weight, reduction="sum")
            return found / y.shape[1]
        losses = -outputs.log_softmax(-1).gather(-1, y.unsqueeze(-1)).squeeze(-1)
        return losses.sum() if self.weight is None else (self.weight.index_select(0, y) * losses).sum()

    def metrics(self, predict: Predict, split: str, target: Tensor | None = None) -> dict[str, Tensor]:
        """The metrics of `NodeTask.metrics`, of the nodes of all ranks."""
        part, count = self.parts[checks.choice("split", split, self.parts)], self.sizes[split]
        outputs = part.logits(predict)
        if self.scaler is not None:
            return self._errors(outputs, part.y, split)
        loss = self._loss_sum(outputs, part.y)
        if part.y.dim() == 2:
            found, there = outputs > 0, part.y > 0
            sums = self._sum([loss, (found == there).sum(), (found & there).sum(), found.sum(), there.sum()])
            both = torch.clamp(sums[3] + sums[4], min=1)
            return {
                "loss": sums[0] / count,
                "accuracy": sums[1] / (count * part.y.shape[1]),
                "micro_f1": 2 * sums[2] / both,
            }
        weighed = torch.tensor(float(len(part.y)), device=outputs.device)
        if self.weight is not None:
            weighed = self.weight.index_select(0, part.y).sum()
        sums = self._sum([loss, (outputs.argmax(-1) == part.y).sum(), weighed])
        metrics = {"loss": sums[0] / sums[2], "accuracy": sums[1] / count}
        if self.part.metric == "roc_auc":
            metrics["roc_auc"] = roc_auc(gathered(outputs, self.group), gathered(part.y, self.group))
        return metrics

    def _errors(self, outputs: Tensor, y: Tensor, split: str) -> dict[str, Tensor]:
        assert self.scaler is not None
        errors = (outputs - y).double()
        squares, sizes = self._sum([errors.square().sum(), errors.abs().sum()]) / self.sizes[split]
        spread, unit = self.spread[split], self.scaler.deviation.double().squeeze(0)
        return {
            "loss": squares,
            "mse": squares,
            "r2": torch.where(spread > 0, 1 - squares / spread, 0.0),
            "mae target": sizes * unit,
            "rmse target": squares.sqrt() * unit,
        }


def scaler_of(part: GraphPart, device: torch.device | str) -> Scaler:
    """The scaling of real targets, as all training nodes have it."""
    mean, deviation = (torch.tensor([part.facts.rows[f"target_{name}"]]) for name in ("mean", "deviation"))
    return Scaler(mean, deviation).to(device)


def weights_of_classes(part: GraphPart) -> Tensor:
    """The weight of each class, or of having a label, as `armagnn.tasks.node_task.class_weights` has it."""
    rows = part.facts.rows
    if part.regression:
        raise ParameterError("balance is for classes; the target is a number.")
    counts, nodes = torch.tensor(rows["training_counts"]).float(), int(rows["sizes"][0])
    if rows["task"] == "labels":
        return (nodes - counts).clamp(min=1) / counts.clamp(min=1)
    return nodes / (len(counts) * counts.clamp(min=1))
