"""Table 2: graph-signal classification on MNIST and 20news, by GCN, Chebyshev, CayleyNet and ARMA, in three protocols.

The text leaves room for two readings, which differ where it matters:

``paper``
    the letter of the text. A word of 20news has its embedding times its count, one convolution, the average over all
    words, softmax. p_drop acts before the last layer and on ARMA's skip connections.
``defferrard``
    the setting that the text says it follows. A word of 20news has one number, its tf-idf in the document; the features
    of all words, side by side, go to the softmax. p_drop acts before the last layer only.
``tuned``
    that setting, with drop rates, L2 and learning rate chosen on validation data (`armagnn.paper.signal_search`); the
    other two have the paper's.

MNIST is GNN(32)-P(4)-GNN(64)-P(4)-FC(512)-FC(10) in both readings: they differ in ARMA's skip connections alone, so the
other methods have no protocol ``defferrard``. Everywhere: Adam, 20 epochs, and the weights of the epoch with the best
validation accuracy (of equal ones, the lower loss); those of the last epoch are told beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import torch

from armagnn.checks import choice, integer
from armagnn.data.catalogue import load_signals
from armagnn.data.signals import SignalsDataset
from armagnn.errors import ParameterError
from armagnn.paper.choices import chosen_config
from armagnn.paper.jobs import MOST_RUNS, CellTrial, content_of
from armagnn.paper.published_signals import SIGNAL_HYPERPARAMETERS, SIGNAL_METHODS, SIGNAL_SETS
from armagnn.tasks.node import conv_options
from armagnn.tasks.signal import SignalNet, SignalTask, pooled_nodes
from armagnn.training.record import Record
from armagnn.training.setting import Setting
from armagnn.training.trials import Trials

SIGNAL_TABLE: Final = "graph-signal"
READINGS: Final = {"paper": "text", "defferrard": "defferrard", "tuned": "defferrard"}
"""How each protocol reads the text."""

PROTOCOLS: Final = tuple(READINGS)
EPOCHS: Final = 20
BATCH: Final = {"mnist": 32, "20news": 128}
MOST: Final = {"mnist": 4, "20news": 5}
"""Trials of a batch, where more than one pays: five of 20news take 4 GB."""

OF_A_TRIAL: Final = ("hidden_dropout", "skip_dropout", "l2", "lr")
"""What may differ between the trials of such a batch, besides the seed."""

CHEBYSHEV_FILTERS: Final = 32
"""Filters of Chebyshev on 20news, where the others have 16."""


@dataclass(frozen=True)
class SignalConfig:
    """All that determines a trial but its seed.

    Attributes:
        dataset: "mnist" or "20news".
        method: "arma", "gcn", "chebyshev" or "cayley".
        protocol: "paper", "defferrard" or "tuned".
        reading: "text" or "defferrard", as the protocol has it.
        features: of a node, as `SignalTask` names them.
        k: stacks, or order.
        t: steps, Jacobi iterations, or layers.
        widths: filters of each convolution, as text ("32-64").
        stride: of the pooling after each.
        head: units of the hidden fully connected layer; 0 if there is none.
        average: average over the nodes.
        hidden_dropout: drop rate before the last layer.
        skip_dropout: drop rate of ARMA's skip connections.
        l2: weight of the L2 penalty.
        lr: learning rate.
        batch: signals of a batch.
        epochs: how many there are.
    """

    dataset: str
    method: str
    protocol: str
    reading: str
    features: str
    k: int
    t: int
    widths: str
    stride: int
    head: int
    average: bool
    hidden_dropout: float
    skip_dropout: float
    l2: float
    lr: float
    batch: int
    epochs: int

    @property
    def patience(self) -> int:
        """No trial stops before the last epoch."""
        return self.epochs

    @property
    def batched(self) -> bool:
        """Whether trials are worth a batch. Elsewhere the signals of one fill a device as they are.

        On MNIST, a step of all but ARMA is a chain of small launches. On 20news, where a word has one number, the
        polynomials of the graph that Chebyshev and CayleyNet apply to it are the same for all trials.
        """
        if self.dataset == "mnist":
            return self.method != "arma"
        return self.features == "tfidf" and self.method in ("chebyshev", "cayley")

    @property
    def shape(self) -> tuple[Any, ...]:
        """What must be the same in a batch."""
        return tuple(value for name, value in asdict(self).items() if not (self.batched and name in OF_A_TRIAL))

    @property
    def most(self) -> int:
        """Trials of a batch."""
        return MOST[self.dataset] if self.batched else 1

    def setting(self, seed: int) -> Setting:
        """What may differ between trials; of one alone, the drop rates are the network's own."""
        return Setting(seed, self.lr, self.l2, (self.hidden_dropout, self.skip_dropout) if self.batched else ())

    def data_sha256(self) -> str:
        """Checksum of the dataset."""
        return _load(self.dataset).sha256

    def make(self, settings: Sequence[Setting], fold: int, device: torch.device) -> Trials:
        """The trials, ready to run; the order of the batches is the fold's."""
        dataset = _load(self.dataset)
        build = partial(self.network, dataset)
        task = SignalTask(
            dataset, build(), features=self.features, batch_size=self.batch, order=fold, device=device
        )  # fmt: skip
        return Trials(
            build, task, settings, epochs=self.epochs, patience=self.patience, stop_on="accuracy", beside=("last",),
            device=device,
        )  # fmt: skip

    def network(self, dataset: SignalsDataset) -> SignalNet:
        """The network, with new weights from torch's global generator."""
        widths = tuple(map(int, self.widths.split("-")))
        strides = (self.stride,) * len(widths)
        table = dataset.table if self.features == "table" else None
        return SignalNet(
            self.method,
            dataset.num_classes,
            _places(self.dataset, strides),
            widths=widths,
            strides=strides,
            head=(self.head,) if self.head else (),
            in_channels=1 if table is None else table.shape[1],
            average=self.average,
            hidden_dropout=self.hidden_dropout,
            skip_dropout=self.skip_dropout,
            options=conv_options(self.method, self.k, self.t),
        )


