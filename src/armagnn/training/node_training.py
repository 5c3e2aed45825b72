"""Node classification as a training: its configuration, its network and task, and its predictions."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import choice, instance, real_tensor
from armagnn.data import NodeDataset, load
from armagnn.data.scaling import FEATURES
from armagnn.errors import ParameterError, ShapeError
from armagnn.tasks import RATES, NodeNet, NodeTask, conv_options
from armagnn.training.config import MOST_STEPS, PAPERS, RUN, TRAINING, Config, option, register, title_of
from armagnn.training.experiment import Experiment
from armagnn.training.hyperparameters import node_defaults
from armagnn.training.run_folder import Run


@register
@dataclass(frozen=True)
class NodesConfig(Config):
    """Hyperparameters of a training on nodes; the defaults are the paper's for ARMA on Cora, but for early stopping.

    The paper's text stops on validation accuracy with patience 50, the authors' own script on validation loss
    with patience 200. The default is the loss, a smooth measure where accuracy counts 500 nodes, with patience 100.
    The help of each field is that of its option (``armagnn train --help``).

    Example:
        >>> NodesConfig(seed=5, seeds=3).all_seeds
        range(5, 8)
        >>> NodesConfig(conv="chebyshev", stacks=3, dataset="citeseer").title
        'chebyshev (K=3) on citeseer'
    """

    kind: ClassVar[str] = "nodes"
    command: ClassVar[str] = "train"
    HELP: ClassVar[str] = """Train the paper's network of two convolutions for node classification, once per seed.

    For whole graphs, and your own, see `armagnn train graphs --help`.

    What is not given is the paper's value for the dataset and the layers (for your own files: that for Cora), with
    one exception: the paper's text stops on validation accuracy with patience 50 (--stop-on accuracy --patience 50);
    the authors' own script stops on validation loss, and so does the default here, with patience 100. On PPI it is
    300, as the paper's patience stops far too early there.
    """
    SHORTCUTS: ClassVar[Mapping[str, tuple[str, ...]]] = {"dropout": ("input_dropout", "hidden_dropout")}
    RATES: ClassVar[tuple[str, ...]] = RATES
    LIMITS: ClassVar[Mapping[str, tuple[int, int]]] = {**Config.LIMITS, "last_stacks": (0, MOST_STEPS)}
    STORED: ClassVar[Mapping[str, str]] = {
        "dataset": "dataset", "conv": "method", "stacks": "k", "layers": "t", "last_stacks": "last_k",
        **{name: name for name in ("hidden", "act", *RATES, "l2", "lr", "epochs", "patience", "stop_on")},
    }  # fmt: skip
    LATER: ClassVar[Mapping[str, Any]] = {"features": "kind", "init": "linear"}
    OF_DATA: ClassVar[tuple[str, ...]] = ("dataset", "features")

    dataset: str = option("cora", "cora, citeseer, pubmed, ppi, or the path of your own .npz file.", RUN)
    features: str = option(
        "auto",
        "How features are scaled: rows (each row divided by its sum, for bags of words), standardise (each column, on "
        "the training nodes) or none. auto: your own are standardised, those of the catalogue have their own.",
        RUN,
    )
    conv: str = option("arma", "The layers: {layers}.", RUN)
    hidden: int = option(16, "Units of the hidden layer.", shown=PAPERS)
    stacks: int = option(2, "K: stacks of arma, order of chebyshev and cayley.", shown=PAPERS)
    layers: int = option(
        1,
        "T: recursion steps of arma, Jacobi iterations of cayley. L: layers in each of the two places for the "
        "others (chebyshev has none).",
        shown=PAPERS,
    )
    last_stacks: int = option(0, "K of the second convolution.", shown="as the first")
    act: str = option("relu", "Activation of the hidden layer, e.g. relu or elu.")
    init: str = option("linear", "Start of arma's recursion: linear (X W0), zero, or tied (W0 = V).")
    input_dropout: float = option(0.75, "Drop rate of the input features.", shown=PAPERS)
    hidden_dropout: float = option(0.75, "Drop rate of the hidden units.", shown=PAPERS)
    skip_dropout: float = option(0.75, "Drop rate of arma's skip connections X V.", shown=PAPERS)
    l2: float = option(
        5e-4, "c of the penalty c ||W||² on all kernels, as in Keras (gradient 2 c W).", TRAINING, shown=PAPERS
    )
    lr: float = option(0.01, "Learning rate of Adam.", TRAINING, shown=PAPERS)
    epochs: int = option(2000, "Most epochs of a trial.", TRAINING)
    patience: int = option(
        100, "Epochs without improvement after which a trial stops.", TRAINING, shown="100; 300 on ppi"
    )
    stop_on: str = option(
        "loss", "What must improve on validation: loss, or accuracy (the lower loss decides a tie).", TRAINING
    )
    seed: int = option(0, "Seed of the first trial; the next are seed + 1, ...", RUN)
    seeds: int = option(10, "Number of trials, one per seed; they are trained together.", RUN)
    device: str = option("cpu", "cpu, cuda or cuda:1.", RUN)

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("scaling of features", self.features, FEATURES)

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        stacks = f"{self.stacks}" + (f" then {self.last_stacks}" if self.last_stacks else "")
        return title_of(self.conv, stacks, self.layers, self.dataset)

    def stored(self) -> dict[str, Any]:
        """The configuration as the results store keeps it, which names K of the last layer in any case."""
        return super().stored() | {"last_k": self.last_stacks or self.stacks}

    @classmethod
    @checked
    def defaults(cls, source: str, conv: str) -> dict[str, Any]:
        """The options of the paper for a known dataset, or of the nearest one."""
        return node_defaults(source, conv)

    def load(self) -> NodeDataset:
        """The dataset, with its features scaled as the configuration says."""
        return load(self.dataset, features=self.features)  # type: ignore[arg-type]  # it is checked

    def experiment(self, data: NodeDataset | None = None) -> NodesExperiment:
        """The configuration with its dataset."""
        return NodesExperiment(self, data)

    @checked
    def predict(self, run: Run, data: Any = None) -> NodesPrediction:
        """The probabilities of all nodes of the run's own dataset."""
        if data is not None:
            raise ParameterError(
                f"{run.path}: is a run on the nodes of {self.source}, which are all it can predict; --data is for runs "
                "of `armagnn train graphs`."
            )
        experiment = self.experiment()
        return experiment.predict(experiment.trained(run))


class NodesExperiment(Experiment):
    """A dataset of nodes, and the paper's network of two convolutions on it.

    Example:
        >>> NodesConfig(conv="gcn").experiment().network().conv1
        GCNConv(1433, 16)
    """

    config: NodesConfig

    def __init__(self, config: NodesConfig, data: NodeDataset | None = None) -> None:
        self.config = config
        config.torch_device()
        found: NodeDataset = instance("data", config.load() if data is None else data, NodeDataset, "a NodeDataset")
        self.dataset = found
        self.sha256, self.notes = self.dataset.sha256, self.dataset.notes

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
            self.dataset.num_classes,
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
    def predict(self, net: NodeNet) -> NodesPrediction:
        """What a network says of every node, on the CPU."""
        data = self.dataset
        logits = net(data.x, net.conv1.operator(data.edge_index, data.num_nodes, data.edge_weight))
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
