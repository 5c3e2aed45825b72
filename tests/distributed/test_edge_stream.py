"""Edges come block by block, the same ones from every kind of file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armagnn.distributed import edge_stream
from armagnn.distributed.edge_stream import EdgeStream, array_of
from armagnn.errors import ArmagnnError, DataError, DTypeError, ParameterError, ShapeError

EDGES = np.array([[0, 4, 2, 2, 3], [1, 0, 2, 3, 2]])
WEIGHT = np.array([1.0, 0.5, 2.0, 3.0, 0.25])


def gathered(stream: EdgeStream) -> tuple[Any, Any]:
    blocks = list(stream)
    ends = np.stack([np.concatenate([block[end] for block in blocks]) for end in (0, 1)])
    return ends, np.concatenate([block[2] for block in blocks]) if stream.weighted else None  # type: ignore[misc]


def written(path: Path) -> dict[str, Path]:
    import pyarrow as pa
    from pyarrow import csv, parquet

    table = pa.table({"src": EDGES[0], "dst": EDGES[1], "w": WEIGHT})
    csv.write_csv(table, path / "edges.csv")
    parquet.write_table(table, path / "edges.parquet")
    np.save(path / "edges.npy", EDGES)
    np.save(path / "upright.npy", EDGES.T)
    return {name: path / name for name in ("edges.csv", "edges.parquet", "edges.npy", "upright.npy")}


def test_every_kind_of_file_has_the_same_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_stream, "EDGES_AT_ONCE", 2)
    for name, path in written(tmp_path).items():
        stream = EdgeStream.of_file(path)
        for _ in range(2):  # it can be gone through again
            ends, weight = gathered(stream)
            assert np.array_equal(ends, EDGES), name
        assert stream.weighted == (not name.endswith(".npy"))
        assert weight is None or np.array_equal(weight, WEIGHT)
        assert stream.mark["bytes"] == path.stat().st_size
    assert len(list(EdgeStream.of_file(tmp_path / "edges.npy"))) == 3


@pytest.mark.parametrize(
    ("ends", "weight", "message"),
    [
        ([[0, -1], [1, 1]], None, "edge 2: names node -1"),
        ([[0, 1 << 41], [1, 1]], None, "names node 2199023255552"),
        ([[0, 1], [1, 1]], [1.0, -2.0], "edge 2: the weight is -2"),
        ([[0, 1], [1, 1]], [np.nan, 1.0], "edge 1: the weight is nan"),
    ],
)
def test_edges_that_cannot_be_are_refused(ends: Any, weight: Any, message: str) -> None:
    stream = EdgeStream.of_arrays(np.array(ends), None if weight is None else np.array(weight), "mine")
    with pytest.raises(DataError, match=message):
        list(stream)


def test_files_that_hold_no_edges_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "reals.npy", np.ones((2, 3)))
    np.save(tmp_path / "three.npy", np.ones((3, 4), dtype=int))
    np.savez(tmp_path / "many.npz", a=np.ones(3))
    (tmp_path / "many.npz").rename(tmp_path / "many.npy")
    (tmp_path / "text.npy").write_text("source,target\n0,1\n")
    np.save(tmp_path / "objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    for name in ("reals", "three", "many", "text", "objects", "absent"):
        with pytest.raises(DataError, match=rf"{name}\.npy"):
            EdgeStream.of_file(tmp_path / f"{name}.npy")
    np.save(tmp_path / "fine.npy", EDGES)
    with pytest.raises(DataError, match="no columns to name"):
        EdgeStream.of_file(tmp_path / "fine.npy", source="src", dest="dst")
    assert isinstance(array_of(tmp_path / "fine.npy"), np.memmap)
    with pytest.raises(ParameterError, match="path must be a path"):
        EdgeStream.of_file("a\0b.csv")


@pytest.mark.parametrize(
    ("ends", "weight", "error", "message"),
    [
        (EDGES.astype(float), None, DTypeError, "whole numbers, got float64"),
        (EDGES > 0, None, DTypeError, "whole numbers, got bool"),
        (EDGES.T, None, ShapeError, r"shape \(2, E\), got \(5, 2\)"),
        (EDGES[0], None, ShapeError, r"shape \(2, E\)"),
        (EDGES, WEIGHT[:4], ShapeError, "5 edges need as many weights"),
        (EDGES, WEIGHT.astype(str), DTypeError, "weights must be real numbers"),
    ],
)
def test_arrays_that_hold_no_edges_are_refused(ends: Any, weight: Any, error: type[ArmagnnError], message: str) -> None:
    with pytest.raises(error, match=f"mine: .*{message}"):
        EdgeStream.of_arrays(ends, weight, "mine")


def test_the_mark_of_arrays_is_of_what_they_hold() -> None:
    marks = [
        EdgeStream.of_arrays(ends, weight, "mine").mark
        for ends, weight in ((EDGES, None), (EDGES, WEIGHT), (EDGES, 2 * WEIGHT), (EDGES[::-1], None))
    ]
    assert len({mark["edges"] for mark in marks}) == 4
    assert EdgeStream.of_arrays(EDGES.astype(np.int32), WEIGHT, "mine").mark == marks[1]
