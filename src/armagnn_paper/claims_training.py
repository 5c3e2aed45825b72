"""How the networks behind the claims are trained: the paper's network on Cora, all runs as one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

import torch
from torch import Tensor

from armagnn.data import NodeDataset, load
from armagnn.operators import CSR, GraphOperator
from armagnn.tasks import NodeNet, NodeTask
from armagnn.training import NodesConfig
from armagnn.training.outcome import Outcome, Setting
from armagnn.training.trials import Trials
from armagnn_paper.tables import paper_config

METHODS: Final = ("arma", "gcn", "chebyshev")
NAMES: Final = {"arma": "ARMA", "gcn": "GCN", "chebyshev": "Chebyshev"}
COLOURS: Final = {"arma": "tab:blue", "gcn": "tab:orange", "chebyshev": "tab:green"}


@cache
def cora() -> NodeDataset:
    """Cora, read once."""
    return load("cora")


def config(method: str) -> NodesConfig:
    """The paper's hyperparameters for Cora, the same for every method, but stopping on validation loss, patience 100.

    Example:
        >>> config("arma").hidden, config("arma").stacks, config("arma").stop_on
        (16, 2, 'loss')
    """
    return replace(paper_config("cora", method), stop_on="loss", patience=100)


def train_all(
    build: Callable[[], NodeNet],
    dataset: NodeDataset,
    settings: Sequence[Setting],
    *,
    epochs: int = 2000,
    patience: int = 100,
    look: Callable[[Trials], None] | None = None,
) -> list[Outcome]:
    """Train one network per setting as one batch, stopping on validation loss; outcomes in their order."""
    trials = Trials(build, NodeTask(dataset, build()), settings, epochs=epochs, patience=patience, stop_on="loss")
    outcomes = {outcome.setting: outcome for outcome in trials.run(look)}
    return [outcomes[setting] for setting in settings]


def train_on_cora(method: str, runs: int) -> list[NodeNet]:
    """The trained networks of a method on Cora, one per run."""
    chosen, dataset = config(method), cora()
    build = chosen.experiment(dataset).network
    outcomes = train_all(build, dataset, [chosen.setting(seed) for seed in range(runs)], patience=chosen.patience)
    return [restored(build, outcome) for outcome in outcomes]


def restored(build: Callable[[], NodeNet], outcome: Outcome) -> NodeNet:
    """The network of an outcome, with its best weights, ready to be used."""
    net = build().eval()
    net.load_state_dict(outcome.state)
    return net


@torch.no_grad()
def accuracy(net: NodeNet, x: Tensor | CSR, op: GraphOperator | None, y: Tensor, nodes: Tensor | None = None) -> float:
    """The accuracy in per cent, on some nodes or on all."""
    right: Tensor = net(x, op).argmax(-1) == y
    return 100.0 * (right if nodes is None else right[nodes]).double().mean().item()
