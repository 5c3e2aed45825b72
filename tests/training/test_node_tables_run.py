"""Trainings on tables: from two CSV files to predictions with the person's own ids."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from armagnn.data import NodeDataset
from armagnn.errors import ArmagnnError, RunError
from armagnn.training import NodesConfig, Run, TablePrediction, predict, train
from armagnn.training.checkpoint import to_bytes
from armagnn.training.node_training import read_schema
from data.tables.small_tables import people, write_csv, write_people

QUICK: dict[str, Any] = {"hidden": 8, "epochs": 30, "seeds": 2}


def config(folder: Path, **changes: Any) -> NodesConfig:
    nodes, edges = (str(folder / name) for name in ("nodes.csv", "edges.csv"))
    return NodesConfig.for_tables(**{**QUICK, "nodes": nodes, "edges": edges, "ignore": "income", **changes})


def rows(run: Run, data: Any = None) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(predict(run, data).to_csv())))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("people")
    write_people(folder)
    return train(config(folder, target="label", epochs=150), folder / "run")


def test_the_run_has_metrics_and_baselines(trained: Run) -> None:
    metrics, baselines = trained.metrics(), trained.baselines()
    assert metrics["test"].keys() >= {"accuracy", "macro_f1", "roc_auc"}
    assert baselines.keys() == {"mlp", "label_propagation"}
    assert baselines["mlp"]["test"].keys() == metrics["test"].keys()
    assert baselines["label_propagation"]["test"]["accuracy"]["mean"] > 0.5
    assert Run.open(trained.path).metrics() == metrics


def test_baselines_of_another_form_are_refused(trained: Run, tmp_path: Path) -> None:
    copy = shutil.copytree(trained.path, tmp_path / "copy")
    run = Run.open(copy)
    for content in ({"mlp": 3}, {"mlp": {"val": {}, "test": {"accuracy": {"mean": "x", "std": 0.0}}}}, {"mlp": {}}):
        run._write("baselines.json", to_bytes(content))
        run.manifest.write(copy)
        with pytest.raises(RunError, match="not the results of baselines"):
            Run.open(copy).baselines()


def test_a_description_of_another_form_is_refused(trained: Run, tmp_path: Path) -> None:
    copy = shutil.copytree(trained.path, tmp_path / "copy")
    good = Run.open(copy).description()
    for name, value in (("task", "magic"), ("classes", ["blue"]), ("num_features", 3), ("encoder", {}), ("edges", 1)):
        run = Run.open(copy)
        run._write("tables.json", to_bytes({**good, name: value}))
        run.manifest.write(copy)
        with pytest.raises(RunError, match="not the description of tables"):
            read_schema(Run.open(copy))


def test_predictions_have_the_persons_ids_and_classes(trained: Run) -> None:
    found = rows(Run.open(trained.path))
    assert [row["id"] for row in found] == people()[0]["id"]
    assert {row["label"] for row in found} == {"blue", "red"}
    assert all(abs(float(row["p_blue"]) + float(row["p_red"]) - 1) < 1e-6 for row in found)
    assert {row["split"] for row in found} == {"train", "val", "test"}
    right = [row["label"] == label for row, label in zip(found, people()[0]["label"], strict=True)]
    assert sum(right) > 45


def test_a_new_graph_needs_the_run_folder_alone(trained: Run, tmp_path: Path) -> None:
    nodes, edges = people(seed=5)
    for name in ("label", "income"):
        nodes.pop(name)
    new = write_csv(tmp_path / "new.csv", nodes), write_csv(tmp_path / "new_edges.csv", edges)
    old = trained.path.parent / "nodes.csv"
    hidden = old.rename(tmp_path / "away.csv")
    try:
        found = rows(Run.open(trained.path), new)
    finally:
        hidden.rename(old)
    assert [row["id"] for row in found] == nodes["id"]
    assert "split" not in found[0]
    right = [row["label"] == ("blue", "red")[number % 2] for number, row in enumerate(found)]
    assert sum(right) > 40


def test_the_old_tables_as_a_new_graph_give_the_old_predictions(trained: Run) -> None:
    folder = trained.path.parent
    again = predict(trained, (folder / "nodes.csv", folder / "edges.csv"))
    own = predict(trained)
    assert isinstance(again, TablePrediction)
    assert isinstance(own, TablePrediction)
    assert torch.allclose(again.values, own.values, atol=1e-6)


def test_new_nodes_join_the_old_graph(trained: Run, tmp_path: Path) -> None:
    nodes, _ = people()
    new = {name: [values[1], values[2]] for name, values in nodes.items() if name not in ("label", "income")}
    new["id"] = ["q1", "q2"]
    edges = {"source": ["q1", "q1", "q2"], "target": ["p1", "p3", "q1"]}
    found = rows(trained, (new, edges))
    assert [row["id"] for row in found] == ["q1", "q2"]
    assert "join the 60 of the run" in predict(trained, (new, edges)).notes[0]  # type: ignore[attr-defined]
    again = {**new, "id": ["q1", "p7"]}
    with pytest.raises(ArmagnnError, match="'p7' is a node of the run already"):
        predict(trained, (again, {"source": ["q1"], "target": ["p1"]}))
    with pytest.raises(ArmagnnError, match="row 0, column 'target': the node 'nobody' is not in"):
        predict(trained, (new, {"source": ["q1"], "target": ["nobody"]}))


def test_a_number_is_predicted_in_its_own_units(tmp_path: Path) -> None:
    write_people(tmp_path)
    run = train(config(tmp_path, target="income", ignore="", epochs=100), tmp_path / "run")
    assert run.metrics()["test"].keys() >= {"r2", "mae target", "rmse target"}
    values = [float(row["target"]) for row in rows(run)]
    assert 700 < min(values) < max(values) < 1900
    joined = predict(run, (tmp_path / "nodes.csv", tmp_path / "edges.csv"))
    assert isinstance(joined, TablePrediction)
    assert torch.allclose(joined.values.squeeze(1), torch.tensor(values), rtol=1e-4)


def test_several_labels(tmp_path: Path) -> None:
    labels = [("a|b", "b", "a|c", "")[row % 4] for row in range(60)]
    write_people(tmp_path, label=labels)
    run = train(config(tmp_path, target="label"), tmp_path / "run")
    assert run.metrics()["test"].keys() >= {"micro_f1", "macro_f1", "roc_auc"}
    assert set(rows(run)[0]) == {"id", "split", "labels", "p_a", "p_b", "p_c"}


def test_tables_in_memory_take_six_lines(tmp_path: Path) -> None:
    nodes, edges = people()
    data = NodeDataset.from_tables(nodes, edges, target="label", ignore="income")
    run = train(data, tmp_path / "run", **QUICK)
    assert run.config.title == "ARMA (K=2, T=1) on in memory: tables"
    opened = Run.open(tmp_path / "run")
    assert len(rows(opened, data)) == 60
    assert len(rows(opened, (nodes, edges))) == 60
    with pytest.raises(ArmagnnError, match="data in memory"):
        predict(opened)


def test_balance_counts_rare_classes_alike(tmp_path: Path) -> None:
    write_people(tmp_path, label=["rare" if row % 10 == 0 else "usual" for row in range(60)])
    plain = train(config(tmp_path, target="label", epochs=5), tmp_path / "plain")
    balanced = train(config(tmp_path, target="label", epochs=5, balance=True), tmp_path / "balanced")
    share = [sum(float(row["p_rare"]) for row in rows(run)) for run in (plain, balanced)]
    assert share[1] > share[0]


def test_a_changed_table_is_refused(tmp_path: Path) -> None:
    nodes, _ = write_people(tmp_path)
    run = train(config(tmp_path, target="label", epochs=2), tmp_path / "run")
    nodes.write_text(nodes.read_text().replace("Rome", "Roma"))
    with pytest.raises(RunError, match="another file"):
        predict(run)


@pytest.mark.parametrize("damage", ['"fill": [', '"columns": [', '"task": "', '"outputs'])
def test_a_damaged_description_is_refused(trained: Run, tmp_path: Path, damage: str) -> None:
    run = Run.open(trained.path)
    path = trained.path / "tables.json"
    content = path.read_bytes()
    try:
        path.write_bytes(content.replace(damage.encode(), damage.encode() + b"x") + b" ")
        with pytest.raises(RunError, match="corrupt"):
            Run.open(trained.path)
        with pytest.raises(RunError):
            read_schema(run)
    finally:
        path.write_bytes(content)
