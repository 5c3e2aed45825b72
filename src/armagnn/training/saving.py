"""A batch of trials that keeps, now and then, what it can go on from."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from armagnn.errors import RunError
from armagnn.training.checkpoint import AGAIN, Checkpoint
from armagnn.training.run import current_versions
from armagnn.training.setting import Outcome
from armagnn.training.trials import Trials

EVERY: Final = 60.0
"""Seconds between two checkpoints: what a kill can cost at most. Shorter trainings write none."""


class Saver:
    """Runs `Trials` from the checkpoint, if there is one, and writes another every so many seconds.

    Example:
        >>> for outcome in Saver(Checkpoint(checkpoints_of(DEFAULT_STORE), "key"), trials).in_turns():  # doctest: +SKIP
        ...     if outcome is not None:
        ...         keep(outcome)
    """

    def __init__(self, checkpoint: Checkpoint, trials: Trials, every: float = EVERY) -> None:
        self.checkpoint, self.trials, self.every = checkpoint, trials, every
        self._last = time.monotonic()
        saved = checkpoint.load()
        # one of other software, or of another network, is no use: the trials begin anew
        if saved is None or saved.get("versions") != current_versions():
            return
        try:
            state, rules = saved["trials"], {keeper.rule for keeper in trials.keepers}
            if state["params"].keys() == trials.params.keys() and state.get("keepers", {}).keys() == rules:
                trials.restore(state, trials.settings)
        except (LookupError, TypeError, AttributeError, RunError) as error:
            raise RunError(f"{checkpoint.path}: does not fit the trials ({error}). {AGAIN}") from error

    def in_turns(self) -> Iterator[Outcome | None]:
        """Train, and yield every trial when it has stopped; None as `Trials.in_turns` does."""
        yield from self.trials.in_turns(look=lambda _: self.save_if_due())

    def save_if_due(self) -> None:
        """Write a checkpoint if the last one is old enough."""
        if time.monotonic() - self._last >= self.every and self.trials.settings:
            self.save()

    def save(self) -> None:
        """Write a checkpoint."""
        self.checkpoint.save({"versions": current_versions(), "trials": self.trials.state()})
        self._last = time.monotonic()

    def clear(self) -> None:
        """Remove what was written: all trials are finished."""
        self.checkpoint.clear()
