"""What the kernels for the processor share: numba's compiler, tensors as arrays, and when a second thread pays.

Machine code is kept in one folder for each content of ``kernels/`` and ``randomness.py``, processor and compiler.

numba stamps the code of a function with the content of the file that holds the function. A kernel calls functions of
other files, whose code becomes part of the kernel, and numba does not see a change there. So the name of the folder
is a digest of all that the code depends on: every source file of this room, ``randomness.py`` (whose constants are in
the code), the versions of the compilers, and the processor. The file of the function itself may lie elsewhere
(`distributed`); numba sees to that one.

The folder lies in numba's usual places, ``$NUMBA_CACHE_DIR``, else ``kernels/__pycache__``, else the user's cache
folder, under ``armagnn-<digest>``. The `KEPT` folders last used are kept there, and older ones are removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import mmap
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import llvmlite
import numba
import numpy as np
import numpy.typing as npt
import torch
from llvmlite import binding, ir
from numba import types
from torch import Tensor

Array = npt.NDArray[Any]

MIN_PRODUCTS = 1 << 20
"""Multiply-adds below which a second thread costs more than it brings (about 100 microseconds of work)."""


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a kernel, a function that releases the interpreter lock; options as of ``numba.njit``."""
    return kept_on_disk(numba.njit, nogil=True, error_model="numpy", **options)


def inner(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that only kernels call: it needs no entry from Python, and no file of its own."""
    return numba.njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)  # type: ignore[no-any-return]


def kept_on_disk(compiler: Callable[..., Any], *given: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator of numba, called with these arguments, whose machine code is in `code_folder`.

    Where there is none, or where the user chose another kind of place by ``$NUMBA_CACHE_LOCATOR_CLASSES``, the code is
    compiled in every process.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        folder = code_folder()
        if folder is not None:
            before = numba.config.CACHE_DIR
            numba.config.CACHE_DIR = str(folder)  # numba reads it as it decorates, and looks there first
            try:
                made = compiler(*given, cache=True, **options)(function)
                if folder in Path(made._cache.cache_path).parents:
                    return made
            except RuntimeError:  # numba has no place for it
                pass
            finally:
                numba.config.CACHE_DIR = before
        return compiler(*given, **options)(function)

    return decorate


class Routine:
    """A function that kernels call at its address: its machine code is made once, and not once more in each kernel.

    ``types_of``, applied to the types of its numbers, gives the types of its arguments.

    Example:
        >>> routine = Routine(lambda x: None, lambda real: [types.Array(real, 1, "C")])
        >>> routine.address(np.dtype("f4")) == routine.address(np.dtype("f4"))
        True
    """

    def __init__(self, function: Callable[..., None], types_of: Callable[..., list[Any]]) -> None:
        self.function, self.types_of = function, types_of
        self._made: dict[tuple[str, ...], int] = {}
        self._code: list[Any] = []  # it must live as long as its addresses

    def address(self, *kinds: np.dtype[Any]) -> int:
        """Return where the machine code for numbers of these types begins; compile it first, if need be."""
        key = tuple([kind.char for kind in kinds])  # hashed faster than the types
        found = self._made.get(key)
        if found is None:
            given = types.void(*self.types_of(*map(numba.from_dtype, kinds)))
            code = kept_on_disk(numba.cfunc, given, error_model="numpy")(self.function)
            self._code.append(code)
            found = self._made[key] = code.address
        return found

    def called(self, *kinds: Any) -> Any:
        """Return what an intrinsic with the arguments (address, ...) returns to call the code for these types."""
        return types.void(types.int64, *self.types_of(*kinds)), _emit_call


def _emit_call(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
    kinds = [context.get_value_type(kind) for kind in signature.args[1:]]
    builder.call(builder.inttoptr(args[0], ir.FunctionType(ir.VoidType(), kinds).as_pointer()), args[1:])
    return context.get_dummy_value()


def vector(kind: Any) -> Any:
    """Return the type of an array with one axis."""
    return types.Array(kind, 1, "C")


def rows(kind: Any) -> Any:
    """Return the type of a matrix whose rows may be parts of longer ones."""
    return types.Array(kind, 2, "A")


def to_numpy(x: Tensor, dtype: torch.dtype | None = None) -> Array:
    """Return a tensor's numbers, of a type, row-major; bfloat16 numbers as their bits."""
    if dtype is not None and x.dtype != dtype:
        x = x.to(dtype)
    array = x.view(torch.uint16).numpy() if x.dtype == torch.bfloat16 else x.numpy()
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def kind_of(x: Tensor) -> Any:
    """Return numpy's type of a tensor's numbers."""
    return x[:0].numpy().dtype.type


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """Return the type that numbers of a type are computed in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


# -------------------------------------------------------------------------------------------------------- large results

HUGE: Final = 4 << 20
"""Bytes of a result that is worth a huge page."""


def empty(*shape: int, dtype: torch.dtype) -> Tensor:
    """Return a tensor without values, in huge pages if it is large and the system has them.

    Example:
        >>> empty(2, 3, dtype=torch.float32).shape
        torch.Size([2, 3])
    """
    made = torch.empty(*shape, dtype=dtype)
    size = made.nbytes
    if size >= HUGE and (advise := _advise()) is not None:
        first = made.data_ptr() // mmap.PAGESIZE * mmap.PAGESIZE
        advise(first, made.data_ptr() + size - first, mmap.MADV_HUGEPAGE)  # it is advice: whatever it says is fine
    return made


@functools.cache
def _advise() -> Callable[[int, int, int], int] | None:
    """Return the C library's ``madvise``, or None where there are no huge pages to ask for."""
    if sys.platform != "linux" or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    try:
        function = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    return function


# ------------------------------------------------------------------------------------------------- machine code on disk

PREFIX: Final = "armagnn-"

KEPT: Final = 8
"""Folders kept in one place: a few branches of a working tree, or the kinds of processors of a cluster."""


def digest_of(folder: Path, *others: Path) -> str | None:
    """Return a digest of names and contents of the Python files in a folder and below, and of others, or None.

    None is for files that cannot be read.
    """
    digest, files = hashlib.sha256(), [*sorted(folder.rglob("*.py")), *others]
    try:
        for file in files:
            content = file.read_bytes()
            name = Path(os.path.relpath(file, folder)).as_posix()
            digest.update(f"{name} {len(content)} ".encode() + content)
    except OSError:
        return None
    return digest.hexdigest() if files else None


# Read as the kernels are imported, not when the first of them is compiled: a file that is edited in a running process
# must not lend its name to the code of before.
SOURCES: Final = digest_of(Path(__file__).parents[1], Path(__file__).parents[2] / "randomness.py")


def folder_key(sources: str) -> str:
    """Return the digest of sources, compilers and processor: the name of a folder."""
    parts = (
        sources, numba.__version__, llvmlite.__version__, np.__version__,
        binding.get_process_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(),
    )  # fmt: skip
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def places() -> list[Path]:
    """Return the places for machine code, the best one first."""
    found = [Path(numba.config.CACHE_DIR)] if numba.config.CACHE_DIR else []
    found.append(Path(__file__).parents[1] / "__pycache__")
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
def code_folder() -> Path | None:
    """Return the folder for the machine code of this process, or None where there is no place for one."""
    return None if SOURCES is None else first_usable(places(), folder_key(SOURCES))
