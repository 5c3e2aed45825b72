"""Whole graphs as a training: its configuration, its network and task, and its predictions."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import choice, instance, real_tensor
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
from armagnn.data.graphs import read_graphs_file
from armagnn.data.splits import FOLDS
from armagnn.data.tu import Target
from armagnn.errors import DataError, ParameterError, ShapeError, UnknownNameError, shown
from armagnn.operators.batches import GraphBatches
from armagnn.tasks import GRAPH_RATES, GraphNet, GraphTask, conv_options
from armagnn.tasks.graph_task import CHUNK
from armagnn.training.config import (
    DATA,
    MOST_STEPS,
    MOST_UNITS,
    PAPERS,
    RUN,
    TRAINING,
    Config,
    data_name,
    option,
    register,
    title_of,
)
from armagnn.training.description import Description
from armagnn.training.experiment import Experiment, trained
from armagnn.training.hyperparameters import graph_defaults
from armagnn.training.outcome import Setting
from armagnn.training.run_folder import Run

POOLINGS: Final = ("mean", "padded")
TARGETS: Final = ("auto", "labels", "attributes")
EDGES: Final = ("plain", "bond orders")


@register
@dataclass(frozen=True)
class GraphsConfig(Config):
    """Hyperparameters of a training on whole graphs; the defaults are the paper's for Enzymes, but without dropout.

    The network is GNN - ... - GNN - average pooling - fully connected. Of the graphs, fold `fold` of ten has a tenth
    for the test, about a tenth for early stopping, and the rest for training. Stopping is on validation loss, for
    classes too: the accuracy on a tenth of one's own graphs is a count of few. The help of each field is that of its
    option (``armagnn train graphs --help``).

    Example:
        >>> GraphsConfig(data="my/graphs", conv="gcn").title
        'gcn (L=2) on graphs'
    """

    kind: ClassVar[str] = "graphs"
    command: ClassVar[str] = "train graphs"
    OF_DATA: ClassVar[tuple[str, ...]] = ("data", "target")
    DESCRIPTION: ClassVar[str] = "graphs.json"
    HELP: ClassVar[str] = """Train a network on whole graphs, your own or the catalogue's, once per seed.

    Classification or regression: integers in DS_graph_labels.txt are classes; reals in DS_graph_attributes.txt are
    targets, several by commas, which one network learns together. The network is convolutions, average pooling, fully
    connected. Nodes are described by degree, clustering coefficient and, where there are files of them, labels and
    attributes. `armagnn predict RUN --data FOLDER` needs no more than the run folder.

    What is not given is the paper's value for its own datasets, and for other graphs that for Enzymes, but without
    dropout. Stopping is on validation loss, as the accuracy on a tenth of the graphs is a count of few.
    """
    NEEDS_DATA: ClassVar[bool] = True
    RATES: ClassVar[tuple[str, ...]] = GRAPH_RATES
    LIMITS: ClassVar[Mapping[str, tuple[int, int]]] = {
        **Config.LIMITS,
        "depth": (1, MOST_STEPS),
        "head": (0, MOST_UNITS),
        "slots": (0, 2**31 - 1),
        "batch": (1, MOST_UNITS),
        "fold": (0, FOLDS - 1),
        "split_seed": (0, 2**63 - 1),
    }
    STORED: ClassVar[Mapping[str, str]] = {
        "data": "dataset", "conv": "method", "stacks": "k", "layers": "t",
        **{name: name for name in ("hidden", "depth", "head", "act", "slots", *GRAPH_RATES)},
        **{name: name for name in ("l2", "lr", "batch", "epochs", "patience", "stop_on")},
    }  # fmt: skip
    LATER: ClassVar[Mapping[str, Any]] = {"edges": "plain", "one_target": "", "slots": 0}

    data: str = option(
        "mutag",
        "A folder in TU's format (DS_A.txt, DS_graph_indicator.txt, DS_graph_labels.txt or DS_graph_attributes.txt,"
        " ...), an .npz file of graphs, or a name such as mutag.",
        DATA,
        "needed, but with --resume",
    )
    target: str = option("auto", "For a folder that has both: labels (classes) or attributes (real targets).", DATA)
    one_target: str = option("", "Learn this one of several real targets.", DATA, "all of them")
    edges: str = option("plain", "Of qm9: plain, or bond orders as weights.", DATA)
    fold: int = option(
        0, "Which of ten folds, 0 to 9: a tenth of the graphs for test, about a tenth for stopping.", DATA
    )
    split_seed: int = option(0, "Seed of the folds.", DATA)
    conv: str = option("arma", "The layers: {layers}.", RUN)
    hidden: int = option(32, "Units of each convolution.", shown="32; 64 on qm9")
    depth: int = option(3, "Convolutions.", shown="3; 1 on qm9")
    head: int = option(0, "Units of a hidden fully connected layer; 0: none.", shown="0; 128 on qm9")
    stacks: int = option(2, "K: stacks of arma, order of chebyshev and cayley.", shown=PAPERS)
    layers: int = option(
        2,
        "T: recursion steps of arma, Jacobi iterations of cayley. L: layers in the place of each convolution for "
        "the others (chebyshev has none).",
        shown=PAPERS,
    )
    act: str = option("relu", "Activation, e.g. relu or elu.")
    pooling: str = option(
        "mean",
        "mean, over the nodes of a graph; or padded: their sum, divided by the nodes of the largest training "
        "graph, so that the size of a graph shows.",
        shown="mean; padded on qm9",
    )
    slots: int = option(0, "Where padded: divide by this number.", shown="the nodes of the largest training graph")
    hidden_dropout: float = option(0.0, "Drop rate between the layers.")
    skip_dropout: float = option(0.0, "Drop rate of arma's skip connections X V.", shown="the paper's, or 0")
    l2: float = option(
        1e-4, "c of the penalty c ||W||² on all kernels (its gradient is 2 c W).", TRAINING, "1e-4; 0 on qm9"
    )
    lr: float = option(1e-3, "Learning rate of Adam.", TRAINING)
    batch: int = option(32, "Graphs of a batch.", TRAINING, "32; 64 on qm9")
    epochs: int = option(1000, "Most epochs of a trial.", TRAINING)
    patience: int = option(50, "Epochs without improvement after which a trial stops.", TRAINING)
    stop_on: str = option(
        "loss",
        "What must improve on validation: loss, or accuracy (of classes; the lower loss decides a tie).",
        TRAINING,
    )
    seed: int = option(0, "Seed of the first trial; the next are seed + 1, ...", RUN)
    seeds: int = option(10, "Number of trials, one per seed; they are trained together.", RUN)
    device: str = option("cpu", "cpu, cuda or cuda:1.", RUN)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, known in {"pooling": POOLINGS, "target": TARGETS, "edges": EDGES}.items():
            choice(name, getattr(self, name), known)
        if self.conv not in ("arma", "chebyshev", "cayley") and self.depth * self.layers > MOST_STEPS:
            raise ParameterError(
                f"depth is {self.depth} and layers {self.layers}: a network of {self.depth * self.layers} layers, of "
                f"{MOST_STEPS} at most."
            )

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        return title_of(self.conv, str(self.stacks), self.layers, data_name(self.data))

    @classmethod
    @checked
    def is_path(cls, source: str) -> bool:
        """Is it a folder or a file?"""
        return is_folder(source) or source.endswith(".npz")

    @classmethod
    @checked
    def defaults(cls, source: str, conv: str) -> dict[str, Any]:
        """The options of the paper for a known dataset, or of the nearest one."""
        return graph_defaults(source, conv)

    def load(self) -> GraphsDataset:
        """The graphs."""
        return read_graphs(self.data, cast(Target, self.target))

    def experiment(self, data: GraphsDataset | None = None) -> GraphsExperiment:
        """The configuration with its graphs."""
        return GraphsExperiment(self, data)

    @checked
    def predict(self, run: Run, data: str | os.PathLike[str] | GraphsDataset | None = None) -> GraphsPrediction:
        """What a run says about its own graphs, or about new ones: of a folder, a file, the catalogue, or in memory.

        New ones need no labels, nor the data that the run was trained on.
        """
        return _predict(self, run, data)

    # ----------------------------------------------------------------------------------------------------------- store

    def stored(self) -> dict[str, Any]:
        """The configuration as the results store keeps it; a single target is part of the dataset's name."""
        content = super().stored()
        target = content.pop("one_target", "")
        return content | {"dataset": f"{self.data}/{target}"} if target else content

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> GraphsConfig:
        """The inverse of `stored`."""
        instance("content", content, Mapping, "a dict of options")
        data, _, target = str(content.get("dataset", cls.data)).partition("/")
        found = super().from_stored({**content, "dataset": data})
        return replace(found, one_target=target, pooling="padded" if found.slots else "mean")

    def shape(self) -> tuple[Any, ...]:
        """What must be the same in a batch, which may hold trials of several single targets."""
        return Config.shape(replace(self, one_target=""))


