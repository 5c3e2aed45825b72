"""Whole graphs as a training: its configuration, its network and task, and its predictions."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import real_tensor
from armagnn.data import (
    Fold,
    GraphsDataset,
    NodeFeatures,
    all_entries,
    folds,
    load_graphs,
    node_features,
    read_tu_folder,
    with_bond_orders,
)
from armagnn.data.graph_files import read_graphs_file
from armagnn.data.splits import own_split
from armagnn.data.tables.encoding import TableEncoder
from armagnn.data.tables.frame import NodeIds
from armagnn.data.tables.graph_tables import GraphFolder, read_graph_tables
from armagnn.errors import DataError, ParameterError, ShapeError, UnknownNameError
from armagnn.operators.batches import GraphBatches
from armagnn.tasks import GraphNet, GraphTask, conv_options
from armagnn.tasks.graph_task import CHUNK
from armagnn.training.description import Description
from armagnn.training.experiment import Experiment, csv_text, split_names, trained
from armagnn.training.outcome import Setting
from armagnn.training.run_folder import Run
from armagnn.training.task_configs import GraphsConfig


class GraphsExperiment(Experiment):
    """A set of graphs with its folds, how its nodes are described, and a network on it.

    Example:
        >>> experiment = GraphsConfig(data="mutag", conv="gcn").experiment()
        >>> experiment.description.sizes
        (152, 17, 19)
    """

    DATA = GraphsDataset
    config: GraphsConfig
    dataset: GraphsDataset

    def __init__(self, config: GraphsConfig, data: GraphsDataset | None = None) -> None:
        super().__init__(config, data)
        self.plain = plain = self.dataset
        self.dataset = with_bond_orders(plain) if config.edges == "bond orders" else plain
        if config.one_target and config.one_target not in plain.targets:
            raise UnknownNameError("target", config.one_target, plain.targets)
        self.features = features_of(plain)
        self._largest = int(self.dataset.ptr.diff()[self.fold().train].max())

    @property
    def nodes_at_once(self) -> int:
        """About as many as a batch has."""
        return min(self.config.batch, len(self.plain)) * self.plain.num_nodes // len(self.plain)

    @cached_property
    def description(self) -> Description:
        """How the graphs are described, and what the outputs mean."""
        return Description.of(self.dataset, self.features, self.fold(), self.config.one_target)

    @classmethod
    def prediction(cls, config: Any, run: Run, data: Any = None) -> GraphsPrediction:
        """What a run says about its own graphs, or about new ones; see `predict_graphs`."""
        return predict_graphs(config, run, data)

    def fold(self, number: int | None = None) -> Fold:
        """Which graphs are for training, validation and test, in a fold or in the configuration's own.

        Example:
            >>> GraphsConfig(fold=3).experiment().fold()
            Fold(train=152, val=17, test=19)
        """
        if self.config.own_split:
            return own_split(self.plain)
        number = self.config.fold if number is None else number
        return folds(self.plain, seed=self.config.split_seed or None)[number]

    def setting(self, seed: int) -> Setting:
        """What may differ between the trials of a batch: the single target, too."""
        setting, target = self.config.setting(seed), self.config.one_target
        return replace(setting, target=self.plain.targets.index(target)) if target else setting

    def network(self) -> GraphNet:
        """The network, with new weights from torch's global generator."""
        outputs = 1 if self.config.one_target else self.dataset.num_outputs
        return make_network(self.config, self.features.x.shape[1], outputs, self._largest)

    def task(self, net: GraphNet, fold: int | None, device: torch.device) -> GraphTask:
        """Batches, loss and metrics of a fold; the order of the batches is the fold's."""
        number = self.config.fold if fold is None else fold
        return GraphTask(
            self.dataset, net, self.fold(number),
            batch_size=self.config.batch, order=number, features=self.features, device=device,
        )  # fmt: skip


_features: WeakKeyDictionary[GraphsDataset, NodeFeatures] = WeakKeyDictionary()


def features_of(dataset: GraphsDataset) -> NodeFeatures:
    """The features of the nodes of a dataset, worked out once: all configurations on it want the same."""
    if dataset not in _features:
        _features[dataset] = node_features(dataset)
    return _features[dataset]


def make_network(config: GraphsConfig, in_channels: int, outputs: int, largest: int) -> GraphNet:
    """The network of `config`, with new weights from torch's global generator; `largest` stands in for no slots."""
    return GraphNet(
        config.conv,
        in_channels,
        outputs,
        hidden=config.hidden,
        depth=config.depth,
        head=(config.head,) if config.head else (),
        act=config.act,
        slots=(config.slots or largest) if config.pooling == "padded" else None,
        hidden_dropout=config.hidden_dropout,
        skip_dropout=config.skip_dropout,
        options=conv_options(config.conv, config.stacks, config.layers),
    )


# ----------------------------------------------------------------------------------------------------------------- data


def is_folder(data: str) -> bool:
    """Is `data` meant as a folder in TU's format, rather than an ``.npz`` file or a name of the catalogue?

    Example:
        >>> is_folder("my/graphs"), is_folder("my/graphs.npz"), is_folder("mutag")
        (True, False, False)
    """
    if data.endswith(".npz") and not os.path.isdir(data):
        return False
    return Path(data).name != data or (os.path.isdir(data) and data not in all_entries())


