"""The trials of a table as jobs: grouped into batches, done, and told as records for the run store."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

import torch

from armagnn.training.capture import on_own_stream
from armagnn.training.checkpoint import Checkpoint
from armagnn.training.record import Record, trial_key
from armagnn.training.run import current_versions
from armagnn.training.saving import Saver
from armagnn.training.setting import Outcome, Setting
from armagnn.training.trials import Trials

PER_CENT: Final = ("accuracy", "micro_f1")
"""Metrics that are shares, and told in per cent."""

MOST_RUNS: Final = 100_000
"""Trials of a cell, settings of a search, seeds: more are a slip."""


class Config(Protocol):
    """All that determines a trial but its seed and its fold: a frozen dataclass of plain numbers and names."""

    @property
    def dataset(self) -> str:
        """The dataset, as the table names it."""

    @property
    def method(self) -> str:
        """The method."""

    @property
    def protocol(self) -> str:
        """The protocol."""

    @property
    def shape(self) -> tuple[Any, ...]:
        """What must be the same in a batch."""

    @property
    def most(self) -> int:
        """Trials that a batch may have."""

    def setting(self, seed: int) -> Setting:
        """What may differ between the trials of a batch."""

    def data_sha256(self) -> str:
        """Checksum of the dataset."""

    def make(self, settings: Sequence[Setting], fold: int, device: torch.device) -> Trials:
        """The trials, ready to run."""


def content_of(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON. A field that came later has a default, and with it stays out: it renames no trial.

    Example:
        >>> from armagnn.paper.graph_tables import graph_config
        >>> "edges" in content_of(graph_config("qm9/mu", "arma"))
        False
    """
    return {field.name: value for field in fields(config) if (value := getattr(config, field.name)) != field.default}


@dataclass(frozen=True)
class CellTrial:
    """One trial of a table: its configuration, its number in the cell, its seed, its fold."""

    config: Any
    run: int
    seed: int
    fold: int = 0


@dataclass(frozen=True)
class Job:
    """Trials that train as one batch, for `armagnn.training.engine.execute`.

    Attributes:
        trials: those of the batch; they share a fold.
        table: the table they belong to; with "search" in its name, nothing is looked at on test data.
        data_sha256: checksum of the dataset.
        device: where to train.
        checkpoints: the folder where a long training keeps what it goes on from.
        name: what it is kept under, the same for what is left of the job.
    """

    trials: tuple[CellTrial, ...]
    table: str
    data_sha256: str
    device: str
    checkpoints: str
    name: str = ""

    @cached_property
    def _trials_by_key(self) -> dict[str, CellTrial]:
        return {
            trial_key(self.table, content_of(trial.config), trial.seed, trial.fold, self.data_sha256): trial
            for trial in self.trials
        }  # fmt: skip

    @property
    def keys(self) -> Sequence[str]:
        """The keys of its records."""
        return list(self._trials_by_key)

    @property
    def gpus(self) -> int:
        """GPUs that one worker needs."""
        return int(self.device.startswith("cuda"))

    def only(self, keys: Collection[str]) -> Job:
        """The same job with these trials only."""
        return replace(self, trials=tuple(trial for key, trial in self._trials_by_key.items() if key in keys))

    def make(self) -> Trials:
        """Its trials, ready to run; where two have the same setting, it is trained once."""
        first = self.trials[0]
        settings = dict.fromkeys(trial.config.setting(trial.seed) for trial in self.trials)
        trials: Trials = first.config.make(list(settings), first.fold, torch.device(self.device))
        return trials


def make_jobs(trials: Sequence[CellTrial], *, table: str, checkpoints: Path, device: str = "cpu") -> list[Job]:
    """Group trials into batches: of one shape and one fold, as many as a batch may have."""
    groups: dict[tuple[Any, ...], list[CellTrial]] = {}
    for trial in trials:
        groups.setdefault((trial.fold, *trial.config.shape), []).append(trial)
    jobs = []
    for group in groups.values():
        config: Config = group[0].config
        for first in range(0, len(group), config.most):
            batch = tuple(group[first : first + config.most])
            job = Job(batch, table, config.data_sha256(), device, str(checkpoints))
            jobs.append(replace(job, name=sha256("".join(job.keys).encode()).hexdigest()))
    return jobs


def work(job: Job) -> Iterator[Record | None]:
    """Train a batch and yield a record for every trial as it stops; None as `Trials.in_turns` does.

    On a GPU every job has a stream of its own: what several have queued is done side by side.
    """
    device = torch.device(job.device)
    return on_own_stream(_train(job), device) if device.type == "cuda" else _train(job)


def _train(job: Job) -> Iterator[Record | None]:
    by_setting: dict[Setting, list[CellTrial]] = {}
    for trial in job.trials:
        by_setting.setdefault(trial.config.setting(trial.seed), []).append(trial)
    saver = Saver(Checkpoint(Path(job.checkpoints), job.name), job.make())
    device = torch.device(job.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    for outcome in saver.in_turns():
        if outcome is None:
            yield None
            continue
        metrics = metrics_of(outcome, tests="search" not in job.table)
        for trial in by_setting[outcome.setting]:
            config = trial.config
            yield Record(
                job.table, config.dataset, config.method, config.protocol, trial.run, trial.fold, trial.seed,
                content_of(config), metrics, outcome.epochs, outcome.seconds, current_versions(), job.data_sha256, name,
            )  # fmt: skip
    saver.clear()


def metrics_of(outcome: Outcome, *, tests: bool) -> dict[str, float]:
    """The metrics of a record: those of test data by their names, ``val_...``, and those of other stopping rules.

    Example:
        >>> outcome = Outcome(Setting(0, 0.1, 0.0), 3, 9, {"loss": 1.0}, {"loss": 2.0, "accuracy": 0.5}, 1.0, {}, {})
        >>> metrics_of(outcome, tests=True), metrics_of(outcome, tests=False)
        ({'accuracy': 50.0, 'val_loss': 1.0}, {'val_loss': 1.0})
    """
    found = dict(outcome.test) if tests else {}
    for rule, other in outcome.beside.items() if tests else ():
        found |= {f"{name}_{rule}": value for name, value in other.items() if name != "loss"}
    found |= {f"val_{name}": value for name, value in outcome.val.items()}
    found.pop("loss", None)
    metrics = {
        name: 100 * value if name.removeprefix("val_").startswith(PER_CENT) else value for name, value in found.items()
    }
    if outcome.best_epoch == 0:  # no validation loss was ever finite: these are the metrics of the initial weights
        metrics["diverged"] = 1.0
    return metrics
