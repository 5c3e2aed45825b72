"""Runs on a user's own graphs: trained, evaluated, interrupted, resumed, and asked about new graphs."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from armagnn.data import GraphsDataset, folds, load_graphs, read_tu_folder
from armagnn.data.arrays import pack_arrays
from armagnn.errors import DataError, ParameterError, RunError, UnknownNameError
from armagnn.training import Description, GraphsConfig, NodesConfig, Observer, Run, predict, train
from armagnn.training import run_folder as run_module
from armagnn.training.graph_training import is_folder, read_graphs
from armagnn.training.manifest import Manifest, to_bytes
from armagnn.training.outcome import draw_curves
from armagnn_paper.tables import METHODS
from broken_writes import broken_write
from own_graphs import folder_of, quick, rings_and_paths, unlabelled, with_numbers

KINDS = ("classes", "numbers")


@pytest.fixture(autouse=True, scope="module")
def quick_curves() -> Any:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(run_module, "draw_curves", lambda trials, title: f"{title} {len(trials)}".encode())
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("data")
    rings = rings_and_paths()
    return {"classes": folder_of(rings, root / "rings"), "numbers": folder_of(with_numbers(rings), root / "numbers")}


@pytest.fixture(scope="module")
def finished(data: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    for kind in KINDS:
        train(quick(data[kind], skip_dropout=0.3, pooling="padded"), root / kind)
    return {kind: root / kind for kind in KINDS}


@pytest.fixture
def copy(finished: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished["classes"], tmp_path / "copy"))


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
def test_the_folder(finished: dict[str, Path], data: dict[str, Path], kind: str) -> None:
    path = finished[kind]
    assert {file.name for file in path.iterdir()} == {
        "config.json", "curve.png", "graphs.json", "manifest.json", "metrics.json", "trials", "weights.safetensors",
    }  # fmt: skip
    content = json.loads((path / "config.json").read_text())
    assert content["kind"] == "graphs"
    assert content["dataset_sha256"] == read_tu_folder(data[kind]).sha256
    run = Run.open(path)
    assert run.config == quick(data[kind], skip_dropout=0.3, pooling="padded")
    assert run.resume_command == f"armagnn train graphs --out {path} --resume"
    metrics = run.metrics()
    names = {"loss", "accuracy"} if kind == "classes" else {"loss", "mse", "mae target 0", "mae target 1"}
    assert metrics["test"].keys() == metrics["val"].keys() == names
    histories = [trial.history.keys() for trial in run.trials()]
    assert all(
        history == {"train_loss", "val_loss"} | {"val_accuracy"} & {f"val_{n}" for n in names} for history in histories
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_reported_is_what_is_predicted(finished: dict[str, Path], data: dict[str, Path], kind: str) -> None:
    run, graphs = Run.open(finished[kind]), read_tu_folder(data[kind])
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
def test_every_method(data: dict[str, Path], tmp_path: Path, conv: str, kind: str) -> None:
    run = train(quick(data[kind], conv=conv, epochs=1, seeds=1, depth=2, head=3), tmp_path / "run")
    found = predict(run, data[kind])
    assert found.values.shape == (30, 2)
    assert bool(found.values.isfinite().all())


def test_rings_are_told_from_paths(data: dict[str, Path], tmp_path: Path) -> None:
    run = train(quick(data["classes"], epochs=60, seeds=1, hidden=8, skip_dropout=0.0), tmp_path / "run")
    assert run.metrics()["test"]["accuracy"]["mean"] == 1.0


def test_nodes_and_edges_are_counted_where_the_size_shows(data: dict[str, Path], tmp_path: Path) -> None:
    options = {"epochs": 40, "hidden": 16, "lr": 0.01, "skip_dropout": 0.0, "layers": 1, "pooling": "padded"}
    tested = train(quick(data["numbers"], **options), tmp_path / "run").metrics()["test"]
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
    finished: dict[str, Path], data: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    own = predict(Run.open(finished[kind]))
    few = [17, 4, 4, 29]
    folder = unlabelled(rings_and_paths().select(few), tmp_path / "new")
    found = predict(Run.open(finished[kind]), folder)
    torch.testing.assert_close(found.values, own.values[few], rtol=1e-5, atol=1e-5)
    assert found.labels() == ([own.labels()[graph] for graph in few] if kind == "classes" else [])
    assert found.split is None


def test_the_training_data_are_not_needed_for_new_graphs(copy: Path, data: dict[str, Path], tmp_path: Path) -> None:
    moved = tmp_path / "gone"
    change(copy, "config.json", lambda content: content["config"].update(data=str(moved)))
    new = unlabelled(rings_and_paths(3), tmp_path / "new")
    assert len(predict(Run.open(copy), new).labels()) == 3
    with pytest.raises(DataError, match="gone: is not a folder"):
        predict(Run.open(copy))
    shutil.copytree(data["classes"], moved)
    (moved / "DS_node_labels.txt").write_text("0\n" * int(rings_and_paths().num_nodes))
    with pytest.raises(RunError, match=r"trained on another file of dataset .*gone'"):
        predict(Run.open(copy))


def test_graphs_larger_than_all_of_training_and_without_edges(finished: dict[str, Path], tmp_path: Path) -> None:
    rings = rings_and_paths(4)
    one = replace(
        rings,
        edge_index=rings.edge_index[:, :0],
        ptr=torch.tensor([0, rings.num_nodes]),
        y=rings.y[:1],
    )
    found = predict(Run.open(finished["classes"]), unlabelled(one, tmp_path / "new"))
    torch.testing.assert_close(found.values.sum(), torch.tensor(1.0))


def test_many_graphs_are_predicted_a_part_at_a_time(finished: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run.open(finished["numbers"])
    whole = predict(run).values
    monkeypatch.setattr(sys.modules["armagnn.training.graph_training"], "CHUNK", 20)  # the module, not the function
    torch.testing.assert_close(predict(run).values, whole)


def test_new_graphs_of_another_kind(finished: dict[str, Path], tmp_path: Path) -> None:
    run = Run.open(finished["classes"])
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
def test_nothing_is_said_of_graphs_that_overflow(finished: dict[str, Path], tmp_path: Path, kind: str) -> None:
    rings = rings_and_paths(4)
    assert rings.node_attr is not None
    far = rings.node_attr.clone()
    far[int(rings.ptr[2])] = torch.tensor([3e38, -3e38])
    for name, attributes in (("fine", rings.node_attr), ("far", far)):
        new = unlabelled(replace(rings, node_attr=attributes), tmp_path / name)
        if name == "fine":
            assert predict(Run.open(finished[kind]), new).values.isfinite().all()
            continue
        with pytest.raises(DataError, match=r"far: graph 3 \(counted from 1\): .* far from those"):
            predict(Run.open(finished[kind]), new)


@pytest.mark.parametrize("name", ["x$^$y", "日本 语", "a\udcff"], ids=ascii)
def test_any_folder_has_a_picture(data: dict[str, Path], tmp_path: Path, name: str) -> None:
    try:
        folder = Path(shutil.copytree(data["classes"], tmp_path / name))
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


def test_numbers_of_graphs_are_those_of_the_data(finished: dict[str, Path], tmp_path: Path) -> None:
    run = Run.open(finished["classes"])
    lines = predict(run, unlabelled(rings_and_paths(3), tmp_path / "new")).to_csv().splitlines()
    assert lines[0] == "graph,label,p_-1,p_5"
    assert [line.split(",")[0] for line in lines[1:]] == ["1", "2", "3"]
    assert predict(run).to_csv().splitlines()[0] == "graph,split,label,p_-1,p_5"
    lines = predict(Run.open(finished["numbers"])).to_csv().splitlines()
    assert lines[0] == "graph,split,target 0,target 1"
    mutag = train(GraphsConfig(conv="mlp", depth=1, hidden=2, epochs=1, seeds=1), tmp_path / "mutag")
    assert predict(mutag).to_csv().splitlines()[1].startswith("0,")


# ------------------------------------------------------------------------------------------------------------ refusals


def test_what_is_meant_as_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mutag", "mine", "odd.npz"):
        (tmp_path / name).mkdir()
    assert [is_folder(name) for name in ("mutag", "mine", "odd.npz", "mutag/", "./mine", "no", "no/")] == [
        False, True, True, True, True, False, True,
    ]  # fmt: skip
    assert len(read_graphs("mutag")) == 188
    with pytest.raises(DataError, match=r"no file that ends in _A\.txt"):
        read_graphs("mine")
    with pytest.raises(UnknownNameError):
        read_graphs("no")


class NoWork(Observer):
    def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
        pytest.fail("a trial was begun")


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("numbers", {"stop_on": "accuracy"}, "real targets have no accuracy"),
        ("classes", {"target": "attributes"}, "DS_graph_attributes.txt: is missing"),
        ("classes", {"data": "mutag", "target": "labels"}, "chooses between the files of a folder"),
        ("classes", {"data": "cora"}, "load reads it"),
        ("classes", {"data": "mutga"}, "Did you mean 'mutag'"),
        ("classes", {"conv": "gnc"}, "Unknown layer 'gnc'"),
        ("classes", {"depth": 0}, "depth"),
        ("classes", {"stacks": 0}, "^stacks"),
        ("classes", {"layers": 0}, "^layers"),
        ("classes", {"conv": "gat", "hidden": 4}, "hidden is 4; gat needs a multiple of 8"),
        ("classes", {"hidden_dropout": 1.0}, "hidden_dropout"),
        ("classes", {"act": "rleu"}, "Did you mean 'relu'"),
        ("classes", {"device": "cuda:99"}, "Use 'cpu'"),
    ],
    ids=str,
)
def test_bad_options_destroy_nothing(
    copy: Path, data: dict[str, Path], kind: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises((ParameterError, DataError, ValueError), match=said):
        train(quick(**{"data": data[kind]} | options), copy, overwrite=True, observer=NoWork())
    assert Run.open(copy).complete


def test_too_few_graphs(tmp_path: Path) -> None:
    folder = folder_of(rings_and_paths(19), tmp_path / "few")
    with pytest.raises(ParameterError, match="need 20 graphs or more, got 19"):
        train(quick(folder), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_both_kinds_of_targets(data: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(data["classes"], tmp_path / "both"))
    shutil.copy(data["numbers"] / "DS_graph_attributes.txt", folder)
    options = {"epochs": 1, "seeds": 1}
    assert Description.read(train(quick(folder, **options), tmp_path / "auto")).classes == (-1, 5)
    run = train(quick(folder, target="attributes", **options), tmp_path / "attributes")
    assert Description.read(run).targets == ("target 0", "target 1")
    assert predict(run).values.shape == (30, 2)


def test_a_run_on_graphs_is_none_on_nodes(copy: Path) -> None:
    with pytest.raises(RunError, match="a run on graphs -> a run on nodes"):
        train(NodesConfig(), copy, resume=True)


# -------------------------------------------------------------------------------------------------------------- damage


def change(run: Path, name: str, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change a file of a run and sign it anew: what an accident cannot do, but another program can."""
    content = json.loads((run / name).read_text())
    edit(content)
    replace_file(run, name, to_bytes(content))


