"""Graph-signal classification (Section 6): many signals on one graph, the networks, and what is asked of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from armagnn import checks
from armagnn.arguments import checked
from armagnn.data.signals import SignalsDataset
from armagnn.errors import ParameterError, ShapeError, shown
from armagnn.nn import GraclusPool, activations, make_conv
from armagnn.nn.conv import check_rate, drop
from armagnn.nn.layer_registry import LayerSequence
from armagnn.nn.mlp_conv import Linear
from armagnn.nn.scaled_features import conv_of_scaled, scaling
from armagnn.operators import CSR, Coarsening, GraphOperator, batches_of, coarsen
from armagnn.tasks import SIGNAL_RATES
from armagnn.tasks.contract import TaskNet, ask, check_step, set_layer_rates, write_plan

FEATURES: Final = ("raw", "tfidf", "table")
"""What a node has in a signal: its number; weighted by how few signals it is in; or times its own features."""

MOST_SIGNALS: Final = 2**16
"""The most signals of a batch."""

CHUNK: Final = 1 << 20
"""About how many numbers of signals are evaluated at a time: what bounds the memory of a large validation set."""


@dataclass(frozen=True)
class Pooling:
    """How the nodes of a level become those of a coarser one. Convolutions see real nodes only, pooling the tree.

    Attributes:
        order: (M,) int64, the node at each place of the tree; any one where a fake is.
        real: (M,) bool, false where a fake is.
        kept: the places, after pooling, of the nodes of the coarser level.
    """

    order: Tensor
    real: Tensor
    kept: Tensor

    def __call__(self, pool: nn.Module, x: Tensor) -> Tensor:
        """Pool signals (..., n, F) on the nodes of the level to signals on those of the coarser one."""
        pooled: Tensor = pool(x.index_select(-2, self.order), self.real)
        return pooled.index_select(-2, self.kept)

    def to(self, device: torch.device) -> Pooling:
        """The same on a device."""
        return Pooling(self.order.to(device), self.real.to(device), self.kept.to(device))


@dataclass(frozen=True)
class Levels:
    """The graph that signals live on, and its coarsenings, as a `SignalNet` takes them.

    Attributes:
        ops: for each convolution its operator, on the nodes of its level; None if the layer looks at no graph.
        poolings: what follows each convolution; None where there is no pooling.
        table: (N, F) features that the nodes have in all signals, where the network multiplies them.
    """

    ops: tuple[GraphOperator | None, ...]
    poolings: tuple[Pooling | None, ...]
    table: Tensor | None = None


class SignalNet(TaskNet):
    """GNN(n) - P(s) - ... - FC(u) - ... - FC(C): the paper's networks for signals on a graph, with any of the methods.

    Each convolution may be followed by Graclus pooling (`strides`; 1: none). The last features of all nodes, side by
    side, go through the fully connected layers; or their average over the nodes, with ``average=True``.
    `hidden_dropout` acts on the input of the last layer, `skip_dropout` on the skip connections X V_k, which only ARMA
    has. MNIST has ``widths=(32, 64), strides=(4, 4), head=(512,)``; 20news ``widths=(16,), strides=(1,)``.

    Args:
        method: ``arma``, ``gcn``, ...; see `make_conv`.
        num_classes: C.
        num_nodes: nodes of the last level: the features of all of them go into the first FC; see `pooled_nodes`.
        widths, strides: filters of each convolution, and of the pooling after it.
        head: units of the hidden fully connected layers.
        in_channels: features of a node: 1, or those of the table.
        average: average over the nodes before the fully connected layers.
        act: activation of every layer but the last.
        hidden_dropout, skip_dropout: drop rates before the last layer and of ARMA's skip connections.
        options: hyperparameters of the convolutions, as `make_conv` takes them.
        decay_head: L2 acts on the fully connected layers, too.

    Example:
        >>> net = SignalNet("arma", 10, 56, widths=(32, 64), strides=(4, 4), head=(512,), options={"num_stacks": 5})
        >>> net.convs[1], net.head[0]
        (ARMAConv(32, 64, num_stacks=5, num_layers=1), Linear(in_features=3584, out_features=512, bias=True))
    """

    @checked
    def __init__(
        self,
        method: str,
        num_classes: int,
        num_nodes: int,
        *,
        widths: Sequence[int] = (16,),
        strides: Sequence[int] = (1,),
        head: Sequence[int] = (),
        in_channels: int = 1,
        average: bool = False,
        act: str = "relu",
        hidden_dropout: float = 0.0,
        skip_dropout: float = 0.0,
        options: Mapping[str, Any] | None = None,
        decay_head: bool = True,
    ) -> None:
        super().__init__()
        for name, size in (("num_classes", num_classes), ("num_nodes", num_nodes), *(("head", n) for n in head)):
            checks.integer(name, size, 1)
        if not widths or isinstance(strides, int) or len(widths) != len(strides):
            raise ParameterError(f"widths is {widths}, strides {strides}: each convolution has one of both.")
        for name, rate in zip(SIGNAL_RATES, (hidden_dropout, skip_dropout), strict=True):
            checks.probability(name, rate)
        _halvings(strides)
        sizes = [in_channels, *widths]
        self.convs = nn.ModuleList(make_conv(method, *pair, act=act, **dict(options or {})) for pair in pairwise(sizes))
        self.pools = nn.ModuleList(GraclusPool(stride) for stride in strides)
        sizes = [widths[-1] * (1 if average else num_nodes), *head, num_classes]
        self.head = nn.ModuleList(Linear(*pair) for pair in pairwise(sizes))
        self.method, self.average, self.act, self.undecayed = method, average, act, () if decay_head else ("head.",)
        self.num_classes, self.num_nodes = num_classes, num_nodes
        self.strides = tuple(strides)
        self.hidden_dropout: float | Tensor
        self.set_rates(hidden_dropout, skip_dropout)

    def set_rates(self, *rates: float | Tensor) -> None:
        """Change the drop rates, hidden and skip; without any, they stay as they are.

        A rate is a number, or a tensor without axes, which may differ from trial to trial under vmap.
        """
        if not rates:
            return
        if len(rates) != len(SIGNAL_RATES):
            raise ParameterError(f"set_rates takes the {len(SIGNAL_RATES)} rates {', '.join(SIGNAL_RATES)}.")
        hidden, skip = rates
        check_rate(hidden)
        set_layer_rates(self.convs, skip)
        self.hidden_dropout = hidden

    @checked
    def levels(
        self,
        edge_index: Tensor,
        num_nodes: int,
        edge_weight: Tensor | None = None,
        *,
        table: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Levels:
        """The graph as the convolutions want it, coarsened as often as the pooling asks for."""
        halvings = _halvings(self.strides)
        features = None if table is None else table.to(dtype)
        if not any(halvings):
            ops = tuple(_operator(conv, edge_index, num_nodes, edge_weight, dtype) for conv in self.convs)
            return Levels(ops, (None,) * len(ops), features)
        tree = coarsen(edge_index, sum(halvings), num_nodes=num_nodes, edge_weight=edge_weight).to(edge_index.device)
        starts = [0, *accumulate(halvings)]
        ops = tuple(
            _operator(conv, index, tree.adjacency[level].shape[0], weight, dtype)
            for conv, level in zip(self.convs, starts[:-1], strict=True)
            for index, weight in (tree.edges(level),)
        )
        return Levels(ops, tuple(_pooling(tree, *pair) for pair in pairwise(starts)), features)

    @checked
    def forward(self, x: Tensor | CSR, levels: Levels) -> Tensor:
        """Logits (B, C) from signals (B, N, F); or from the scales of a table's rows, see `conv_of_scaled`."""
        for conv, pool, op, pooling in zip(self.convs, self.pools, levels.ops, levels.poolings, strict=True):
            if isinstance(x, CSR):
                assert levels.table is not None
                assert op is not None
                x = conv_of_scaled(conv, x, levels.table, op)  # type: ignore[arg-type]
            else:
                x = conv(x, op)
            assert isinstance(x, Tensor)
            x = x if pooling is None else pooling(pool, x)
        assert isinstance(x, Tensor)
        if not self.average and x.shape[-2] != self.num_nodes:
            raise ShapeError(
                f"num_nodes is {self.num_nodes}, but {x.shape[-2]} nodes are left after all pooling; see pooled_nodes."
            )
        x = x.mean(-2) if self.average else x.flatten(-2)
        *hidden, last = self.head
        for layer in hidden:
            x = activations.apply(self.act, layer(x))
        logits: Tensor = last(drop(x, self.hidden_dropout, self.training))
        return logits


