"""New tables with the columns of a run: a graph of their own, or nodes that join the graph of the run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from armagnn.data.arrays import as_tensor
from armagnn.data.tables.edge_tables import EdgeList, batches_of, read_edges
from armagnn.data.tables.encoding import TableEncoder
from armagnn.data.tables.frame import Frame
from armagnn.data.tables.node_ids import NodeIds, as_column
from armagnn.data.tables.node_tables import as_features, find_id
from armagnn.data.tables.table_schema import TableSchema
from armagnn.errors import DataError
from armagnn.operators import CSR
from armagnn.table_files import TableFile

if TYPE_CHECKING:
    from armagnn.data.nodes import NodeDataset


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
