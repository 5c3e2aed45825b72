"""Where a run may be written: a vacant folder, or one that holds a run which may be replaced."""

from __future__ import annotations

from pathlib import Path

from armagnn.errors import RunError
from armagnn.training.atomic import read_plain
from armagnn.training.checkpoint import Checkpoint
from armagnn.training.manifest import CHECKPOINT, CONFIG, FILES, FORMAT, GRAPHS, LARGEST_JSON, MANIFEST


def check_vacant(path: Path, *, overwrite: bool) -> None:
    """Refuse a folder that holds anything, but for a run that had not begun, or any run if `overwrite`.

    Nothing is changed.
    """
    try:
        entries = list(path.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"{path}: is no folder for a run ({error.strerror}). Choose another.") from error
    if all(_is_draft(entry) for entry in entries) or not_begun(path):
        return
    if not _is_run(path):
        raise RunError(f"{path}: holds files that no run of armagnn wrote, and is left alone. Choose another folder.")
    if not overwrite:
        raise RunError(f"{path}: already holds a run. Continue it with --resume or replace it with --overwrite.")


def make_vacant(path: Path) -> None:
    """Create the folder, or remove the files of a run from it (and only those: your own stay).

    The configuration and the manifest stay until those of the new run replace them: killed in between, the folder is
    still known as a run.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        for file in [*path.iterdir(), *path.glob("trials/*")]:
            name = file.relative_to(path).as_posix()
            if _is_draft(file) or (FILES.fullmatch(name) and name != CONFIG):
                file.unlink()
        Checkpoint(path, CHECKPOINT).clear()
        trials = path / "trials"
        if trials.is_dir() and not any(trials.iterdir()):
            trials.rmdir()
    except OSError as error:
        raise RunError(f"{path}: cannot be made ready for a run ({error.strerror}).") from error


def not_begun(path: Path) -> bool:
    """Was a run killed before its manifest was written? Then nothing is lost with the folder."""
    try:
        names = {entry.name for entry in path.iterdir() if not _is_draft(entry)}
    except OSError:
        return False
    return CONFIG in names <= {CONFIG, GRAPHS} and _is_run(path)


def _is_draft(file: Path) -> bool:
    """Is it the unfinished file of an interrupted write?"""
    return file.name.startswith(".") and file.name.endswith(".tmp")


def _is_run(path: Path) -> bool:
    """Does the folder claim to be a run, however damaged?"""
    for name in (CONFIG, MANIFEST):
        try:
            if FORMAT.encode() in read_plain(path / name, LARGEST_JSON):
                return True
        except OSError:
            continue
    return False