class GraphsExperiment(Experiment):
    """A set of graphs with its folds, how its nodes are described, and a network on it.

    Example:
        >>> experiment = GraphsConfig(data="mutag", conv="gcn").experiment()
        >>> experiment.description.sizes
        (152, 17, 19)
    """

    config: GraphsConfig

    def __init__(self, config: GraphsConfig, data: GraphsDataset | None = None) -> None:
        self.config = config
        config.torch_device()
        self.plain = plain = config.load() if data is None else instance("data", data, GraphsDataset, "a GraphsDataset")
        self.dataset = with_bond_orders(plain) if config.edges == "bond orders" else plain
        self.sha256, self.notes = plain.sha256, plain.notes
        if plain.regression and config.stop_on != "loss":
            raise ParameterError(f"stop_on is {config.stop_on!r}, but real targets have no accuracy; use 'loss'.")
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

    def fold(self, number: int | None = None) -> Fold:
        """Which graphs are for training, validation and test, in a fold or in the configuration's own.

        Example:
            >>> GraphsConfig(fold=3).experiment().fold()
            Fold(train=152, val=17, test=19)
        """
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
    """

    description: Description
    values: Tensor
    first: int = 0
    split: list[str] | None = None
    what: str = field(default="graphs", init=False)

    def __post_init__(self) -> None:
        real_tensor("values", self.values, "(G, C)")
        if self.split is not None and len(self.split) != len(self.values):
            raise ShapeError(f"split has {len(self.split)} names, one is needed for each of {len(self.values)} graphs.")
        if self.values.shape[1] != self.description.outputs:
            raise ShapeError(f"values has {self.values.shape[1]} columns for {self.description.outputs} outputs.")

    def labels(self) -> list[int]:
        """The most probable class of each graph, by its raw value; none of a regression."""
        classes = self.description.classes
        return [classes[place] for place in self.values.argmax(dim=-1).tolist()] if classes else []

    def to_csv(self) -> str:
        """One row per graph: its number, its split if it is one of the run's, its label and p_CLASS; or its targets."""
        known = self.description
        names = list(known.targets) if known.regression else ["label", *(f"p_{value}" for value in known.classes)]
        labels, table = self.labels(), io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(["graph", *([] if self.split is None else ["split"]), *names])
        for row, values in enumerate(self.values.tolist()):
            place = [self.first + row, *([] if self.split is None else [self.split[row]]), *labels[row : row + 1]]
            writer.writerow([*place, *(f"{value:.9g}" for value in values)])  # 9 digits: all of a float32
        return table.getvalue()


