"""From two tables to a dataset: what is recognised, said and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from armagnn.data import NodeDataset
from armagnn.errors import ArmagnnError, DataError
from data.tables.small_tables import people, write_csv, write_people


def read(folder: Path, target: str = "label", **options: Any) -> NodeDataset:
    return NodeDataset.from_tables(folder / "nodes.csv", folder / "edges.csv", target, **options)


def test_tables_in_files_and_in_memory_are_one_dataset(tmp_path: Path) -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyarrow import parquet

    nodes, edges = people()
    write_people(tmp_path)
    parquet.write_table(pa.table(nodes), tmp_path / "nodes.parquet")
    parquet.write_table(pa.table(edges), tmp_path / "edges.parquet")
    forms = [
        (nodes, edges),
        (pd.DataFrame(nodes), pd.DataFrame(edges)),
        (pl.DataFrame(nodes), pl.DataFrame(edges)),
        (pa.table(nodes), pa.table(edges)),
        (tmp_path / "nodes.parquet", tmp_path / "edges.parquet"),
    ]
    first = read(tmp_path, ignore=["income"])
    for form in forms:
        other = NodeDataset.from_tables(*form, "label", ignore=["income"])
        assert torch.equal(first.x, other.x), form[0]
        assert torch.equal(first.edge_index, other.edge_index)
        assert torch.equal(first.y, other.y)
        assert torch.equal(first.train_idx, other.train_idx)
        assert list(first.ids) == list(other.ids)
        assert first.schema == other.schema


def test_what_is_recognised(tmp_path: Path) -> None:
    write_people(tmp_path)
    data = read(tmp_path, ignore=["income"])
    assert (data.num_nodes, data.num_classes, data.class_names) == (60, 2, ("blue", "red"))
    assert data.schema is not None
    assert data.schema.encoder is not None
    kinds = {column.name: column.kind for column in data.schema.encoder.columns}
    assert kinds == {"age": "number", "city": "category", "member": "boolean", "since": "date"}
    said = "\n".join(data.notes)
    for words in ("2 classes: 'blue' (30), 'red' (30)", "36 nodes for training", "undirected", "categories"):
        assert words in said
    number = read(tmp_path, "income")
    assert number.regression
    assert "regression" in number.notes[0]


def test_a_missing_target_is_to_be_predicted(tmp_path: Path) -> None:
    nodes, _ = people()
    write_people(tmp_path, label=[None if row < 10 else label for row, label in enumerate(nodes["label"])])
    data = read(tmp_path)
    assert (data.y[:10] == -1).all()
    assert len(data.train_idx) + len(data.val_idx) + len(data.test_idx) == 50
    assert "10 nodes have no target" in data.notes[0]


@pytest.mark.parametrize("directed", [True, False])
def test_edges_are_those_of_the_ids(tmp_path: Path, directed: bool) -> None:
    nodes, edges = people()
    write_people(tmp_path)
    data = read(tmp_path, directed=directed)
    found = {(nodes["id"][a], nodes["id"][b]) for a, b in data.edge_index.T.tolist()}
    listed = set(zip(edges["source"], edges["target"], strict=True))
    assert found == listed | (set() if directed else {pair[::-1] for pair in listed})
    assert len(found) == data.edge_index.shape[1]


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"label": ["blue"] * 60}, {}, "all 60 nodes that have a target are 'blue'"),
        ({"label": [f"x{n}" for n in range(60)]}, {}, "every node has a target of its own"),
        ({"label": list(range(60))}, {}, "holds every number from 0 to 59 once, as an id does"),
        ({"label": [None] * 60}, {}, "no node has a target"),
        ({"id": ["p1"] * 60}, {}, "nodes.csv, row 3, column 'id': the id 'p1' was there before, in row 2"),
        ({"id": [None, *(f"p{n}" for n in range(1, 60))]}, {}, "row 2, column 'id': the id is missing"),
        ({"age": ["old", *range(59)]}, {}, "row 2, column 'age': 'old' is no number, but 59 of the 60"),
        ({"code": [n % 2 + 7 for n in range(60)]}, {}, "column 'code': says the same as the target 'label'"),
        ({}, {"target": "colour"}, "has no column 'colour'"),
        ({}, {"id": "key"}, "has no column 'key' \\(--id\\)"),
        ({}, {"text": ["label"]}, "it is the id, the target or ignored"),
        ({}, {"val": 30, "test": 30}, "none is left to learn"),
        ({"part": ["train"] * 60}, {"split": "part"}, "no node that has a target is 'test'"),
        ({"part": ["learn"] * 60}, {"split": "part"}, "row 2, column 'part': 'learn' is no part of a split"),
    ],
    ids=str,
)
def test_what_is_wrong_with_nodes_is_named(
    tmp_path: Path, changes: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    write_people(tmp_path, **changes)
    with pytest.raises(ArmagnnError, match=said):
        read(tmp_path, **{"ignore": ["income"], **options})


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ({"source": ["p1", "p99"], "target": ["p2", "p3"]}, "edges.csv, row 3, column 'source': the node 'p99' is not"),
        ({"source": ["p1", None], "target": ["p2", "p3"]}, "row 3, column 'source': the id is missing"),
        ({"p1": ["p1"], "p2": ["p2"], "p3": ["p4"]}, "the file has no header"),
        ({"p1": ["p2"], "p2": ["p3"]}, "edges.csv, row 1: 'p1' and 'p2' are ids of nodes: the file has no header"),
        ({"1": ["2"], "2": ["3"]}, "edges.csv, row 1: has no header"),
        ({"source": ["p1"], "target": ["p2"], "weight": ["heavy"]}, "row 2, column 'weight': the weight 'heavy' is no"),
        ({"source": ["p1"], "target": ["p2"], "weight": [-1]}, "row 2, column 'weight': the weight is -1"),
        ({"source": ["p1"], "target": ["p2"], "weight": [None]}, "row 2, column 'weight': the weight is missing"),
    ],
    ids=str,
)
def test_what_is_wrong_with_edges_is_named(tmp_path: Path, edges: dict[str, Any], said: str) -> None:
    write_people(tmp_path)
    write_csv(tmp_path / "edges.csv", edges)
    with pytest.raises(DataError, match=said):
        read(tmp_path)


def test_edges_to_unknown_nodes_may_be_dropped(tmp_path: Path) -> None:
    write_people(tmp_path)
    write_csv(tmp_path / "edges.csv", {"source": ["p1", "p99", "p4"], "target": ["p2", "p3", "p5"]})
    data = read(tmp_path, unknown="drop")
    assert data.edge_index.tolist() == [[1, 4, 2, 5], [2, 5, 1, 4]]
    assert "1 rows name a node that is not in" in "\n".join(data.notes)


def test_features_are_standardised_on_the_training_nodes(tmp_path: Path) -> None:
    write_people(tmp_path)
    data = read(tmp_path, ignore=["income", "city", "member", "since"])
    age = np.array(people()[0]["age"])
    train = age[data.train_idx.numpy()]
    assert np.allclose(data.x.numpy()[:, 0], (age - train.mean()) / train.std(), atol=1e-5)


def test_another_option_is_another_checksum(tmp_path: Path) -> None:
    write_people(tmp_path)
    digests = {read(tmp_path, seed=seed, directed=directed).sha256 for seed in (0, 1) for directed in (True, False)}
    assert len(digests) == 4
    assert read(tmp_path).sha256 in digests