@checked
def pooled_nodes(edge_index: Tensor, num_nodes: int, strides: Sequence[int], edge_weight: Tensor | None = None) -> int:
    """Return how many places are left of a graph after all pooling: the ``num_nodes`` of a `SignalNet`.

    Example:
        >>> from armagnn.data.sets.mnist import grid_graph
        >>> pooled_nodes(grid_graph(28), 784, (4, 4)), pooled_nodes(grid_graph(28), 784, (1,))
        (57, 784)
    """
    halvings = sum(_halvings(strides))
    if not halvings:
        return num_nodes
    return coarsen(edge_index, halvings, num_nodes=num_nodes, edge_weight=edge_weight).sizes[-1]


def _halvings(strides: Sequence[int]) -> list[int]:
    try:
        sizes = [operator.index(stride) for stride in strides]
    except TypeError:
        sizes = [0]
    if any(size < 1 or size & (size - 1) for size in sizes):
        raise ParameterError(f"strides must be powers of 2, one for each convolution, got {strides!r}.")
    return [size.bit_length() - 1 for size in sizes]


def _pooling(tree: Coarsening, level: int, coarser: int) -> Pooling | None:
    if level == coarser:
        return None
    return Pooling(tree.order[level].clamp(min=0), tree.real[level], tree.places(coarser))


