"""Named arrays from the bytes of an ``.npz`` file and back, without pickle, and the checks of all kinds of file.

No bomb of a few bytes fills the memory: an archive may unpack to 1 GiB, or to four times its own size, or to what the
environment variable ``ARMAGNN_MAX_UNPACKED`` says (bytes, or a number with K, M, G or T). A large array must have the
sizes that others imply. Both are checked before anything is unpacked; no reader takes more than was declared.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from armagnn.checks import device as check_device
from armagnn.checks import tensor
from armagnn.errors import ArmagnnError, DataError, DTypeError, ParameterError, shown
from armagnn.operators import CSR

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Arrays = dict[str, NDArray[Any]]
DatasetT = TypeVar("DatasetT", bound="DataclassInstance")
FORMATS: Final = (
    "Datasets are .npz archives of named arrays, of labelled nodes or of graphs (numpy.savez), or folders of text "
    "files in TU's format; docs/reference/datasets.md lists the arrays and the files."
)

NUMPYS: Final = (torch.float16, torch.float32, torch.float64)
"""Reals that numpy has, too."""


VARIABLE: Final = "ARMAGNN_MAX_UNPACKED"
LIMIT: Final = 2**30
RATIO: Final = 4
"""An archive may unpack to this many times its own size: honest arrays, saved without compression, do not shrink."""
LARGE: Final = 2**24
"""Bytes from which on an array must have the sizes that others imply; smaller ones are checked when they are read."""
MANY: Final = 0xFFFF
"""What an archive says of more files than two bytes can count."""
HEADER: Final = 10_000
"""The longest description of an array that is read."""

Axis = int | str | tuple[str, int]
Axes = Mapping[str, tuple[Axis, ...]]
"""The axes of each array that a kind of file may hold: a number; a name, which is one size wherever it stands; a name
and what is added to it, ``("N", 1)``; or ``"<N"``, at most N. Axes that follow are free."""


def limit() -> int:
    """Return how many bytes an archive may unpack to: the value of the environment variable, or 1 GiB."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return LIMIT
    found = re.fullmatch(r"(\d{1,15})\s*([KMGT]?)(i?B)?", text, re.IGNORECASE)
    if not found:
        raise ParameterError(f"{VARIABLE} is {shown(text)}; it must be a number of bytes, such as 4G.")
    power: int = " KMGT".index(found[2].upper() or " ")
    return int(found[1]) << (10 * power)


def check_size(unpacked: int, packed: int, source: str) -> None:
    """Refuse an archive of `packed` bytes that would unpack to too many."""
    most = max(limit(), RATIO * packed)
    if unpacked > most:
        raise DataError(
            f"{source}: would take {_size(unpacked)} of memory, more than the limit of {_size(most)}. If it is right, "
            f"set the environment variable {VARIABLE} to a larger limit, such as {-(-unpacked // 2**30)}G."
        )


def gunzip(content: bytes, source: str) -> bytes:
    """Unpack gzipped bytes (of one member or several) as far as the limit.

    Example:
        >>> import gzip
        >>> gunzip(gzip.compress(b"text"), "a.gz")
        b'text'
    """
    most, total, rest = max(limit(), RATIO * len(content)), 0, content
    parts: list[bytes] = []
    while rest or not parts:
        one = zlib.decompressobj(wbits=31)
        try:
            parts.append(one.decompress(rest, most - total + 1))
        except zlib.error as error:
            raise DataError(f"{source}: not gzipped, or damaged ({error}). Fetch it again.") from error
        total += len(parts[-1])
        if total > most:
            check_size(total, len(content), source)
        if not one.eof:
            raise DataError(f"{source}: gzipped, but truncated. Fetch it again.")
        rest = one.unused_data.lstrip(b"\0")
    return b"".join(parts)


def open_zip(content: bytes, source: str) -> zipfile.ZipFile:
    """Open a zip archive, if what it declares is not too much."""
    archive = zipfile.ZipFile(io.BytesIO(content))
    check_size(sum(member.file_size for member in archive.infolist()), len(content), source)
    return archive


@dataclass(frozen=True)
class Header:
    """What an array in an archive is declared to be."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Bytes of its numbers."""
        return math.prod(self.shape) * self.dtype.itemsize


