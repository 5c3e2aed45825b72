from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn import GraphOperator, table_files
from armagnn.data.edges import edge_file
from armagnn.errors import DataError, GraphError, ParameterError

pa = pytest.importorskip("pyarrow")


def written(folder: Path, form: str, columns: dict[str, np.ndarray]) -> Path:
    path = folder / f"edges.{form}"
    if form == "parquet":
        from pyarrow import parquet

        parquet.write_table(pa.table(columns), path)
        return path
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    text = ("\n".join(rows) + "\n").encode()
    path.write_bytes(gzip.compress(text) if form == "csv.gz" else text)
    return path


def same(one: GraphOperator, other: GraphOperator) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("rowptr", "col", "value"))


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("kind", ["arma", "gcn", "laplacian", "adjacency"])
def test_the_operator_of_the_edges(tmp_path: Path, form: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of blocks that hold a part of the edges each."""
    monkeypatch.setattr(table_files, "BLOCK", 2**10)
    monkeypatch.setattr(table_files, "ROWS_AT_ONCE", 100)
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 50, (2, 1000))
    weight = rng.uniform(0.5, 2, 1000).round(3)
    path = written(tmp_path, form, {"from": source, "extra": target * 2, "to": target, "w": weight})
    index, numbers = torch.from_numpy(np.stack([source, target])), torch.from_numpy(weight).float()
    read = edge_file(path, kind, source="from", target="to", weight="w", num_nodes=60)  # type: ignore[arg-type]
    assert same(read, GraphOperator.from_edge_index(index, 60, numbers, kind))  # type: ignore[arg-type]
    plain = edge_file(path, kind, source="from", target="to")  # type: ignore[arg-type]
    assert same(plain, GraphOperator.from_edge_index(index, kind=kind))  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_undirected_edges(tmp_path_factory: pytest.TempPathFactory, edges: list[tuple[int, int]]) -> None:
    source, target = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    path = written(tmp_path_factory.mktemp("edges"), "csv", {"source": source, "target": target})
    op = edge_file(path, "adjacency", num_nodes=6, undirected=True)
    dense = np.zeros((6, 6))
    for i, j in edges:
        dense[i, j] += 1
        dense[j, i] += i != j
    assert op.symmetric
    assert np.array_equal(op.to_dense().numpy(), dense)


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("source,target,w\n0,1,1.0\n1,,2.0\n")
    with pytest.raises(DataError, match="edge 2: column 'target' is empty"):
        edge_file(path)
    path.write_text("source,target,w\n0,1,nan\n")
    with pytest.raises(DataError, match="'w'"):
        edge_file(path, weight="w")
    path.write_text("source,target,w\n0,a,1.0\n")
    with pytest.raises(DataError, match="'target'"):
        edge_file(path)
    path.write_text("source,target\n0,5\n-1,2\n")
    with pytest.raises(DataError, match="node -1"):
        edge_file(path)
    path.write_text("source,target\n0,5\n")
    with pytest.raises(DataError, match="node 5"):
        edge_file(path, num_nodes=3)
    with pytest.raises(DataError, match="'w'"):
        edge_file(path, weight="w")
    path.write_text("source,target\n0,999999999\n")
    with pytest.raises(GraphError, match="allow_isolated"):
        edge_file(path)
    with pytest.raises(ParameterError):
        edge_file(path, num_nodes=-1)
