"""A run: the trials of one configuration, each kept as soon as it is finished, and the batch now and then."""

from __future__ import annotations

import time
from pathlib import Path

from armagnn.arguments import checked
from armagnn.errors import ParameterError, RunError
from armagnn.training.checkpoint import Checkpoint
from armagnn.training.config import RunConfig
from armagnn.training.folder import check_vacant, make_vacant
from armagnn.training.interrupts import interrupts
from armagnn.training.problem import Problem, load_problem
from armagnn.training.run import Run, current_versions
from armagnn.training.trial import Trial, batches, settings
from armagnn.training.trials import Trials

SAVE_EVERY = 30.0
"""Seconds between two checkpoints."""


class Watcher:
    """What :func:`train` tells while it works; override what you want to see."""

    def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
        """`epoch` epochs are over; `running` trials of the batch go on, with these validation means.

        Real targets have no accuracy: it is NaN.
        """

    def trial(self, trial: Trial) -> None:
        """A trial is finished and kept (those of a resumed run are told too)."""

    def stopping(self) -> None:
        """Ctrl-C came; training stops at the next moment from which it can be continued."""

    def note(self, text: str) -> None:
        """There is something that the user should know."""


@checked
def train(
    config: RunConfig,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    watcher: Watcher | None = None,
) -> Run:
    """Train one network per seed of `config`, on nodes or on graphs, and keep the run in the folder `out`.

    All seeds are one batch (of GAT, GraphSAGE and GIN at most ten). A run that was interrupted is
    continued with `resume` and ends with the same weights and metrics, bit for bit, as one that was not: finished
    trials are kept, and the batch goes on from its last checkpoint, which is made on Ctrl-C and at least every 30
    seconds otherwise. The configuration must be the same. `overwrite` replaces a run that is there.

    Example:
        >>> run = train(TrainConfig(seeds=3), "runs/cora")  # doctest: +SKIP
        >>> run.metrics()["test"]["accuracy"]["mean"]  # doctest: +SKIP
    """
    out = Path(out)
    watcher = watcher or Watcher()
    if resume and overwrite:
        raise ParameterError("resume and overwrite exclude each other: continue the run or replace it.")
    # All that can be refused is refused here, before anything is computed or removed.
    run = _resumable(out, config) if resume else None
    if run is None:
        check_vacant(out, overwrite=overwrite)
    problem = load_problem(config)
    if run is None:
        make_vacant(out)
        run = Run.create(out, config, problem.sha256, problem.description)
    else:
        run.check_data(problem.sha256)
    for note in problem.notes:
        watcher.note(note)

    for trial in run.trials():
        watcher.trial(trial)
    if not run.complete:
        for seeds in batches(config):
            _train_batch(run, seeds, problem, watcher)
        run.finish()
    run.checkpoint.clear()
    return run


def _resumable(out: Path, config: RunConfig) -> Run:
    run = Run.open(out)
    changed = run.config.differences(config)
    if changed:
        raise RunError(
            f"{out}: cannot be resumed with other options ({'; '.join(changed)}). "
            "Resume without them, or choose another folder."
        )
    return run


def _train_batch(run: Run, seeds: range, problem: Problem, watcher: Watcher) -> None:
    """Train those of the batch that are not finished.

    Bits may depend on who else is in the batch, so it is always the whole one that begins or goes on from its
    checkpoint; trials which were kept since the checkpoint come out again, the same, and are let go.
    """
    finished = set(run.finished_seeds)
    if finished.issuperset(seeds):
        return
    trials = problem.make_trials(seeds)
    _restore(trials, run, seeds, watcher)
    with interrupts(watcher.stopping) as interrupted:
        last = time.monotonic()

        def look(trials: Trials) -> None:
            nonlocal last
            if not trials.settings:
                return
            try:
                _tell(trials, watcher)
                if interrupted():
                    raise KeyboardInterrupt
            except KeyboardInterrupt:
                _save(trials, run.checkpoint, seeds)
                raise
            if time.monotonic() - last >= SAVE_EVERY:
                _save(trials, run.checkpoint, seeds)
                last = time.monotonic()

        for outcome in trials.run(look):
            if outcome.setting.seed not in finished:
                trial = Trial.of(outcome)
                run.save_trial(trial)
                watcher.trial(trial)


def _tell(trials: Trials, watcher: Watcher) -> None:
    active = trials.active
    loss, accuracy = trials.history[trials.done - 1, 1:, active].mean(1).tolist()
    watcher.epochs(trials.done, int(active.sum()), loss, accuracy)


# --------------------------------------------------------------------------------------------------------- checkpoint


def _save(trials: Trials, checkpoint: Checkpoint, seeds: range) -> None:
    checkpoint.save({"versions": current_versions(), "seeds": list(seeds), "trials": trials.state()})


def _restore(trials: Trials, run: Run, seeds: range, watcher: Watcher) -> None:
    """Let the trials go on from the checkpoint of the run, if there is one of theirs and it fits."""
    saved = run.checkpoint.load()
    if saved is None or saved.get("seeds") != list(seeds):
        return
    if saved.get("versions") != current_versions():
        watcher.note("The checkpoint was made with other versions and is not used: unfinished trials start anew.")
        return
    try:
        state = saved["trials"]
        left = {setting[0] for setting in state["settings"]}  # the others had finished before
        if trials.restore(state, settings(run.config, [seed for seed in seeds if seed in left])):
            return
        reason = "other settings"
    except (LookupError, TypeError, RunError) as error:
        reason = str(error)
    raise RunError(f"{run.checkpoint.path}: does not fit the run ({reason}). Remove it to begin anew.")


# --------------------------------------------------------------------------------------------------------- interrupts
