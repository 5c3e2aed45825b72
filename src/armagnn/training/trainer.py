"""Trials that go on from a checkpoint, and a run: the trials of one configuration, kept in a folder."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Final, Protocol

from armagnn.arguments import checked
from armagnn.checks import choice
from armagnn.data import GraphsDataset, NodeDataset
from armagnn.errors import DTypeError, ParameterError, RunError, shown
from armagnn.training.checkpoint import Checkpoint
from armagnn.training.config import Config
from armagnn.training.node_config import NodesConfig
from armagnn.training.outcome import Outcome, Setting, batches
from armagnn.training.record import Record
from armagnn.training.run_folder import Run, check_vacant, current_versions, make_vacant
from armagnn.training.task_configs import GraphsConfig
from armagnn.training.trials import Trials

EVERY: Final = 30.0
"""Seconds between two checkpoints: what a kill can cost at most. Shorter trainings write none."""


class Observer:
    """What `train` and `execute` report; override what you want to see."""

    def start(self, total: int) -> None:
        """`total` trials are wanted; some may be finished already."""

    def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
        """`epoch` epochs are over; `running` trials of the batch go on, with these validation means.

        Real targets have no accuracy: it is NaN.
        """

    def trial(self, trial: Outcome | Record, *, new: bool) -> None:
        """A trial is finished and kept: just now, or (not `new`) by an earlier call or another process."""

    def batch(self) -> None:
        """All trials of a batch are kept."""

    def lost(self, reason: str) -> None:
        """A worker died, and its batch is given to another one."""

    def stopping(self) -> None:
        """Ctrl-C came; training stops at the next moment from which it can be continued."""

    def note(self, text: str) -> None:
        """There is something that the user should know."""


class Archive(Protocol):
    """Where finished trials are kept, each by its key: a run folder (`Run`) or a results store (`Store`)."""

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Of these keys, those that have no trial here."""

    def get(self, key: str) -> Any:
        """The trial with this key, or None."""

    def add(self, trials: Iterable[Any]) -> int:
        """Keep trials and return how many are new; one that is here already stays as it is."""


def report_kept(keys: Sequence[str], archive: Archive, observer: Observer) -> list[str]:
    """Report the trials that the archive has, and return the keys of the others."""
    missing = archive.missing(keys)
    for key in keys:
        if key not in missing:
            observer.trial(archive.get(key), new=False)
    return missing


def keep(trial: Outcome | Record, archive: Archive, observer: Observer) -> bool:
    """Keep a finished trial and report it, both or neither where Ctrl-C comes; return whether it is new."""
    with interrupts(lambda: None) as interrupted:
        new = archive.add([trial]) == 1
        observer.trial(trial, new=new)
    if interrupted():
        raise KeyboardInterrupt
    return new


def run_trials(
    trials: Trials,
    checkpoint: Checkpoint,
    *,
    wanted: set[Setting] | None = None,
    observer: Observer | None = None,
    every: float = EVERY,
    agree: Callable[[bool], bool] = bool,
) -> Iterator[Outcome | None]:
    """Train, from the checkpoint if there is one, and yield every trial when it has stopped.

    A checkpoint is written every `every` seconds, and on Ctrl-C, which waits for the end of an epoch. The checkpoint is
    removed at the end. One of other versions of the software is not used. On a GPU also None is yielded, as
    `Trials.in_turns` does.

    Args:
        trials: the trials.
        checkpoint: what training goes on from.
        wanted: the settings that are not finished yet; the checkpoint must have them. All by default.
        observer: sees how training goes.
        every: seconds between two checkpoints.
        agree: is told whether Ctrl-C came, and says whether it counts: ranks stop together.

    Example:
        >>> for outcome in run_trials(trials, run.checkpoint):  # doctest: +SKIP
        ...     if outcome is not None:
        ...         keep(outcome, run, observer)
    """
    _restore(trials, checkpoint, wanted or set(trials.settings), observer or Observer())
    last = time.monotonic()

    def save() -> None:
        checkpoint.save({"versions": current_versions(), "trials": trials.state()})

    def look(trials: Trials) -> None:
        nonlocal last
        if not trials.settings:
            return
        came = False
        try:
            if observer is not None:
                _report(trials, observer)
        except KeyboardInterrupt:
            came = True
        if agree(came or interrupted()):
            save()
            raise KeyboardInterrupt
        if time.monotonic() - last >= every:
            save()
            last = time.monotonic()

    with interrupts((observer or Observer()).stopping) as interrupted:
        yield from trials.in_turns(look)
    checkpoint.clear()


def _report(trials: Trials, observer: Observer) -> None:
    active = trials.active
    loss, accuracy = trials.history[trials.done - 1, 1:, active].mean(1).tolist()
    observer.epochs(trials.done, int(active.sum()), loss, accuracy)


