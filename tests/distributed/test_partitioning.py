"""A partition holds the graph, each nonzero once, and goes on where it was interrupted."""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn.data import NodeDataset, load
from armagnn.distributed import edge_stream, partitioning
from armagnn.distributed.edge_stream import EdgeStream
from armagnn.distributed.part_folder import GraphPart
from armagnn.distributed.partitioning import partition, partition_dataset
from armagnn.distributed.rows_of_nodes import PartRows
from armagnn.errors import DataError, ParameterError


def dense(part: GraphPart) -> Any:
    """The adjacency in the old numbers of the nodes."""
    rowptr, col, node = (part.arrays[name] for name in ("rowptr", "col", "node"))
    weight = part.arrays.get("weight", np.ones(col.size))
    found = np.zeros((part.facts.nodes, part.facts.nodes))
    found[node[np.repeat(np.arange(node.size), np.diff(rowptr))], node[col]] = weight
    return found


def truth(ends: Any, weight: Any, nodes: int, directed: bool) -> Any:
    listed = np.zeros((nodes, nodes))
    np.add.at(listed, (ends[1], ends[0]), 1.0 if weight is None else weight)
    if weight is None:
        listed = np.minimum(listed, 1)
    return listed if directed else np.maximum(listed, listed.T)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(1, 4)), max_size=30),
    st.booleans(), st.booleans(), st.integers(1, 5), st.sampled_from(["blocks", "rcm"]),
)  # fmt: skip
def test_parts_are_the_graph(edges: Any, weighted: bool, directed: bool, parts: int, order: str) -> None:
    """With repeated edges, self-loops, isolated nodes, hubs, and parts without nodes."""
    ends = np.array([edge[:2] for edge in edges], dtype=int).reshape(-1, 2).T
    weight = np.array([edge[2] for edge in edges], dtype=float) if weighted else None
    with tempfile.TemporaryDirectory() as folder:
        stream = EdgeStream.of_arrays(ends, weight, "drawn")
        report = partition(stream, folder, parts, order=order, directed=directed, num_nodes=9)
        whole = GraphPart.load(folder, range(parts))
        expected = truth(ends, weight, 9, directed)
        assert np.array_equal(dense(whole), expected)
        assert sum(report.nonzeros) == np.count_nonzero(expected)
        assert whole.facts.symmetric != directed
        for number in range(parts):
            part = GraphPart.load(folder, number)
            first, stop = whole.facts.starts[number : number + 2]
            col = part.arrays["col"]
            outside = np.unique(col[(col < first) | (col >= stop)])
            assert report.halo_rows[number] == outside.size
            assert part.nodes == report.nodes[number] == stop - first
        assert not (Path(folder) / ".work").exists()


def test_nodes_that_no_edge_names() -> None:
    """Without a number of nodes there is one more than the largest id, also if it only sends."""
    for directed in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            stream = EdgeStream.of_arrays(np.array([[0, 6], [2, 3]]), None, "two")
            assert partition(stream, folder, 2, directed=directed).facts.nodes == 7


def test_an_edge_beyond_the_nodes_is_refused(tmp_path: Path) -> None:
    stream = EdgeStream.of_arrays(np.array([[0, 6], [2, 3]]), None, "two")
    with pytest.raises(DataError, match="names node 6, but ids run from 0 to 5"):
        partition(stream, tmp_path / "parts", 2, num_nodes=6)


def test_a_dataset_comes_back(tmp_path: Path) -> None:
    cora = load("cora")
    partition_dataset(cora, tmp_path / "parts", 3, order="rcm")
    part = GraphPart.load(tmp_path / "parts", range(3))
    node = part.arrays["node"]
    assert np.array_equal(dense(part), cora.operator("adjacency").to_dense().numpy())
    assert np.array_equal(part.x.to_dense().numpy(), cora.x.to_dense().numpy()[node])
    assert np.array_equal(part.arrays["y"], cora.y.numpy()[node])
    assert np.array_equal(np.flatnonzero(part.arrays["split"][np.argsort(node)] == 1), cora.val_idx.numpy())
    assert part.facts.rows["features"] == 1433


def test_ids_and_directed_tables(tmp_path: Path) -> None:
    nodes = {"id": list("abcdefgh"), "age": range(8), "label": ["x", "y"] * 4}
    data = NodeDataset.from_tables(nodes, {"source": list("abc"), "target": list("bcd")}, "label", directed=True)
    report = partition_dataset(data, tmp_path / "parts", 2)
    assert not report.facts.symmetric
    part = GraphPart.load(tmp_path / "parts", range(2))
    assert part.arrays["ids"].tolist() == list("abcdefgh")
    assert part.facts.rows["classes"] == ["x", "y"]
    assert np.argwhere(dense(part)).tolist() == [[1, 0], [2, 1], [3, 2]]


