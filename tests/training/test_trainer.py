"""Interrupted anywhere, resumed, a run is the same as one that was left in peace."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from armagnn.errors import ParameterError, RunError
from armagnn.training import Config, NodesConfig, Observer, Outcome, Run, train, trainer
from armagnn.training import run_folder as run_module
from armagnn.training.record import Record
from armagnn.training.results_store import Store
from armagnn.training.trainer import Archive, interrupts, keep, report_kept
from broken_writes import broken_write
from finished_trials import finished
from own_graphs import folder_of, quick, rings_and_paths

# Seed 0 stops after 4 epochs, seed 1 after 10, seed 2 after 12: they leave the batch at 5, 10 and 15.
CONFIG = NodesConfig(
    hidden=2, epochs=40, patience=3, lr=0.05, seeds=3, input_dropout=0.5, hidden_dropout=0.5, skip_dropout=0.5
)


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
    files = {name: content for name, content in files.items() if not name.startswith("checkpoint/")}
    for name in [name for name in files if name.startswith("trials") and name.endswith("json")]:
        files[name] = json.loads(files[name])
        assert files[name].pop("seconds") > 0
    return files


class Interrupt(Observer):
    """Ctrl-C after so many epochs."""

    def __init__(self, when: int) -> None:
        self.when = when
        self.seen: list[tuple[int, int]] = []

    def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
        assert 0 < val_loss < 3
        assert 0 < val_accuracy < 1
        self.seen.append((epoch, running))
        if epoch == self.when:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("when", "kept"), [(5, [0]), (10, [0, 1])])
def test_interrupted_in_an_epoch(tmp_path: Path, whole: dict[str, Any], when: int, kept: list[int]) -> None:
    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, path, observer=Interrupt(when))
    run = Run.open(path)
    assert not run.complete
    assert run.finished_seeds == kept
    assert run.checkpoint.load() is not None
    again = Interrupt(-1)
    assert train(CONFIG, path, resume=True, observer=again).complete
    assert again.seen == [(10, 1)] * (when == 5)  # what was done is not done again
    assert not run.checkpoint.path.exists()
    assert contents(path) == whole


def test_a_checkpoint_that_is_older_than_a_finished_trial(tmp_path: Path, whole: dict[str, Any]) -> None:
    path = tmp_path / "run"
    for when in (5, 10):  # seed 1 is finished after 10 epochs; then the checkpoint of epoch 5 comes back
        with pytest.raises(KeyboardInterrupt):
            train(CONFIG, path, resume=when == 10, observer=Interrupt(when))
        if when == 5:
            shutil.copytree(path / "checkpoint", tmp_path / "older")
    shutil.rmtree(path / "checkpoint")
    shutil.copytree(tmp_path / "older", path / "checkpoint")
    assert Run.open(path).finished_seeds == [0, 1]
    train(CONFIG, path, resume=True)
    assert contents(path) == whole


def test_without_its_checkpoint_the_batch_starts_anew(tmp_path: Path, whole: dict[str, Any]) -> None:
    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, path, observer=Interrupt(10))
    shutil.rmtree(path / "checkpoint")
    train(CONFIG, path, resume=True)
    assert contents(path) == whole


def test_a_checkpoint_of_other_versions_is_said_and_not_used(
    tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, notes = tmp_path / "run", []
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, path, observer=Interrupt(5))
    state = Run.open(path).checkpoint.load()
    assert state is not None
    Run.open(path).checkpoint.save(state | {"versions": {"armagnn": "0.0"}})

    class Told(Observer):
        def note(self, text: str) -> None:
            notes.append(text)

    train(CONFIG, path, resume=True, observer=Told())
    assert len(notes) == 1
    assert "other versions" in notes[0]
    assert contents(path) == whole


@pytest.mark.parametrize("change", [{"trials": {}}, {"trials": 3}, {"settings": [[9, 0.1, 0.0, 0.0, 0.0, 0.0]]}])
def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, path, observer=Interrupt(5))
    checkpoint = Run.open(path).checkpoint
    state = checkpoint.load()
    assert state is not None
    checkpoint.save(state | change if "trials" in change else state | {"trials": state["trials"] | change})
    with pytest.raises(RunError, match=r"does not fit this training.*Remove it"):
        train(CONFIG, path, resume=True)


def test_several_batches_go_on_with_the_one_that_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "batches", lambda config: [range(seed, seed + 1) for seed in config.all_seeds])
    config = replace(CONFIG, conv="gat", hidden=8, seeds=2, epochs=12, patience=20)
    train(config, tmp_path / "whole")

    class Second(Observer):
        """Ctrl-C in the second trial."""

        trials = 0

        def trial(self, trial: Outcome, *, new: bool) -> None:
            self.trials += 1

        def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
            assert running == 1
            if self.trials == 1 and epoch == 10:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", observer=Second())
    assert Run.open(tmp_path / "run").finished_seeds == [0]
    again = Interrupt(-1)
    train(config, tmp_path / "run", resume=True, observer=again)
    assert again.seen == []  # 10 of 12 epochs had been done
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_divergence_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge_but_0(outcome: Any) -> Outcome:
        return real(outcome if outcome.seed == 0 else replace(outcome, best_epoch=0))

    real = Outcome.require_converged
    monkeypatch.setattr(Outcome, "require_converged", diverge_but_0)
    with pytest.raises(ParameterError, match=r"diverged \(seed 1\).*Lower lr"):
        train(CONFIG, tmp_path / "run")
    assert Run.open(tmp_path / "run").finished_seeds == [0]


def test_ctrl_c_waits_for_the_end_of_an_epoch_and_a_second_one_does_not() -> None:
    told: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with interrupts(lambda: told.append("stopping")) as came:
        assert not came()
        signal.raise_signal(signal.SIGINT)
        assert came()
        assert told == ["stopping"]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_elsewhere_than_in_the_main_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[Any] = []

    def work() -> None:
        with interrupts(lambda: None):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(19))
def test_killed_at_any_write(tmp_path: Path, whole: dict[str, Any], write: int, after: bool) -> None:
    path = tmp_path / "run"

    with broken_write(write, after) as patch:
        patch.setattr(trainer, "EVERY", 0.0)  # a checkpoint at every look
        with pytest.raises(KeyboardInterrupt):
            train(CONFIG, path)
    if (write, after) in {(0, False), (0, True), (1, False)}:  # the run had not begun: its manifest is not there
        with pytest.raises(RunError, match="not a run" if (write, after) == (0, False) else "before it began"):
            Run.open(path)
        train(CONFIG, path)
    else:
        train(CONFIG, path, resume=True)
    assert contents(path) == whole


class Killed(BaseException):
    """The process is gone."""


def kill_at(patch: pytest.MonkeyPatch, step: int) -> list[str]:
    """Die at a change of the folder, and note all changes before it."""
    seen: list[str] = []

    def watch(name: str) -> None:
        real = getattr(os, name)

        def change(*arguments: Any, **options: Any) -> Any:
            if len(seen) == step:
                raise Killed
            seen.append(name)
            return real(*arguments, **options)

        patch.setattr(os, name, change)

    for name in ("mkdir", "replace", "unlink", "rmdir"):
        watch(name)
    return seen


QUICK = replace(CONFIG, epochs=2, seeds=1, hidden=1, stacks=1)


@pytest.mark.parametrize("there", ["nothing", "a folder", "graphs"])
def test_killed_before_it_began_a_run_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str) -> None:
    """At every change of the folder: either --resume or the same command again takes it."""
    config: Config = quick(folder_of(rings_and_paths(), tmp_path / "data"), epochs=2) if there == "graphs" else QUICK
    for step in range(200):
        path = tmp_path / f"run-{step}"
        if there == "a folder":
            path.mkdir()
        with monkeypatch.context() as patch:
            kill_at(patch, step)
            try:
                train(config, path)
                break
            except Killed:
                pass
        resume = (path / "manifest.json").exists()
        if not resume:
            with pytest.raises(RunError, match=r"not a run|before it began"):
                Run.open(path)
        assert train(config, path, resume=resume).complete
    assert step > 10


def test_killed_while_it_replaces_a_run_it_can_be_replaced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(QUICK, tmp_path / "old")
    (tmp_path / "old" / "notes.txt").write_text("mine")
    new = replace(QUICK, seed=5)
    for step in range(200):
        path = tmp_path / f"run-{step}"
        shutil.copytree(tmp_path / "old", path)
        with monkeypatch.context() as patch:
            kill_at(patch, step)
            try:
                train(new, path, overwrite=True)
                break
            except Killed:
                pass
        assert train(new, path, overwrite=True).finished_seeds == [5]
        assert (path / "notes.txt").read_text() == "mine"
    assert step > 10


def test_there_are_nineteen_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets, real = [], os.replace
    monkeypatch.setattr(os, "replace", lambda source, target: (targets.append(target), real(source, target)))
    monkeypatch.setattr(trainer, "EVERY", 0.0)
    train(CONFIG, tmp_path / "run")
    assert len([target for target in targets if "checkpoint" in str(target)]) == 4
    assert len(targets) == 19  # so that the test above meets them all


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run"
    train(CONFIG, path)
    before = {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in path.rglob("*") if file.is_file()}
    told: list[int] = []

    class Told(Observer):
        def trial(self, trial: Outcome, *, new: bool) -> None:
            told.append(trial.seed)

    train(CONFIG, path, resume=True, observer=Told())
    after = {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in path.rglob("*") if file.is_file()}
    assert before == after
    assert told == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lr": 0.02}, "lr: 0.05 -> 0.02"),
        ({"seeds": 4}, "seeds: 3 -> 4"),
        ({"conv": "gcn"}, "conv: arma -> gcn"),
        ({"seed": 1, "hidden": 3}, "hidden: 2 -> 3; seed: 0 -> 1"),
    ],
)
def test_other_options_are_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, path, observer=Interrupt(5))
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


# ------------------------------------------------------------------------------------------------------------- archives


def of_run(path: Path) -> tuple[Archive, list[Outcome], list[str]]:
    config = NodesConfig(seeds=3)
    values = {"loss": 0.5, "accuracy": 0.9}
    history = {"train_loss": [1.0], "val_loss": [0.5], "val_accuracy": [0.9]}
    outcomes = [Outcome(config.setting(seed), 1, 1, values, values, 1.0, history, {}) for seed in range(2)]
    return Run.create(path, config, "0" * 64), outcomes, ["0", "1"]


def of_store(path: Path) -> tuple[Archive, list[Record], list[str]]:
    records = [finished(seed) for seed in range(2)]
    return Store(path / "store.sqlite"), records, [record.key for record in records]


class Seen(Observer):
    def __init__(self) -> None:
        self.trials: list[tuple[int, bool]] = []

    def trial(self, trial: Outcome | Record, *, new: bool) -> None:
        self.trials.append((trial.seed, new))


@pytest.mark.parametrize("make", [of_run, of_store])
def test_a_run_folder_and_a_store_keep_trials_alike(make: Callable[[Path], Any], tmp_path: Path) -> None:
    archive, trials, keys = make(tmp_path)
    seen = Seen()
    assert (archive.missing(keys), archive.get(keys[0])) == (keys, None)
    assert keep(trials[0], archive, seen)
    assert not keep(trials[0], archive, seen)
    assert archive.get(keys[0]).seed == 0
    assert report_kept(keys, archive, seen) == keys[1:]
    assert archive.add(trials) == 1
    assert archive.missing(keys) == []
    assert seen.trials == [(0, True), (0, False), (0, False)]
