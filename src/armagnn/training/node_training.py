"""Trainings on nodes: the network and the task of a configuration, and what a run says of nodes, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import real_tensor
from armagnn.data import NodeDataset
from armagnn.data.tables.frame import NodeIds
from armagnn.data.tables.node_tables import NewNodes, join_graph, names_others, new_graph
from armagnn.data.tables.table_schema import TableSchema
from armagnn.errors import DataError, ParameterError, RunError, ShapeError
from armagnn.operators import CSR
from armagnn.tasks import NodeNet, NodeTask, conv_options
from armagnn.tasks.closing_metrics import closing_metrics, has_auc
from armagnn.tasks.node_task import target_scaler
from armagnn.training.checkpoint import AGAIN
from armagnn.training.experiment import Experiment, Prediction, csv_text, outline, split_names, trained
from armagnn.training.node_baselines import node_baselines
from armagnn.training.node_config import NodesConfig
from armagnn.training.outcome import Outcome
from armagnn.training.run_folder import Run


class NodesExperiment(Experiment):
    """A dataset of nodes, and the paper's network of two convolutions on it.

    Example:
        >>> NodesConfig(conv="gcn").experiment().network().conv1
        GCNConv(1433, 16)
    """

    DATA = NodeDataset
    config: NodesConfig
    dataset: NodeDataset

    @property
    def nodes_at_once(self) -> int:
        """All nodes."""
        return self.dataset.num_nodes

    @property
    def description(self) -> TableSchema | None:
        """How the tables were read; None of data that were no tables."""
        return self.dataset.schema

    def network(self) -> NodeNet:
        """The network, with new weights from torch's global generator."""
        return make_node_network(self.config, self.dataset.num_features, self.dataset.num_outputs)

    def task(self, net: NodeNet, fold: int | None, device: torch.device) -> NodeTask:
        """Loss and metrics on the split of the dataset; or, of folds, on all its fixed splits, one for each trial."""
        data = self._moved if device == self.config.torch_device() else self.dataset.to(device)
        if fold is None or data.split_parts is None:
            return NodeTask(data, net, balance=self.config.balance)
        from armagnn.tasks.split_task import SplitTask  # which few trainings need

        return SplitTask(data, net, balance=self.config.balance)

    @cached_property
    def _moved(self) -> NodeDataset:
        return self.dataset.to(self.config.torch_device())

    @torch.no_grad()
    def logits(self, net: NodeNet) -> Tensor:
        """What a network puts out for every node, on the CPU."""
        data = self.dataset
        return outputs_of(net, data.x, data.edge_index, data.edge_weight)

    def predict(self, net: NodeNet) -> NodesPrediction | NodesValues | TablePrediction:
        """What a network says of every node, on the CPU."""
        data, logits = self.dataset, self.logits(net)
        if data.schema is not None and data.ids is not None:
            values = meaning(data.schema, logits)
            return TablePrediction(data.ids, data.schema, values, split_names(data.num_nodes, data.idx))
        scaler = target_scaler(data)
        if scaler is not None:
            return NodesValues(data, scaler.inverse(logits).squeeze(-1))
        return NodesPrediction(data, torch.sigmoid(logits) if data.multilabel else torch.softmax(logits, dim=-1))

    @classmethod
    def prediction(cls, config: Any, run: Run, data: Any = None) -> Prediction:
        """What a finished run says about its own data, in memory or not, or about new tables."""
        if isinstance(data, tuple) and len(data) in (2, 3):
            return predict_tables(config, run, *data)
        if data is not None and not isinstance(data, NodeDataset):
            raise ParameterError(
                f"{run.path}: is a run on the nodes of {config.source}. It predicts these, or new tables "
                "(--nodes FILE --edges FILE) if it was trained on tables."
            )
        experiment = cls(config, data)
        return experiment.predict(experiment.trained(run))

    # --------------------------------------------------------------------------------------------------------- tables

    def closed(self, outcome: Outcome) -> Outcome:
        """A finished trial with macro-F1 and ROC-AUC: on tables of classes, and where the benchmark wants them."""
        data = self.dataset
        if data.regression or (data.schema is None and data.metric == "accuracy"):
            return outcome
        net = outline(self.network)
        net.load_state_dict(outcome.state, assign=True)
        logits = self.logits(net.eval())
        found = {
            split: closing_metrics(logits[data.idx(split)], data.y[data.idx(split)], self._auc) for split in SPLITS
        }
        return replace(outcome, val=outcome.val | found["val"], test=outcome.test | found["test"])

    @cached_property
    def _auc(self) -> bool:
        """Do validation and test both have a class that some nodes have and some have not?"""
        data = self.dataset
        return all(has_auc(data.y[data.idx(split)], data.num_classes) for split in SPLITS)

    def baselines(self) -> dict[str, Any]:
        """The results of a network that ignores the edges, and of label propagation, which ignores the features."""
        if self.dataset.schema is None or not self.config.baselines:
            return {}
        return node_baselines(self, self._auc)


