"""The folder in which a partition is made: one process at a time works there, and every step it keeps is whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from armagnn.errors import DataError, WriteError
from armagnn.files import write_atomic

LOCK: Final = "lock"


@contextmanager
def alone(work: Path) -> Iterator[None]:
    """Let no other process work in this folder; it would count every edge again."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = open(work / LOCK, "w")  # noqa: SIM115 (it is closed below)
    except OSError as error:
        raise WriteError(f"{work}: cannot be written ({error.strerror}). Choose another folder.") from error
    with lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataError(
                f"{work.parent}: another process is writing a partition there. Wait for it to end, or choose another "
                "folder."
            ) from error
        except (ImportError, OSError):  # Windows, and file systems without locks
            pass
        yield


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array, whole or not at all."""
    write_atomic(path, lambda file: np.save(file, array, allow_pickle=False))


def read_json(path: Path) -> Any:
    """What was kept of a step."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}). Remove the folder to begin anew.") from error


def sizes(paths: Iterator[Path], *, sync: bool = False) -> dict[str, int]:
    """The bytes of files by their names; with `sync` they reach the disk first."""
    found = {}
    for path in sorted(paths):
        with open(path, "rb+") as file:
            if sync:
                os.fsync(file.fileno())
            found[path.name] = os.fstat(file.fileno()).st_size
    return found
