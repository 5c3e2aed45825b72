"""Regression on nodes: a real target, standardised to learn and in its own units to read, from the file to the CSV."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.data import NodeDataset, read_node_file, statistics
from armagnn.data.arrays import pack_arrays
from armagnn.errors import DataError, ParameterError
from armagnn.tasks import NodeNet, NodeTask
from armagnn.training import NodesConfig, NodesValues, Observer, Run, predict, train

N = 240
QUICK: dict[str, Any] = {
    "hidden": 16, "input_dropout": 0.0, "hidden_dropout": 0.0, "skip_dropout": 0.0, "l2": 0.0, "lr": 0.02,
    "epochs": 150, "seeds": 2,
}  # fmt: skip


def arrays() -> dict[str, np.ndarray[Any, Any]]:
    """Points in the unit square, joined with their neighbours; a smooth signal, in thousands, and noisy features."""
    draw = np.random.default_rng(0)
    places = draw.random((N, 2))
    near = np.linalg.norm(places[:, None] - places[None], axis=2).argsort(axis=1)[:, 1:7]
    edges = np.stack([np.repeat(np.arange(N), 6), near.ravel()])
    signal = np.sin(3 * places[:, 0]) + np.cos(2 * places[:, 1])
    y = (5000 + 1000 * signal).astype(np.float64)
    y[::10] = np.nan
    known = draw.permutation(np.flatnonzero(~np.isnan(y)))
    x = np.concatenate([places, signal[:, None] + 0.3 * draw.standard_normal((N, 1))], axis=1)
    return {
        "x": x.astype(np.float32), "edge_index": edges, "y": y,
        "train_idx": known[:120], "val_idx": known[120:160], "test_idx": known[160:],
    }  # fmt: skip


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.npz"
    path.write_bytes(pack_arrays(arrays()))
    return path


def test_real_numbers_are_recognised_and_said(own: Path) -> None:
    data = read_node_file(own)
    assert data.regression
    assert not data.multilabel
    assert (data.num_outputs, data.num_classes) == (1, 0)
    assert any("regression" in note for note in data.notes)
    assert "targets=1" in repr(data)
    found = statistics(data, paths=False)
    assert found["nodes without a label"] == 24
    known = arrays()["y"][~np.isnan(arrays()["y"])]
    assert found["target, mean ± deviation"] == f"{known.mean():.5g} ± {known.std():.5g}"
    with pytest.raises(ParameterError, match="real targets"):
        data.with_random_split(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a["y"].__setitem__(a["val_idx"][0], np.nan), "val_idx holds nodes without a label"),
        (lambda a: a["y"].__setitem__(a["val_idx"][0], np.inf), "infinite targets"),
        (lambda a: a["y"].fill(7.0), "all nodes have the target 7"),
        (lambda a: a.update(y=a["y"][:-1]), "N"),
        (lambda a: a.update(y=a["y"][:, None]), "one target a node"),
        (lambda a: a.update(y=a["y"] * 1e-3 + 1e9), "float32 rounds"),
    ],
)
def test_targets_that_nothing_can_be_learnt_from(change: Any, message: str, tmp_path: Path) -> None:
    content = arrays()
    change(content)
    path = tmp_path / "bad.npz"
    path.write_bytes(pack_arrays(content))
    with pytest.raises(DataError, match=message):
        read_node_file(path)


def test_loss_and_metrics_against_a_dense_truth(own: Path) -> None:
    data = read_node_file(own)
    net = NodeNet("arma", data.num_features, data.num_outputs)
    task = NodeTask(data, net.eval())
    with torch.no_grad():
        outputs = net(data.x, net.conv1.operator(data.edge_index, N)).squeeze(-1).double().numpy()
    y = arrays()["y"]
    train = y[data.train_idx]
    scaled, values = (y - train.mean()) / train.std(), outputs * train.std() + train.mean()
    with torch.no_grad():
        loss = task.loss(net, task.batch())
        found = {name: value.item() for name, value in task.metrics(net, "test").items()}
    ids = data.train_idx
    assert loss.item() == pytest.approx(np.square(outputs[ids] - scaled[ids]).mean(), rel=1e-5)
    ids = data.test_idx
    mse = np.square(outputs[ids] - scaled[ids]).mean()
    assert found == pytest.approx(
        {
            "loss": mse, "mse": mse, "r2": r2_score(y[ids], values[ids]),
            "mae target": mean_absolute_error(y[ids], values[ids]),
            "rmse target": root_mean_squared_error(y[ids], values[ids]),
        },
        rel=1e-5,
    )  # fmt: skip


def test_r2_of_targets_that_are_all_the_same_is_a_number(own: Path) -> None:
    data = read_node_file(own)
    data.y[data.test_idx] = 1.0
    net = NodeNet("gcn", data.num_features, 1).eval()
    assert NodeTask(data, net).metrics(net, "test")["r2"].item() == 0.0


@pytest.mark.parametrize("conv", ["arma", "gcn", "mlp"])
def test_a_smooth_signal_is_learnt_and_predicted_in_its_own_units(conv: str, own: Path, tmp_path: Path) -> None:
    run = train(NodesConfig(dataset=str(own), conv=conv, **QUICK), tmp_path / "run")
    metrics = run.metrics()
    if conv == "arma":
        assert metrics["test"]["r2"]["mean"] > 0.9
    assert set(metrics["test"]) == {"loss", "mse", "r2", "mae target", "rmse target"}
    found = predict(Run.open(tmp_path / "run"))
    assert isinstance(found, NodesValues)
    y, data = arrays()["y"], read_node_file(own)
    best = next(trial for trial in metrics["trials"] if trial["seed"] == metrics["best_seed"])
    assert mean_absolute_error(y[data.test_idx], found.values[data.test_idx]) == pytest.approx(
        best["test"]["mae target"], rel=1e-4
    )
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert list(rows[0]) == ["node", "split", "target"]
    assert [float(row["target"]) for row in rows] == pytest.approx(found.values.tolist(), rel=1e-6)
    assert rows[0]["split"] == ""  # it has no target, and gets one


def test_the_same_through_the_command_line(own: Path, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out.csv"
    flags = ["--epochs", "30", "--seeds", "2", "--dropout", "0", "--skip-dropout", "0"]
    done = CliRunner().invoke(app, ["train", "--dataset", str(own), "--out", str(run), *flags])
    assert done.exit_code == 0, done.output
    assert "this is a regression" in done.output
    for text in (
        "test R²",
        "target: mean absolute error on test nodes",
        "target: root mean squared error on test nodes",
    ):
        assert text in done.output
    shown = CliRunner().invoke(app, ["show", str(run)])
    assert "own units" in shown.output
    assert CliRunner().invoke(app, ["predict", str(run), "--out", str(out)]).exit_code == 0
    assert len(out.read_text().splitlines()) == 1 + N


def test_accuracy_is_no_rule_for_real_targets(own: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="real targets have no accuracy; use 'loss'"):
        train(NodesConfig(dataset=str(own), stop_on="accuracy", **QUICK), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_interrupted_run_goes_on_to_the_same_bits(own: Path, tmp_path: Path) -> None:
    class Stop(Observer):
        def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
            assert math.isnan(val_accuracy)
            raise KeyboardInterrupt

    config = NodesConfig(dataset=str(own), **{**QUICK, "epochs": 20})
    whole = train(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "cut", observer=Stop())
    cut = train(config, tmp_path / "cut", resume=True)
    assert cut.metrics() == whole.metrics()
    assert all(torch.equal(cut.weights()[name], value) for name, value in whole.weights().items())


def test_several_graphs_with_real_targets(own: Path) -> None:
    """Each split sees its own graphs; the targets keep the scaling of the training nodes."""
    count = torch.arange(9)
    edges = torch.stack([count, 3 * (count // 3) + (count + 1) % 3])
    data = NodeDataset(
        "three", torch.rand(9, 2), torch.cat([edges, edges.flip(0)], 1), torch.arange(9.0), count[:3], count[3:6],
        count[6:], num_classes=0, sha256="three", graph=count // 3,
    )  # fmt: skip
    net = NodeNet("gcn", 2, 1).eval()
    task = NodeTask(data, net)
    deviation = math.sqrt(2 / 3)
    expected = (torch.arange(6.0, 9.0) - 1) / deviation
    torch.testing.assert_close(task.parts["test"].y.squeeze(1), expected)
