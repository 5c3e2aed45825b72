"""Table 1: node classification on Cora, Citeseer, Pubmed and PPI, by every method, in two protocols.

``paper`` is the text read literally: the architecture of Section 6, the appendix's hyperparameters, p_drop on the
input, on the hidden units and on ARMA's skip connections, early stopping on validation accuracy with patience 50 (of
equal accuracies, the lower loss is the better). ``tuned`` changes what the text leaves open (drop rates, L2,
activation, K of the last layer), chosen by `armagnn.paper.search` on validation data, and stops on validation loss with
patience 100 (300 on PPI). ``wide`` is for PPI, beyond the paper: 512 units, ELU, no dropout, stopping as tuned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import torch

from armagnn.checks import choice
from armagnn.data import NodeDataset, load
from armagnn.errors import ParameterError
from armagnn.paper.choices import chosen_config
from armagnn.paper.jobs import content_of
from armagnn.paper.published import DATASETS, HYPERPARAMETERS, METHODS
from armagnn.tasks import PEERS, NodeNet, NodeTask, conv_options
from armagnn.training.record import Record
from armagnn.training.setting import Setting
from armagnn.training.trials import Trials

TABLE: Final = "node-classification"
PROTOCOLS: Final = ("paper", "tuned")
BEYOND: Final = "wide"
MOST_AT_ONCE: Final = {"cora": 400, "citeseer": 200, "pubmed": 100, "ppi": 10}


@dataclass(frozen=True)
class NodeConfig:
    """All that determines a trial but its seed; the fields are those of ``armagnn train``."""

    dataset: str
    method: str
    protocol: str
    k: int
    t: int
    last_k: int
    hidden: int
    act: str
    input_dropout: float
    hidden_dropout: float
    skip_dropout: float
    l2: float
    lr: float
    epochs: int
    patience: int
    stop_on: str

    def setting(self, seed: int) -> Setting:
        """What may differ between the trials of a batch."""
        return Setting(seed, self.lr, self.l2, (self.input_dropout, self.hidden_dropout, self.skip_dropout))

    @property
    def shape(self) -> tuple[Any, ...]:
        """What must be the same in a batch."""
        same = (self.dataset, self.method, self.protocol, self.k, self.t, self.last_k, self.hidden, self.act)
        return *same, self.epochs, self.patience, self.stop_on

    @property
    def most(self) -> int:
        """Trials of a batch: what keeps a GPU busy and fits its memory."""
        most = MOST_AT_ONCE[self.dataset]
        if self.method == "gat":  # of all heads, all classes: 8 x 121 numbers a node on PPI
            return min(5, most)
        return min(10, most) if self.method in PEERS else most

    def data_sha256(self) -> str:
        """Checksum of the dataset."""
        return _load(self.dataset, torch.device("cpu")).sha256

    def make(self, settings: Sequence[Setting], fold: int, device: torch.device) -> Trials:
        """The trials, ready to run; there is one fold only, the public split."""
        dataset = _load(self.dataset, device)
        build = partial(self.network, dataset)
        return Trials(
            build, NodeTask(dataset, build().to(device)), settings,
            epochs=self.epochs, patience=self.patience, stop_on=self.stop_on,
            device=device,
        )  # fmt: skip

    def network(self, dataset: NodeDataset) -> NodeNet:
        """The network, with new weights from torch's global generator."""
        return NodeNet(
            self.method,
            dataset.num_features,
            dataset.num_classes,
            hidden=self.hidden,
            act=self.act,
            options=conv_options(self.method, self.k, self.t),
            last=conv_options(self.method, self.last_k, self.t),
        )


@cache
def _load(dataset: str, device: torch.device) -> NodeDataset:
    return load(dataset).to(device)


def paper_config(dataset: str, method: str) -> NodeConfig:
    """The text of the paper, read literally.

    Example:
        >>> config = paper_config("citeseer", "arma")
        >>> config.k, config.t, config.skip_dropout, config.stop_on, config.patience
        (3, 1, 0.75, 'accuracy', 50)
    """
    check_cell(dataset, method)
    row = HYPERPARAMETERS[dataset]
    k, t = row.order(method)
    p = row.dropout
    skip = p if method == "arma" else 0.0
    return NodeConfig(
        dataset, method, "paper", k, t, k, row.hidden, "relu", p, p, skip, row.l2, row.lr, 2000, 50, "accuracy"
    )  # fmt: skip


def tuned_config(dataset: str, method: str, chosen: Path | None = None) -> NodeConfig:
    """The choice of the search that is committed with the package, or of one of your own."""
    check_cell(dataset, method)
    return chosen_config(NodeConfig, TABLE, dataset, method, chosen=chosen)


def wide_config(dataset: str, method: str) -> NodeConfig:
    """A wide network for PPI: 512 units, and nothing dropped or penalised."""
    check_cell(dataset, method)
    if dataset != "ppi":
        raise ParameterError(f"The wide protocol is for ppi, not for {dataset}.")
    config = replace(paper_config(dataset, method), input_dropout=0.0, hidden_dropout=0.0, skip_dropout=0.0)
    return replace(config, protocol=BEYOND, hidden=512, act="elu", patience=300, stop_on="loss")


def config_of(dataset: str, method: str, protocol: str, chosen: Path | None = None) -> NodeConfig:
    """The configuration of a cell of the table."""
    if choice("protocol", protocol, (*PROTOCOLS, BEYOND)) == BEYOND:
        return wide_config(dataset, method)
    return paper_config(dataset, method) if protocol == "paper" else tuned_config(dataset, method, chosen)


def is_current(record: Record) -> bool:
    """Has a trial of Table 1 the configuration that its cell has now? A new search leaves trials of the old choice."""
    if record.table != TABLE:
        return True
    try:
        return record.config == content_of(config_of(*record.cell))
    except ParameterError:
        return False


def check_cell(dataset: str, method: str) -> None:
    """Refuse a dataset or a method that the table does not have."""
    choice("dataset of Table 1", dataset, DATASETS)
    choice("method", method, METHODS)
