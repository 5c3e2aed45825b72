"""Node classification (Section 6) and node regression: the network of two convolutions, and what is asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from armagnn import checks
from armagnn.arguments import checked
from armagnn.data import NodeDataset, Scaler
from armagnn.errors import ParameterError
from armagnn.nn import activations, make_conv
from armagnn.nn.conv import check_features, check_rate, drop
from armagnn.nn.layer_registry import find_layer
from armagnn.nn.mlp_conv import MLPConv
from armagnn.nn.norms import NORMS
from armagnn.operators import CSR, GraphOperator
from armagnn.tasks import RATES
from armagnn.tasks.contract import Predict, TaskNet, WholeBatch, ask, set_layer_rates, weights_of
from armagnn.torch_private import transforms_active

FEW: Final = 1 << 18
"""Numbers of a graph and its features that one thread goes through as fast as two: a few hundred microseconds."""

DEEPEST: Final = 1000
"""The most convolutions of a network."""

JUMPS: Final = ("none", "last", "cat", "max")
"""How the outputs of all convolutions are put together, see `NodeNet`."""


@checked
def conv_options(method: str, k: int, t: int) -> dict[str, Any]:
    """The arguments of `make_conv` for K and T: stacks and steps, order and Jacobi iterations, order, or L layers.

    Example:
        >>> conv_options("arma", 2, 1), conv_options("gcn", 1, 2)
        ({'num_stacks': 2, 'num_layers': 1}, {'num_layers': 2})
    """
    layer = find_layer(method)
    return {"num_layers": t} if layer is None else layer.options(k, t)


class NodeNet(TaskNet):
    """logits = conv2(dropout(conv1(dropout(X)))): the paper's network of two convolutions, with any of the methods.

    The first convolution has `hidden` units and the activation `act`; the second has one output a class and is linear.
    `input_dropout` acts on the features (sparse ones are dropped among their nonzero values and stay sparse),
    `hidden_dropout` on the hidden units and, where a convolution is a stack of layers, between these. `skip_dropout`
    acts on the skip connections X V_k; only ARMA has them. The heads of a GAT stand side by side in the first (`hidden`
    units in all) and are averaged in the second, as its authors have it. The hidden layers of GIN's MLPs have `hidden`
    units in both.

    A network may be deeper: between the two there are `depth` - 2 convolutions with `hidden` units, the `middle`. With
    a norm a hidden layer is act(norm(conv(X))), where ARMA of several steps T has the activation inside, too. With
    `residual` a layer of `hidden` inputs and outputs adds its input to its output. With `linear_skip` every layer has
    conv(X) + X V in the place of conv(X) (an ARMA layer has a V already). With `jk` all convolutions are hidden layers,
    and a linear map of their outputs follows: of the ``last``, of all (``cat``), or of their maximum (``max``).

    Args:
        method: any layer's name, as `make_conv` takes it.
        in_channels: features of a node.
        num_classes: outputs of a node.
        hidden: units of the hidden layer.
        act: activation of the hidden layer.
        input_dropout: drop rate of the features.
        hidden_dropout: drop rate of the hidden units.
        skip_dropout: drop rate of ARMA's skip connections.
        options: hyperparameters of both convolutions, as `make_conv` takes them.
        last: what is different in the second one.
        depth: number of convolutions.
        norm: ``none``, ``batch`` (over all nodes) or ``layer`` (over the features of each node).
        jk: ``none``, ``last``, ``cat`` or ``max``.
        residual: add the input of a layer to its output, which is multiplied by ``residual_scale`` first.
        linear_skip: add a linear map of the input of a layer to its convolution.

    Example:
        >>> from armagnn.data import load
        >>> cora = load("cora")
        >>> net = NodeNet("arma", cora.num_features, cora.num_classes, options={"num_stacks": 2})
        >>> tuple(net(cora.x, cora.operator()).shape)
        (2708, 7)
    """

    @checked
    def __init__(
        self,
        method: str,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 16,
        act: str = "relu",
        input_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        skip_dropout: float = 0.0,
        options: Mapping[str, Any] | None = None,
        last: Mapping[str, Any] | None = None,
        depth: int = 2,
        norm: str = "none",
        jk: str = "none",
        residual: bool = False,
        residual_scale: float = 1.0,
        linear_skip: bool = False,
    ) -> None:
        super().__init__()
        checks.integer("depth", depth, 2, DEEPEST)
        self.jk = checks.choice("jk", jk, JUMPS)
        checks.choice("norm", norm, ("none", *NORMS))
        checks.integer("hidden", hidden, 1)
        for name, rate in zip(RATES, (input_dropout, hidden_dropout, skip_dropout), strict=True):
            checks.probability(name, rate)
        own: dict[str, dict[str, Any]] = {"gat": {"concat": True}, "gin": {"hidden": hidden}}
        first = own.get(method, {}) | dict(options or {})
        second = first | ({"concat": False} if method == "gat" and jk == "none" else {}) | dict(last or {})
        steps = first.get("num_layers", 1) if method == "arma" else 1
        inside = act if (norm == "none" and not linear_skip) or steps > 1 else None
        self.conv1 = make_conv(method, in_channels, hidden, act=inside, **first)
        self.middle = _modules(make_conv(method, hidden, hidden, act=inside, **first) for _ in range(depth - 2))
        if jk == "none":
            self.conv2 = make_conv(method, hidden, num_classes, act=None, **second)
        else:
            self.conv2 = make_conv(method, hidden, hidden, act=inside, **second)
            self.lin = nn.Linear(hidden * (depth if jk == "cat" else 1), num_classes)
        hidden_layers = depth - (jk == "none")
        self.skips = _modules(
            MLPConv(hidden if at else in_channels, hidden if at < hidden_layers else num_classes, act=None, bias=False)
            for at in range(depth if linear_skip else 0)
        )
        self.norms = _modules(NORMS[norm](hidden) for _ in range(hidden_layers if norm in NORMS else 0))
        self.method, self.act, self.residual = method, act, residual
        self.scale = checks.real("residual_scale", residual_scale, above=0)
        self.input_dropout: float | Tensor
        self.hidden_dropout: float | Tensor
        self.set_rates(input_dropout, hidden_dropout, skip_dropout)

    def set_rates(self, input: float | Tensor, hidden: float | Tensor, skip: float | Tensor) -> None:
        """Change the drop rates; a tensor without axes may differ from trial to trial under vmap."""
        check_rate(input)
        set_layer_rates(self.convs, skip, inside=hidden)
        self.input_dropout, self.hidden_dropout = input, hidden

    @checked
    def trial_axis(self, name: str) -> int:
        """Where the trials go among the axes of a parameter, for `Trials`.

        They are the first axis, as batched products want it; but in the weights of the first convolution, which sparse
        features are multiplied with, they follow the axis of the features: so the product folds them without a copy.
        """
        known = weights_of(self)
        shape = known[checks.choice("parameter", name, known)].shape
        inputs = self.conv1.in_channels
        first = name.startswith(("conv1", "skips.0."))
        return 1 + list(shape).index(inputs) if first and inputs in shape[:-1] else 0

    @checked
    def forward(self, x: Tensor | CSR, op: GraphOperator | None) -> Tensor:
        """Logits (N, C) from features (N, F), dense or sparse."""
        (first, *others), x = self.convs, check_features(x, self.conv1.in_channels)
        x = self._hidden(0, first, drop(x, self.input_dropout, self.training, op), op)
        states = [x]
        for index, conv in enumerate(others, start=1):
            given = drop(x, self.hidden_dropout, self.training, op)
            if self.jk == "none" and conv is self.conv2:
                out: Tensor = conv(given, op)
                return out.add(self.skips[index](given)) if self.skips else out
            out = self._hidden(index, conv, given, op)
            x = torch.add(x, out, alpha=self.scale) if self.residual else out
            states.append(x)
        if self.jk == "cat":
            x = torch.cat(states, -1)
        elif self.jk == "max":
            x = torch.stack(states).amax(0)
        logits: Tensor = self.lin(drop(x, self.hidden_dropout, self.training, op))
        return logits

    @property
    def convs(self) -> tuple[nn.Module, ...]:
        """All convolutions, in their order."""
        return (self.conv1, *self.middle, self.conv2)

    def _hidden(self, index: int, conv: nn.Module, x: Tensor | CSR, op: GraphOperator | None) -> Tensor:
        """The output of a hidden layer; the activation comes after a linear map of the input and the norm, if any."""
        out: Tensor = conv(x, op)
        if self.skips:
            out = out + self.skips[index](x)
        if self.norms:
            out = self.norms[index](out)
        return activations.apply(self.act, out) if self.norms or self.skips else out


def _modules(found: Iterable[nn.Module]) -> nn.ModuleList | tuple[()]:
    """The modules of a network; if there are none, no module that torch would go through in every step."""
    return nn.ModuleList(found) or ()


@dataclass(frozen=True)
class Part:
    """The graph (or graphs) that one split is predicted on: features, operator, and the split's nodes and labels."""

    x: Tensor | CSR
    op: GraphOperator | None
    idx: Tensor
    y: Tensor

    @property
    def numbers(self) -> int:
        """Nonzeros of the operator, and numbers (or nonzeros) of the features."""
        features = self.x.nnz if isinstance(self.x, CSR) else self.x.numel()
        return features + (0 if self.op is None else self.op.nnz)

    def logits(self, predict: Predict) -> Tensor:
        """Logits of the split's nodes."""
        return ask(predict, self.x, self.op).index_select(-2, self.idx)