@cache
def _load(name: str) -> SignalsDataset:
    return load_signals(name)


@cache
def _places(name: str, strides: tuple[int, ...]) -> int:
    dataset = _load(name)
    return pooled_nodes(dataset.edge_index, dataset.num_nodes, strides, dataset.edge_weight)


def published_config(dataset: str, method: str, protocol: str) -> SignalConfig:
    """The paper's hyperparameters in the reading of a protocol, also where it makes no network of its own.

    Example:
        >>> published_config("20news", "chebyshev", "defferrard").widths
        '32'
    """
    check_signal_cell(dataset, method)
    check_protocol(protocol)
    row, reading = SIGNAL_HYPERPARAMETERS[dataset], READINGS[protocol]
    k, t = row.order(method)
    text, images = reading == "text", dataset == "mnist"
    width = "32-64" if images else str(CHEBYSHEV_FILTERS if method == "chebyshev" else row.hidden)
    return SignalConfig(
        dataset, method, protocol, reading,
        features="raw" if images else "table" if text else "tfidf",
        k=k, t=t, widths=width, stride=4 if images else 1, head=512 if images else 0, average=text and not images,
        hidden_dropout=row.dropout, skip_dropout=row.dropout if text and method == "arma" else 0.0,
        l2=row.l2, lr=row.lr, batch=BATCH[dataset], epochs=EPOCHS,
    )  # fmt: skip


def protocols_of(dataset: str, method: str) -> tuple[str, ...]:
    """The protocols of a cell that are different networks.

    Example:
        >>> protocols_of("mnist", "gcn"), protocols_of("20news", "gcn")
        (('paper', 'tuned'), ('paper', 'defferrard', 'tuned'))
    """
    check_signal_cell(dataset, method)
    return PROTOCOLS if dataset != "mnist" or method == "arma" else ("paper", "tuned")


def signal_config(dataset: str, method: str, protocol: str = "paper", chosen: Path | None = None) -> SignalConfig:
    """The configuration of a cell: with the paper's hyperparameters, or as its search chose them.

    Example:
        >>> config = signal_config("mnist", "arma")
        >>> config.k, config.t, config.widths, config.head, config.skip_dropout
        (5, 10, '32-64', 512, 0.5)
    """
    check_protocol(protocol)
    if protocol not in protocols_of(dataset, method):
        raise ParameterError(f"On mnist only arma has a protocol {protocol}: ask for --protocol paper or tuned.")
    if protocol == "tuned":
        return chosen_config(SignalConfig, SIGNAL_TABLE, dataset, method, chosen=chosen)
    return published_config(dataset, method, protocol)


def signal_trials(dataset: str, method: str, protocol: str, runs: int, chosen: Path | None = None) -> list[CellTrial]:
    """All trials of a cell; run n has seed n."""
    config = signal_config(dataset, method, protocol, chosen)
    return [CellTrial(config, run, run) for run in range(integer("runs", runs, 1, MOST_RUNS))]


def is_current_signal(record: Record) -> bool:
    """Has a trial of Table 2 the configuration that its cell has now?"""
    if record.table != SIGNAL_TABLE:
        return True
    try:
        return record.config == content_of(signal_config(*record.cell))
    except ParameterError:
        return False


def check_signal_cell(dataset: str, method: str) -> None:
    """Refuse a dataset or a method that the table does not have."""
    choice("dataset of Table 2", dataset, SIGNAL_SETS)
    choice("method", method, SIGNAL_METHODS)


def check_protocol(protocol: str) -> None:
    """Refuse a protocol that the table does not have."""
    choice("protocol", protocol, PROTOCOLS)