class ArrayArchive:
    """The arrays of an ``.npz`` file: all are described, and read when they are asked for. Never a pickle.

    Every member is opened when the archive is, so damage to the name of one cannot make it vanish unseen; nor can
    damage to the list of members, as the archive says how many there are. zip's own CRC-32 vouches for what is read.

    Example:
        >>> file = io.BytesIO()
        >>> np.savez(file, y=np.arange(3))
        >>> archive = ArrayArchive(file.getvalue(), "mine.npz")
        >>> archive.headers["y"].shape, archive.read(["y"])
        ((3,), {'y': array([0, 1, 2])})
    """

    def __init__(self, content: bytes, source: str) -> None:
        self.source = source
        self._zip = open_zip(content, source)
        members = self._zip.infolist()
        if _listed(content) not in (len(members), MANY):
            raise DataError(f"{source}: lists {len(members)} arrays of {_listed(content)}: the file is corrupt.")
        self.headers: dict[str, Header] = {}
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name == member.filename or name in self.headers:
                raise DataError(
                    f"{source}: holds {shown(member.filename)}, which is no array (NAME.npy), or one again."
                )
            self.headers[name] = self._header(member)

    def _header(self, member: zipfile.ZipInfo) -> Header:
        """Return what a member says of itself, which must be what the archive says of it."""
        where = f"{self.source}: {member.filename}"
        with self._zip.open(member) as file:
            start = file.read(len(npy.MAGIC_PREFIX))
            if start != npy.MAGIC_PREFIX:
                what = "a pickle, which is never read" if start[:1] == b"\x80" else "not an array of numpy"
                raise DataError(f"{where} is {what}: save arrays of numbers by numpy.savez.")
            version = tuple(file.read(2))
            if version == (1, 0):
                shape, _, dtype = npy.read_array_header_1_0(file, max_header_size=HEADER)
            elif version == (2, 0):
                shape, _, dtype = npy.read_array_header_2_0(file, max_header_size=HEADER)
            else:
                raise DataError(f"{where} is of version {version} of numpy's format, which is not read here.")
            found, start_of_numbers = Header(shape, dtype), file.tell()
        if dtype.hasobject:
            raise DataError(f"{where} holds Python objects, which only pickle could read: save numbers or text.")
        if found.size != member.file_size - start_of_numbers or min(found.shape, default=0) < 0 or not dtype.itemsize:
            raise DataError(
                f"{where} declares {found.size} bytes of numbers, but {member.file_size - start_of_numbers} are there: "
                "the file is corrupt."
            )
        return found

    def read(self, names: Iterable[str]) -> dict[str, NDArray[Any]]:
        """Return arrays by name."""
        found = {}
        for name in names:
            with self._zip.open(f"{name}.npy") as file:
                found[name] = npy.read_array(file, allow_pickle=False, max_header_size=HEADER)
                if file.read(1):
                    raise DataError(f"{self.source}: {name}.npy is longer than it declares: the file is corrupt.")
        return found


def agree(headers: Mapping[str, Header], axes: Axes, source: str) -> None:
    """Refuse a large array whose sizes are not those that the other arrays imply."""
    known: dict[str, dict[str, int]] = {}
    bounds: list[tuple[str, str, int]] = []
    for name in (name for name in axes if name in headers):
        _check_shape(name, headers[name], axes[name], source)
        for axis, size in zip(axes[name], headers[name].shape, strict=False):
            symbol, more = axis if isinstance(axis, tuple) else (str(axis), 0)
            if symbol.startswith("<"):
                bounds.append((name, symbol[1:], size))
            elif not isinstance(axis, int):
                known.setdefault(symbol, {})[name] = size - more
    pairs = [(name, other) for name, symbol, size in bounds for other, most in known.get(symbol, {}).items()
             if size > most]  # fmt: skip
    for sizes in known.values():
        pairs += [(name, other) for name in sizes for other in sizes if sizes[name] != sizes[other]]
    for name, other in pairs:
        one, two = headers[name], headers[other]
        if max(one.size, two.size) >= LARGE:
            raise DataError(
                f"{source}: {name} of shape {one.shape} does not fit {other} of shape {two.shape}; they must have one "
                "length in common."
            )


def _check_shape(name: str, found: Header, axes: tuple[Axis, ...], source: str) -> None:
    """Refuse a large array that lacks an axis, or has one of another size than it always has."""
    sizes = zip(axes, found.shape, strict=False)
    wrong = len(found.shape) < len(axes) or any(isinstance(axis, int) and axis != size for axis, size in sizes)
    if wrong and found.size >= LARGE:
        raise DataError(f"{source}: {name} has shape {found.shape}, which is not that of {name}.")


def _listed(content: bytes) -> int:
    """Return how many files a zip archive says, at its end, that it has."""
    end = content.rfind(b"PK\x05\x06")
    return int.from_bytes(content[end + 10 : end + 12], "little")


def _size(count: int) -> str:
    """Return bytes in words.

    Example:
        >>> _size(3 * 2**30), _size(2**20 + 2**19)
        ('3.0 GiB', '1.5 MiB')
    """
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def read_arrays(
    content: bytes, names: Iterable[str], source: str, *, what: str = "node-classification", axes: Axes | None = None
) -> Arrays:
    """Read arrays from the bytes of an ``.npz`` file; `source` names the file in errors.

    The file must have the arrays `names`; those of `axes` are read, too, where they are there. A file that would take
    too much memory is refused before it is unpacked.

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


NO_LABEL = -1


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
