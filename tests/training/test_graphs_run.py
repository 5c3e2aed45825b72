"""Runs on a user's own graphs: trained, evaluated, interrupted, resumed, and asked about new graphs."""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from armagnn.data import GraphsDataset, folds, load_graphs, read_tu_folder
from armagnn.data.arrays import pack_arrays
from armagnn.errors import DataError, ParameterError, RunError
from armagnn.training import GraphsConfig, Run, predict, train
from armagnn.training import run_folder as run_module
from armagnn.training.outcome import draw_curves
from armagnn_paper.tables import METHODS
from own_graphs import folder_of, quick, rings_and_paths, unlabelled
from training.hostile import change

KINDS = ("classes", "numbers")
pytestmark = pytest.mark.usefixtures("quick_curves")


# ----------------------------------------------------------------------------------------------------- what is trained


def test_weights_of_edges_are_learnt_from_and_predict_alike(tmp_path: Path) -> None:
    """Rings of four nodes that only the weights of their edges tell apart."""
    edges, ptr = np.array([[0, 1, 2, 3], [1, 2, 3, 0]]), np.arange(31) * 4
    y = np.arange(30) % 2
    every = {
        "edge_index": (edges[:, None] + ptr[:-1, None]).reshape(2, -1),
        "ptr": ptr,
        "edge_weight": np.where(y[:, None] == 1, [1.0, 9.0, 1.0, 9.0], [1.0, 1.0, 1.0, 1.0]).reshape(-1),
        "node_labels": np.tile([0, 0, 1, 1], 30),
    }
    (tmp_path / "weighted.npz").write_bytes(pack_arrays({**every, "y": y}))
    (tmp_path / "new.npz").write_bytes(pack_arrays(every))
    run = train(quick(tmp_path / "weighted.npz", epochs=60, depth=2), tmp_path / "run")
    assert run.metrics()["test"]["accuracy"]["mean"] == 1.0
    assert predict(run, tmp_path / "new.npz").labels() == y.tolist()
    (tmp_path / "plain.npz").write_bytes(pack_arrays({n: a for n, a in every.items() if n != "edge_weight"}))
    with pytest.raises(DataError, match=r"has no edge weights, but .* has some"):
        predict(run, tmp_path / "plain.npz")
    with pytest.raises(ParameterError, match="gin knows no edge weights"):
        train(quick(tmp_path / "weighted.npz", conv="gin"), tmp_path / "gin")


