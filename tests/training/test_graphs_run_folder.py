"""Runs on a user's own graphs: what is refused, damage to their folder, and how they go on when interrupted."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from armagnn.errors import DataError, ParameterError, RunError, UnknownNameError
from armagnn.training import Description, NodesConfig, Observer, Run, predict, train
from armagnn.training.checkpoint import Manifest
from armagnn.training.graph_training import is_folder, read_graphs
from broken_writes import broken_write
from own_graphs import folder_of, quick, rings_and_paths
from training.hostile import change, put

KINDS = ("classes", "numbers")
pytestmark = pytest.mark.usefixtures("quick_curves")


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
    graph_copy: Path, graph_folders: dict[str, Path], kind: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises((ParameterError, DataError, ValueError), match=said):
        train(quick(**{"data": graph_folders[kind]} | options), graph_copy, overwrite=True, observer=NoWork())
    assert Run.open(graph_copy).complete


def test_too_few_graphs(tmp_path: Path) -> None:
    folder = folder_of(rings_and_paths(19), tmp_path / "few")
    with pytest.raises(ParameterError, match="need 20 graphs or more, got 19"):
        train(quick(folder), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_both_kinds_of_targets(graph_folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(graph_folders["classes"], tmp_path / "both"))
    shutil.copy(graph_folders["numbers"] / "DS_graph_attributes.txt", folder)
    options = {"epochs": 1, "seeds": 1}
    assert Description.read(train(quick(folder, **options), tmp_path / "auto")).classes == (-1, 5)
    run = train(quick(folder, target="attributes", **options), tmp_path / "attributes")
    assert Description.read(run).targets == ("target 0", "target 1")
    assert predict(run).values.shape == (30, 2)


def test_a_run_on_graphs_is_none_on_nodes(graph_copy: Path) -> None:
    with pytest.raises(RunError, match="a run on graphs -> a run on nodes"):
        train(NodesConfig(), graph_copy, resume=True)


# -------------------------------------------------------------------------------------------------------------- damage


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255), cut=st.booleans())
def test_no_damage_to_the_description_passes(graph_runs: dict[str, Path], place: float, flip: int, cut: bool) -> None:
    file = graph_runs["classes"] / "graphs.json"
    content = file.read_bytes()
    at = int(place * len(content))
    damaged = content[:at] if cut else content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :]
    file.write_bytes(damaged)
    try:
        with pytest.raises(RunError, match=r"graphs\.json: corrupt"):
            Run.open(graph_runs["classes"])
    finally:
        file.write_bytes(content)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\x80\x04N.", b'{"kinds": NaN}'])
def test_a_signed_description_must_still_be_one(graph_copy: Path, content: bytes) -> None:
    put(graph_copy, "graphs.json", content)
    with pytest.raises(RunError, match=r"graphs\.json.*--overwrite"):
        predict(Run.open(graph_copy))


def test_a_description_of_other_graphs_does_not_fit_the_weights(graph_copy: Path) -> None:
    def one_label_less(content: dict[str, Any]) -> None:
        content["vocabulary"].pop()
        content["mean"].pop()
        content["deviation"].pop()

    change(graph_copy, "graphs.json", one_label_less)
    with pytest.raises(RunError, match="do not fit"):
        predict(Run.open(graph_copy))


def test_the_description_belongs_to_runs_on_graphs_only(graph_copy: Path, tmp_path: Path) -> None:
    manifest = Manifest.read(graph_copy)
    del manifest.files["graphs.json"]
    manifest.write(graph_copy)
    with pytest.raises(RunError, match=r"graphs\.json is missing from the run"):
        Run.open(graph_copy)
    train(NodesConfig(hidden=1, stacks=1, epochs=1, seeds=1), tmp_path / "nodes")
    put(tmp_path / "nodes", "graphs.json", b"{}")
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
def test_a_kind_that_it_is_not(graph_copy: Path, kind: object) -> None:
    change(graph_copy, "config.json", lambda content: content.update(kind=kind))
    with pytest.raises(RunError):
        Run.open(graph_copy)


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
    graph_folders: dict[str, Path], tmp_path: Path, kind: str, conv: str
) -> None:
    config = quick(graph_folders[kind], conv=conv, skip_dropout=0.5, hidden_dropout=0.3, seeds=3, patience=4)
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
def test_killed_as_the_run_begins(graph_folders: dict[str, Path], tmp_path: Path, write: int, after: bool) -> None:
    config = quick(graph_folders["classes"], epochs=2, seeds=1)
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


def test_other_data_are_not_resumed(graph_folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(graph_folders["classes"], tmp_path / "mine"))
    config = quick(folder)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", observer=Interrupt(4))
    labels = folder / "DS_graph_labels.txt"
    labels.write_text(labels.read_text().replace("-1", "3"))
    with pytest.raises(RunError, match="trained on another file of dataset"):
        train(config, tmp_path / "run", resume=True, observer=NoWork())
    with pytest.raises(RunError, match="fold: 0 -> 1"):
        train(replace(config, fold=1), tmp_path / "run", resume=True, observer=NoWork())