SPLITS = ("val", "test")


def make_node_network(config: NodesConfig, in_channels: int, outputs: int) -> NodeNet:
    """The network of `config`, with new weights from torch's global generator."""
    own: dict[str, dict[str, Any]] = {"arma": {"init": config.init}, "rational": {"radius": config.radius}}
    start = own.get(config.conv, {})
    return NodeNet(
        config.conv,
        in_channels,
        outputs,
        hidden=config.hidden,
        act=config.act,
        input_dropout=config.input_dropout,
        hidden_dropout=config.hidden_dropout,
        skip_dropout=config.skip_dropout,
        options=conv_options(config.conv, config.stacks, config.layers) | start,
        last=conv_options(config.conv, config.last_stacks or config.stacks, config.layers),
        depth=config.depth,
        norm=config.norm,
        jk=config.jk,
        residual=config.residual,
        residual_scale=config.residual_scale,
        linear_skip=config.linear_skip,
    )


@torch.no_grad()
def outputs_of(net: NodeNet, x: Tensor | CSR, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
    """What a network puts out for every node of a graph."""
    found: Tensor = net(x, net.conv1.operator(edge_index, x.shape[0], edge_weight))
    return found


def meaning(schema: TableSchema, logits: Tensor) -> Tensor:
    """Probabilities (N, C) of classes or labels, or numbers (N, 1) in the units of the target."""
    if schema.task == "number":
        return logits * schema.target_deviation + schema.target_mean
    return torch.softmax(logits, dim=-1) if schema.task == "classes" else torch.sigmoid(logits)


def read_schema(run: Run) -> TableSchema:
    """How the tables of a run were read."""
    if run.config.DESCRIPTION not in run.manifest.files:
        raise ParameterError(
            f"{run.path}: is a run on the nodes of {run.config.source}, which were no tables: it predicts only these."
        )
    try:
        return TableSchema.from_json(run.description())
    except DataError as error:
        where = run.path / run.config.DESCRIPTION
        raise RunError(f"{where}: not the description of tables ({error}). {AGAIN}") from error


def predict_tables(
    config: NodesConfig, run: Run, nodes: Any, edges: Any, base: NodeDataset | None = None
) -> TablePrediction:
    """What a run says of the nodes of new tables.

    If all ends of edges are among the new nodes, these are a graph of their own, and the data of the run are not
    needed. Otherwise the new nodes join the graph of the run, whose tables must still be there (or given as `base`).
    """
    schema = read_schema(run)
    net = trained(run, lambda: make_node_network(config, schema.num_features, schema.outputs))
    if names_others(schema, nodes, edges):
        old = config.load() if base is None else base
        run.check_data(old.sha256)
        graph: NewNodes = join_graph(schema, old, nodes, edges, config.unknown)
    else:
        graph = new_graph(schema, nodes, edges)
    values = meaning(schema, outputs_of(net, graph.x, graph.edge_index, graph.edge_weight))[graph.wanted]
    return TablePrediction(graph.ids, schema, values, None, graph.notes)


# --------------------------------------------------------------------------------------------- what a run says of nodes


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
