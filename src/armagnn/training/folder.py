"""Where a run may be written: a vacant folder, or one that holds a run which may be replaced."""

from __future__ import annotations

from pathlib import Path

from armagnn.errors import RunError
from armagnn.training.checkpoint import Checkpoint
from armagnn.training.manifest import CHECKPOINT, FILES, FORMAT, MANIFEST


def check_vacant(path: Path, *, overwrite: bool) -> None:
    """Refuse a folder that holds anything, but for a run if `overwrite`. Nothing is changed."""
    try:
        entries = list(path.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"{path}: is no folder for a run ({error.strerror}). Choose another.") from error
    if all(_is_draft(entry) for entry in entries):
        return
    if not _is_run(path):
        raise RunError(f"{path}: holds files that no run of armagnn wrote, and is left alone. Choose another folder.")
    if not overwrite:
        raise RunError(f"{path}: already holds a run. Continue it with --resume or replace it with --overwrite.")


def make_vacant(path: Path) -> None:
    """Create the folder, or remove the files of a run from it (and only those: your own stay).

    The manifest goes last, so that a half-removed run is still known for what it is.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        for file in [*path.iterdir(), *path.glob("trials/*")]:
            if FILES.fullmatch(file.relative_to(path).as_posix()) or _is_draft(file):
                file.unlink()
        Checkpoint(path, CHECKPOINT).clear()
        trials = path / "trials"
        if trials.is_dir() and not any(trials.iterdir()):
            trials.rmdir()
        (path / MANIFEST).unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"{path}: cannot be made ready for a run ({error.strerror}).") from error


def _is_draft(file: Path) -> bool:
    """Is it the unfinished file of an interrupted write?"""
    return file.name.startswith(".") and file.name.endswith(".tmp")


def _is_run(path: Path) -> bool:
    """Does the folder claim to be a run, however damaged?"""
    for name in ("config.json", MANIFEST):
        try:
            if FORMAT.encode() in (path / name).read_bytes():
                return True
        except OSError:
            continue
    return False
