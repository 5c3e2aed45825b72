"""A run on whole graphs: its data, its network, and its trials."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from armagnn.data import Fold, GraphsDataset, all_entries, folds, load_graphs, node_features, read_tu_folder
from armagnn.data.graphs_file import read_graphs_file
from armagnn.data.tu_folder import Target
from armagnn.errors import ParameterError
from armagnn.tasks import GraphNet, GraphTask, conv_options
from armagnn.training.description import Description
from armagnn.training.graphs_config import GraphsConfig
from armagnn.training.sizes import check_memory, outline
from armagnn.training.trial import settings
from armagnn.training.trials import Trials


def is_folder(data: str) -> bool:
    """Is `data` meant as a folder in TU's format, rather than an ``.npz`` file or a name of the catalogue?

    Example:
        >>> is_folder("my/graphs"), is_folder("my/graphs.npz"), is_folder("mutag")
        (True, False, False)
    """
    if data.endswith(".npz") and not os.path.isdir(data):
        return False
    return Path(data).name != data or (os.path.isdir(data) and data not in all_entries())


def read_graphs(data: str, target: Target = "auto") -> GraphsDataset:
    """The graphs of a folder in TU's format, an ``.npz`` file, or a name of the catalogue.

    `target` chooses between the files of a folder, as :func:`~armagnn.data.read_tu_folder` takes it; ``"none"``, for
    new graphs, leaves also those of an ``.npz`` file aside.

    Example:
        >>> read_graphs("mutag").num_graphs
        188
    """
    if is_folder(data):
        return read_tu_folder(data, target=target)
    if target in ("labels", "attributes"):
        raise ParameterError(f"target is {target!r}, which chooses between the files of a folder; {data!r} is none.")
    if target == "none" and data.endswith(".npz"):
        return read_graphs_file(data, labelled=False)
    return load_graphs(data)


def fold_of(config: GraphsConfig, dataset: GraphsDataset) -> Fold:
    """Which graphs are for training, validation and test.

    Example:
        >>> fold_of(GraphsConfig(fold=3), load_graphs("mutag"))
        Fold(train=152, val=17, test=19)
    """
    return folds(dataset, seed=config.split_seed)[config.fold]


def build_graph_network(config: GraphsConfig, description: Description) -> GraphNet:
    """The network of `config` for graphs that are described so, with new weights from torch's global generator."""
    return GraphNet(
        config.conv,
        description.num_features,
        description.outputs,
        hidden=config.hidden,
        depth=config.depth,
        head=(config.head,) if config.head else (),
        act=config.act,
        slots=description.largest if config.pooling == "padded" else None,
        hidden_dropout=config.hidden_dropout,
        skip_dropout=config.skip_dropout,
        options=conv_options(config.conv, config.stacks, config.layers),
    )


class GraphsProblem:
    """The graphs of a run, loaded and checked; what concerns the network, the folds or the device is refused too.

    Example:
        >>> problem = GraphsProblem(GraphsConfig(data="mutag", conv="gcn"))
        >>> problem.description.sizes, len(problem.make_trials([3, 4]).settings)
        ((152, 17, 19), 2)
    """

    def __init__(self, config: GraphsConfig) -> None:
        self.config, self._device = config, config.torch_device()
        self._dataset = read_graphs(config.data, config.target)  # type: ignore[arg-type]  # the config checks it
        self.sha256, self.notes = self._dataset.sha256, self._dataset.notes
        if self._dataset.regression and config.stop_on != "loss":
            raise ParameterError(f"stop_on is {config.stop_on!r}, but real targets have no accuracy; use 'loss'.")
        self._fold = fold_of(config, self._dataset)
        self._features = node_features(self._dataset)
        self.description = Description.of(self._dataset, self._features, self._fold)
        self._net = outline(lambda: build_graph_network(config, self.description))
        check_memory(
            self._net, config, min(config.batch, len(self._dataset)) * self._dataset.num_nodes // len(self._dataset)
        )

    def make_trials(self, seeds: Sequence[int]) -> Trials:
        """The trials of `seeds`, ready to run."""
        config = self.config
        return Trials(
            lambda: build_graph_network(config, self.description),
            self._task,
            settings(config, seeds),
            epochs=config.epochs,
            patience=config.patience,
            stop_on=config.stop_on,
            device=self._device,
        )

    @cached_property
    def _task(self) -> GraphTask:
        config = self.config
        return GraphTask(
            self._dataset,
            self._net,
            self._fold,
            batch_size=config.batch,
            order=config.fold,
            features=self._features,
            device=self._device,
        )
