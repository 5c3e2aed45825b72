"""The one place that checks sizes, numbers, names and arrays that come in from outside.

Each check raises one typed error, which names the argument and says what it must be. A check that reads a number
returns it as a plain Python number, so that callers compute with what was checked.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.masked import MaskedTensor
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from armagnn.errors import ArmagnnError, DeviceError, DTypeError, ParameterError, ShapeError, UnknownNameError, shown

LARGEST: Final = 2**31 - 1
"""The largest size of anything, if a check is not given another limit. A larger one is a slip, or an attack."""

SMALLER: Final = "choose smaller sizes"
SPARSE: Final = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
ENTRIES: Final = 2**30
"""The most entries of a parameter: 4 GiB in float32."""

AT_ONCE: Final = 2**17
"""Numbers that are looked at together: what a check needs for them stays in the cache."""

FLOATS: Final = (torch.float32, torch.float64, torch.bfloat16)
"""The types that the kernels compute with."""

INTEGERS: Final = (torch.int64, torch.int32, torch.int16, torch.uint8)
"""The types that ids of nodes and graphs may have."""

# ------------------------------------------------------------------------------------------------------------- numbers


def integer(
    name: str,
    value: Any,
    least: int | None = None,
    most: int | None = LARGEST,
    extra: str = "",
    error: type[ArmagnnError] = ParameterError,
) -> int:
    """Return an integer, Python's, numpy's or that of a tensor without axes; raise unless it lies in least .. most.

    Args:
        name: the argument, as the error names it.
        value: what was given. A truth value, a float or an array is no integer.
        least: the smallest integer allowed, or None for any.
        most: the largest integer allowed, or None for any.
        extra: what else the argument may be, for the error: ``" (or None for all)"``.
        error: the type of the error.

    Example:
        >>> integer("k", np.int64(3), 1)
        3
        >>> integer("k", 0, 1)
        Traceback (most recent call last):
        armagnn.errors.ParameterError: k must be an integer of at least 1, got 0.
    """
    number = None if _is_bool(value) else _integer(value)
    if number is not None and (least is None or number >= least) and (most is None or number <= most):
        return number
    wanted = "an integer" if least is None else f"an integer of at least {least}"
    if most is not None and (most != LARGEST or (number is not None and number > most)):
        wanted = f"an integer of at most {most}" if least is None else f"an integer from {least} to {most}"
    raise error(f"{name} must be {wanted}{extra}, got {shown(value)}.")


def real(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    what: str = "finite number",
    extra: str = "",
    error: type[ArmagnnError] = ParameterError,
) -> float:
    """Return a finite real number, Python's, numpy's or that of a tensor without axes; raise unless it is in the range.

    Args:
        name: the argument, as the error names it.
        value: what was given. A truth value, a complex number, a text or an array is no real number.
        least: the lower end of the range, if it belongs to it.
        above: the lower end of the range, if it does not.
        most: the upper end of the range, if it belongs to it.
        below: the upper end of the range, if it does not.
        what: what the number is called in the error.
        extra: what else the argument may be, for the error.
        error: the type of the error.

    Example:
        >>> real("tol", np.float32(0.5), above=0)
        0.5
        >>> real("p", 1, least=0, below=1)
        Traceback (most recent call last):
        armagnn.errors.ParameterError: p must be a finite number in [0, 1), got 1.
    """
    number = _real(value)
    fits = number is not None and not (
        (least is not None and number < least)
        or (above is not None and number <= above)
        or (most is not None and number > most)
        or (below is not None and number >= below)
    )
    if number is not None and fits:
        return number
    low = above if least is None else least
    high = below if most is None else most
    if low is not None and high is not None:
        where = f" in {'(' if least is None else '['}{low:g}, {high:g}{')' if most is None else ']'}"
    elif low is not None:
        where = f" above {low:g}" if least is None else f" of at least {low:g}"
    elif high is not None:
        where = f" below {high:g}" if most is None else f" of at most {high:g}"
    else:
        where = ""
    raise error(f"{name} must be a {what}{where}{extra}, got {shown(value)}.")


def probability(name: str, value: Any) -> float:
    """Return a number in [0, 1), with which something is dropped."""
    return real(name, value, least=0, below=1, what="probability")


def _scalar(value: Any) -> Any:
    """Return the number that an array or a tensor without axes holds, and None for one with axes or without values."""
    if not isinstance(value, Tensor | np.ndarray):
        return value
    try:
        return value.item() if value.ndim == 0 else None
    except RuntimeError:  # on the meta device, batched by vmap, without a shape
        return None


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) or getattr(value, "dtype", None) in (torch.bool, np.dtype(bool))


def _integer(value: Any) -> int | None:
    try:
        return operator.index(_scalar(value))
    except Exception:  # a foreign __index__ may raise anything
        return None


def _real(value: Any) -> float | None:
    number = _scalar(value)
    if isinstance(number, bool) or not isinstance(number, Real):
        return None
    try:
        finite = float(number)
    except (OverflowError, ValueError, TypeError):  # an integer beyond every float
        return None
    return finite if math.isfinite(finite) else None


def flag(name: str, value: Any) -> bool:
    """Return True or False, Python's or numpy's; a number or an array is neither.

    Example:
        >>> flag("bias", 0.5)
        Traceback (most recent call last):
        armagnn.errors.ParameterError: bias must be True or False, got 0.5.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ParameterError(f"{name} must be True or False, got {shown(value)}.")


