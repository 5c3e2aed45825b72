"""Sets of graphs from tables: in a folder, in memory, from networkx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import pytest
import torch

from armagnn.data import GraphsDataset
from armagnn.data.tables.graph_tables import read_graph_tables
from armagnn.errors import DataError
from data.tables.small_tables import Columns, write_csv


def rings_and_paths(count: int = 30) -> tuple[Columns, Columns, Columns]:
    """Graphs g0, g1, ... of 3 to 7 nodes; the odd ones are rings. Ids of nodes count within a graph."""
    graphs: Columns = {"graph": [], "label": [], "size": []}
    nodes: Columns = {"graph": [], "id": [], "height": [], "colour": []}
    edges: Columns = {"graph": [], "source": [], "target": []}
    for number in range(count):
        size = 3 + number % 5
        name = f"g{number}"
        for column, value in (("graph", name), ("label", ("path", "ring")[number % 2]), ("size", size + 0.5)):
            graphs[column].append(value)
        for node in range(size):
            row = (name, node, number * 0.1 + node, ("red", "green")[node % 2])
            for column, value in zip(nodes, row, strict=True):
                nodes[column].append(value)
        for node in range(size - 1 + number % 2):
            for column, value in zip(edges, (name, node, (node + 1) % size), strict=True):
                edges[column].append(value)
    return graphs, nodes, edges


def write_folder(folder: Path, *tables: Columns) -> Path:
    folder.mkdir(exist_ok=True)
    names = ("graphs", "nodes", "edges")[-len(tables) :]
    for name, table in zip(names, tables, strict=True):
        write_csv(folder / f"{name}.csv", table)
    return folder


def test_a_folder_and_memory_are_one_set(tmp_path: Path) -> None:
    tables = rings_and_paths()
    memory = GraphsDataset.from_tables(*tables, "label")
    files = read_graph_tables(write_folder(tmp_path, *tables), target="label")
    assert (len(memory), memory.num_nodes, memory.class_names) == (30, 150, ("path", "ring"))
    for name in ("edge_index", "ptr", "y", "node_attr"):
        assert torch.equal(getattr(memory, name), getattr(files, name))
    assert memory.node_attr is not None
    assert memory.node_attr.shape == (150, 3)
    assert memory.ids is not None
    assert list(memory.ids)[:2] == ["g0", "g1"]
    assert files.encoder == memory.encoder


def test_nodes_in_any_order_are_the_same_graphs() -> None:
    graphs, nodes, edges = rings_and_paths()
    order = torch.randperm(150, generator=torch.Generator().manual_seed(0)).tolist()
    shuffled = {name: [values[row] for row in order] for name, values in nodes.items()}
    one = GraphsDataset.from_tables(graphs, nodes, edges, "label")
    other = GraphsDataset.from_tables(graphs, shuffled, edges, "label")
    assert torch.equal(one.ptr, other.ptr)
    assert torch.equal(one.y, other.y)

    def content(data: GraphsDataset) -> list[Any]:
        assert data.node_attr is not None
        ends = [tuple(tuple(data.node_attr[node].tolist()) for node in pair) for pair in data.edge_index.T.tolist()]
        return sorted((int(data.graph[a]), *end) for a, end in zip(data.edge_index[0].tolist(), ends, strict=True))

    assert content(one) == content(other)


def test_several_numbers_are_learnt() -> None:
    graphs, nodes, edges = rings_and_paths()
    data = GraphsDataset.from_tables(
        {**graphs, "double": [2.0 * s for s in graphs["size"]]}, nodes, edges, ["size", "double"]
    )
    assert data.regression
    assert data.targets == ("size", "double")
    assert data.y.shape == (30, 2)


def test_networkx_graphs_become_tables() -> None:
    items = [networkx.cycle_graph(n) if n % 2 else networkx.path_graph(n) for n in range(3, 12)]
    for graph in items:
        networkx.set_node_attributes(graph, {node: {"height": float(node)} for node in graph})
    data = GraphsDataset.from_networkx(items, ["ring" if n % 2 else "path" for n in range(3, 12)])
    assert data.ptr.diff().tolist() == list(range(3, 12))
    assert data.class_names == ("path", "ring")
    assert data.node_attr is not None
    assert data.node_attr[:3].flatten().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("table", "changes", "said"),
    [
        ("nodes", {"graph": ["g99"] * 150}, "nodes.csv, row 2, column 'graph': the graph 'g99' is not in the table"),
        (
            "graphs",
            {"label": [None, *["a", "b"] * 14, "a"]},
            "graphs.csv, row 2, column 'label': the target is missing",
        ),
        ("nodes", {"graph": ["g0"] * 150, "id": list(range(150))}, "graph 'g1' has no node"),
        ("edges", {"source": [77] * 135}, "row 2, column 'source'"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(tmp_path: Path, table: str, changes: dict[str, Any], said: str) -> None:
    tables = dict(zip(("graphs", "nodes", "edges"), rings_and_paths(), strict=True))
    tables[table] = {**tables[table], **changes}
    length = min(len(column) for column in tables[table].values())
    tables[table] = {name: column[:length] for name, column in tables[table].items()}
    write_folder(tmp_path, *tables.values())
    with pytest.raises(DataError, match=said):
        read_graph_tables(tmp_path, target="label")


def test_a_folder_without_tables(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nodes\.csv and edges\.csv"):
        read_graph_tables(tmp_path)
    _, nodes, edges = rings_and_paths()
    write_folder(tmp_path, nodes, edges)
    with pytest.raises(DataError, match=r"no table of graphs: graphs\.csv"):
        read_graph_tables(tmp_path)
    assert len(read_graph_tables(tmp_path, labelled=False)) == 30