def _restore(trials: Trials, checkpoint: Checkpoint, wanted: set[Setting], observer: Observer) -> None:
    """Let the trials go on from the checkpoint, if there is one and it is of these versions."""
    saved = checkpoint.load()
    if saved is None:
        return
    if saved.get("versions") != current_versions():
        observer.note("The checkpoint was made with other versions and is not used: unfinished trials start anew.")
        return
    try:
        state = saved["trials"]
        left = {tuple(setting) for setting in state["settings"]}  # the others had stopped before
        running = [s for s in trials.settings if s in wanted or (s.seed, s.lr, s.l2, s.target, *s.rates) in left]
        if trials.restore(state, running):
            return
        reason = "other settings"
    except (LookupError, TypeError, RunError) as error:
        reason = str(error)
    raise RunError(f"{checkpoint.path}: does not fit this training ({reason}). Remove it to begin anew.")


@contextmanager
def interrupts(report: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Put Ctrl-C off inside: the yielded function says whether it came. A second one comes through at once.

    Within an epoch half of the weights may have made their step, and no training can go on from such a state.
    """
    came = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True
        report()

    # Only the main thread receives signals; a handler that somebody else has set stays.
    ours = threading.current_thread() is threading.main_thread()
    ours = ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: came
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


# ------------------------------------------------------------------------------------------------------------------ run


@checked
def train(
    config: Any,
    out: str | Path,
    *,
    data: Any = None,
    resume: bool = False,
    overwrite: bool = False,
    observer: Observer | None = None,
    **options: Any,
) -> Run:
    """Train one network per seed of `config`, on nodes, graphs or signals, and keep the run in the folder `out`.

    All seeds are one batch (of GAT, GraphSAGE and GIN at most ten). A run that was interrupted is
    continued with `resume` and ends with the same weights and metrics, bit for bit, as one that was not: finished
    trials are kept, and the batch goes on from its last checkpoint, which is made on Ctrl-C and at least every 30
    seconds otherwise. The configuration must be the same. `overwrite` replaces a run that is there.

    Args:
        config: what to train, on what; or a dataset, which is trained on by what suits it.
        out: the run folder.
        data: the dataset, if it is in memory; by default the configuration loads it.
        resume: go on with the run in the folder.
        overwrite: replace the run in the folder.
        observer: sees how training goes.
        **options: changes of the configuration, such as ``conv="gcn", seeds=3``.

    Example:
        >>> run = train(NodesConfig(seeds=3), "runs/cora")  # doctest: +SKIP
        >>> run.metrics()["test"]["accuracy"]["mean"]  # doctest: +SKIP
        >>> data = NodeDataset.from_tables("nodes.csv", "edges.csv", target="label")  # doctest: +SKIP
        >>> run = train(data, "runs/mine", conv="gcn")  # doctest: +SKIP
    """
    out = Path(out)
    config, data = _configured(config, data, options)
    observer = observer or Observer()
    if resume and overwrite:
        raise ParameterError("resume and overwrite exclude each other: continue the run or replace it.")
    # All that can be refused is refused here, before anything is computed or removed.
    run = _resumable(out, config) if resume else None
    if run is None:
        check_vacant(out, overwrite=overwrite)
    experiment = config.experiment(data)
    experiment.check_memory()
    description = experiment.description
    if run is None:
        make_vacant(out)
        run = Run.create(out, config, experiment.sha256, None if description is None else description.to_json())
    else:
        run.check_data(experiment.sha256)

    for note in experiment.notes:
        observer.note(note)
    observer.start(config.seeds)
    missing = report_kept([str(seed) for seed in config.all_seeds], run, observer)
    if not run.complete:
        device = config.torch_device()
        for seeds in batches(config):
            wanted = {experiment.setting(seed) for seed in seeds if str(seed) in missing}
            if not wanted:
                continue
            # Bits may depend on who else is in the batch, so it is always the whole one that begins or goes on from
            # its checkpoint; trials that were kept since the checkpoint come out again, the same, and are let go.
            trials = experiment.trials([experiment.setting(seed) for seed in seeds], device=device)
            for outcome in run_trials(trials, run.checkpoint, wanted=wanted, observer=observer, every=EVERY):
                if outcome is not None and str(outcome.seed) in missing:
                    keep(experiment.closed(outcome.require_converged()), run, observer)
            observer.batch()
        run.finish(experiment.baselines())
    run.checkpoint.clear()
    return run


def _configured(config: Any, data: Any, options: dict[str, Any]) -> tuple[Config, Any]:
    """The configuration, with what is changed, and the data if they are in memory."""
    if not isinstance(config, Config):
        if data is not None:
            raise ParameterError(
                f"config must be a configuration, or a dataset (and no data besides), got {shown(config)}."
            )
        config, data = config_for(config), config
    for name in options:
        choice("option", name, config.to_json())
    config = replace(config, **options)
    return (config if data is None else config.of_memory(data)), data


def config_for(data: object) -> Config:
    """The configuration that suits a dataset in memory."""
    if isinstance(data, NodeDataset):
        return NodesConfig() if data.schema is None else NodesConfig.for_tables()
    if isinstance(data, GraphsDataset):
        return GraphsConfig()
    raise DTypeError(f"config must be a configuration or a dataset of nodes or graphs, got {shown(data)}.")


def _resumable(out: Path, config: Config) -> Run:
    run = Run.open(out)
    changed = run.config.differences(config)
    if changed:
        raise RunError(
            f"{out}: cannot be resumed with other options ({'; '.join(changed)}). "
            "Resume without them, or choose another folder."
        )
    return run
