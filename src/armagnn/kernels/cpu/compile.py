"""What the kernels for the processor share: numba's compiler, tensors as arrays, and when a second thread pays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import torch
from llvmlite import ir
from numba import types
from torch import Tensor

from armagnn.kernels import code_cache

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
    """Return a decorator of numba, called with these arguments, whose machine code is in the folder of `code_cache`.

    Where there is none, or where the user chose another kind of place by ``$NUMBA_CACHE_LOCATOR_CLASSES``, the code is
    compiled in every process.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        folder = code_cache.folder()
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


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """Return the type that numbers of a type are computed in."""
    return torch.float64 if dtype == torch.float64 else torch.float32
