"""Interrupted anywhere, resumed, a run is the same as one that was left in peace."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from armagnn.errors import ParameterError, RunError
from armagnn.training import Run, TrainConfig, Trial, Watcher, train
from armagnn.training import run as run_module

CONFIG = TrainConfig(hidden=2, stacks=2, epochs=5, seeds=2, dropout=0.5, skip_dropout=0.5)


@pytest.fixture(autouse=True)
def quick_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "draw_curves", lambda trials, title: f"{title} {len(trials)}".encode())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("runs") / "whole"
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(run_module, "draw_curves", lambda trials, title: f"{title} {len(trials)}".encode())
        train(CONFIG, path)
    return contents(path)


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


class Interrupt(Watcher):
    """Ctrl-C in the middle of a trial."""

    def __init__(self, seed: int, epoch: int) -> None:
        self.when = (seed, epoch)
        self.worked_on: set[int] = set()

    def epoch(self, seed: int, epoch: int, val_loss: float, val_accuracy: float) -> None:
        self.worked_on.add(seed)
        if (seed, epoch) == self.when:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("seed", "epoch", "kept"), [(0, 1, []), (0, 5, []), (1, 3, [0])])
def test_interrupted_in_an_epoch(tmp_path: Path, whole: dict[str, Any], seed: int, epoch: int, kept: list[int]) -> None:
    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, path, watcher=Interrupt(seed, epoch))
    run = Run.open(path)
    assert not run.complete
    assert run.finished_seeds == kept
    again = Interrupt(-1, -1)
    assert train(CONFIG, path, resume=True, watcher=again).complete
    assert again.worked_on == {0, 1} - set(kept)  # what was finished is not done again
    assert contents(path) == whole


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(12))
def test_killed_at_any_write(
    tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch, write: int, after: bool
) -> None:
    path, count, real = tmp_path / "run", 0, os.replace

    def replace_or_die(source: Any, target: Any) -> None:
        nonlocal count
        count += 1
        if count == write + 1:
            if after:
                real(source, target)
            raise KeyboardInterrupt
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_or_die)
        with pytest.raises(KeyboardInterrupt):
            train(CONFIG, path)
    if (write, after) in {(0, False), (0, True), (1, False)}:  # the run had not begun: its manifest is not there
        with pytest.raises(RunError):
            Run.open(path)
        train(CONFIG, path, overwrite=True)
    else:
        train(CONFIG, path, resume=True)
    assert contents(path) == whole


def test_there_are_twelve_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets, real = [], os.replace
    monkeypatch.setattr(os, "replace", lambda source, target: (targets.append(target), real(source, target)))
    train(CONFIG, tmp_path / "run")
    assert len(targets) == 12  # so that the test above meets them all


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run"
    train(CONFIG, path)
    before = {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in path.rglob("*") if file.is_file()}
    told: list[int] = []

    class Told(Watcher):
        def trial(self, trial: Trial) -> None:
            told.append(trial.seed)

    train(CONFIG, path, resume=True, watcher=Told())
    after = {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in path.rglob("*") if file.is_file()}
    assert before == after
    assert told == [0, 1]


def test_a_seed_is_the_same_alone_and_among_others(tmp_path: Path, whole: dict[str, Any]) -> None:
    train(replace(CONFIG, seed=1, seeds=1), tmp_path / "alone")
    alone = contents(tmp_path / "alone")
    for name in ("trials/seed-1.json", "trials/seed-1.safetensors"):
        assert alone[name] == whole[name]


def test_trials_in_processes_are_the_same(tmp_path: Path, whole: dict[str, Any]) -> None:
    train(CONFIG, tmp_path / "run", jobs=2)
    assert contents(tmp_path / "run") == whole


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lr": 0.02}, "lr: 0.01 -> 0.02"),
        ({"seeds": 3}, "seeds: 2 -> 3"),
        ({"seed": 1, "hidden": 3}, "hidden: 2 -> 3; seed: 0 -> 1"),
    ],
)
def test_other_options_are_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, path, watcher=Interrupt(1, 1))
    before = contents(path)
    with pytest.raises(RunError) as caught:
        train(replace(CONFIG, **change), path, resume=True)
    assert said in str(caught.value)
    assert contents(path) == before


def test_resume_and_overwrite_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="exclude each other"):
        train(CONFIG, tmp_path / "run", resume=True, overwrite=True)


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not a run"):
        train(CONFIG, tmp_path / "run", resume=True)


def test_jobs_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="jobs"):
        train(CONFIG, tmp_path / "run", jobs=0)
    assert not (tmp_path / "run").exists()
