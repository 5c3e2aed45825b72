"""Named arrays from the bytes of an ``.npz`` file and back, without pickle, with one kind of error."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn.checks import instance, tensor
from armagnn.data.archives import ArrayArchive, Axes, agree
from armagnn.errors import ArmagnnError, DataError, DTypeError, ParameterError, shown

Arrays = dict[str, NDArray[Any]]
FORMATS: Final = (
    "Datasets are .npz archives of named arrays, of labelled nodes or of graphs (numpy.savez), or folders of text "
    "files in TU's format; docs/data.md lists the arrays and the files."
)

NUMPYS: Final = (torch.float16, torch.float32, torch.float64)
"""Reals that numpy has, too."""


def read_arrays(
    content: bytes, names: Iterable[str], source: str, *, what: str = "node-classification", axes: Axes | None = None
) -> Arrays:
    """Read arrays from the bytes of an ``.npz`` file; `source` names the file in errors.

    The file must have the arrays `names`; those of `axes` are read, too, where they are there. A file that would take
    too much memory is refused before it is unpacked: see :mod:`armagnn.data.archives`.

    Example:
        >>> content = pack_arrays({"y": np.arange(3)})
        >>> read_arrays(content, ["y"], "mine.npz")
        {'y': array([0, 1, 2])}
    """
    with opened(content, source) as archive:
        missing = [name for name in names if name not in archive.headers]
        if missing:
            raise DataError(f"{source}: not a {what} file, it lacks the arrays {', '.join(missing)}.")
        agree(archive.headers, axes or {}, source)
        wanted = {**dict.fromkeys(names), **dict.fromkeys(axes or {})}
        return archive.read(name for name in wanted if name in archive.headers)


@contextmanager
def opened(content: bytes, source: str) -> Iterator[ArrayArchive]:
    """The arrays of an ``.npz`` file; whatever goes wrong with it is a :class:`DataError`."""
    if not content.startswith(b"PK"):
        raise DataError(f"{source}: not an .npz file. {FORMATS}")
    try:
        yield ArrayArchive(content, source)
    except ArmagnnError:
        raise
    except Exception as error:
        # Damaged archives reach us as a dozen unrelated types (zlib, struct, zip, numpy, tokenizer, memory):
        # what they share is that the file, not the program, is at fault.
        raise DataError(
            f"{source}: not a readable .npz file ({type(error).__name__}: {error}). "
            "It is corrupt or truncated: fetch, copy or save it again."
        ) from error


def pack_arrays(arrays: Arrays) -> bytes:
    """Return the bytes of the compressed ``.npz`` file of these arrays; the same arrays give the same bytes."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise DataError(f"{name} holds Python objects, which only pickle could write: use numbers or text.")
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def as_array(name: str, value: Any) -> NDArray[Any]:
    """Return numbers that a user has as a tensor, an array or lists.

    Example:
        >>> as_array("y", [0, 1])
        array([0, 1])
    """
    try:
        if isinstance(value, Tensor):
            tensor(name, value)
            plain = value.float() if value.is_floating_point() and value.dtype not in NUMPYS else value
            found = plain.numpy(force=True)
        else:
            found = np.asarray(value)
    except ArmagnnError:
        raise
    except (TypeError, ValueError, RuntimeError, OverflowError, MemoryError) as error:
        raise DTypeError(f"{name} must be a dense tensor, an array or lists of numbers: {error}") from error
    if found.dtype.kind not in "biuf":
        raise DTypeError(f"{name} must hold numbers, got {found.dtype}.")
    # numpy takes empty lists, such as those of no edges, for reals
    return found.astype(np.int64) if found.size == 0 and isinstance(value, list | tuple) else found


def digest_of(arrays: Arrays) -> str:
    """Return a SHA-256 of these arrays, their names, types and shapes."""
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(array.tobytes())
    return found.hexdigest()


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


def check_digest(content: bytes, source: str, *accepted: str | None) -> str:
    """Return the SHA-256 of `content`; where `accepted` names any, it must be one of them."""
    for sha256 in accepted:
        instance("sha256", sha256, (str, type(None)), "a checksum in hexadecimal, or None")
    digest = hashlib.sha256(content).hexdigest()
    known = [sha256 for sha256 in accepted if sha256 is not None]
    if known and digest not in known:
        raise DataError(
            f"{source}: SHA-256 is {digest[:12]}..., not {known[0][:12]}...: the file is corrupt, truncated or "
            "another release. Fetch it again."
        )
    return digest
