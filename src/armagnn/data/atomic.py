"""Writing a file of the data folder whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from armagnn.errors import DataError


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path` through a temporary file beside it; folders are made where they are missing.

    Example:
        >>> folder = Path(tempfile.mkdtemp())
        >>> write_whole(folder / "a" / "b.txt", b"whole")
        >>> (folder / "a" / "b.txt").read_bytes()
        b'whole'
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(draft, 0o644)  # mkstemp's files are for their owner only
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}).") from error
