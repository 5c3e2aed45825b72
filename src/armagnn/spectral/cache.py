"""Where spectra are kept: one pickle-free file per operator, named by its checksum."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import zipfile
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from armagnn.errors import ParameterError, WriteError, shown
from armagnn.files import write_atomic
from armagnn.operators import GraphOperator

CACHE_VARIABLE: Final = "ARMAGNN_CACHE"
HEADER: Final = 1 << 16
"""More bytes than the header of an array takes."""
FORMAT: Final = b"armagnn spectrum 1"
"""Part of every checksum: a new way of computing or writing gets a new number, and old files are not found."""


def folder(cache: bool | str | Path = True) -> Path | None:
    """Return where spectra are kept, or None if nowhere: by the argument, ``$ARMAGNN_CACHE``, or the platform's place.

    Example:
        >>> folder("here")
        PosixPath('here')
    """
    if cache is False:
        return None
    if cache is not True:
        if not isinstance(cache, str | os.PathLike) or not os.fspath(cache):
            raise ParameterError(f"cache must be True, False or the path of a folder, got {shown(cache)}.")
        return Path(cache)
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return None if named.lower() == "off" else Path(named)
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "armagnn" / "cache"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "armagnn"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "armagnn"
    except RuntimeError:  # a user without a home, as in some containers
        return None


def checksum(op: GraphOperator) -> str:
    """Return 32 hex digits that belong to these entries in these places."""
    digest = hashlib.sha256(FORMAT)
    host = op.detach().to("cpu")
    for part in (host.rowptr.long(), host.col.long(), host.value.double()):
        digest.update(np.int64(part.shape[0]).tobytes())
        digest.update(part.contiguous().numpy().data)
    return digest.hexdigest()[:32]


def read(path: Path, nodes: int) -> tuple[Tensor, Tensor] | None:
    """Return what the file holds, or None where there is none, or none that `write` made and nobody touched."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():  # what `write` does not do: it may inflate to anything
                if member.compress_type != zipfile.ZIP_STORED or member.file_size > 8 * nodes * nodes + HEADER:
                    return None
        with np.load(path, allow_pickle=False) as arrays:  # zip's CRC-32 vouches for every array read
            values, vectors = arrays["mu"], arrays["U"]
    except Exception:  # of a damaged archive zipfile and numpy raise many kinds, and all of them mean: compute it
        return None
    if values.dtype != np.float64 or vectors.dtype != np.float64:
        return None
    if values.shape != (nodes,) or vectors.shape != (nodes, nodes):
        return None
    return torch.from_numpy(values), torch.from_numpy(vectors)


def write(path: Path, values: Tensor, vectors: Tensor) -> None:
    """Write the file whole or not at all; a folder that cannot be written to means that nothing is kept."""
    arrays = {"mu": values.cpu().numpy(), "U": vectors.cpu().numpy()}
    with contextlib.suppress(WriteError, ValueError):  # ValueError: a path with a zero byte
        write_atomic(path, lambda file: np.savez(file, allow_pickle=False, **arrays))
