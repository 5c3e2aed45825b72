"""A run on the nodes of a graph (or of several): its network, and its trials."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch

from armagnn.arguments import checked
from armagnn.data import NodeDataset, load
from armagnn.tasks import NodeNet, NodeTask, conv_options
from armagnn.training.config import TrainConfig
from armagnn.training.sizes import check_memory, outline
from armagnn.training.trial import settings
from armagnn.training.trials import Trials


def load_nodes(config: TrainConfig) -> NodeDataset:
    """The dataset of a configuration, with its features scaled as the configuration says."""
    return load(config.dataset, features=config.features)  # type: ignore[arg-type]  # the config checks it


@checked
def build_network(config: TrainConfig, dataset: NodeDataset) -> NodeNet:
    """The network of `config` for `dataset`, with new weights from torch's global generator.

    Example:
        >>> from armagnn.data import load
        >>> build_network(TrainConfig(conv="gcn"), load("cora")).conv1
        GCNConv(1433, 16)
    """
    start = {"init": config.init} if config.conv == "arma" else {}
    return NodeNet(
        config.conv,
        dataset.num_features,
        dataset.num_classes,
        hidden=config.hidden,
        act=config.act,
        input_dropout=config.input_dropout,
        hidden_dropout=config.hidden_dropout,
        skip_dropout=config.skip_dropout,
        options=conv_options(config.conv, config.stacks, config.layers) | start,
        last=conv_options(config.conv, config.last_stacks or config.stacks, config.layers),
    )


def make_trials(config: TrainConfig, seeds: Sequence[int], dataset: NodeDataset) -> Trials:
    """The trials of `seeds`, ready to run; `dataset` is on the device of `config`.

    Example:
        >>> from armagnn.data import load
        >>> trials = make_trials(TrainConfig(epochs=2), [0, 1], load("cora"))
        >>> [outcome.epochs for outcome in trials.run()]
        [2, 2]
    """
    device = config.torch_device()
    with torch.random.fork_rng(devices=[]):  # the weights of this one do not matter: leave the generator alone
        task = NodeTask(dataset, build_network(config, dataset).to(device))
    return Trials(
        lambda: build_network(config, dataset),
        task,
        settings(config, seeds),
        epochs=config.epochs,
        patience=config.patience,
        stop_on=config.stop_on,
        device=device,
    )


class NodesProblem:
    """The data of a run on nodes, loaded and checked; what concerns the network or the device is refused too.

    Example:
        >>> problem = NodesProblem(TrainConfig(conv="gcn"))
        >>> len(problem.make_trials([3, 4]).settings), problem.description
        (2, None)
    """

    description = None

    def __init__(self, config: TrainConfig) -> None:
        self.config, self._device = config, config.torch_device()
        self._dataset = load_nodes(config)
        self.notes = self._dataset.notes
        self.sha256 = self._dataset.sha256
        check_memory(outline(lambda: build_network(config, self._dataset)), config, self._dataset.num_nodes)

    def make_trials(self, seeds: Sequence[int]) -> Trials:
        """The trials of `seeds`, ready to run."""
        return make_trials(self.config, seeds, self._moved)

    @cached_property
    def _moved(self) -> NodeDataset:
        return self._dataset.to(self._device)