def _operator(
    conv: Any, edge_index: Tensor, num_nodes: int, weight: Tensor | None, dtype: torch.dtype
) -> GraphOperator | None:
    layer = next(iter(conv)) if isinstance(conv, LayerSequence) else conv
    op: GraphOperator | None = layer.operator(edge_index, num_nodes, weight, dtype)
    return op


class SignalTask:
    """Batches of training signals, loss and metrics of a network on a set of signals.

    The order of the batches is a function of its seed and the epoch: trials that share a task share it. The last batch
    of an epoch is filled up with signals that do not count, so that all batches have one size and a GPU can record a
    step. Signals are kept on the device as they are in the file (bytes, counts) and made numbers batch by batch.

    Args:
        dataset: the signals.
        net: the network, for the operators and the coarsening that it wants.
        features: ``"raw"``; ``"tfidf"``, each number times log((1 + n) / (1 + df)) + 1 of its node (n training signals,
            of which df have it) and each signal scaled to length 1; or ``"table"``, each number times its node's row of
            the dataset's table.
        batch_size: signals of a batch.
        order: seed of the order of the batches.
        device: where to train.
        dtype: of the numbers.

    Example:
        >>> edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> x, y = torch.rand(9, 3), torch.tensor([0, 1, 2] * 3)
        >>> data = SignalsDataset.of(edges, x, y, range(5), range(5, 7), range(7, 9))
        >>> net = SignalNet("gcn", 3, 3)
        >>> task = SignalTask(data, net, batch_size=2)
        >>> task.steps, sorted(task.metrics(net.eval(), "val"))
        (3, ['accuracy', 'loss'])
    """

    @checked
    def __init__(
        self,
        dataset: SignalsDataset,
        net: SignalNet,
        *,
        features: str = "raw",
        batch_size: int,
        order: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        checks.integer("batch_size", batch_size, 1, MOST_SIGNALS)
        if features not in FEATURES or (features == "table") != (net.convs[0].in_channels != 1):
            raise ParameterError(
                f"features is {features!r}: it must be one of {', '.join(FEATURES)}, and 'table' if and only if the "
                "network takes the features of a table."
            )
        if features == "table" and dataset.table is None:
            raise ParameterError("features='table' needs a dataset whose nodes have features.")
        self.dataset, self.batch_size, self.order, self.dtype = dataset, batch_size, order, dtype
        self.device = checks.device(device)
        if dataset.num_classes > net.num_classes:
            raise ParameterError(
                f"the signals are of {dataset.num_classes} classes, but the network tells {net.num_classes} apart: "
                f"make it with num_classes={dataset.num_classes}."
            )
        table = dataset.table if features == "table" else None
        levels = net.levels(dataset.edge_index, dataset.num_nodes, dataset.edge_weight, table=table, dtype=dtype)
        _check_nodes(net, levels, dataset)
        self.levels = _moved(levels, self.device)
        self.x, self.y = dataset.x.to(self.device), dataset.y.to(self.device)
        self.node_scale, self.signal_scale = _scales(dataset, self.x, features, dtype)
        self.scaled = features == "table"
        self.train = dataset.train_idx.cpu()
        self.steps = -(-len(self.train) // batch_size)
        self._plan = torch.zeros(self.steps, batch_size, dtype=torch.int64, device=self.device)
        counts = (torch.arange(self.steps * batch_size) < len(self.train)).to(dtype)
        self._counts = counts.view(self.steps, batch_size).to(self.device)
        self._patterns: dict[int, CSR] = {}
        most = max(1, CHUNK // (self.x.shape[1] * (1 if table is None else 4)))
        self._chunks = {split: torch.split(dataset.idx(split).to(self.device), most) for split in ("val", "test")}

    # --------------------------------------------------------------------------------------------------------- batches

    @checked
    def start(self, epoch: int) -> None:
        """Order the batches of an epoch, counted from 0."""
        plan = torch.cat(batches_of(self.train, self.batch_size, self.order, epoch))
        write_plan(self._plan, plan, filler=int(plan[0]))

    @checked
    def room(self, step: int) -> tuple[int, ...]:
        """All batches are of one size."""
        return ()

    @checked
    def batch(self, step: Tensor, room: tuple[int, ...] = ()) -> tuple[Tensor, Tensor]:
        """The signals of a step of this epoch, and which of them count, both (batch size,)."""
        check_step(step, self.steps)
        return self._plan.index_select(0, step).squeeze(0), self._counts.index_select(0, step).squeeze(0)

    @checked
    def inputs(self, ids: Tensor) -> Tensor | CSR:
        """The input of the network for these signals; the levels are its other argument."""
        if not ids.is_cuda:  # on a GPU, looking at them would wait for it
            ids = checks.ids("ids", ids, len(self.x))
        values = self.x.index_select(0, ids).to(self.dtype) * self.node_scale
        values = values * self.signal_scale.index_select(0, ids).unsqueeze(1)
        if not self.scaled:
            return values.unsqueeze(-1)
        if len(ids) not in self._patterns:
            self._patterns[len(ids)] = scaling(values.shape[1], len(ids), self.dtype, self.device)
        return self._patterns[len(ids)].with_value(values.t().reshape(-1))

    # ---------------------------------------------------------------------------------------------------------- scores

    @checked
    def loss(
        self, predict: Callable[..., Tensor], batch: tuple[Tensor, Tensor], target: Tensor | None = None
    ) -> Tensor:
        """The mean cross-entropy of the signals of a batch that count, without axes."""
        ids, counts = batch
        if ids.dim() != 1 or ids.shape != counts.shape:
            raise ShapeError(f"a batch is ids and counts, (B,) both, got {shown(ids)} and {shown(counts)}.")
        logits, y = ask(predict, self.inputs(ids), self.levels), self.y.index_select(0, ids)
        return (F.cross_entropy(logits, y, reduction="none") * counts).sum() / counts.sum()

    @checked
    def metrics(self, predict: Callable[..., Tensor], split: str, target: Tensor | None = None) -> dict[str, Tensor]:
        """Loss and accuracy on "val" or "test", without axes."""
        loss = accuracy = torch.zeros((), dtype=torch.float64, device=self.device)
        for ids in self._chunks[checks.choice("split", split, self._chunks)]:
            logits, y = ask(predict, self.inputs(ids), self.levels), self.y.index_select(0, ids)
            loss = loss + F.cross_entropy(logits, y, reduction="none").double().sum()
            accuracy = accuracy + (logits.argmax(-1) == y).double().sum()
        count = len(self.dataset.idx(split))
        return {"loss": loss / count, "accuracy": accuracy / count}


def _check_nodes(net: SignalNet, levels: Levels, dataset: SignalsDataset) -> None:
    """Refuse a network that was made for another number of nodes than are left after pooling."""
    pooled = [pooling for pooling in levels.poolings if pooling is not None]
    left = len(pooled[-1].kept) if pooled else dataset.num_nodes
    if not net.average and net.num_nodes != left:
        raise ShapeError(
            f"the network takes num_nodes={net.num_nodes}, but {left} are left of this graph after pooling: make it "
            "with num_nodes=pooled_nodes(edge_index, N, strides, edge_weight)."
        )


def _scales(dataset: SignalsDataset, x: Tensor, features: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return by what each node's and each signal's numbers are multiplied, on the device of the raw signals ``x``."""
    node = torch.full((dataset.num_nodes,), 1.0 / dataset.scale, dtype=dtype, device=x.device)
    signal = torch.ones(len(x), dtype=dtype, device=x.device)
    if features != "tfidf":
        return node, signal
    train = x[dataset.train_idx.to(x.device)]
    node = (((1 + len(train)) / (1 + (train > 0).sum(0).double())).log() + 1).to(dtype)
    lengths = torch.cat([(part.to(dtype) * node).norm(dim=1) for part in torch.split(x, 1024)])
    return node, 1 / lengths.clamp(min=torch.finfo(dtype).tiny)


def _moved(levels: Levels, device: torch.device) -> Levels:
    return Levels(
        tuple(None if op is None else op.to(device) for op in levels.ops),
        tuple(None if pooling is None else pooling.to(device) for pooling in levels.poolings),
        None if levels.table is None else levels.table.to(device),
    )
