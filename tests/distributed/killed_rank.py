"""``armagnn`` with a checkpoint every five epochs, and a rank that is killed in a trial if there is a trap for it.

killed_rank.py TRAP RANK LOG WORDS...
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from armagnn.cli import main
from armagnn.distributed import part_training
from armagnn.distributed.part_training import SharedCheckpoint

SEED, EPOCH = 1, 10
"""Where the rank is killed: the trial before is kept, and of this one a checkpoint."""

trap, rank, log = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
save = SharedCheckpoint.save


def save_or_die(checkpoint: SharedCheckpoint, state: dict[Any, Any]) -> None:
    """Save, and write down of which trial and epoch; the rank that is meant springs the trap, and saves nothing."""
    seed, epoch = state["trials"]["settings"][0][0], int(state["trials"]["done"])
    if os.environ["RANK"] == rank and (seed, epoch) == (SEED, EPOCH) and trap.exists():
        trap.rename(trap.with_name("sprung"))
        trap.with_name("sprung").write_text(str(time.time()))
        os.kill(os.getpid(), signal.SIGKILL)
    save(checkpoint, state)
    if os.environ["RANK"] == "0":
        with log.open("a") as lines:
            lines.write(f"{seed} {epoch}\n")


if __name__ == "__main__":
    part_training.EVERY = 0.0  # type: ignore[misc]
    SharedCheckpoint.save = save_or_die  # type: ignore[method-assign]
    sys.argv[1:] = sys.argv[4:]
    main()
