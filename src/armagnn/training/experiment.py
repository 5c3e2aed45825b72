"""A run: the trials of one configuration, one after the other, each kept as soon as it is finished."""

from __future__ import annotations

from pathlib import Path

from armagnn.data import load
from armagnn.errors import ParameterError, RunError
from armagnn.training.config import TrainConfig
from armagnn.training.folder import check_vacant, make_vacant
from armagnn.training.pool import train_trials
from armagnn.training.run import Run
from armagnn.training.trial import Trial, build_model, seeded


class Watcher:
    """What :func:`train` tells while it works; override what you want to see."""

    def epoch(self, seed: int, epoch: int, val_loss: float, val_accuracy: float) -> None:
        """An epoch of the trial `seed` is over."""

    def trial(self, trial: Trial) -> None:
        """A trial is finished and kept (those of a resumed run are told too)."""


def train(
    config: TrainConfig,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> Run:
    """Train one network per seed of `config` and keep the run in the folder `out`.

    A run that was interrupted is continued with `resume` and ends with the same weights and metrics, bit for
    bit, as one that was not: finished trials are kept, the unfinished one starts anew from its seed. The
    configuration must be the same. `overwrite` replaces a run that is there.

    `jobs` trials run at a time, each in a process of its own if more than one (then, as always with Python's
    processes, a script needs ``if __name__ == "__main__":``); the results are the same for any number.

    Example:
        >>> run = train(TrainConfig(seeds=3), "runs/cora")  # doctest: +SKIP
        >>> run.metrics()["test_accuracy"]  # doctest: +SKIP
    """
    out = Path(out)
    watcher = watcher or Watcher()
    if resume and overwrite:
        raise ParameterError("resume and overwrite exclude each other: continue the run or replace it.")
    if jobs < 1:
        raise ParameterError(f"jobs is {jobs}; at least 1 trial must run at a time.")
    # All that can be refused is refused here, before anything is computed or removed.
    run = _resumable(out, config) if resume else None
    if run is None:
        check_vacant(out, overwrite=overwrite)
    device = config.torch_device()
    dataset = load(config.dataset)
    with seeded(config.seed, device):
        build_model(config, dataset)  # refuses what concerns the network
    if run is None:
        make_vacant(out)
        run = Run.create(out, config, dataset.sha256)
    elif run.dataset_sha256 != dataset.sha256:
        raise RunError(f"{out}: the run was begun on another file of dataset {config.dataset!r}. It cannot be resumed.")

    for trial in run.trials():
        watcher.trial(trial)
    missing = [seed for seed in config.all_seeds if seed not in run.finished_seeds]
    for trial in train_trials(config, missing, jobs, watcher.epoch):
        run.save_trial(trial)
        watcher.trial(trial)
    if not run.complete:
        run.finish()
    return run


def _resumable(out: Path, config: TrainConfig) -> Run:
    run = Run.open(out)
    changed = run.config.differences(config)
    if changed:
        raise RunError(
            f"{out}: cannot be resumed with other options ({'; '.join(changed)}). "
            "Resume without them, or choose another folder."
        )
    return run
