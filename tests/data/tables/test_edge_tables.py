"""Edges by ids: what a dictionary would make of them, in whatever batches they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn import table_files
from armagnn.data.tables.edge_tables import EdgeColumns, read_edges
from armagnn.data.tables.frame import Frame, NodeIds
from armagnn.errors import DataError
from data.tables.small_tables import write_csv

IDS = st.sampled_from(
    [["a", "b", "c", "d"], [3, 1, 2, 0], [10**6, 5, -7, 2**62], ["01", "1", "001", "x"], [10**30, 10**30 + 1, 1, 2]]
)


@settings(max_examples=80, deadline=None)
@given(ids=IDS, pairs=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12), directed=st.booleans())
def test_edges_are_those_that_are_listed(ids: list[Any], pairs: list[tuple[int, int]], directed: bool) -> None:
    texts = any(not isinstance(each, int) or abs(each) >= 2**63 for each in ids)
    named = [str(each) if texts else each for each in ids]
    nodes = NodeIds.of(Frame.of({"id": named}, "nodes"), "id")
    assert [str(each) for each in nodes] == [str(each) for each in ids]
    columns = {"source": [named[a] for a, _ in pairs], "target": [named[b] for _, b in pairs]}
    found = read_edges(columns, nodes, directed=directed)
    edges = list(zip(*found.index.tolist(), strict=True))
    assert len(set(edges)) == len(edges)
    assert set(edges) == set(pairs) | (set() if directed else {(b, a) for a, b in pairs})


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=12),
    directed=st.booleans(),
)
def test_weights_are_added_up_and_the_larger_direction_counts(rows: list[tuple[int, int, int]], directed: bool) -> None:
    nodes = NodeIds.counted(4)
    columns = {"source": [a for a, _, _ in rows], "target": [b for _, b, _ in rows], "weight": [w for *_, w in rows]}
    found = read_edges(columns, nodes, directed=directed)
    sums = np.zeros((4, 4))
    for a, b, weight in rows:
        sums[a, b] += weight
    expected = sums if directed else np.maximum(sums, sums.T)
    dense = np.zeros((4, 4))
    assert found.weight is not None
    dense[found.index[0], found.index[1]] = found.weight
    assert np.array_equal(dense, expected)


@pytest.mark.parametrize("texts", [True, False])
def test_batches_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: bool) -> None:
    draw = np.random.default_rng(0).integers(0, 300, (2, 3000))
    names = [f"n{n}" if texts else n for n in range(300)]
    nodes = NodeIds.of(Frame.of({"id": names}, "nodes"), "id")
    columns = {"from": [names[n] for n in draw[0]], "to": [names[n] for n in draw[1]]}
    path = write_csv(tmp_path / "edges.csv", columns)
    whole = read_edges(path, nodes)
    monkeypatch.setattr(table_files, "BLOCK", 2000)
    assert np.array_equal(read_edges(path, nodes).index, whole.index)
    assert np.array_equal(read_edges(columns, nodes).index, whole.index)
    path.write_text(path.read_text() + "n7,nobody\n" if texts else path.read_text() + "7,999\n")
    with pytest.raises(DataError, match="row 3002, column 'to'"):
        read_edges(path, nodes)


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (("Source", "Target"), ("Source", "Target", "")),
        (("weight", "dst", "src"), ("src", "dst", "weight")),
        (("p", "q"), ("p", "q", "")),
        (("from", "to", "w"), ("from", "to", "w")),
    ],
)
def test_usual_names_are_known(names: tuple[str, ...], columns: tuple[str, ...]) -> None:
    assert EdgeColumns.guess("edges", names) == EdgeColumns(*columns)


def test_names_that_are_not_there_are_refused() -> None:
    for named, said in (({"source": "x"}, "no column 'x'"), ({"source": "a"}, "both ends"), ({}, "which columns")):
        with pytest.raises(DataError, match=said):
            EdgeColumns.guess("edges", ("a", "c", "d"), **named)
