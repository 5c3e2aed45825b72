"""Files: written so that each is either the old one or the new one, whole, whatever happens; read only if plain."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from armagnn.errors import DataError, DTypeError, ParameterError, WriteError, shown


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
        return file.read(found.st_size + 1)  # Python takes memory for as much as is asked for


def path_of(name: Any) -> str:
    """Return a name, or a path, as text; it stays as it is, as ``./mutag`` is a folder and ``mutag`` a name.

    Example:
        >>> path_of(Path("my", "graphs")) == os.path.join("my", "graphs")
        True
    """
    try:
        return os.fsdecode(name)
    except Exception as error:  # of no path: TypeError; a foreign __fspath__ may raise anything
        raise ParameterError(f"a dataset is given by its name or by a path, got {shown(name)}.") from error


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Read a file, or say in one sentence why it cannot be read."""
    path = path_of(path)
    try:
        kind = os.stat(path).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):  # a pipe would wait for someone who writes
            raise DataError(f"{path}: is not a file, but a pipe or a device. Write its content to a file.")
        return Path(path).read_bytes()
    except (OSError, ValueError, MemoryError) as error:  # of a name that no file can have: ValueError
        if isinstance(error, DataError):
            raise
        why = error.strerror if isinstance(error, OSError) else error or "it is larger than the memory"
        raise DataError(f"{path}: cannot be read ({why}). Check the path and its permissions.") from error


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(content).hexdigest()


def check_digest(content: bytes, source: str, *accepted: str | None) -> str:
    """Return the SHA-256 of `content`; where `accepted` names any, it must be one of them."""
    for sha256 in accepted:
        if not isinstance(sha256, str | None):
            raise DTypeError(f"sha256 must be a checksum in hexadecimal, or None, got {shown(sha256)}.")
    digest = sha256_of(content)
    known = [sha256 for sha256 in accepted if sha256 is not None]
    if known and digest not in known:
        raise DataError(
            f"{source}: SHA-256 is {digest[:12]}..., not {known[0][:12]}...: the file is corrupt, truncated or "
            "another release. Fetch it again."
        )
    return digest


def write_atomic(path: Path, content: bytes | Callable[[IO[bytes]], object]) -> None:
    """Write bytes, or what a function writes, to a draft in the same folder, sync it to the disk, rename it to `path`.

    Folders that are missing are made. A process that is killed leaves a draft at most, which :func:`is_draft` knows.

    Example:
        >>> folder = Path(tempfile.mkdtemp())
        >>> write_atomic(folder / "a" / "b.txt", b"whole")
        >>> (folder / "a" / "b.txt").read_bytes()
        b'whole'
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content) if isinstance(content, bytes) else content(file)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(draft, 0o644)  # mkstemp's files are for their owner only
            os.replace(draft, path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise WriteError(f"{path}: cannot be written ({error.strerror}).") from error


def is_draft(file: Path) -> bool:
    """Is it the unfinished file of a write that was killed?"""
    return file.name.startswith(".") and file.name.endswith(".tmp")


def check_writable(*paths: Path | None) -> None:
    """Refuse files that :func:`write_atomic` could not write, before hours of work go into their content.

    Missing folders are made; a file that is there stays as it is. None is no file.
    """
    for path in paths:
        if path is None:
            continue
        try:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
            os.close(handle)
            os.unlink(draft)
        except OSError as error:
            reason = f"{error.strerror}: {error.filename}"
            raise WriteError(f"{path}: cannot be written ({reason}). Choose another file.") from error


def _sync_folder(folder: Path) -> None:
    # The rename itself must reach the disk too. Windows cannot open folders, and does not need it.
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def platform_folder(kind: str) -> Path:
    """Return where this platform keeps the "data" or the "cache" of armagnn; without a home, raise RuntimeError."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "armagnn"
        return base / "cache" if kind == "cache" else base
    if sys.platform == "darwin":
        return Path.home() / "Library" / ("Caches" if kind == "cache" else "Application Support") / "armagnn"
    usual = Path.home() / (".cache" if kind == "cache" else ".local/share")
    return Path(os.environ.get(f"XDG_{kind.upper()}_HOME") or usual) / "armagnn"