STAGES = ("counted.json", "ordered.json", "sorted.json", "part-00000/manifest.json", "manifest.json")


@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupted_partition_goes_on(tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted just before any of its milestones is written, it ends with the same bytes."""
    rows = PartRows.of_dataset(load("cora"))
    index = load("cora").edge_index.numpy()

    def run(folder: Path) -> None:
        partition(EdgeStream.of_arrays(index, None, "cora"), folder, 3, rows=rows, order="rcm")

    def contents(folder: Path) -> dict[str, bytes]:
        return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}

    run(tmp_path / "whole")
    from armagnn.distributed import part_folder

    def stop(path: Path, content: Any) -> None:
        if str(path).endswith(f"broken/{stage}") or str(path).endswith(f"broken/.work/{stage}"):
            raise KeyboardInterrupt
        write(path, content)

    write = partitioning.write_atomic
    for module in (partitioning, part_folder):
        monkeypatch.setattr(module, "write_atomic", stop)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken")
    for module in (partitioning, part_folder):
        monkeypatch.setattr(module, "write_atomic", write)
    run(tmp_path / "broken")
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")
    run(tmp_path / "broken")  # there is nothing to do


def test_folders_of_other_things_are_left_alone(tmp_path: Path) -> None:
    stream = EdgeStream.of_arrays(np.array([[0, 1], [1, 2]]), None, "two")
    partition(stream, tmp_path / "parts", 2)
    with pytest.raises(DataError, match=r"another partition \(parts: 2, not 3\)"):
        partition(stream, tmp_path / "parts", 3)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("dear")
    with pytest.raises(DataError, match=r"'thesis\.txt'.*left alone"):
        partition(stream, mine, 2)
    (mine / "thesis.txt").rename(tmp_path / "file")
    with pytest.raises(DataError, match="is no folder"):
        partition(stream, tmp_path / "file", 2)
    for parts in (0, 5000, 1.5):
        with pytest.raises(ParameterError, match="parts"):
            partition(stream, tmp_path / "new", parts)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


def test_memory_is_that_of_the_nodes_and_of_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """400,000 edges in eight parts take less than a fifth of what they would take as one."""
    monkeypatch.setattr(edge_stream, "EDGES_AT_ONCE", 10_000)
    nodes, count = 1000, 400_000
    np.save(tmp_path / "edges.npy", np.random.default_rng(0).integers(0, nodes, (2, count)))

    def peak(parts: int, number: int) -> int:
        tracemalloc.start()
        try:
            partition(EdgeStream.of_file(tmp_path / "edges.npy"), tmp_path / f"{parts}-{number}", parts)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    one, eight = (min(peak(parts, number) for number in range(3)) for parts in (1, 8))  # others may take some, too
    assert eight < 0.2 * one
    assert eight < 8 * count


def ring(**weights: Any) -> NodeDataset:
    """Eight nodes in a ring, of which each edge may weigh more in one direction."""
    there = [(a, (a + 1) % 8, weights.get("there", 1.0)) for a in range(8)]
    back = [((a + 1) % 8, a, weights.get("back", 1.0)) for a in range(8)]
    source, target, weight = (list(column) for column in zip(*there, *back, strict=True))
    nodes = {"id": range(8), "age": range(8), "label": ["x", "y"] * 4}
    edges = {"source": source, "target": target, "weight": weight}
    return NodeDataset.from_tables(nodes, edges, "label", directed=True)


def test_directions_of_other_weights_are_kept(tmp_path: Path) -> None:
    """All neighbours are there in both directions, and yet the graph is not symmetric."""
    data = ring(there=1.0, back=3.0)
    report = partition_dataset(data, tmp_path / "parts", 3)
    assert not report.facts.symmetric
    found = dense(GraphPart.load(tmp_path / "parts", range(3)))
    assert np.array_equal(found, data.operator("adjacency").to_dense().numpy())
    assert sorted(np.unique(found)) == [0.0, 1.0, 3.0]
    assert partition_dataset(ring(there=2.0, back=2.0), tmp_path / "same", 3).facts.symmetric


def test_a_directed_graph_of_networkx_keeps_its_weights(tmp_path: Path) -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph()
    graph.add_nodes_from((a, {"age": a, "label": "xy"[a % 2]}) for a in range(8))
    for a in range(8):
        graph.add_edge(a, (a + 1) % 8, weight=1.0)
        graph.add_edge((a + 1) % 8, a, weight=3.0)
    data = NodeDataset.from_networkx(graph, "label")
    partition_dataset(data, tmp_path / "parts", 2)
    expected = networkx.to_numpy_array(graph, nodelist=range(8)).T
    assert np.array_equal(dense(GraphPart.load(tmp_path / "parts", range(2))), expected)


def test_other_edges_of_the_same_name_are_another_partition(tmp_path: Path) -> None:
    index, weight = np.array([[0, 1], [1, 2]]), np.ones(2)
    partition(EdgeStream.of_arrays(index, weight, "mine"), tmp_path / "parts", 2)
    partition(EdgeStream.of_arrays(index.copy(), weight.copy(), "mine"), tmp_path / "parts", 2)
    for others in ((index[::-1], weight), (index, 2 * weight)):
        with pytest.raises(DataError, match="another partition"):
            partition(EdgeStream.of_arrays(*others, "mine"), tmp_path / "parts", 2)


def test_two_at_once_do_not_count_edges_twice(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    stream = EdgeStream.of_arrays(np.array([[0, 1], [1, 2]]), np.ones(2), "two")
    refused = []

    def tell(stage: str, done: int, total: int) -> None:
        with pytest.raises(DataError, match="another process is writing a partition there"):
            partition(stream, tmp_path / "parts", 2)
        refused.append(stage)

    partition(stream, tmp_path / "parts", 2, tell=tell)
    assert {"count", "order", "sort", "parts"} <= set(refused)
    assert dense(GraphPart.load(tmp_path / "parts", range(2))).max() == 1.0
    assert sum(partition(stream, tmp_path / "parts", 2).nonzeros) == 4  # the folder is free again
    assert not (tmp_path / "parts" / ".work").exists()


@pytest.mark.parametrize("harm", ["cut", "removed"])
def test_a_bucket_that_lost_edges_is_made_again(tmp_path: Path, harm: str) -> None:
    stream = EdgeStream.of_arrays(np.array([[0, 1, 2, 3], [1, 2, 3, 0]]), np.ones(4), "ring")

    def stop(stage: str, done: int, total: int) -> None:
        if stage == "parts":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        partition(stream, tmp_path / "parts", 2, tell=stop)
    bucket = tmp_path / "parts" / ".work" / "bucket-00001.fore"
    assert (tmp_path / "parts" / ".work" / "sorted.json").is_file()
    if harm == "cut":
        bucket.write_bytes(bucket.read_bytes()[:8])
    else:
        bucket.unlink()
    assert partition(stream, tmp_path / "parts", 2).nonzeros == (4, 4)
    expected = truth(np.array([[0, 1, 2, 3], [1, 2, 3, 0]]), None, 4, directed=False)
    assert np.array_equal(dense(GraphPart.load(tmp_path / "parts", range(2))), expected)


def test_a_stray_id_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far beyond what the edges could name; edges that come later count, too."""
    stray = EdgeStream.of_arrays(np.array([[0, 1], [1, 5 * 10**11]]), None, "mine")
    for directed in (False, True):
        with pytest.raises(DataError, match=r"names node 500000000000, but has 2 edges only.*renumber"):
            partition(stray, tmp_path / f"{directed}", 2, directed=directed)
    with pytest.raises(ParameterError, match="num_nodes"):
        partition(stray, tmp_path / "text", 2, num_nodes="many")  # type: ignore[arg-type]
    monkeypatch.setattr(edge_stream, "EDGES_AT_ONCE", 1)
    monkeypatch.setattr(partitioning, "LONELY", (2, 3))
    late = EdgeStream.of_arrays(np.array([[9, 0, 1], [0, 1, 2]]), None, "late")
    assert partition(late, tmp_path / "late", 2).facts.nodes == 10
    with pytest.raises(DataError, match="names node 11, but has 3"):
        partition(EdgeStream.of_arrays(np.array([[0, 0, 1], [1, 2, 11]]), None, "far"), tmp_path / "far", 2)
    far = EdgeStream.of_arrays(np.array([[0, 0, 1], [1, 2, 11]]), None, "far")
    assert partition(far, tmp_path / "meant", 2, num_nodes=12).facts.nodes == 12