def read_graphs(data: str, target: str = "auto", encoder: TableEncoder | None = None) -> GraphsDataset:
    """The graphs of a folder of tables or in TU's format, an ``.npz`` file, or a name of the catalogue.

    `target` chooses between the files of a folder, as :func:`~armagnn.data.read_tu_folder` takes it, or is a column of
    the table of graphs; ``"none"``, for new graphs, leaves also those of an ``.npz`` file aside. New graphs in tables
    are encoded by an `encoder`.

    Example:
        >>> read_graphs("mutag").num_graphs
        188
    """
    if is_folder(data):
        if GraphFolder.find(data) is not None:
            column = "" if target in ("auto", "none") else target
            return read_graph_tables(data, target=column, encoder=encoder, labelled=target != "none")
        return read_tu_folder(data, target=target)  # type: ignore[arg-type]  # which checks it
    if target not in ("auto", "none"):
        raise ParameterError(f"target is {target!r}, which chooses between the files of a folder; {data!r} is none.")
    if target == "none" and data.endswith(".npz"):
        return read_graphs_file(data, labelled=False)
    return load_graphs(data)


# ---------------------------------------------------------------------------------------------------------- predictions


@checked
@dataclass(frozen=True, eq=False)
class GraphsPrediction:
    """What is predicted for each graph.

    Attributes:
        description: what classes or targets there are.
        values: the probability of each class, (G, C); or the targets in their own units, (G, T).
        first: the number of the first graph: 1 for a folder in TU's format, which counts from 1, else 0.
        split: "train", "val" or "test" for each graph, if these are the graphs of the run.
        ids: of graphs in tables.
    """

    description: Description
    values: Tensor
    first: int = 0
    split: list[str] | None = None
    ids: NodeIds | None = None
    what: str = field(default="graphs", init=False)

    def __post_init__(self) -> None:
        real_tensor("values", self.values, "(G, C)")
        if self.split is not None and len(self.split) != len(self.values):
            raise ShapeError(f"split has {len(self.split)} names, one is needed for each of {len(self.values)} graphs.")
        if self.values.shape[1] != self.description.outputs:
            raise ShapeError(f"values has {self.values.shape[1]} columns for {self.description.outputs} outputs.")

    @property
    def classes(self) -> tuple[int, ...] | tuple[str, ...]:
        """The raw value or the name of each class."""
        return self.description.class_names or self.description.classes

    def labels(self) -> list[Any]:
        """The most probable class of each graph, by its raw value or its name; none of a regression."""
        classes = self.classes
        return [classes[place] for place in self.values.argmax(dim=-1).tolist()] if classes else []

    def to_csv(self) -> str:
        """One row per graph: its number, its split if it is one of the run's, its label and p_CLASS; or its targets."""
        known = self.description
        names = list(known.targets) if known.regression else ["label", *(f"p_{value}" for value in self.classes)]
        labels, split = self.labels(), self.split or []
        row_ids = list(self.ids) if self.ids is not None else range(self.first, self.first + len(self.values))
        return csv_text(
            ["graph", *([] if self.split is None else ["split"]), *names],
            (
                [row_ids[row], *split[row : row + 1], *labels[row : row + 1], *values]
                for row, values in enumerate(self.values.tolist())
            ),
        )


@checked
def predict_graphs(
    config: GraphsConfig, run: Run, data: str | os.PathLike[str] | GraphsDataset | None
) -> GraphsPrediction:
    """What a run says about its own graphs, or about new ones: of a folder, a file, the catalogue, or in memory.

    New ones need no labels, nor the data that the run was trained on.
    """
    description = Description.read(run)
    sizes = description.num_features, description.outputs, description.largest
    net = trained(run, lambda: make_network(config, *sizes))
    split: list[str] | None = None
    source = config.data if data is None else data
    if data is None:
        experiment = GraphsExperiment(config)
        run.check_data(experiment.sha256)
        graphs, fold = experiment.dataset, experiment.fold()
        split = split_names(len(graphs), vars(fold).get)
    elif isinstance(data, GraphsDataset):
        graphs = data
    else:
        graphs = read_graphs(os.fspath(data), "none", description.table_encoder)
    x = description.features(graphs)
    _refuse(graphs, graphs.graph[~x.isfinite().all(1)], "its features overflow when they are scaled")
    outputs = _outputs(net, graphs, x)
    values = description.own_units(outputs) if description.regression else torch.softmax(outputs, dim=-1)
    _refuse(graphs, (~values.isfinite().all(1)).nonzero().flatten(), "what the network says of it overflows")
    first = int(is_folder(os.fspath(source))) if isinstance(source, str | os.PathLike) else 0
    return GraphsPrediction(description, values, first, split, graphs.ids)


def _refuse(graphs: GraphsDataset, wrong: Tensor, why: str) -> None:
    """Name the first of the graphs of which nothing can be said, if there is one."""
    if wrong.numel():
        raise DataError(
            f"{graphs.name}: graph {int(wrong[0]) + 1} (counted from 1): {why}; its numbers are far from those of the "
            "graphs that the run was trained on."
        )


def _outputs(net: GraphNet, graphs: GraphsDataset, x: Tensor) -> Tensor:
    """Return the outputs (G, C) for all graphs, with a bounded number of nodes at a time."""
    batches = GraphBatches(net.operator(graphs, x.dtype), graphs.ptr)
    size = max(1, CHUNK * len(graphs) // graphs.num_nodes)
    found = []
    with torch.no_grad():
        for ids in torch.split(torch.arange(len(graphs)), size):
            batch = batches.take(ids)
            found.append(net(x.index_select(0, batch.nodes), batch))
    return torch.cat(found)
