"""Named arrays from the bytes of an ``.npz`` file and back, without pickle, with one kind of error."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armagnn.errors import DataError

Arrays = dict[str, NDArray[Any]]


def read_arrays(
    content: bytes, names: Iterable[str], source: str, *, what: str = "node-classification", everything: bool = False
) -> Arrays:
    """Read the arrays `names` from the bytes of an ``.npz`` file; `source` names the file in errors.

    Every array is read whole here, so that zip's own CRC-32 has vouched for all that is returned. A kind of file that
    has optional arrays asks for `everything`: so damage to the name of one cannot make it vanish unseen.

    Example:
        >>> content = pack_arrays({"y": np.arange(3)})
        >>> read_arrays(content, ["y"], "mine.npz")
        {'y': array([0, 1, 2])}
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as npz:
            if isinstance(npz, np.ndarray):
                raise DataError(f"{source}: a single array, not an .npz archive of named arrays.")
            missing = [name for name in names if name not in npz.files]
            if missing:
                raise DataError(f"{source}: not a {what} file, it lacks the arrays {', '.join(missing)}.")
            return {name: npz[name] for name in (npz.files if everything else names)}
    except DataError:
        raise
    except Exception as error:
        # Damaged archives reach us as a dozen unrelated types (zlib, struct, zip, numpy, tokenizer, memory):
        # what they share is that the file, not the program, is at fault.
        raise DataError(
            f"{source}: not a readable .npz file ({type(error).__name__}: {error}). "
            "It is corrupt, truncated or of another format: fetch it again."
        ) from error


def pack_arrays(arrays: Arrays) -> bytes:
    """Return the bytes of the compressed ``.npz`` file of these arrays; the same arrays give the same bytes."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise DataError(f"{name} holds Python objects, which only pickle could write: use numbers or text.")
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def read_file(path: str | Path) -> bytes:
    """Read a file, or say in one sentence why it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). Check the path and its permissions.") from error


def check_digest(content: bytes, source: str, *accepted: str | None) -> str:
    """Return the SHA-256 of `content`; where `accepted` names any, it must be one of them."""
    digest = hashlib.sha256(content).hexdigest()
    known = [sha256 for sha256 in accepted if sha256 is not None]
    if known and digest not in known:
        raise DataError(
            f"{source}: SHA-256 is {digest[:12]}..., not {known[0][:12]}...: the file is corrupt, truncated or "
            "another release. Fetch it again."
        )
    return digest
