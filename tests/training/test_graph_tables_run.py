"""Trainings on graphs in tables: names of classes, ids of graphs, and new graphs encoded as the old ones."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import torch

from armagnn.data import GraphsDataset
from armagnn.training import GraphsConfig, GraphsPrediction, Run, predict, train
from data.tables.test_graph_tables import rings_and_paths, write_folder


def test_graphs_in_tables_are_trained_and_new_ones_predicted(tmp_path: Path) -> None:
    tables = rings_and_paths()
    old = write_folder(tmp_path / "old", *tables)
    config = GraphsConfig(data=str(old), target="label", hidden=8, depth=1, epochs=20, batch=8, lr=0.05, seeds=2)
    run = train(config, tmp_path / "run")
    own = predict(Run.open(run.path))
    assert isinstance(own, GraphsPrediction)
    rows = list(csv.DictReader(io.StringIO(own.to_csv())))
    assert [row["graph"] for row in rows] == tables[0]["graph"]
    assert rows[0].keys() == {"graph", "split", "label", "p_path", "p_ring"}
    new = write_folder(tmp_path / "new", *tables[1:])
    for file in old.iterdir():
        file.unlink()
    again = predict(Run.open(run.path), str(new))
    assert isinstance(again, GraphsPrediction)
    assert torch.allclose(again.values, own.values, atol=1e-6)
    assert again.labels() == own.labels()


def test_graphs_in_memory_are_trained(tmp_path: Path) -> None:
    data = GraphsDataset.from_tables(*rings_and_paths(), "label")
    run = train(data, tmp_path / "run", hidden=4, depth=1, epochs=2, seeds=1)
    assert run.complete
    found = predict(run, data)
    assert isinstance(found, GraphsPrediction)
    assert set(found.labels()) <= {"path", "ring"}