class NodeTask(WholeBatch):
    """Loss and metrics of a network on the splits of a dataset; of several graphs, each split sees only its own.

    The targets of a regression are standardised by what the training nodes have. With `balance`, all classes count
    alike in the loss, see `class_weights`.

    Example:
        >>> from armagnn.data import load
        >>> cora = load("cora")
        >>> net = NodeNet("gcn", cora.num_features, cora.num_classes)
        >>> task = NodeTask(cora, net)
        >>> sorted(task.metrics(net.eval(), "val"))
        ['accuracy', 'loss']
    """

    @checked
    def __init__(
        self, dataset: NodeDataset, net: NodeNet, dtype: torch.dtype = torch.float32, *, balance: bool = False
    ) -> None:
        self.dataset, self.scaler = dataset, target_scaler(dataset)
        self.weight = class_weights(dataset).to(dtype) if balance else None
        self.parts: dict[str, Part] = {}
        x, op = dataset.x, None
        for split in ("train", "val", "test"):
            part = dataset if dataset.graph is None else dataset.part(split)
            if not self.parts or part is not dataset:
                x = part.x.to(dtype)
                op = net.conv1.operator(part.edge_index, part.num_nodes, part.edge_weight, dtype)
            idx = part.idx(split)
            y = part.y.index_select(0, idx)
            self.parts[split] = Part(x, op, idx, y if self.scaler is None else self.scaler(y[:, None]).to(dtype))

    @property
    def small(self) -> bool:
        """Whether graph and features have few numbers: those of Cora and CiteSeer do."""
        return self.parts["train"].numbers <= FEW

    @checked
    def loss(self, predict: Predict, batch: Part, target: Tensor | None = None) -> Tensor:
        """The loss on the nodes of the batch, a tensor without axes."""
        outputs = batch.logits(predict)
        return cross_entropy(outputs, batch.y, self.weight) if self.scaler is None else F.mse_loss(outputs, batch.y)

    @checked
    def metrics(self, predict: Predict, split: str, target: Tensor | None = None) -> dict[str, Tensor]:
        """Loss and accuracy (with many labels per node also micro_f1) on the nodes of a split, without axes.

        And roc_auc where the dataset is judged by it.

        Of a regression loss and mse (of standardised targets; they are the same), r2, and in the target's own units
        "mae target" and "rmse target".
        """
        part = self.parts[checks.choice("split", split, self.parts)]
        logits = part.logits(predict)
        if self.scaler is not None:
            return regression_metrics(logits, part.y, self.scaler.deviation)
        found = {"loss": cross_entropy(logits, part.y, self.weight).double(), "accuracy": accuracy(logits, part.y)}
        found |= {"micro_f1": micro_f1(logits, part.y)} if self.dataset.multilabel else {}
        if self.dataset.metric == "roc_auc":
            from armagnn.tasks.roc_auc import roc_auc  # which few trainings need

            found["roc_auc"] = roc_auc(logits, part.y)
        return found


