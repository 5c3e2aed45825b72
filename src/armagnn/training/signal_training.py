"""Signals on a graph as a training: its configuration, its network and task, and its predictions."""

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
from armagnn.checks import choice, instance, integer
from armagnn.data import SignalsDataset, load_signals
from armagnn.errors import ParameterError, shown
from armagnn.tasks import SIGNAL_RATES, SignalNet, SignalTask, conv_options, pooled_nodes
from armagnn.tasks.signal_task import FEATURES
from armagnn.training.config import MOST_UNITS, PAPERS, RUN, TRAINING, Config, option, register, title_of
from armagnn.training.experiment import Experiment
from armagnn.training.hyperparameters import signal_defaults
from armagnn.training.outcome import Setting
from armagnn.training.run_folder import Run


@register
@dataclass(frozen=True)
class SignalsConfig(Config):
    """Hyperparameters of a training on signals of one graph; the defaults are the paper's for ARMA on 20news.

    The network is GNN - pooling - ... - fully connected. Stopping is on validation accuracy: the weights of the best
    epoch (of equal ones, the lower loss) are kept. The help of each field is that of its option (``armagnn train
    signals --help``).

    Example:
        >>> SignalsConfig(dataset="mnist", widths="32-64").filters
        (32, 64)
    """

    kind: ClassVar[str] = "signals"
    command: ClassVar[str] = "train signals"
    HELP: ClassVar[
        str
    ] = """Train a network on signals of one graph, MNIST's images or the documents of 20news, once per seed.

    Each convolution may be followed by Graclus pooling; then all nodes go into fully connected layers. What is not
    given is the paper's value for the dataset and the layers, in the setting of Defferrard et al. that it follows.
    """
    RATES: ClassVar[tuple[str, ...]] = SIGNAL_RATES
    LIMITS: ClassVar[Mapping[str, tuple[int, int]]] = {
        **Config.LIMITS,
        "stride": (1, 2**20),
        "head": (0, MOST_UNITS),
        "batch": (1, MOST_UNITS),
    }
    STORED: ClassVar[Mapping[str, str]] = {
        "dataset": "dataset", "conv": "method", "stacks": "k", "layers": "t",
        **{name: name for name in ("features", "widths", "stride", "head", "average", *SIGNAL_RATES)},
        **{name: name for name in ("l2", "lr", "batch", "epochs")},
    }  # fmt: skip

    dataset: str = option("20news", "mnist, or 20news (prepare it once: armagnn data make 20news).", RUN)
    conv: str = option("arma", "The layers: {layers}.", RUN)
    features: str = option("tfidf", f"What a node has in a signal: {', '.join(FEATURES)}.", shown="by dataset")
    stacks: int = option(1, "K: stacks of arma, order of chebyshev and cayley.", shown=PAPERS)
    layers: int = option(
        1,
        "T: recursion steps of arma, Jacobi iterations of cayley. L: layers in the place of each convolution for "
        "the others (chebyshev has none).",
        shown=PAPERS,
    )
    widths: str = option("16", "Filters of each convolution, e.g. 32-64.", shown=PAPERS)
    stride: int = option(1, "Of the pooling after each convolution; 1: none.", shown=PAPERS)
    head: int = option(0, "Units of a hidden fully connected layer; 0: none.", shown=PAPERS)
    average: bool = option(False, "Average over the nodes before the fully connected layers.")
    hidden_dropout: float = option(0.7, "Drop rate before the last layer.", shown=PAPERS)
    skip_dropout: float = option(0.0, "Drop rate of arma's skip connections X V.")
    l2: float = option(1e-3, "c of the penalty c ||W||² on all kernels (its gradient is 2 c W).", TRAINING, PAPERS)
    lr: float = option(1e-3, "Learning rate of Adam.", TRAINING)
    batch: int = option(128, "Signals of a batch.", TRAINING, PAPERS)
    epochs: int = option(20, "Most epochs of a trial.", TRAINING)
    patience: int = option(20, "Epochs without improvement after which a trial stops.", TRAINING)
    stop_on: str = option(
        "accuracy", "What must improve on validation: loss, or accuracy (the lower loss decides a tie).", TRAINING
    )
    seed: int = option(0, "Seed of the first trial; the next are seed + 1, ...", RUN)
    seeds: int = option(1, "Number of trials, one per seed.", RUN)
    device: str = option("cpu", "cpu, cuda or cuda:1.", RUN)

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("features", self.features, FEATURES)
        widths = self.widths.split("-")
        if not all(width.isascii() and width.isdigit() and len(width) < 6 for width in widths) or len(widths) > 100:
            raise ParameterError(f"widths is {shown(self.widths)}; write the filters of each convolution as 32-64.")
        for width in self.filters:
            integer("each of widths", width, 1, MOST_UNITS)

    @property
    def filters(self) -> tuple[int, ...]:
        """Filters of each convolution."""
        return tuple(map(int, self.widths.split("-")))

    @property
    def strides(self) -> tuple[int, ...]:
        """Stride of the pooling after each convolution."""
        return (self.stride,) * len(self.filters)

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        return title_of(self.conv, str(self.stacks), self.layers, self.dataset)

    @property
    def batched(self) -> bool:
        """Whether several trials are worth a batch. Elsewhere the signals of one fill a device as they are.

        On MNIST, a step of all but ARMA is a chain of small launches. On 20news, where a word has one number, the
        polynomials of the graph that Chebyshev and CayleyNet apply to it are the same for all trials.
        """
        if self.dataset == "mnist":
            return self.conv != "arma"
        return self.features == "tfidf" and self.conv in ("chebyshev", "cayley")

    def setting(self, seed: int) -> Setting:
        """What may differ between trials; of one alone, the drop rates are the network's own."""
        return super().setting(seed) if self.batched else Setting(seed, self.lr, self.l2)

    def shape(self) -> tuple[Any, ...]:
        """What must be the same in a batch."""
        return super().shape() if self.batched else tuple(self.stored().values())

    @classmethod
    @checked
    def defaults(cls, source: str, conv: str) -> dict[str, Any]:
        """The options of the paper for a known dataset, or of the nearest one."""
        return signal_defaults(source, conv)

    def load(self) -> SignalsDataset:
        """The signals."""
        return load_signals(self.dataset)

    def experiment(self, data: SignalsDataset | None = None) -> SignalsExperiment:
        """The configuration with its signals."""
        return SignalsExperiment(self, data)

    @checked
    def predict(self, run: Run, data: Any = None) -> SignalsPrediction:
        """The probabilities of all signals of the run's own dataset."""
        if data is not None:
            raise ParameterError(f"{run.path}: is a run on the signals of {self.source}, which are all it can predict.")
        experiment = self.experiment()
        return experiment.predict(experiment.trained(run))


class SignalsExperiment(Experiment):
    """Signals on a graph, and a network on them."""

    config: SignalsConfig

    def __init__(self, config: SignalsConfig, data: SignalsDataset | None = None) -> None:
        self.config = config
        config.torch_device()
        found: SignalsDataset = instance(
            "data", config.load() if data is None else data, SignalsDataset, "a SignalsDataset"
        )
        self.dataset = found
        self.sha256 = self.dataset.sha256

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
        split = [""] * len(self.probabilities)
        for name in ("train", "val", "test"):
            for signal in self.dataset.idx(name).tolist():
                split[signal] = name
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(["signal", "split", "label", *(f"p_{c}" for c in range(self.dataset.num_classes))])
        labels = self.probabilities.argmax(dim=-1).tolist()
        for signal, row in enumerate(self.probabilities.tolist()):
            writer.writerow([signal, split[signal], labels[signal], *(f"{p:.9g}" for p in row)])
        return table.getvalue()
