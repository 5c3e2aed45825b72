"""Where spectra are kept: one pickle-free file per operator, named by its checksum."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from armagnn.operators import GraphOperator

CACHE_VARIABLE: Final = "ARMAGNN_CACHE"
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
        return Path(cache)
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return None if named.lower() == "off" else Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "armagnn" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "armagnn"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "armagnn"


def checksum(op: GraphOperator) -> str:
    """Return 32 hex digits that belong to these entries in these places."""
    digest = hashlib.sha256(FORMAT)
    host = op.detach().to("cpu")
    for part in (host.rowptr.long(), host.col.long(), host.value.double()):
        digest.update(np.int64(part.shape[0]).tobytes())
        digest.update(part.contiguous().numpy().data)
    return digest.hexdigest()[:32]


def read(path: Path, nodes: int) -> tuple[Tensor, Tensor] | None:
    """Return what the file holds, or None where there is none or it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as archive:  # zip's CRC-32 vouches for every array read
            values, vectors = archive["mu"], archive["U"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, AttributeError, zipfile.BadZipFile):
        return None
    if values.dtype != np.float64 or vectors.dtype != np.float64:
        return None
    if values.shape != (nodes,) or vectors.shape != (nodes, nodes):
        return None
    return torch.from_numpy(values), torch.from_numpy(vectors)


def write(path: Path, values: Tensor, vectors: Tensor) -> None:
    """Write the file whole or not at all; a folder that cannot be written to means that nothing is kept."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, allow_pickle=False, mu=values.cpu().numpy(), U=vectors.cpu().numpy())
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
