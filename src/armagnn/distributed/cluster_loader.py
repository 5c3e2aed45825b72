"""Minibatches of a graph: some of its parts, joined with the edges between them, as Cluster-GCN has it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from armagnn import checks
from armagnn.data.graphs import slices
from armagnn.data.nodes import select_rows
from armagnn.data.splits import shuffled
from armagnn.distributed.part_task import PartTask
from armagnn.distributed.partitioned_operator import checked_starts
from armagnn.errors import DeviceError, ParameterError
from armagnn.operators import GraphOperator
from armagnn.tasks.contract import Predict, check_step
from armagnn.tasks.node_task import Part

CLUSTERS = 11
"""What the order of the parts is drawn for, among other draws of the same seed."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """A minibatch.

    Attributes:
        nodes: its nodes, as numbered in the whole graph, (n,).
        op: the rows and columns of the whole operator that belong to them, with the values that they have there.
    """

    nodes: Tensor
    op: GraphOperator


class ClusterLoader:
    r"""Go through a graph in minibatches of some of its parts, in another order in every epoch.

    A minibatch has the nodes :math:`B` of a few parts and the operator :math:`L_{BB}`, edges between these parts
    included. Its values are those of the whole operator: a node keeps its true degree, and only messages over the
    boundary of B are missing. Samplers that build an operator of the sampled edges have that of other degrees.

    Args:
        op: the whole operator; neighbours should be near each other in it, as ``armagnn partition --order`` puts them.
        starts: the first node of each part, and N.
        join: how many parts make a minibatch.
        seed: of the orders.

    Example:
        >>> from armagnn.data import load
        >>> from armagnn.distributed.partitioned_operator import balanced
        >>> op = load("cora").operator()
        >>> loader = ClusterLoader(op, balanced(op.rowptr, 12), join=3)
        >>> len(loader), sum(len(cluster.nodes) for cluster in loader)
        (4, 2708)
    """

    def __init__(self, op: GraphOperator, starts: Sequence[int], join: int = 3, seed: int = 0) -> None:
        self.op = checks.instance("op", op, GraphOperator, "a GraphOperator")
        self.starts = checked_starts(starts, len(list(starts)) - 1)
        if self.starts[-1] != op.num_nodes:
            raise ParameterError(f"starts must end with N = {op.num_nodes}, got {self.starts[-1]}.")
        self.join = checks.integer("join", join, 1, len(self.starts) - 1)
        self.seed, self.epoch = checks.integer("seed", seed, 0), 0

    def __len__(self) -> int:
        """Minibatches of an epoch."""
        return -(-(len(self.starts) - 1) // self.join)

    def __iter__(self) -> Iterator[Cluster]:
        """Go through an epoch; the next one has another order."""
        groups = self.groups(self.epoch)
        self.epoch += 1
        return (self.cluster(group) for group in groups)

    def groups(self, epoch: int) -> list[list[int]]:
        """Return which parts are joined in each minibatch of an epoch."""
        order = shuffled(self.seed, CLUSTERS, len(self.starts) - 1, step=epoch).tolist()
        return [sorted(order[first : first + self.join]) for first in range(0, len(order), self.join)]

    def cluster(self, parts: Sequence[int]) -> Cluster:
        """Return some parts, joined."""
        runs = list(itertools.pairwise(self.starts))
        nodes = torch.cat([torch.arange(*runs[part], device=self.op.device) for part in parts])
        place = torch.full((self.op.num_nodes,), -1, dtype=torch.int64, device=nodes.device)
        place[nodes] = torch.arange(nodes.shape[0], device=nodes.device)
        found, rowptr = slices(self.op.rowptr, nodes)
        col = place[self.op.col[found].long()]
        inside = col >= 0
        kept = torch.cat([inside.new_zeros(1, dtype=torch.int64), inside.cumsum(0)])
        index = self.op.col.dtype
        order: dict[str, Any] = {"kind": self.op.kind, "symmetric": self.op.symmetric, "shift": self.op.shift}
        op = GraphOperator(
            kept[rowptr.long()].to(index), col[inside].to(index), self.op.value[found][inside],
            (nodes.shape[0], nodes.shape[0]), unit_diagonal=self.op.unit_diagonal, **order,
        )  # fmt: skip
        return Cluster(nodes, op)


class ClusterTask(PartTask):
    """As `PartTask` in one process, but that a step sees a minibatch; metrics are of the whole graph.

    The loss of a minibatch is that of its training nodes, times the number of minibatches, over all training nodes: so
    the mean of an epoch is a mean over all of them.
    """

    def __init__(self, *args: Any, join: int, seed: int = 0, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.group.size() != 1:
            raise ParameterError("minibatches of parts are for one process: leave out --clusters, or start one rank.")
        if self.op.device.type != "cpu":
            raise DeviceError("minibatches of parts differ in size, which a training on a GPU cannot record: use cpu.")
        halo, whole = self.op.halo, self.op
        op = GraphOperator(
            whole.rowptr, whole.col, whole.value, (halo.total, halo.total),
            kind=whole.kind, symmetric=whole.symmetric, unit_diagonal=whole.unit_diagonal, shift=whole.shift,
        )  # fmt: skip
        self.loader = ClusterLoader(op, self.part.facts.starts, join, seed)
        self.steps = len(self.loader)
        self.groups: list[list[int]] = []

    def start(self, epoch: int) -> None:
        """Draw the minibatches of an epoch."""
        self.groups = self.loader.groups(epoch)

    def batch(self, step: Tensor | None = None, room: tuple[int, ...] = ()) -> Part:
        """The training nodes of a minibatch, within it."""
        number = 0 if step is None else int(check_step(step, self.steps))
        cluster, whole = self.loader.cluster(self.groups[number]), self.parts["train"]
        place = torch.full((self.op.num_nodes,), -1, dtype=torch.int64)
        place[cluster.nodes] = torch.arange(cluster.nodes.shape[0])
        mine = place[whole.idx] >= 0
        return Part(select_rows(whole.x, cluster.nodes), cluster.op, place[whole.idx[mine]], whole.y[mine])

    def loss(self, predict: Predict, batch: Part, target: Tensor | None = None) -> Tensor:
        """The loss of a minibatch."""
        return self._loss_sum(batch.logits(predict), batch.y) * (self.steps / self._weighed)
