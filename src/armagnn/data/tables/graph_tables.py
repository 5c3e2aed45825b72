"""Tables of graphs, of their nodes and of their edges as a set of graphs: a folder of three files, or in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from armagnn.data.arrays import Arrays
from armagnn.data.graph_files import graphs_of
from armagnn.data.graphs import GraphsDataset
from armagnn.data.tables.edge_tables import read_edges
from armagnn.data.tables.encoding import TableEncoder
from armagnn.data.tables.frame import ID_NAMES, Frame, NodeIds
from armagnn.data.tables.node_tables import names_of, table_digest
from armagnn.data.tables.node_targets import NodeTarget, guess_target, target_of
from armagnn.errors import DataError
from armagnn.table_files import arrow, columns_of

GRAPH_NAMES: Final = ("graph", "graph_id", "graphid", "graph_index")
"""Usual names of the column that says which graph a node, or an edge, belongs to."""

ENDINGS: Final = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
BOTH: Final = "\x1f"
"""Stands between the id of a graph and that of a node within it."""


@dataclass(frozen=True)
class GraphFolder:
    """A folder with ``nodes``, ``edges`` and, of graphs to learn from, ``graphs``: CSV or Parquet.

    Attributes:
        nodes: the table of nodes.
        edges: the table of edges.
        graphs: the table of graphs, or None.
    """

    nodes: Path
    edges: Path
    graphs: Path | None

    @classmethod
    def find(cls, folder: str | Path) -> GraphFolder | None:
        """The tables in a folder, if it has those of nodes and edges."""
        found = {}
        for name in ("nodes", "edges", "graphs"):
            files = (Path(folder, name + ending) for ending in ENDINGS)
            found[name] = next((file for file in files if file.is_file()), None)
        if found["nodes"] is None or found["edges"] is None:
            return None
        return cls(found["nodes"], found["edges"], found["graphs"])


def graphs_dataset(
    graphs: Any,
    nodes: Any,
    edges: Any,
    *,
    target: str | Sequence[str] = (),
    task: str = "auto",
    ignore: Sequence[str] = (),
    encoder: TableEncoder | None = None,
    labelled: bool = True,
    name: str = "graphs",
) -> GraphsDataset:
    """Make a set of graphs of tables; `GraphsDataset.from_tables` says what they may be.

    Args:
        graphs: a row for each graph; None of new graphs, which are then those that the nodes name.
        nodes: a row for each node, with the id of its graph.
        edges: a row for each edge, with that of the graph where ids of nodes are unique within a graph only.
        target: the column to learn; several columns are several numbers.
        task: "auto", "classes" or "number".
        ignore: columns of nodes that are no features.
        encoder: of the columns of nodes, for new graphs; fitted if there is none.
        labelled: have the graphs targets?
        name: of the dataset.
    """
    node_frame = Frame.of(nodes, "nodes")
    of_graph = _named(node_frame, GRAPH_NAMES, "graph of a node")
    assert of_graph is not None
    graph_ids, frame = _graph_ids(graphs, node_frame, of_graph, labelled)
    owner = _owners(node_frame, of_graph, graph_ids)
    order = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner, minlength=len(graph_ids))
    if (sizes == 0).any():
        raise DataError(f"{node_frame.source}: graph {graph_ids.take([int((sizes == 0).argmax())])[0]!r} has no node.")
    index, weight, notes, id_column = _edges(edges, node_frame, of_graph, owner, order)
    arrays: Arrays = {"edge_index": index, "ptr": np.concatenate([[0], np.cumsum(sizes)])}
    if weight is not None:
        arrays["edge_weight"] = weight
    columns = [each for each in node_frame.names if each not in {of_graph, id_column, *names_of("ignore", ignore)}]
    if encoder is None:
        encoder = TableEncoder.fit(node_frame, columns, np.arange(len(node_frame)), scaling="none")
    if encoder.columns:
        found: Any = encoder.transform(node_frame)
        arrays["node_attr"] = (found.toarray() if sp.issparse(found) else found)[order]
    classes: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    if labelled:
        assert frame is not None
        y, learnt = _targets(frame, names_of("target", target) or (guess_target(frame),), task)
        arrays["y"] = y
        classes, targets = learnt.classes, () if learnt.classes else learnt.columns
        notes = (*learnt.notes, *notes)
    made = graphs_of(arrays, name=name, source=name, sha256="", labelled=labelled)
    encoding = tuple(note.replace("the training nodes", "all nodes") for note in encoder.notes if encoder.columns)
    return replace(
        made,
        sha256=table_digest(
            [each for each in (graphs, nodes, edges) if each is not None], [target, task, list(ignore)]
        ),
        targets=targets,
        class_names=classes,
        encoder=encoder if encoder.columns else None,
        ids=graph_ids,
        notes=(*notes, *encoding),
    )


def read_graph_tables(
    folder: str | Path, *, target: str = "", encoder: TableEncoder | None = None, labelled: bool = True
) -> GraphsDataset:
    """Read a folder of tables: ``nodes.csv``, ``edges.csv`` and, of graphs to learn from, ``graphs.csv``."""
    files = GraphFolder.find(folder)
    if files is None:
        raise DataError(f"{folder}: has no tables of nodes and edges: nodes.csv and edges.csv, or .parquet.")
    if labelled and files.graphs is None:
        raise DataError(f"{folder}: has no table of graphs: graphs.csv, with the id of each graph and its target.")
    return graphs_dataset(
        files.graphs if labelled else None, files.nodes, files.edges,
        target=target, encoder=encoder, labelled=labelled, name=str(folder),
    )  # fmt: skip


def _named(frame: Frame, names: Sequence[str], what: str, required: bool = True) -> str | None:
    lower = {each.lower(): each for each in reversed(frame.names)}
    found = next((lower[each] for each in names if each in lower), None)
    if found is None and required:
        usual = ", ".join(names[:3])
        raise DataError(
            f"{frame.source}: which column is the {what}? Call it one of {usual}. {columns_of(frame.names)}"
        )
    return found


def _graph_ids(graphs: Any, nodes: Frame, of_graph: str, labelled: bool) -> tuple[NodeIds, Frame | None]:
    """The ids of the graphs, and the table of the graphs if there is one."""
    if graphs is None:
        if labelled:
            raise DataError("graphs is missing: a table with the id of each graph and its target.")
        unique = Frame.of({of_graph: nodes.column(of_graph).drop_null().unique()}, "nodes")
        return NodeIds.of(unique, of_graph), None
    frame = Frame.of(graphs, "graphs")
    column = _named(frame, (*GRAPH_NAMES, *ID_NAMES), "id of a graph")
    assert column is not None
    return NodeIds.of(frame, column), frame


def _owners(nodes: Frame, of_graph: str, graph_ids: NodeIds) -> NDArray[np.int64]:
    """The graph of each node, by its number."""
    column = nodes.column(of_graph)
    owner = graph_ids.find(column)
    if (owner < 0).any():
        row = int((owner < 0).argmax())
        value = column[row].as_py()
        why = "the graph is missing" if value is None else f"the graph {value!r} is not in the table of graphs"
        raise DataError(f"{nodes.where(row, of_graph)}: {why}. Every node belongs to one.")
    return owner


def _edges(
    edges: Any, nodes: Frame, of_graph: str, owner: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float32] | None, tuple[str, ...], str]:
    """The edges of all graphs, whose nodes are counted graph by graph; weights; notes; the column of ids of nodes."""
    import pyarrow.compute as pc

    pa = arrow()
    frame = Frame.of(edges, "edges")
    id_column = _named(nodes, ID_NAMES, "id of a node")
    assert id_column is not None
    edge_graph = _named(frame, GRAPH_NAMES, "graph of an edge", required=False)
    if edge_graph is None:
        ids = NodeIds.of(nodes, id_column)
        found = read_edges(frame, ids, nodes=nodes.source)
    else:  # ids are those of nodes within their graph
        joined = pc.binary_join_element_wise(*(nodes.column(n).cast(pa.string()) for n in (of_graph, id_column)), BOTH)
        ids = NodeIds.of(replace(nodes, columns=pa.table({id_column: joined})), id_column)
        from armagnn.data.tables.edge_tables import EdgeColumns

        known = EdgeColumns.guess(frame.source, tuple(name for name in frame.names if name != edge_graph))
        table = frame.columns
        for end in (known.source, known.dest):
            both = pc.binary_join_element_wise(
                frame.column(edge_graph).cast(pa.string()), frame.column(end).cast(pa.string()), BOTH
            )
            table = table.set_column(table.column_names.index(end), end, both)
        plain = replace(frame, columns=table)
        found = read_edges(plain, ids, source=known.source, dest=known.dest, weight=known.weight, nodes=nodes.source)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    across = owner[found.index[0]] != owner[found.index[1]]
    if across.any():
        pair = found.index[:, int(across.argmax())]
        one, other = ids.take(pair.tolist())
        raise DataError(f"{frame.source}: an edge joins {one!r} and {other!r}, which are nodes of different graphs.")
    return number[found.index], found.weight, found.notes, id_column


def _targets(frame: Frame, columns: Sequence[str], task: str) -> tuple[NDArray[Any], NodeTarget]:
    """The classes (G,), or the numbers (G, T), of the graphs."""
    if len(columns) == 1:
        found = target_of(frame, columns, task)
        if found.task == "labels":
            raise DataError(f"{frame.source}, column {columns[0]!r}: holds several labels; graphs have one class each.")
        several = [found]
    else:
        several = [target_of(frame, [column], "number") for column in columns]
    for each in several:
        if not each.known.all():
            row = int((~each.known).argmax())
            raise DataError(
                f"{frame.where(row, each.columns[0])}: the target is missing. Take the graph out, and predict it later "
                "as a new one."
            )
    first = several[0]
    if first.classes:
        return first.y.numpy(), first
    numbers = np.stack([each.y.numpy() for each in several], axis=1)
    return numbers, replace(first, columns=tuple(columns), notes=tuple(n for each in several for n in each.notes))
