"""``armagnn predict`` writes a row for every node, ``armagnn show`` says how well a run was trained."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.data import load
from armagnn.data.arrays import pack_arrays
from armagnn.data.data_folder import add
from armagnn.training import NodesConfig, Run, train
from cli.quick_run import CONFIG, QUICK
from data.tables.small_tables import write_people
from data.tiny import multilabel_arrays


def test_predict_writes_every_node(run: CliRunner, finished: Path) -> None:
    result = run.invoke(app, ["predict", str(finished)])
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert list(rows[0]) == ["node", "split", "label", *(f"p_{c}" for c in range(7))]
    assert [int(row["node"]) for row in rows] == list(range(2708))
    data = load("cora")
    splits = {"train": data.train_idx, "val": data.val_idx, "test": data.test_idx}
    for name, ids in splits.items():
        assert [int(row["node"]) for row in rows if row["split"] == name] == ids.tolist()
    for row in rows[::100]:
        p = [float(row[f"p_{c}"]) for c in range(7)]
        assert sum(p) == pytest.approx(1.0, abs=1e-5)
        assert p[int(row["label"])] == max(p)
    hits = sum(int(rows[node]["label"]) == int(data.y[node]) for node in data.test_idx.tolist())
    metrics = json.loads((finished / "metrics.json").read_text())
    best = next(trial for trial in metrics["trials"] if trial["seed"] == metrics["best_seed"])
    assert hits / 1000 == best["test"]["accuracy"]


def test_predict_to_a_file(run: CliRunner, finished: Path, tmp_path: Path) -> None:
    result = run.invoke(app, ["predict", str(finished), "--out", str(tmp_path / "labels.csv")])
    assert result.exit_code == 0
    assert result.stdout == ""
    assert (tmp_path / "labels.csv").read_text() == run.invoke(app, ["predict", str(finished)]).stdout


def test_predict_to_where_nothing_can_be_written(run: CliRunner, finished: Path, tmp_path: Path) -> None:
    result = run.invoke(app, ["predict", str(finished), "--out", str(finished / "config.json" / "labels.csv")])
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def test_show(run: CliRunner, finished: Path) -> None:
    result = run.invoke(app, ["show", str(finished)])
    assert result.exit_code == 0
    for text in ("cora", "lr  0.01", "stop-on  loss", "2 of 2 trials", load("cora").sha256, "83.4 ± 0.6", "paper"):
        assert text in result.stdout


def test_an_unfinished_run(run: CliRunner, interrupted: Path) -> None:
    shown = run.invoke(app, ["show", str(interrupted)])
    assert shown.exit_code == 0
    assert "0 of 2 trials" in shown.stdout
    assert f"armagnn train --out {interrupted} --resume" in shown.stdout
    predicted = run.invoke(app, ["predict", str(interrupted)])
    assert predicted.exit_code == 2
    assert "0 of 2 trials are finished" in predicted.stderr


@pytest.fixture
def many_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three graphs whose nodes have many labels, as PPI's."""
    monkeypatch.setenv("ARMAGNN_DATA", str(tmp_path / "data"))
    path = tmp_path / "many.npz"
    path.write_bytes(pack_arrays(multilabel_arrays()))
    return add(path)[0]


def test_many_labels_per_node(run: CliRunner, many_labels: str, tmp_path: Path) -> None:
    path = str(tmp_path / "run")
    result = run.invoke(app, ["train", "--dataset", many_labels, "--out", path, *QUICK])
    assert result.exit_code == 0, result.output
    metrics = Run.open(path).metrics()
    assert f"{100 * metrics['test']['micro_f1']['mean']:.1f} ±" in result.stdout
    assert "test micro-F1 %" in result.stdout
    assert "paper" not in result.stdout.replace("paper's", "")
    rows = list(csv.DictReader(io.StringIO(run.invoke(app, ["predict", path]).stdout)))
    data = load(many_labels)
    assert len(rows) == data.num_nodes
    assert data.graph is not None
    assert [int(row["graph"]) for row in rows] == data.graph.tolist()
    for row in rows:
        found = [c for c in range(data.num_classes) if float(row[f"p_{c}"]) > 0.5]
        assert row["labels"] == " ".join(map(str, found))
    entries = [[str(c) in row["labels"].split() for c in range(data.num_classes)] for row in rows]
    right = (torch.tensor(entries) == (data.y > 0))[data.test_idx].double().mean().item()
    best = next(trial for trial in metrics["trials"] if trial["seed"] == metrics["best_seed"])
    assert right == pytest.approx(best["test"]["accuracy"])


# ------------------------------------------------------------------------------------------------------- armagnn report


def test_the_command_writes_it(tmp_path: Path) -> None:
    nodes, edges = write_people(tmp_path)
    config = NodesConfig.for_tables(nodes=str(nodes), edges=str(edges), target="label", epochs=4, seeds=1)
    run = train(config, tmp_path / "run")
    done = CliRunner().invoke(app, ["report", str(run.path), "--no-responses"])
    assert done.exit_code == 0, done.output
    written = run.path / "report.html"
    assert 'id="responses"' not in written.read_text(encoding="utf-8")
    assert Run.open(run.path).complete  # the report is no stranger in the folder
    train(config, tmp_path / "run", overwrite=True)
    assert not written.exists()  # it was that of another run
    out = tmp_path / "a" / "b.html"
    assert CliRunner().invoke(app, ["report", str(run.path), "--out", str(out)]).exit_code == 0
    assert 'id="responses"' in out.read_text(encoding="utf-8")


def test_what_is_no_finished_run_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert (done.exit_code, done.stderr.count("Error:")) == (2, 1)
    Run.create(tmp_path / "half", CONFIG, "0" * 64)
    done = CliRunner().invoke(app, ["report", str(tmp_path / "half")])
    assert done.exit_code == 2
    assert "Continue with" in done.stderr
    assert not (tmp_path / "half" / "report.html").exists()