@contextmanager
def room(name: str, *shape: int, most: int = ENTRIES) -> Iterator[None]:
    """Allocate inside what has this shape; raise where it has too many entries, or where memory does not suffice.

    Example:
        >>> with room("weight", 10**6, 10**6):
        ...     torch.empty(10**6, 10**6)
        Traceback (most recent call last):
        armagnn.errors.ParameterError: weight of shape (1000000, 1000000) has 1e+12 entries, and 1.07e+09 are allowed:
        choose smaller sizes.
    """
    count = math.prod(shape)
    if count > most:
        raise ParameterError(f"{name} of shape {shape} has {count:.3g} entries, and {most:.3g} are allowed: {SMALLER}.")
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        raise ParameterError(f"{name} of shape {shape} does not fit into memory: {SMALLER}.") from error


# --------------------------------------------------------------------------------------------------------------- names


def choice(what: str, name: Any, known: Iterable[str]) -> str:
    """Return `name` if it is in `known`; else raise an error that lists the known names.

    Example:
        >>> choice("solver", "picrad", ("anderson", "picard"))
        Traceback (most recent call last):
        armagnn.errors.UnknownNameError: Unknown solver 'picrad'. Did you mean 'picard'? Known: anderson, picard.
    """
    names = tuple(known)
    if not isinstance(name, str) or name not in names:
        raise UnknownNameError(what, name, names)
    return name


def path(name: str, value: Any) -> Path:
    """Return a path that a file system can have.

    Example:
        >>> path("out", "runs/\\0")
        Traceback (most recent call last):
        armagnn.errors.ParameterError: out must be a path, got 'runs/\\x00'.
    """
    try:
        text = os.fspath(value)
        if isinstance(text, str) and b"\0" not in os.fsencode(text):
            return Path(text)
    except Exception:  # no path, or with characters that no name of a file has; a foreign __fspath__ may raise anything
        pass
    raise ParameterError(f"{name} must be a path, got {shown(value)}.")


# -------------------------------------------------------------------------------------------------------------- arrays


def dense(name: str, value: Any, shape: str, extra: str = "") -> Tensor:
    """Return a plain dense tensor with the axes of a shape like ``"(2, E)"`` or ``"(..., N, F)"``; raise otherwise.

    Nested, masked, quantised and sparse tensors, and those without values or without a shape, have no plain memory for
    a kernel to read: reading it would end the process.

    Example:
        >>> dense("x", [1.0, 2.0], "(..., N, F)")
        Traceback (most recent call last):
        armagnn.errors.DTypeError: x must be a dense torch.Tensor of shape (..., N, F), got list.
    """
    kind = _not_dense(value)
    if kind is not None:
        raise DTypeError(f"{name} must be a dense torch.Tensor of shape {shape}{extra}, got {kind}.")
    axes = [axis for axis in shape.strip("()").split(",") if axis.strip()]
    open_ended = "..." in shape
    least = len(axes) - open_ended
    if value.dim() < least or (value.dim() > least and not open_ended):
        raise ShapeError(f"{name} must have shape {shape}, got {tuple(value.shape)}.")
    return value  # type: ignore[no-any-return]


def real_tensor(name: str, value: Any, shape: str, extra: str = "") -> Tensor:
    """Return a plain dense tensor (see `dense`) of numbers that the kernels compute with.

    Example:
        >>> real_tensor("x", torch.ones(2, 3, dtype=torch.float16), "(..., N, F)")
        Traceback (most recent call last):
        armagnn.errors.DTypeError: x must be float32, float64 or bfloat16, got torch.float16: half precision is offered
        as bfloat16.
    """
    tensor = dense(name, value, shape, extra)
    floating(name, tensor.dtype)
    return tensor


def is_sparse(value: Any) -> bool:
    """Return whether it is a plain ``torch.sparse`` tensor: neither masked nor nested."""
    return isinstance(value, Tensor) and value.layout in SPARSE and not isinstance(value, MaskedTensor)


def _not_dense(value: Any) -> str | None:
    """Return what a value is, unless it is a plain dense tensor."""
    if not isinstance(value, Tensor):
        return type(value).__name__
    if value.is_nested:
        return "a nested tensor"
    if isinstance(value, MaskedTensor):
        return "a masked tensor"
    if type(value) in (UninitializedParameter, UninitializedBuffer):  # isinstance asks a metaclass in Python
        return "a parameter that has no shape yet"
    if value.layout is not torch.strided:
        return f"a tensor of layout {str(value.layout).removeprefix('torch.')}"
    if value.is_quantized:
        return "a quantised tensor"
    if value.device.type == "meta":
        return "a meta tensor, which has no values"
    return None


