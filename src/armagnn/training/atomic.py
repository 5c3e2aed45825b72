"""Files: written so that each is either the old one or the new one, whole, whatever happens; read only if plain."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from armagnn.errors import RunError


def read_plain(path: Path, most: int) -> bytes:
    """The bytes of a plain file (or of one that a link leads to), at most `most` of them.

    Anything else is an ``OSError``: to read from a pipe or a device may never end.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        if found.st_size > most:
            raise OSError(errno.EFBIG, f"{found.st_size} bytes, of at most {most}", str(path))
        return file.read(most + 1)


def temporary(path: Path) -> Path:
    """The name that :func:`write_atomic` uses for `path` before it is whole."""
    return path.with_name(f".{path.name}.tmp")


def write_atomic(path: Path, content: bytes) -> None:
    """Write `content` to `path`: to a temporary file beside it, to the disk, then renamed over `path`.

    The folder is made if it is missing, but not the folder of the folder. The temporary file is always a new one: what
    an old one may be linked to is not written to.
    """
    draft = temporary(path)
    try:
        path.parent.mkdir(exist_ok=True)
        draft.unlink(missing_ok=True)
        with open(draft, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror}).") from error


def check_writable(*paths: Path | None) -> None:
    """Refuse files that :func:`write_atomic` could not write, before hours of work go into what is to be in them.

    Folders that are missing are made, all of them; a file that is there stays as it is. None is no file.
    """
    for path in paths:
        if path is None:
            continue
        try:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary(path).touch()
            temporary(path).unlink()
        except OSError as error:
            reason = f"{error.strerror}: {error.filename}"
            raise RunError(f"{path}: cannot be written ({reason}). Choose another file.") from error


def _sync_folder(folder: Path) -> None:
    # The rename itself must reach the disk too. Windows cannot open folders, and does not need it.
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