def _predict(config: GraphsConfig, run: Run, data: object) -> GraphsPrediction:
    description = Description.read(run)
    sizes = description.num_features, description.outputs, description.largest
    net = trained(run, lambda: make_network(config, *sizes))
    split: list[str] | None = None
    source = config.data if data is None else data
    if data is None:
        experiment = config.experiment()
        run.check_data(experiment.sha256)
        graphs, fold = experiment.dataset, experiment.fold()
        split = ["train"] * len(graphs)
        for name, ids in (("val", fold.val), ("test", fold.test)):
            for graph in ids.tolist():
                split[graph] = name
    elif isinstance(data, GraphsDataset):
        graphs = data
    elif isinstance(data, str | os.PathLike):
        graphs = read_graphs(os.fspath(data), "none")
    else:
        raise ParameterError(
            "data must be a folder in TU's format, an .npz file, the name of a dataset, or a GraphsDataset, got "
            f"{shown(data)}."
        )
    x = description.features(graphs)
    _refuse(graphs, graphs.graph[~x.isfinite().all(1)], "its features overflow when they are scaled")
    outputs = _outputs(net, graphs, x)
    values = description.own_units(outputs) if description.regression else torch.softmax(outputs, dim=-1)
    _refuse(graphs, (~values.isfinite().all(1)).nonzero().flatten(), "what the network says of it overflows")
    first = int(is_folder(os.fspath(source))) if isinstance(source, str | os.PathLike) else 0
    return GraphsPrediction(description, values, first, split)


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