def floating(name: str, dtype: torch.dtype) -> None:
    """Raise unless the type is one that the kernels compute with."""
    if dtype not in FLOATS:
        advice = f"convert it, e.g. {name}.float()"
        if dtype == torch.float16:
            advice = "half precision is offered as bfloat16"
        elif dtype.is_complex:
            advice = f"take the part that is wanted, e.g. {name}.real"
        raise DTypeError(f"{name} must be float32, float64 or bfloat16, got {dtype}: {advice}.")


def dtype_option(dtype: Any) -> torch.dtype:
    """Return the type that values shall have, torch's default if None is given."""
    if dtype is None:
        return torch.get_default_dtype()
    if not isinstance(dtype, torch.dtype) or dtype not in FLOATS:
        raise DTypeError(f"dtype must be torch.float32, torch.float64 or torch.bfloat16, got {shown(dtype)}.")
    return dtype


def finite(name: str, value: Tensor, error: type[ArmagnnError] = ParameterError, advice: str = "clean them") -> None:
    """Raise unless every value is finite. Compiled code stays free of the check."""
    if torch.compiler.is_compiling():
        return
    if not all(bool(torch.isfinite(part).all()) for part in value.reshape(-1).split(AT_ONCE)):  # type: ignore[no-untyped-call]
        bad = int((~torch.isfinite(value)).sum())
        raise error(f"{name} holds {bad} NaN or infinite value(s): {advice}.")


# ------------------------------------------------------------------------------------------------- objects and devices


def instance(name: str, value: Any, kind: type | tuple[type, ...], what: str) -> Any:
    """Return a value if it is of a type, which the error calls `what`.

    Example:
        >>> instance("dataset", 3, Tensor, "a set of graphs")
        Traceback (most recent call last):
        armagnn.errors.DTypeError: dataset must be a set of graphs, got 3.
    """
    if not isinstance(value, kind):
        raise DTypeError(f"{name} must be {what}, got {shown(value)}.")
    return value


def tensor(name: str, value: Any, *axes: int) -> Tensor:
    """Return a dense tensor with one of these numbers of axes, on any device, "meta" too, or as vmap batches it."""
    if not isinstance(value, Tensor):
        raise DTypeError(f"{name} must be a torch.Tensor, got {shown(value)}.")
    if value.is_nested or value.layout is not torch.strided or value.is_quantized:
        raise DTypeError(f"{name} must be a dense tensor, got {_not_dense(value)}.")
    if axes and value.dim() not in axes:
        raise ShapeError(f"{name} must have {' or '.join(map(str, axes))} axes, got shape {tuple(value.shape)}.")
    return value


def ids(name: str, value: Any, count: int) -> Tensor:
    """Return integers 0 .. count - 1, (n,), as int64: from a tensor, an array, a range or a list.

    Example:
        >>> ids("graphs", [3, 0], 4)
        tensor([3, 0])
    """
    if not isinstance(value, Tensor | np.ndarray | list | tuple | range):
        raise ParameterError(f"{name} must be integers from 0 to {count - 1}, got {shown(value)}.")
    if isinstance(value, range) and value and not 0 <= min(value[0], value[-1]) <= max(value[0], value[-1]) < count:
        raise ParameterError(f"{name} must be integers from 0 to {count - 1}, got {shown(value)}.")
    try:
        found = torch.as_tensor(list(value) if isinstance(value, range) else value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ParameterError(f"{name} must be integers from 0 to {count - 1}, got {shown(value)}.") from error
    if found.numel() == 0 and isinstance(value, list | tuple):
        found = found.long()
    tensor(name, found)
    if found.dim() != 1 or found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        raise ParameterError(f"{name} must be integers (n,), got {found.dtype} of shape {tuple(found.shape)}.")
    if found.is_meta:
        raise ParameterError(f"{name} must be integers from 0 to {count - 1}, got a meta tensor, which has no values.")
    if found.numel() > LARGEST:
        raise ParameterError(f"{name} are {found.numel()}; there may be at most {LARGEST}.")
    found = found.long()
    if found.numel() and not 0 <= int(found.min()) <= int(found.max()) < count:
        raise ParameterError(
            f"{name} hold {int(found.min())} .. {int(found.max())}; they must lie in 0 .. {count - 1}."
        )
    return found


def device(value: Any) -> torch.device:
    """Return a device that is there, by its name."""
    try:
        instance("device", value, (str, torch.device), "a name such as 'cpu' or 'cuda:0', or a torch.device")
        found = torch.device(value)
        torch.empty(0, device=found)
    except (RuntimeError, ValueError, AssertionError, NotImplementedError) as error:
        why = str(error).splitlines()[0][:80]
        raise DeviceError(f"device is {shown(value)}, which cannot be used here ({why}). Use 'cpu'.") from error
    return found
