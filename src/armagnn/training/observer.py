"""What trainings report while they work, one at a time or many."""

from __future__ import annotations

from armagnn.training.outcome import Outcome
from armagnn.training.record import Record


class Observer:
    """What `train` and `execute` report; override what you want to see."""

    def start(self, total: int) -> None:
        """So many trials are wanted, of which some may be finished already."""

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
