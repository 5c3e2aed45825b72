"""Graph classification and graph regression (Section 6): the network, its batches, and what is asked of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary

from armagnn import checks
from armagnn.arguments import checked
from armagnn.data import Fold, GraphsDataset, NodeFeatures, Scaler, node_features, nodes_of
from armagnn.errors import ParameterError
from armagnn.nn import CayleyConv, RationalConv, activations, make_conv
from armagnn.nn.conv import drop
from armagnn.nn.layer_registry import PEERS
from armagnn.nn.pooling import AvgPool
from armagnn.operators import GraphOperator
from armagnn.operators.batches import GraphBatch, GraphBatches, batches_of
from armagnn.operators.spectra import GraphSpectra, vectors_pay
from armagnn.tasks import GRAPH_RATES
from armagnn.tasks.contract import TaskNet, ask, check_step, check_target, set_layer_rates, write_plan

CHUNK: Final = 1 << 15
"""About how many nodes are evaluated at a time: what bounds the memory of a large validation set."""

USUAL: Final = 1.06
"""Nodes (and nonzeros) of the room that most batches should fit into, as a multiple of the mean."""

WIDER: Final = 1.25
"""From one room to the next: each is recorded by itself, and a batch wastes what it does not fill."""

LEAST: Final = -2
"""Steps from the usual room to the smallest, for the last batch of an epoch."""

GRAIN: Final = 64
"""Sizes of rooms are multiples of this: kernels are compiled once for all of them."""

DEEPEST: Final = 1000
"""The most convolutions of a network."""

MOST_GRAPHS: Final = 2**20
"""The most graphs of a batch."""

Predict = Callable[[Tensor, GraphBatch], Tensor]


class GraphNet(TaskNet):
    """GNN - ... - GNN - AvgPool - FC: the paper's networks for whole graphs, with any of the methods.

    For graph classification three convolutions, global average pooling, and one fully connected layer; for graph
    regression one convolution and a hidden fully connected layer (``depth=1, head=(128,)``). `hidden_dropout` acts on
    the input of every layer but the first, the pooled features included; `skip_dropout` on the skip connections X V_k,
    which only ARMA has. The heads of a GAT stand side by side: `hidden` units in all.

    Args:
        method: ``arma``, ``gcn``, ``chebyshev``, ``cayley``, ``gat``, ``sage``, ``gin`` or ``mlp``.
        in_channels: features of a node.
        outputs: numbers to put out for each graph: classes, or targets.
        hidden: units of each convolution.
        depth: convolutions.
        head: units of the hidden fully connected layers.
        act: activation of every layer but the last.
        slots: S of `AvgPool`, or None for the plain mean.
        hidden_dropout: drop rate between the layers.
        skip_dropout: drop rate of ARMA's skip connections.
        options: hyperparameters of the convolutions, as `make_conv` takes them.

    Example:
        >>> GraphNet("arma", 9, 2, hidden=32, options={"num_stacks": 4, "num_layers": 4}).convs[2]
        ARMAConv(32, 32, num_stacks=4, num_layers=4)
    """

    @checked
    def __init__(
        self,
        method: str,
        in_channels: int,
        outputs: int,
        *,
        hidden: int = 32,
        depth: int = 3,
        head: Sequence[int] = (),
        act: str = "relu",
        slots: int | None = None,
        hidden_dropout: float = 0.0,
        skip_dropout: float = 0.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        for name, size in (("outputs", outputs), ("hidden", hidden), *(("head", n) for n in head)):
            checks.integer(name, size, 1)
        checks.integer("depth", depth, 1, DEEPEST)
        for name, rate in zip(GRAPH_RATES, (hidden_dropout, skip_dropout), strict=True):
            checks.probability(name, rate)
        options = ({"concat": True} if method == "gat" else {}) | dict(options or {})
        sizes = [in_channels, *[hidden] * depth]
        self.convs = nn.ModuleList(
            make_conv(method, fan_in, fan_out, act=act, **options) for fan_in, fan_out in pairwise(sizes)
        )
        self.pool = AvgPool(slots)
        sizes = [hidden, *head, outputs]
        self.head = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(sizes))
        self.method, self.in_channels, self.act = method, in_channels, act
        self.hidden_dropout: float | Tensor
        self.set_rates(hidden_dropout, skip_dropout)

    def set_rates(self, hidden: float | Tensor, skip: float | Tensor) -> None:
        """Change the drop rates; a tensor without axes may differ from trial to trial under vmap."""
        set_layer_rates(self.convs, skip, inside=hidden)
        self.hidden_dropout = hidden

    @checked
    def operator(self, dataset: GraphsDataset, dtype: torch.dtype) -> GraphOperator:
        """The operator of all graphs of a dataset that the convolutions want; without edges if they look at none.

        Weights of edges count in ARMA, GCN, Chebyshev's filters and CayleyNet; PyG's methods refuse them.
        """
        if dataset.edge_weight is not None and self.method in PEERS:
            raise ParameterError(f"{self.method} knows no edge weights: give it graphs without edge_weight.")
        conv: Any = self.convs[0]
        op: GraphOperator | None = conv.operator(dataset.edge_index, dataset.num_nodes, dataset.edge_weight, dtype)
        if op is None:
            op = GraphOperator.from_edge_index(dataset.edge_index[:, :0], dataset.num_nodes, dtype=dtype)
        return op

    @checked
    def wants_spectra(self, graphs: GraphBatches) -> bool:
        """Are the convolutions functions of the frequencies, computed faster there for each graph?"""
        conv = self.convs[0]
        return isinstance(conv, CayleyConv | RationalConv) and vectors_pay(
            graphs.op, graphs.ptr, conv.spectral_degree(graphs.op)
        )

    @checked
    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Outputs (B, C) of the graphs of a batch, from the features (n, F) of its nodes."""
        for index, conv in enumerate(self.convs):
            x = conv(x if index == 0 else drop(x, self.hidden_dropout, self.training), batch.op)
        x = self.pool(x, batch)
        for index, layer in enumerate(self.head):
            x = layer(drop(activations.apply(self.act, x) if index else x, self.hidden_dropout, self.training))
        return x


