"""What a run on nodes says: probabilities of classes, or numbers, as a table with the ids of the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import real_tensor
from armagnn.data import NodeDataset
from armagnn.data.tables.node_ids import NodeIds
from armagnn.data.tables.table_schema import TableSchema
from armagnn.errors import ShapeError
from armagnn.training.experiment import csv_text, split_names


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
            >>> import torch
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
        said: dict[str, Iterable[object]] = {"labels" if self.dataset.multilabel else "label": self.labels()}
        return _to_csv(self.dataset, said | {f"p_{c}": p for c, p in enumerate(self.probabilities.t().tolist())})


@checked
@dataclass(frozen=True, eq=False)
class NodesValues:
    """The values (N,) that a regression predicts for every node of `dataset`, in the target's own units."""

    dataset: NodeDataset
    values: Tensor
    what: str = field(default="nodes", init=False)

    def __post_init__(self) -> None:
        if real_tensor("values", self.values, "(N,)").shape != (self.dataset.num_nodes,):
            raise ShapeError(f"values has shape {tuple(self.values.shape)} for {self.dataset.num_nodes} nodes.")

    def to_csv(self) -> str:
        """One row per node: its id, its graph if there are several, its split (or nothing), and the predicted value."""
        return _to_csv(self.dataset, {"target": self.values.tolist()})


def _to_csv(data: NodeDataset, said: Mapping[str, Iterable[object]]) -> str:
    columns: dict[str, Iterable[object]] = {"node": range(data.num_nodes)}
    if data.graph is not None:
        columns["graph"] = data.graph.tolist()
    columns |= {"split": split_names(data.num_nodes, data.idx), **said}
    return csv_text(columns, zip(*columns.values(), strict=True))


@checked
@dataclass(frozen=True, eq=False)
class TablePrediction:
    """What is predicted of nodes that came in a table.

    Attributes:
        ids: of the nodes.
        schema: what the outputs mean.
        values: (n, C) probabilities of the classes or labels, or (n, 1) numbers in the units of the target.
        split: "train", "val", "test" or nothing for each node, if they are the nodes of the run.
        notes: how new tables were read, in sentences.
    """

    ids: NodeIds
    schema: TableSchema
    values: Tensor
    split: list[str] | None = None
    notes: tuple[str, ...] = ()
    what: str = field(default="nodes", init=False)

    def __post_init__(self) -> None:
        shape = tuple(real_tensor("values", self.values, "(n, C)").shape)
        if shape != (len(self.ids), self.schema.outputs):
            raise ShapeError(f"values has shape {shape} for {len(self.ids)} nodes and {self.schema.outputs} outputs.")

    def labels(self) -> list[str]:
        """The most probable class of each node by its name; of several labels those above one half; of numbers none."""
        names = self.schema.classes
        if self.schema.task == "classes":
            return [names[place] for place in self.values.argmax(dim=-1).tolist()]
        found: list[list[str]] = [[] for _ in range(len(self.values))]
        for node, label in (self.values > 0.5).nonzero().tolist() if names else ():
            found[node].append(names[label])
        return ["|".join(each) for each in found] if names else []

    def to_csv(self) -> str:
        """A row for a node: its id, its split if it is one of the run's, its label(s) and p_CLASS; or its value."""
        schema = self.schema
        columns: dict[str, Iterable[object]] = {schema.id: self.ids}
        columns |= {} if self.split is None else {"split": self.split}
        if schema.task == "number":
            columns["target"] = self.values.squeeze(-1).tolist()
        else:
            columns["label" if schema.task == "classes" else "labels"] = self.labels()
            columns |= {f"p_{c}": p for c, p in zip(schema.classes, self.values.t().tolist(), strict=True)}
        return csv_text(columns, zip(*columns.values(), strict=True))
