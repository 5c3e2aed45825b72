"""Which folders a run may be written to, and what happens to what is in them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from armagnn.errors import ArmagnnError, RunError
from armagnn.training import NodesConfig, Observer, Run, train

CONFIG = NodesConfig(hidden=1, stacks=1, epochs=1, seeds=1)


class NoWork(Observer):
    """Refusals must come before any work."""

    def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
        pytest.fail("a trial was begun")


def snapshot(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_run_is_not_replaced_unasked(copy: Path) -> None:
    before = snapshot(copy)
    with pytest.raises(RunError, match=r"--resume.*--overwrite"):
        train(CONFIG, copy, observer=NoWork())
    assert snapshot(copy) == before


def test_overwrite_replaces_the_run_and_only_the_run(copy: Path) -> None:
    (copy / "notes.txt").write_text("mine")
    (copy / "trials" / "notes.txt").write_text("mine")
    (copy / "trials" / "seed-7.json").write_text("left over")
    (copy / ".config.json.tmp").write_text("left over")
    Run.open(copy).checkpoint.save({"left": "over"})
    run = train(NodesConfig(hidden=1, stacks=1, epochs=1, seeds=1, seed=5), copy, overwrite=True)
    assert run.finished_seeds == [5]
    names = {str(file.relative_to(copy)) for file in copy.rglob("*") if file.is_file()}
    assert names == {
        "config.json", "curve.png", "manifest.json", "metrics.json", "weights.safetensors",
        "trials/seed-5.json", "trials/seed-5.safetensors", "notes.txt", "trials/notes.txt",
    }  # fmt: skip


def test_a_damaged_run_can_be_overwritten(copy: Path) -> None:
    (copy / "manifest.json").write_bytes(b"{")
    with pytest.raises(RunError):
        train(CONFIG, copy, resume=True, observer=NoWork())
    assert train(CONFIG, copy, overwrite=True).complete


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "metrics.json").write_text("{}")
    before = snapshot(tmp_path)
    with pytest.raises(RunError, match="left alone"):
        train(CONFIG, tmp_path, overwrite=True, observer=NoWork())
    assert snapshot(tmp_path) == before


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    assert train(CONFIG, tmp_path).complete


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(RunError, match="is no folder for a run"):
        train(CONFIG, path, overwrite=True, observer=NoWork())
    assert path.read_text() == "mine"


def test_a_file_where_the_trials_should_be(copy: Path) -> None:
    shutil.rmtree(copy / "trials")
    (copy / "trials").write_text("mine")
    with pytest.raises(RunError, match="trials"):
        train(CONFIG, copy, overwrite=True)
    assert (copy / "trials").read_text() == "mine"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is no folder for a run"):
        train(CONFIG, tmp_path / "file" / "run", observer=NoWork())


@pytest.mark.parametrize(
    "options",
    [
        {"dataset": "coar"},
        {"conv": "gnc"},
        {"act": "rleu"},
        {"init": "x"},
        {"input_dropout": 1.0},
        {"hidden_dropout": -1.0},
        {"stacks": 0},
        {"conv": "gcn", "layers": 0},
        {"device": "cuda:99"},
    ],
)
def test_bad_options_destroy_nothing(copy: Path, options: dict[str, object]) -> None:
    before = snapshot(copy)
    with pytest.raises(ArmagnnError):
        train(NodesConfig(**options), copy, overwrite=True, observer=NoWork())  # type: ignore[arg-type]
    assert snapshot(copy) == before
    assert Run.open(copy).complete


def test_a_write_that_fails_is_a_run_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunError, match="No space left on device"):
        train(CONFIG, tmp_path / "run")
