"""Archives, unpacked only as far as their declared sizes are plausible: no bomb of a few bytes fills the memory.

An archive may unpack to 1 GiB, or to four times its own size, whichever is more; the environment variable
``ARMAGNN_MAX_UNPACKED`` (bytes, or a number with K, M, G or T) sets another limit. A large array must also have the
sizes that the other arrays imply. Both are known before anything is unpacked, from what the archive declares; no reader
then takes more than was declared.
"""

from __future__ import annotations

import io
import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from armagnn.errors import DataError, ParameterError, shown

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