class GraphTask:
    """Batches of training graphs, loss and metrics of a network on one fold of a set of graphs.

    Features are scaled by what the training graphs of the fold have, targets of a regression likewise (`fit_scalers`).
    A network with one output for each target learns them all, and its loss is the mean over targets; of one with a
    single output, every trial learns another target, its ``target``. The order of the batches is a function of the
    fold's number and the epoch: trials that share a fold share it. On a GPU batches are built there, and padded (see
    `GraphBatches.take_padded`) to one of a few sizes, so that a step of each can be recorded. Padding may change the
    last bits of a sum, so the size is a function of the batch alone.

    Args:
        dataset: the graphs.
        net: the network, for the operator it wants.
        fold: which graphs are for training, validation and test.
        batch_size: graphs of a batch.
        order: seed of the order of the batches.
        features: of the nodes; by default those of the dataset.
        device: where to train.
        dtype: of the numbers.
        padded: build batches of few sizes; by default on a GPU.

    Example:
        >>> from armagnn.data import folds, load_graphs
        >>> mutag = load_graphs("mutag")
        >>> net = GraphNet("gcn", 9, 2)
        >>> task = GraphTask(mutag, net, folds(mutag)[0], batch_size=32)
        >>> task.steps, sorted(task.metrics(net.eval(), "val"))
        (5, ['accuracy', 'loss'])
    """

    @checked
    def __init__(
        self,
        dataset: GraphsDataset,
        net: GraphNet,
        fold: Fold,
        *,
        batch_size: int,
        order: int = 0,
        features: NodeFeatures | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        padded: bool | None = None,
    ) -> None:
        checks.integer("batch_size", batch_size, 1, MOST_GRAPHS)
        checks.dtype_option(dtype)
        for name, ids in vars(fold).items():
            if not len(ids):
                raise ParameterError(f"The {name} part of the fold has no graph.")
        self.dataset, self.fold, self.batch_size, self.order = dataset, fold, batch_size, order
        self.device = checks.device(device)
        self.padded = self.device.type != "cpu" if padded is None else padded
        self.features = node_features(dataset) if features is None else features
        self.scaler, self.target_scaler = fit_scalers(dataset, self.features, fold)
        self.x = self.scaler(self.features.x).to(self.device, dtype)
        y = dataset.y if self.target_scaler is None else self.target_scaler(dataset.y).to(dtype)
        outputs: Any = net.head[-1].out_features
        self.joint = dataset.regression and outputs == dataset.num_outputs
        if dataset.regression and outputs not in (1, dataset.num_outputs):
            raise ParameterError(
                f"outputs is {outputs}; for {dataset.num_outputs} targets it must be {dataset.num_outputs}, or 1."
            )
        units = torch.ones(1) if self.target_scaler is None else self.target_scaler.deviation
        self._units = units.double().to(self.device)
        # of graph G, which fills up a batch, nothing counts
        self.y = F.pad(y.t(), (0, 1)).t().contiguous().to(self.device)
        self.graphs = GraphBatches(net.operator(dataset, dtype), dataset.ptr).to(self.device)
        if net.wants_spectra(self.graphs):
            self.graphs.spectra = _spectra(dataset, self.graphs)
        self.steps = -(-len(fold.train) // batch_size)
        self._plan = torch.empty(self.steps, batch_size, dtype=torch.int64, device=self.device)
        self._parts: tuple[Tensor, ...] = ()
        self._rooms: list[tuple[int, ...]] = []
        share = USUAL * min(1.0, batch_size / len(fold.train))
        rows, nonzeros = (share * size for size in self.graphs.measure(fold.train))
        self._usual = max(rows, 1.0), nonzeros
        self._chunks = {split: self._chunked(getattr(fold, split)) for split in ("val", "test")}

    # --------------------------------------------------------------------------------------------------------- batches

    def _chunked(self, ids: Tensor) -> list[GraphBatch]:
        size = max(1, CHUNK * len(ids) // max(1, self.graphs.measure(ids)[0]))
        return [self.graphs.take(part) for part in torch.split(ids, size)]

    @checked
    def start(self, epoch: int) -> None:
        """Order the batches of an epoch, counted from 0."""
        self._parts = batches_of(self.fold.train.cpu(), self.batch_size, self.order, epoch)
        if not self.padded:
            return
        write_plan(self._plan, torch.cat(self._parts), filler=self.graphs.num_graphs)
        self._rooms = [self._room_for(*self.graphs.measure(part)) for part in self._parts]

    def _room_for(self, rows: int, nonzeros: int) -> tuple[int, ...]:
        """Return the least room that a batch fits into, and its padding of one node or more."""
        level = LEAST
        while True:
            room = tuple(GRAIN * math.ceil(WIDER**level * size / GRAIN) for size in self._usual)
            if rows < room[0] and nonzeros <= room[1]:
                return room
            level += 1

    @checked
    def room(self, step: int) -> tuple[int, ...]:
        """Nodes and nonzeros that the batch of a step of this epoch is padded to; () if it is not."""
        return self._rooms[step] if self.padded else ()

    @checked
    def batch(self, step: Tensor, room: tuple[int, ...]) -> GraphBatch:
        """The batch of a step of this epoch, padded to its room."""
        check_step(step, len(self._parts))
        if self.padded:
            rows, nonzeros = room
            return self.graphs.take_padded(self._plan.index_select(0, step).squeeze(0), rows, nonzeros)
        return self.graphs.take(self._parts[int(step)])

    # ---------------------------------------------------------------------------------------------------------- scores

    @checked
    def loss(self, predict: Predict, batch: GraphBatch, target: Tensor | None = None) -> Tensor:
        """Cross-entropy, or the mean squared error of the target or targets, over the graphs of a batch."""
        check_target(target)
        losses = self._losses(self._outputs(predict, batch), batch, target)
        counts = (batch.ids < self.graphs.num_graphs).to(losses.dtype)  # graphs that fill up a batch do not
        return (losses * counts).sum() / counts.sum()

    @checked
    def metrics(self, predict: Predict, split: str, target: Tensor | None = None) -> dict[str, Tensor]:
        """Loss and accuracy, or loss and mse (of standardised targets; they are the same), on "val" or "test".

        Where all targets are learnt, also the mean absolute error of each, in its own units: "mae NAME".
        """
        check_target(target)
        sums: dict[str, Tensor] = {}
        for batch in self._chunks[checks.choice("split", split, self._chunks)]:
            outputs = self._outputs(predict, batch)
            found = {"loss": self._losses(outputs, batch, target).double().sum()}
            if not self.dataset.regression:
                found["accuracy"] = (outputs.argmax(-1) == self.y.index_select(0, batch.ids)).double().sum()
            if self.joint:
                found |= self._absolute(outputs, batch)
            sums = {name: sums[name] + value for name, value in found.items()} if sums else found
        means = {name: value / len(getattr(self.fold, split)) for name, value in sums.items()}
        return means | {"mse": means["loss"]} if self.dataset.regression else means

    def _outputs(self, predict: Predict, batch: GraphBatch) -> Tensor:
        return ask(predict, self.x.index_select(0, batch.nodes), batch)

    def _absolute(self, outputs: Tensor, batch: GraphBatch) -> dict[str, Tensor]:
        """Return the sum over graphs of the absolute error of each target, in its own units."""
        errors = (outputs - self.y.index_select(0, batch.ids)).abs().double().sum(0) * self._units
        names = self.dataset.targets or [f"target {t}" for t in range(len(errors))]
        return {f"mae {name}": error for name, error in zip(names, errors.unbind(0), strict=True)}

    def _losses(self, outputs: Tensor, batch: GraphBatch, target: Tensor | None) -> Tensor:
        """Return the loss of each graph, shape (B)."""
        y = self.y.index_select(0, batch.ids)
        if not self.dataset.regression:
            return F.cross_entropy(outputs, y, reduction="none")
        if self.joint:
            return (outputs - y).square().mean(-1)
        chosen = y.select(1, 0) if target is None else y.index_select(1, target.view(1)).squeeze(1)
        return (outputs.squeeze(-1) - chosen).square()


_found: Any = WeakTensorKeyDictionary()  # by the edges, then their weights: all folds of a dataset want the same


def _spectra(dataset: GraphsDataset, graphs: GraphBatches) -> GraphSpectra:
    """The spectra of all graphs of a dataset, kept as long as its edges are."""
    op = graphs.op
    weights = dataset.edge_index if dataset.edge_weight is None else dataset.edge_weight
    of_edges = _found.setdefault(dataset.edge_index, WeakTensorKeyDictionary())
    kept: dict[tuple[Any, ...], GraphSpectra] = of_edges.setdefault(weights, {})
    key = op.kind, op.dtype, op.device
    if key not in kept:
        kept[key] = graphs.find_spectra()
        if op.device.type == "cuda":
            torch.cuda.synchronize(op.device)  # others may want them on another stream
    return kept[key]


def fit_scalers(dataset: GraphsDataset, features: NodeFeatures, fold: Fold) -> tuple[Scaler, Scaler | None]:
    """The scaling of node features and, of a regression, of targets, as the training graphs of a fold have it.

    One-hot columns stay as they are.

    Example:
        >>> from armagnn.data import folds, load_graphs
        >>> mutag = load_graphs("mutag")
        >>> scaler, _ = fit_scalers(mutag, node_features(mutag), folds(mutag)[0])
        >>> scaler.mean[:3]
        tensor([2.2096, 0.0000, 0.0000])
    """
    x = Scaler.fit(features.x, nodes_of(dataset, fold.train), columns=features.numeric)
    return x, Scaler.fit(dataset.y, fold.train, floor=0.0) if dataset.regression else None