# -------------------------------------------------------------------------------------------------- losses and metrics


def cross_entropy(logits: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
    """-mean over nodes of log softmax(logits_i)[y_i]; with many labels per node, the mean of all binary entropies.

    Labels are classes, 0, 1, ...: none is to be ignored. With the `weight` (C) of each class, the mean is weighted; of
    many labels it is the weight of those that a node has.

    Example:
        >>> import torch
        >>> cross_entropy(torch.zeros(3, 2), torch.tensor([0, 1, 1])).item()  # log 2
        0.6931471824645996
        >>> cross_entropy(torch.zeros(1, 2), torch.tensor([[0.0, 1.0]])).item()
        0.6931471824645996
    """
    if y.dim() == 2:
        return F.binary_cross_entropy_with_logits(logits, y.to(logits.dtype), pos_weight=weight)
    if weight is not None:
        of_node = weight.index_select(0, y)
        return -(of_node * logits.log_softmax(-1).gather(-1, y.unsqueeze(-1)).squeeze(-1)).sum() / of_node.sum()
    if transforms_active() and logits.shape[:-1] == y.shape:
        # There torch takes its loss apart in Python, which is slower. (A softmax over the first axis would be ten times
        # as fast on a processor, but of other bits than that of a trial alone.)
        return -logits.log_softmax(-1).gather(-1, y.unsqueeze(-1)).mean()
    return F.cross_entropy(logits, y)


def regression_metrics(outputs: Tensor, y: Tensor, unit: Tensor) -> dict[str, Tensor]:
    """The errors of standardised targets y (n, 1), whose deviation in their own units is `unit` (1,).

    R2 = 1 - sum (y - output)^2 / sum (y - mean y)^2; 0 where all targets are the same.

    Example:
        >>> import torch
        >>> y = torch.tensor([[-1.0], [0.0], [1.0]])
        >>> {name: round(v.item(), 3) for name, v in regression_metrics(y / 2, y, torch.tensor([10.0])).items()}
        {'loss': 0.167, 'mse': 0.167, 'r2': 0.75, 'mae target': 3.333, 'rmse target': 4.082}
    """
    errors, y, unit = (outputs - y).double(), y.double(), unit.double().squeeze(0)
    mse, spread = errors.square().mean(), (y - y.mean()).square().mean()
    r2 = torch.where(spread > 0, 1 - mse / spread, 0.0)
    in_units = {"mae target": errors.abs().mean() * unit, "rmse target": mse.sqrt() * unit}
    return {"loss": mse, "mse": mse, "r2": r2} | in_units


def class_weights(dataset: NodeDataset) -> Tensor:
    """The weight of each class, n / (C n_c) with n_c the training nodes of class c; of labels, (n - n_c) / n_c.

    Example:
        >>> from armagnn.data import load
        >>> class_weights(load("cora"))  # the public split has 20 nodes of each class
        tensor([1., 1., 1., 1., 1., 1., 1.])
    """
    if dataset.regression:
        raise ParameterError("balance is for classes; the target is a number.")
    y = dataset.y.index_select(0, dataset.train_idx)
    if y.dim() == 2:
        having = y.sum(0).clamp(min=1)
        return (len(y) - having).clamp(min=1) / having
    counts = torch.bincount(y, minlength=dataset.num_classes)
    return len(y) / (dataset.num_classes * counts.clamp(min=1))


def target_scaler(dataset: NodeDataset) -> Scaler | None:
    """The scaling of the targets of a regression, as the training nodes have it; None of classes."""
    return Scaler.fit(dataset.y[:, None], dataset.train_idx, floor=0.0) if dataset.regression else None


def accuracy(logits: Tensor, y: Tensor) -> Tensor:
    """The share of nodes whose largest logit is that of their class; with many labels, the share of right entries.

    Example:
        >>> import torch
        >>> accuracy(torch.eye(4), torch.tensor([0, 1, 0, 0])).item()
        0.5
    """
    right = (logits > 0) == (y > 0) if y.dim() == 2 else logits.argmax(-1) == y
    return right.double().mean()


def micro_f1(logits: Tensor, y: Tensor) -> Tensor:
    """2 TP / (2 TP + FP + FN) over all entries of all nodes; 0 where nothing is there to be found.

    Example:
        >>> import torch
        >>> round(micro_f1(torch.tensor([[1.0, 1.0, -1.0]]), torch.tensor([[1.0, 0.0, 1.0]])).item(), 3)
        0.5
    """
    found, there = logits > 0, y > 0
    hits = (found & there).double().sum()
    return 2 * hits / torch.clamp(found.double().sum() + there.double().sum(), min=1)