def replace_file(run: Path, name: str, content: bytes) -> None:
    (run / name).write_bytes(content)
    manifest = Manifest.read(run)
    manifest.files[name] = hashlib.sha256(content).hexdigest()
    manifest.write(run)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255), cut=st.booleans())
def test_no_damage_to_the_description_passes(finished: dict[str, Path], place: float, flip: int, cut: bool) -> None:
    file = finished["classes"] / "graphs.json"
    content = file.read_bytes()
    at = int(place * len(content))
    damaged = content[:at] if cut else content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :]
    file.write_bytes(damaged)
    try:
        with pytest.raises(RunError, match=r"graphs\.json: corrupt"):
            Run.open(finished["classes"])
    finally:
        file.write_bytes(content)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\x80\x04N.", b'{"kinds": NaN}'])
def test_a_signed_description_must_still_be_one(copy: Path, content: bytes) -> None:
    replace_file(copy, "graphs.json", content)
    with pytest.raises(RunError, match=r"graphs\.json.*--overwrite"):
        predict(Run.open(copy))


def test_a_description_of_other_graphs_does_not_fit_the_weights(copy: Path) -> None:
    def one_label_less(content: dict[str, Any]) -> None:
        content["vocabulary"].pop()
        content["mean"].pop()
        content["deviation"].pop()

    change(copy, "graphs.json", one_label_less)
    with pytest.raises(RunError, match="do not fit"):
        predict(Run.open(copy))


