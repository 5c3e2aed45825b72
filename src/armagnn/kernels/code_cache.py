"""Where numba keeps machine code: one folder for each content of ``kernels/``, each processor, each compiler.

numba stamps the code of a function with the content of the file that holds the function. A kernel calls functions of
other files, whose code becomes part of the kernel, and numba does not see a change there. So the name of the folder
is a digest of all that the code depends on: every source file of this room, the versions of the compilers, and the
processor. The file of the function itself may lie elsewhere (`distributed`); numba sees to that one.

The folder lies in numba's usual places, ``$NUMBA_CACHE_DIR``, else ``kernels/__pycache__``, else the user's cache
folder, under ``armagnn-<digest>``. The `KEPT` folders last used are kept there, and older ones are removed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

PREFIX: Final = "armagnn-"

KEPT: Final = 8
"""Folders kept in one place: a few branches of a working tree, or the kinds of processors of a cluster."""


def digest_of(folder: Path) -> str | None:
    """Return a digest of names and contents of the Python files in a folder and below; None where none can be read."""
    digest, files = hashlib.sha256(), sorted(folder.rglob("*.py"))
    try:
        for file in files:
            content = file.read_bytes()
            digest.update(f"{file.relative_to(folder).as_posix()} {len(content)} ".encode() + content)
    except OSError:
        return None
    return digest.hexdigest() if files else None


# Read as the kernels are imported, not when the first of them is compiled: a file that is edited in a running process
# must not lend its name to the code of before.
SOURCES: Final = digest_of(Path(__file__).parent)


def key(sources: str) -> str:
    """Return the digest of sources, compilers and processor: the name of a folder."""
    import llvmlite
    import numba
    import numpy as np
    from llvmlite import binding

    parts = (
        sources, numba.__version__, llvmlite.__version__, np.__version__,
        binding.get_process_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(),
    )  # fmt: skip
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def places() -> list[Path]:
    """Return the places for machine code, the best one first."""
    import numba

    found = [Path(numba.config.CACHE_DIR)] if numba.config.CACHE_DIR else []
    found.append(Path(__file__).parent / "__pycache__")
    with contextlib.suppress(RuntimeError):  # a user without a home
        found.append(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "armagnn" / "machine-code")
    return found


def first_usable(candidates: list[Path], name: str) -> Path | None:
    """Return the folder of this name in the first place that can be written to, and remove older ones there."""
    for place in candidates:
        folder = place / f"{PREFIX}{name}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            os.utime(folder)
        except OSError:
            continue
        _remove_old(place)
        return folder
    return None


def _remove_old(place: Path) -> None:
    """Remove all but the `KEPT` folders last used. A process that uses a removed one compiles again."""
    with contextlib.suppress(OSError):
        found = sorted(place.glob(f"{PREFIX}*"), key=lambda folder: folder.stat().st_mtime, reverse=True)
        for folder in found[KEPT:]:
            shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def folder() -> Path | None:
    """Return the folder for the machine code of this process, or None where there is no place for one."""
    return None if SOURCES is None else first_usable(places(), key(SOURCES))


@functools.cache
def compiled_or_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function compiled by numba; without numba, the function itself, which does the same slowly.

    Example:
        >>> compiled_or_plain(max)(2, 3)  # doctest: +SKIP
        3
    """
    try:
        from armagnn.kernels.cpu.compile import compiled  # numba takes half a second to import
    except ModuleNotFoundError:
        return function
    return compiled()(function)  # type: ignore[no-any-return]
