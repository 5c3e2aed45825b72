"""Named arrays from the bytes of an ``.npz`` file and back, without pickle, and the checks of all kinds of file."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn.checks import device as check_device
from armagnn.checks import instance, tensor
from armagnn.data.archives import ArrayArchive, Axes, agree
from armagnn.errors import ArmagnnError, DataError, DTypeError, ParameterError, shown
from armagnn.operators import CSR

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Arrays = dict[str, NDArray[Any]]
DatasetT = TypeVar("DatasetT", bound="DataclassInstance")
FORMATS: Final = (
    "Datasets are .npz archives of named arrays, of labelled nodes or of graphs (numpy.savez), or folders of text "
    "files in TU's format; docs/guides/data.md lists the arrays and the files."
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


def as_tensor(array: NDArray[Any] | None) -> Tensor | None:
    """Return an array, if there is one, as a tensor of the same memory."""
    return None if array is None else torch.from_numpy(array)


def on_device(dataset: DatasetT, device: torch.device | str) -> DatasetT:
    """Return a frozen dataclass with every tensor on `device`."""
    place = check_device(device)
    values = {each.name: getattr(dataset, each.name) for each in fields(dataset)}
    moved: dict[str, Any] = {name: v.to(place) for name, v in values.items() if isinstance(v, Tensor | CSR)}
    return replace(dataset, **moved)


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


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(content).hexdigest()


def check_digest(content: bytes, source: str, *accepted: str | None) -> str:
    """Return the SHA-256 of `content`; where `accepted` names any, it must be one of them."""
    for sha256 in accepted:
        instance("sha256", sha256, (str, type(None)), "a checksum in hexadecimal, or None")
    digest = sha256_of(content)
    known = [sha256 for sha256 in accepted if sha256 is not None]
    if known and digest not in known:
        raise DataError(
            f"{source}: SHA-256 is {digest[:12]}..., not {known[0][:12]}...: the file is corrupt, truncated or "
            "another release. Fetch it again."
        )
    return digest


NO_LABEL = -1
LARGEST_ERROR: Final = 0.01
"""Of a deviation, what float32 may round away."""
CONSTANT: Final = 1e-12
"""Of the size of float64 numbers, a deviation that is itself their rounding."""


def integers(
    arrays: Arrays,
    name: str,
    source: str,
    ndim: int = 1,
    *,
    shape: tuple[int, ...] | None = None,
    within: tuple[int, int] | None = None,
) -> NDArray[np.int64]:
    """Return an array of integers with `ndim` axes as int64 (small types overflow in arithmetic).

    It may have to be of a `shape`, and to lie `within` (low, high), that is in low .. high - 1.
    """
    array = arrays[name]
    if array.dtype.kind not in "iu" or array.ndim != ndim:
        raise DataError(
            f"{source}: {name} is {array.dtype} of shape {array.shape}; it must be integers of {ndim} axes."
        )
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise DataError(f"{source}: {name} holds {array.max()}, which is beyond every id.")
    if shape is not None and array.shape != shape:
        raise DataError(f"{source}: {name} has shape {array.shape}; it must be {shape}.")
    low, high = within or (None, None)
    if low is not None and high is not None and array.size and not low <= array.min() <= array.max() < high:
        raise DataError(f"{source}: {name} holds {array.min()} .. {array.max()}; it must lie in {low} .. {high - 1}.")
    return array.astype(np.int64)


def reals(arrays: Arrays, name: str, source: str, what: str = "features") -> NDArray[np.float32]:
    """Return an array of finite reals as float32."""
    array = arrays[name]
    if array.dtype.kind not in "fiu":
        raise DataError(f"{source}: {name} is {array.dtype} of shape {array.shape}; it must be reals.")
    return single(array, f"{source}: {name}", what)


def single(array: NDArray[Any], where: str, what: str = "features") -> NDArray[np.float32]:
    """Return reals as float32, if they are finite as such."""
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused as such
        array = array.astype(np.float32)
    if not np.isfinite(array).all():
        raise DataError(f"{where} has NaN or infinite {what}. Replace or remove them.")
    return array


def check_precision(array: NDArray[Any], where: str) -> None:
    """Refuse reals to learn from, (N,) or (N, F), with a column whose differences float32 would round away.

    Example:
        >>> check_precision(np.array([1e9, 1e9 + 1, 1e9 + 2]), "y")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        armagnn.errors.DataError: y, column 1: varies by 0.816 around 1e+09, which float32 rounds away: subtract ...
    """
    if array.dtype.kind != "f" or np.can_cast(array.dtype, np.float32) or not array.size or array.ndim not in (1, 2):
        return
    for number, column in enumerate(array.reshape(len(array), -1).T, 1):
        wide = column.astype(np.float64)
        with np.errstate(all="ignore"):  # NaN and what float32 cannot hold are refused elsewhere
            deviation, error = wide.std(), np.abs(wide - wide.astype(np.float32)).max()
        if error > LARGEST_ERROR * deviation and deviation > CONSTANT * np.abs(wide).max():
            raise DataError(
                f"{where}, column {number}: varies by {deviation:.3g} around {wide.mean():.6g}, which float32 rounds "
                "away: subtract its mean and divide by its deviation before."
            )


def check_varied(targets: NDArray[Any], where: str, of: str = "graphs") -> None:
    """Refuse real targets (G, T) of graphs, or of other things, with a column in which all are the same.

    Example:
        >>> check_varied(np.array([[1.0, 0.5], [2.0, 0.5]]), "y")
        Traceback (most recent call last):
        ...
        armagnn.errors.DataError: y, column 2: all graphs have the target 0.5; there is nothing to learn. Leave it out.
    """
    same = (targets == targets[:1]).all(axis=0)
    if len(targets) > 1 and same.any():
        column = int(same.argmax())
        raise DataError(
            f"{where}, column {column + 1}: all {of} have the target {targets[0, column]:g}; there is nothing to "
            "learn. Leave it out."
        )


def class_labels(arrays: Arrays, count: int, source: str, of: str = "nodes") -> tuple[NDArray[np.int64], int]:
    """Return ``y``, one label for each of `count` things, and the number of classes C."""
    y = integers(arrays, "y", source, within=(NO_LABEL, count))
    if y.shape != (count,):
        raise DataError(f"{source}: y has {y.size} labels for {count} {of}; it must have one for each.")
    used = np.unique(y[y != NO_LABEL])
    if used.size < 2 or used[-1] != used.size - 1:
        raise DataError(
            f"{source}: y uses the labels {used[:10].tolist()}; it must use all of 0 .. C-1 for C >= 2 "
            f"classes ({NO_LABEL}: no label)."
        )
    return y, int(used.size)
