from __future__ import annotations

import sys
from pathlib import Path

import pytest

from armagnn.data import NodeDataset
from armagnn.errors import UnsupportedError
from armagnn.training import NodesConfig, train
from armagnn.training.tensorboard_log import Observers, TensorBoardLog
from armagnn.training.trainer import Observer
from data.tables.small_tables import people


def test_the_logs_have_the_curves(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    data = NodeDataset.from_tables(*people(), "label", ignore="income")
    seen: list[int] = []

    class Count(Observer):
        def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
            seen.append(epoch)

    observer = Observers(Count(), TensorBoardLog(tmp_path / "logs"))
    run = train(NodesConfig.for_tables(epochs=12, seeds=2), tmp_path / "run", data=data, observer=observer)
    assert seen
    (start,) = (tmp_path / "logs").iterdir()
    assert {each.name for each in start.iterdir()} == {"mean", "seed-0", "seed-1"}
    found = events.EventAccumulator(str(start / "seed-1"))
    found.Reload()
    losses = [event.value for event in found.Scalars("val_loss")]
    assert losses == pytest.approx(run.load_trial(1).history["val_loss"])
    mean = events.EventAccumulator(str(start / "mean"))
    mean.Reload()
    assert [event.step for event in mean.Scalars("val_loss")] == seen


def test_without_tensorboard_it_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UnsupportedError, match=r"armagnn\[tensorboard\]"):
        TensorBoardLog(tmp_path)


def test_every_observer_is_told_all() -> None:
    told: list[str] = []

    class Tell(Observer):
        def __getattribute__(self, name: str) -> object:
            if name in vars(Observer):
                return lambda *args, **options: told.append(name)
            return super().__getattribute__(name)

    both = Observers(Tell(), Tell())
    both.start(1)
    both.epochs(1, 1, 0.5, 0.5)
    both.trial(None, new=True)  # type: ignore[arg-type]
    both.batch()
    both.lost("x")
    both.stopping()
    both.note("x")
    names = [name for name in vars(Observer) if not name.startswith("_")]
    assert told == [name for name in names for _ in range(2)]