def test_the_description_belongs_to_runs_on_graphs_only(copy: Path, tmp_path: Path) -> None:
    manifest = Manifest.read(copy)
    del manifest.files["graphs.json"]
    manifest.write(copy)
    with pytest.raises(RunError, match=r"graphs\.json is missing from the run"):
        Run.open(copy)
    train(NodesConfig(hidden=1, stacks=1, epochs=1, seeds=1), tmp_path / "nodes")
    replace_file(tmp_path / "nodes", "graphs.json", b"{}")
    with pytest.raises(RunError, match=r"graphs\.json .*does not belong to it"):
        Run.open(tmp_path / "nodes")


def test_the_first_runs_did_not_say_their_kind(tmp_path: Path) -> None:
    config = NodesConfig(hidden=1, stacks=1, epochs=1, seeds=1)
    train(config, tmp_path / "run")
    change(tmp_path / "run", "config.json", lambda content: content.pop("kind"))
    run = Run.open(tmp_path / "run")
    assert run.config == config
    assert len(predict(run).labels()) == 2708


@pytest.mark.parametrize("kind", ["signals", None, ["graphs"], "nodes"])
def test_a_kind_that_it_is_not(copy: Path, kind: object) -> None:
    change(copy, "config.json", lambda content: content.update(kind=kind))
    with pytest.raises(RunError):
        Run.open(copy)