@pytest.mark.parametrize("kind", KINDS)
def test_the_folder(graph_runs: dict[str, Path], graph_folders: dict[str, Path], kind: str) -> None:
    path = graph_runs[kind]
    assert {file.name for file in path.iterdir()} == {
        "config.json", "curve.png", "graphs.json", "manifest.json", "metrics.json", "trials", "weights.safetensors",
    }  # fmt: skip
    content = json.loads((path / "config.json").read_text())
    assert content["kind"] == "graphs"
    assert content["dataset_sha256"] == read_tu_folder(graph_folders[kind]).sha256
    run = Run.open(path)
    assert run.config == quick(graph_folders[kind], skip_dropout=0.3, pooling="padded")
    assert run.resume_command == f"armagnn train graphs --out {path} --resume"
    metrics = run.metrics()
    names = {"loss", "accuracy"} if kind == "classes" else {"loss", "mse", "mae target 0", "mae target 1"}
    assert metrics["test"].keys() == metrics["val"].keys() == names
    histories = [trial.history.keys() for trial in run.trials()]
    assert all(
        history == {"train_loss", "val_loss"} | {"val_accuracy"} & {f"val_{n}" for n in names} for history in histories
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_reported_is_what_is_predicted(
    graph_runs: dict[str, Path], graph_folders: dict[str, Path], kind: str
) -> None:
    run, graphs = Run.open(graph_runs[kind]), read_tu_folder(graph_folders[kind])
    found = predict(run)
    assert found.split is not None
    metrics = run.metrics()
    best = next(trial for trial in metrics["trials"] if trial["seed"] == metrics["best_seed"])
    for split in ("val", "test"):
        ids = [graph for graph, name in enumerate(found.split) if name == split]
        assert ids == getattr(folds(graphs)[0], split).tolist()
        if kind == "classes":
            labels = [found.labels()[graph] for graph in ids]
            right = [label == (-1, 5)[int(graphs.y[graph])] for label, graph in zip(labels, ids, strict=True)]
            assert sum(right) / len(ids) == best[split]["accuracy"]
        else:
            errors = (found.values - graphs.y)[ids]
            for target in range(2):
                assert errors[:, target].abs().mean().item() == pytest.approx(best[split][f"mae target {target}"], 1e-4)
            train_y = graphs.y[folds(graphs)[0].train]
            mse = (errors / train_y.std(0, correction=0)).square().mean().item()
            assert mse == pytest.approx(best[split]["mse"], 1e-4)
            assert best[split]["loss"] == best[split]["mse"]
    best_val = min(trial["val"]["loss"] for trial in metrics["trials"])
    assert best["val"]["loss"] == best_val


@pytest.mark.parametrize("conv", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_method(graph_folders: dict[str, Path], tmp_path: Path, conv: str, kind: str) -> None:
    run = train(quick(graph_folders[kind], conv=conv, epochs=1, seeds=1, depth=2, head=3), tmp_path / "run")
    found = predict(run, graph_folders[kind])
    assert found.values.shape == (30, 2)
    assert bool(found.values.isfinite().all())


def test_rings_are_told_from_paths(graph_folders: dict[str, Path], tmp_path: Path) -> None:
    run = train(quick(graph_folders["classes"], epochs=60, seeds=1, hidden=8, skip_dropout=0.0), tmp_path / "run")
    assert run.metrics()["test"]["accuracy"]["mean"] == 1.0


def test_nodes_and_edges_are_counted_where_the_size_shows(graph_folders: dict[str, Path], tmp_path: Path) -> None:
    options = {"epochs": 40, "hidden": 16, "lr": 0.01, "skip_dropout": 0.0, "layers": 1, "pooling": "padded"}
    tested = train(quick(graph_folders["numbers"], **options), tmp_path / "run").metrics()["test"]
    assert tested["mse"]["mean"] < 0.3  # a guess of the mean has about 1
    assert tested["mae target 0"]["mean"] < 0.8  # nodes, of 3 to 7
    assert tested["mae target 1"]["mean"] < 600  # thousands of edges, 2 to 7


def test_the_folds_of_the_package_are_those_of_seed_0() -> None:
    mutag = load_graphs("mutag")
    for number in (0, 7):
        ours, theirs = GraphsConfig(fold=number).experiment(mutag).fold(), folds(mutag)[number]
        assert all(torch.equal(getattr(ours, part), getattr(theirs, part)) for part in ("train", "val", "test"))
    other = GraphsConfig(split_seed=1).experiment(mutag).fold()
    assert not torch.equal(other.test, folds(mutag)[0].test)


# ---------------------------------------------------------------------------------------------------------- new graphs


@pytest.mark.parametrize("kind", KINDS)
def test_new_graphs_are_predicted_as_when_they_were_in_the_training_folder(
    graph_runs: dict[str, Path], graph_folders: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    own = predict(Run.open(graph_runs[kind]))
    few = [17, 4, 4, 29]
    folder = unlabelled(rings_and_paths().select(few), tmp_path / "new")
    found = predict(Run.open(graph_runs[kind]), folder)
    torch.testing.assert_close(found.values, own.values[few], rtol=1e-5, atol=1e-5)
    assert found.labels() == ([own.labels()[graph] for graph in few] if kind == "classes" else [])
    assert found.split is None


def test_the_training_data_are_not_needed_for_new_graphs(
    graph_copy: Path, graph_folders: dict[str, Path], tmp_path: Path
) -> None:
    moved = tmp_path / "gone"
    change(graph_copy, "config.json", lambda content: content["config"].update(data=str(moved)))
    new = unlabelled(rings_and_paths(3), tmp_path / "new")
    assert len(predict(Run.open(graph_copy), new).labels()) == 3
    with pytest.raises(DataError, match="gone: is not a folder"):
        predict(Run.open(graph_copy))
    shutil.copytree(graph_folders["classes"], moved)
    (moved / "DS_node_labels.txt").write_text("0\n" * int(rings_and_paths().num_nodes))
    with pytest.raises(RunError, match=r"trained on another file of dataset .*gone'"):
        predict(Run.open(graph_copy))


def test_graphs_larger_than_all_of_training_and_without_edges(graph_runs: dict[str, Path], tmp_path: Path) -> None:
    rings = rings_and_paths(4)
    one = replace(
        rings,
        edge_index=rings.edge_index[:, :0],
        ptr=torch.tensor([0, rings.num_nodes]),
        y=rings.y[:1],
    )
    found = predict(Run.open(graph_runs["classes"]), unlabelled(one, tmp_path / "new"))
    torch.testing.assert_close(found.values.sum(), torch.tensor(1.0))


def test_many_graphs_are_predicted_a_part_at_a_time(
    graph_runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run.open(graph_runs["numbers"])
    whole = predict(run).values
    monkeypatch.setattr(sys.modules["armagnn.training.graph_training"], "CHUNK", 20)  # the module, not the function
    torch.testing.assert_close(predict(run).values, whole)


def test_new_graphs_of_another_kind(graph_runs: dict[str, Path], tmp_path: Path) -> None:
    run = Run.open(graph_runs["classes"])
    few = rings_and_paths(3)
    assert few.node_labels is not None
    cases: list[tuple[GraphsDataset, str]] = [
        (replace(few, node_labels=few.node_labels + 1), "label 1; the labels that the run was trained on are 0, 2, 7"),
        (replace(few, node_attr=None), "has 0 node attributes"),
        (replace(few, node_labels=None), "has no node labels"),
    ]
    for number, (graphs, said) in enumerate(cases):
        with pytest.raises(DataError, match=said):
            predict(run, unlabelled(graphs, tmp_path / str(number)))
    folder = unlabelled(few, tmp_path / "empty")
    (folder / "DS_graph_indicator.txt").write_text("3\n" * few.num_nodes)
    with pytest.raises(DataError, match="graph 1 has no node"):
        predict(run, folder)
    with pytest.raises(DataError, match="is not a folder"):
        predict(run, tmp_path / "nowhere")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_said_of_graphs_that_overflow(graph_runs: dict[str, Path], tmp_path: Path, kind: str) -> None:
    rings = rings_and_paths(4)
    assert rings.node_attr is not None
    far = rings.node_attr.clone()
    far[int(rings.ptr[2])] = torch.tensor([3e38, -3e38])
    for name, attributes in (("fine", rings.node_attr), ("far", far)):
        new = unlabelled(replace(rings, node_attr=attributes), tmp_path / name)
        if name == "fine":
            assert predict(Run.open(graph_runs[kind]), new).values.isfinite().all()
            continue
        with pytest.raises(DataError, match=r"far: graph 3 \(counted from 1\): .* far from those"):
            predict(Run.open(graph_runs[kind]), new)


@pytest.mark.parametrize("name", ["x$^$y", "日本 语", "a\udcff"], ids=ascii)
def test_any_folder_has_a_picture(graph_folders: dict[str, Path], tmp_path: Path, name: str) -> None:
    try:
        folder = Path(shutil.copytree(graph_folders["classes"], tmp_path / name))
    except OSError as error:
        pytest.skip(f"no such names here ({error})")
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as monkeypatch:
        warnings.simplefilter("error", UserWarning)
        monkeypatch.setattr(run_module, "draw_curves", draw_curves)
        run = train(quick(folder, conv="mlp", epochs=1), tmp_path / "run")
    assert (run.path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_labels_may_be_any_numbers_of_64_bits(tmp_path: Path) -> None:
    rings = rings_and_paths()
    least = -(2**63)
    data = replace(rings, y=torch.where(rings.y == 5, 2**63 - 1, least))
    run = train(quick(folder_of(data, tmp_path / "data"), conv="mlp", epochs=1), tmp_path / "run")
    assert set(predict(run).labels()) <= {least, 2**63 - 1}


def test_numbers_of_graphs_are_those_of_the_data(graph_runs: dict[str, Path], tmp_path: Path) -> None:
    run = Run.open(graph_runs["classes"])
    lines = predict(run, unlabelled(rings_and_paths(3), tmp_path / "new")).to_csv().splitlines()
    assert lines[0] == "graph,label,p_-1,p_5"
    assert [line.split(",")[0] for line in lines[1:]] == ["1", "2", "3"]
    assert predict(run).to_csv().splitlines()[0] == "graph,split,label,p_-1,p_5"
    lines = predict(Run.open(graph_runs["numbers"])).to_csv().splitlines()
    assert lines[0] == "graph,split,target 0,target 1"
    mutag = train(GraphsConfig(conv="mlp", depth=1, hidden=2, epochs=1, seeds=1), tmp_path / "mutag")
    assert predict(mutag).to_csv().splitlines()[1].startswith("0,")
