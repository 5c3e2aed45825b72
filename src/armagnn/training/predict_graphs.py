"""What a trained run says about graphs: its own, or new ones."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import real_tensor
from armagnn.data import GraphsDataset
from armagnn.errors import DataError, ParameterError, RunError, ShapeError, shown
from armagnn.operators.batches import GraphBatches
from armagnn.tasks import GraphNet
from armagnn.tasks.graph import CHUNK
from armagnn.training.description import Description
from armagnn.training.graphs import build_graph_network, fold_of, is_folder, read_graphs
from armagnn.training.graphs_config import GraphsConfig
from armagnn.training.predict import opened, trained
from armagnn.training.run import Run


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


@checked
def predict_graphs(run: Run, data: str | os.PathLike[str] | GraphsDataset | None = None) -> GraphsPrediction:
    """What the best weights of a finished run say about the graphs `data`, or about its own.

    New graphs are a folder in TU's format, an ``.npz`` file (neither needs labels), a name of the catalogue, or a
    dataset that is loaded already; the data that the run was trained on are not needed then. It runs on the CPU,
    wherever the run was trained.

    Example:
        >>> predict_graphs(Run.open("runs/mine"), "new/graphs").labels()[:3]  # doctest: +SKIP
        [1, -1, 1]
    """
    config = opened(run).config
    if not isinstance(config, GraphsConfig):
        raise RunError(f"{run.path}: is a run on {config.kind}, not on graphs; it predicts those of its own data only.")
    description = run.graphs()
    net = trained(run, lambda: build_graph_network(config, description))
    split: list[str] | None = None
    if data is None:
        graphs = read_graphs(config.data, config.target)  # type: ignore[arg-type]  # the config checks it
        run.check_data(graphs.sha256)
        split = ["train"] * len(graphs)
        fold = fold_of(config, graphs)
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
    source = config.data if data is None else data
    first = 0 if isinstance(source, GraphsDataset) else int(is_folder(os.fspath(source)))
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