# -------------------------------------------------------------------------------------------------------------- resume


def contents(path: Path) -> dict[str, Any]:
    """Every file of a run but for what time it took: the seconds, and so the checksums."""
    files: dict[str, Any] = {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }
    del files["manifest.json"]
    for name in [name for name in files if name.startswith("trials") and name.endswith("json")]:
        files[name] = json.loads(files[name])
        assert files[name].pop("seconds") > 0
    return files


class Interrupt(Observer):
    """Ctrl-C after so many epochs of a batch."""

    def __init__(self, when: int) -> None:
        self.when = when
        self.seen: list[int] = []

    def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
        self.seen.append(epoch)
        if epoch == self.when:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("kind", "conv"), [("classes", "arma"), ("numbers", "arma"), ("numbers", "gat")])
def test_interrupted_and_resumed_it_is_the_same_run(
    data: dict[str, Path], tmp_path: Path, kind: str, conv: str
) -> None:
    config = quick(data[kind], conv=conv, skip_dropout=0.5, hidden_dropout=0.3, seeds=3, patience=4)
    train(config, tmp_path / "whole")
    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(config, path, observer=Interrupt(6))
    run = Run.open(path)
    assert not run.complete
    assert run.checkpoint.load() is not None
    again = Interrupt(-1)
    assert train(config, path, resume=True, observer=again).complete
    assert again.seen[0] > 6  # what was done is not done again
    assert contents(path) == contents(tmp_path / "whole")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(5))
def test_killed_as_the_run_begins(data: dict[str, Path], tmp_path: Path, write: int, after: bool) -> None:
    config = quick(data["classes"], epochs=2, seeds=1)
    whole = contents(train(config, tmp_path / "whole").path)
    path = tmp_path / "run"

    with broken_write(write, after), pytest.raises(KeyboardInterrupt):
        train(config, path)
    if 2 * write + after < 5:  # config.json, graphs.json, manifest.json: the run had not begun
        with pytest.raises(RunError):
            Run.open(path)
        train(config, path, overwrite=True)
    else:
        train(config, path, resume=True)
    assert contents(path) == whole


def test_other_data_are_not_resumed(data: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(data["classes"], tmp_path / "mine"))
    config = quick(folder)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", observer=Interrupt(4))
    labels = folder / "DS_graph_labels.txt"
    labels.write_text(labels.read_text().replace("-1", "3"))
    with pytest.raises(RunError, match="trained on another file of dataset"):
        train(config, tmp_path / "run", resume=True, observer=NoWork())
    with pytest.raises(RunError, match="fold: 0 -> 1"):
        train(replace(config, fold=1), tmp_path / "run", resume=True, observer=NoWork())
