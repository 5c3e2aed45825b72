"""A table of nodes and a table of edges as a dataset; and new tables with the columns of a run, as it reads them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from armagnn.checks import choice, flag, integer
from armagnn.data.arrays import as_tensor
from armagnn.data.scaling import Scaler
from armagnn.data.tables.edge_tables import UNKNOWN, EdgeList, batches_of, read_edges
from armagnn.data.tables.encoding import SCALINGS, TableEncoder
from armagnn.data.tables.frame import ID_NAMES, Frame, NodeIds, as_column
from armagnn.data.tables.node_targets import NodeTarget, check_leakage, guess_target, target_of
from armagnn.data.tables.table_schema import TableSchema
from armagnn.data.tables.table_splits import SplitWish, split_ids, split_nodes
from armagnn.errors import DataError, ParameterError, shown
from armagnn.operators import CSR
from armagnn.table_files import TableFile, columns_of

if TYPE_CHECKING:
    from armagnn.data.nodes import NodeDataset

SCALING: Final = {"auto": "standardise", "kind": "standardise", **{name: name for name in SCALINGS}}


@dataclass(frozen=True)
class TableOptions:
    """How two tables shall be read; what is empty is guessed.

    Attributes:
        target: the column to learn, or several columns of 0 and 1.
        id: the column of the ids of nodes.
        source: the column of the ends that edges come from.
        dest: the column of the ends that edges go to.
        weight: the column of the weights of edges.
        directed: keep the direction of edges.
        unknown: what to do with edges to unknown nodes: "error" or "drop".
        task: "auto", "classes", "labels" or "number".
        ignore: columns of nodes that are no features.
        text: columns of free text.
        text_by: how words become features: "hashing" or "tfidf".
        categories: columns that are categories, whatever they look like.
        features: how numbers are scaled: "auto" (standardised on the training nodes), "standardise", "rows", "none".
        split: a column of nodes with train, val and test.
        val: the share (or number) of the nodes with a target for validation.
        test: likewise for the test.
        seed: of the split.
        folds: number of folds, 0 for a single split.
        fold: the fold that is the test.
    """

    target: tuple[str, ...] = ()
    id: str = ""
    source: str = ""
    dest: str = ""
    weight: str = ""
    directed: bool = False
    unknown: str = "error"
    task: str = "auto"
    ignore: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    text_by: str = "hashing"
    categories: tuple[str, ...] = ()
    features: str = "auto"
    split: str = ""
    val: float = 0.2
    test: float = 0.2
    seed: int = 0
    folds: int = 0
    fold: int = 0

    def __post_init__(self) -> None:
        for name in ("target", "ignore", "text", "categories"):
            object.__setattr__(self, name, names_of(name, getattr(self, name)))
        for name in ("id", "source", "dest", "weight", "split"):
            if not isinstance(getattr(self, name), str):
                raise ParameterError(f"{name} must be the name of a column, got {shown(getattr(self, name))}.")
        flag("directed", self.directed)
        choice("rule for unknown nodes", self.unknown, UNKNOWN)
        choice("scaling of features", self.features, SCALING)
        for name in ("seed", "folds", "fold"):
            object.__setattr__(self, name, integer(name, getattr(self, name), -(2**63), 2**63 - 1))
        self.split_wish  # noqa: B018  # which checks its numbers

    @property
    def split_wish(self) -> SplitWish:
        """How nodes shall be split."""
        return SplitWish(self.split, self.val, self.test, self.seed, self.folds, self.fold)


def names_of(what: str, value: Any) -> tuple[str, ...]:
    """Names of columns: a single one, or several.

    Example:
        >>> names_of("text", "title"), names_of("text", ["title", "body"])
        (('title',), ('title', 'body'))
    """
    found = (value,) if isinstance(value, str) else value
    found = tuple(found) if isinstance(found, Iterable) else (None,)
    if not all(isinstance(each, str) for each in found):
        raise ParameterError(f"{what} must be the name of a column, or a list of names, got {shown(value)}.")
    return tuple(each for each in found if each)


def node_dataset(nodes: Any, edges: Any, options: TableOptions, name: str = "") -> NodeDataset:
    """Make a dataset of two tables; `NodeDataset.from_tables` says what they may be."""
    from armagnn.data.nodes import NodeDataset

    table = Frame.of(nodes, "nodes")
    if not len(table):
        raise DataError(f"{table.source}: has no rows. Every node needs one.")
    id_column = find_id(table, options.id)
    target = target_of(table, options.target or [guess_target(table)], options.task)
    ids = NodeIds.of(table, id_column)
    columns = _features(table, options, id_column, target)
    check_leakage(table, columns, target)
    split = split_nodes(table, target, options.split_wish)
    edge_list = _edges(edges, ids, options, table)
    encoder = TableEncoder.fit(
        table, columns, split.train,
        text=options.text, categories=options.categories, text_by=options.text_by, scaling=SCALING[options.features],
    )  # fmt: skip
    x = as_features(encoder.transform(table))
    indices = split_ids(split)
    scale = _scale(target, indices["train_idx"], table)
    schema = TableSchema(
        encoder, int(x.shape[1]), id_column, target.columns, target.task, target.classes, *scale,
        edge_list.columns, options.directed,
    )  # fmt: skip
    _check_train(target, indices["train_idx"], table)
    called = name or (table.path.name.removesuffix(".gz") if table.path else "tables")
    return NodeDataset(
        name=called,
        x=x,
        edge_index=torch.from_numpy(edge_list.index),
        y=target.y,
        num_classes=len(target.classes),
        sha256=table_digest([nodes, edges], asdict(options)),
        provenance=called,
        edge_weight=as_tensor(edge_list.weight),
        features=SCALING[options.features],
        notes=(*target.notes, split.note, *encoder.notes, *edge_list.notes),
        ids=ids,
        schema=schema,
        **indices,
    )


def find_id(table: Frame, name: str) -> str:
    """The column of ids: the one that is named, or one with a usual name."""
    if name:
        table.require(name, "id")
        return name
    lower = {each.lower(): each for each in reversed(table.names)}
    found = next((lower[each] for each in ID_NAMES if each in lower), None)
    if found is None:
        raise DataError(
            f"{table.source}: which column is the id of a node? Name it with --id. {columns_of(table.names)}"
        )
    return found


def _features(table: Frame, options: TableOptions, id_column: str, target: NodeTarget) -> list[str]:
    """The columns that are features."""
    out = {id_column, *target.columns, *options.ignore, "(unnamed)"} | ({options.split} if options.split else set())
    for option, named in (("ignore", options.ignore), ("text", options.text), ("categories", options.categories)):
        for each in named:
            table.require(each, option)
            if option != "ignore" and each in out:
                raise ParameterError(
                    f"{option} names {each!r}, which is no feature: it is the id, the target or ignored."
                )
    return [each for each in table.names if each not in out]


def _edges(edges: Any, ids: NodeIds, options: TableOptions, table: Frame) -> EdgeList:
    return read_edges(
        edges, ids,
        source=options.source, dest=options.dest, weight=options.weight,
        directed=options.directed, unknown=options.unknown, nodes=table.source,
    )  # fmt: skip


def as_features(x: Any) -> Tensor | CSR:
    """Features as a dataset has them."""
    return CSR.from_scipy(x, dtype=torch.float32) if sp.issparse(x) else torch.from_numpy(x)


def _scale(target: NodeTarget, train: Tensor, table: Frame) -> tuple[float, float]:
    """Mean and deviation of a number over the training nodes."""
    if target.task != "number":
        return 0.0, 1.0
    known = target.y[train]
    if bool((known == known[0]).all()):
        raise DataError(
            f"{table.source}, column {target.columns[0]!r}: all training nodes have {known[0]:g}; there is nothing to "
            "learn. Draw another split with --split-seed."
        )
    scaler = Scaler.fit(target.y[:, None], train, floor=0.0)
    return float(scaler.mean[0]), float(scaler.deviation[0])


def _check_train(target: NodeTarget, train: Tensor, table: Frame) -> None:
    """Refuse training nodes that are all of one class."""
    if target.task == "classes" and bool((target.y[train] == target.y[train][0]).all()):
        only = target.classes[int(target.y[train][0])]
        raise DataError(
            f"{table.source}, column {target.columns[0]!r}: all training nodes are {only!r}; there is nothing to learn."
        )


def table_digest(tables: Sequence[Any], options: Any) -> str:
    """A SHA-256 of tables (of their files, where they are such) and the options that they are read with."""
    found = hashlib.sha256(json.dumps(options, sort_keys=True).encode())
    for value in tables:
        if isinstance(value, str | os.PathLike):
            with open(Path(value), "rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
        else:
            found.update(_digest_in_memory(Frame.of(value, "table")))
    return found.hexdigest()


def _digest_in_memory(table: Frame) -> bytes:
    import pyarrow as pa

    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.columns.schema) as writer:
        writer.write_table(table.columns.combine_chunks())
    return hashlib.sha256(memoryview(stream.getvalue())).digest()


# ----------------------------------------------------------------------------------------------------------- new tables


@dataclass(frozen=True, eq=False)
class NewNodes:
    """Nodes to predict, in the graph that they are predicted in.

    Attributes:
        ids: of the nodes to predict.
        wanted: their numbers in the graph.
        x: features (N, F) of all nodes of the graph.
        edge_index: (2, E).
        edge_weight: (E,), if edges have weights.
        notes: what was done, in sentences.
    """

    ids: NodeIds
    wanted: Tensor
    x: Tensor | CSR
    edge_index: Tensor
    edge_weight: Tensor | None
    notes: tuple[str, ...]


def new_graph(schema: TableSchema, nodes: Any, edges: Any) -> NewNodes:
    """Read new tables with the columns of a schema as a graph of their own."""
    table, ids, x = _new_nodes(schema, nodes)
    found = _new_edges(schema, edges, ids, "error", table.source)
    notes = (f"nodes: {len(ids)} new ones, a graph of their own.", *found.notes)
    return NewNodes(ids, torch.arange(len(ids)), x, torch.from_numpy(found.index), as_tensor(found.weight), notes)


def join_graph(schema: TableSchema, old: NodeDataset, nodes: Any, edges: Any, unknown: str) -> NewNodes:
    """Read new tables as nodes that join the graph `old`, with edges among themselves and to its nodes."""
    table, ids, x = _new_nodes(schema, nodes)
    if old.ids is None:
        raise DataError("the data of the run have no ids that edges could name.")
    places = ids.find(as_column(old.ids))
    if (places >= 0).any():
        row = int(places[places >= 0][0])
        raise DataError(
            f"{table.where(row, ids.name)}: the id {ids.take([row])[0]!r} is a node of the run already. New nodes need "
            "new ids."
        )
    both, size = old.ids.joined(ids), old.num_nodes
    found = _new_edges(schema, edges, both, unknown, f"{table.source} or the nodes of the run")
    # an edge that the run has already counts once: the run's comes first
    index = torch.cat([old.edge_index, torch.from_numpy(found.index)], dim=1)
    weight = None if old.edge_weight is None else torch.cat([old.edge_weight, torch.from_numpy(found.weight)])
    code = (index[0] * len(both) + index[1]).numpy()
    first = torch.from_numpy(np.unique(code, return_index=True)[1])
    notes = (f"nodes: {len(ids)} new ones join the {size} of the run.", *found.notes)
    wanted = torch.arange(size, size + len(ids))
    return NewNodes(ids, wanted, _stacked(old.x, x), index[:, first], None if weight is None else weight[first], notes)


def names_others(schema: TableSchema, nodes: Any, edges: Any) -> bool:
    """Does an edge name a node that is not among the new ones?"""
    table = Frame.of(nodes, "nodes")
    ids = NodeIds.of(table, find_id(table, schema.id if schema.id in table.names else ""))
    columns, batches = batches_of(edges, **_columns(schema, edges))
    return any(bool((ids.find(b.column(end)) < 0).any()) for b in batches for end in (columns.source, columns.dest))


def _new_nodes(schema: TableSchema, nodes: Any) -> tuple[Frame, NodeIds, Tensor | CSR]:
    table = Frame.of(nodes, "nodes")
    if not len(table):
        raise DataError(f"{table.source}: has no rows. Every node needs one.")
    ids = NodeIds.of(table, find_id(table, schema.id if schema.id in table.names else ""))
    return table, ids, as_features(require_encoder(schema).transform(table))


def _stacked(old: Tensor | CSR, new: Tensor | CSR) -> Tensor | CSR:
    """The features of old nodes, then those of new ones, as those of the old are kept."""
    if isinstance(old, Tensor):
        return torch.cat([old, new if isinstance(new, Tensor) else new.to_dense()])
    parts = [x.to_scipy() if isinstance(x, CSR) else sp.csr_array(x.numpy()) for x in (old, new)]
    return CSR.from_scipy(sp.csr_array(sp.vstack(parts)), dtype=torch.float32)


def require_encoder(schema: TableSchema) -> TableEncoder:
    """The encoder of a schema; a run on features that were given as numbers has none."""
    if schema.encoder is None:
        raise DataError("the run was trained on features that were given as numbers: it cannot read tables.")
    return schema.encoder


def _new_edges(schema: TableSchema, edges: Any, ids: NodeIds, unknown: str, nodes: str) -> EdgeList:
    """Read edges as those of the schema were read."""
    named = _columns(schema, edges)
    found = read_edges(edges, ids, **named, directed=schema.directed, unknown=unknown, nodes=nodes)
    if (found.weight is not None) != schema.weighted:
        where = edges if isinstance(edges, str | os.PathLike) else "edges"
        has, had = ("weights", "none") if found.weight is not None else ("no weights", "some")
        raise DataError(f"{where}: has {has}, but the edges that the run was trained on have {had}.")
    return found


def _columns(schema: TableSchema, edges: Any) -> dict[str, str]:
    """The columns of the edges of the schema, if new ones have them; otherwise they are guessed."""
    path = isinstance(edges, str | os.PathLike)
    names = TableFile.open(Path(edges)).names if path else Frame.of(edges, "edges").names
    known = schema.edges
    ends = {"source": known.source, "dest": known.dest} if {known.source, known.dest} <= set(names) else {}
    return ends | ({"weight": known.weight} if known.weight in names else {})
