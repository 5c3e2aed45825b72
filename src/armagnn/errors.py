"""The few typed errors users meet.

Every error names the argument that is wrong and says what to do. All of them are an :class:`ArmagnnError`, and
each is also the built-in error that users of PyTorch and numpy would expect, so ``except ValueError`` works too.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def shown(value: object) -> str:
    """Return a value as an error shows it: in one short line, whatever it is.

    Example:
        >>> shown(0), shown("relu"), shown(range(5)), shown([0] * 10**6), shown(10**5000)
        ('0', "'relu'", 'range(0, 5)', '[0, 0, 0, 0, 0, 0, ...]', 'an object of type int')
    """
    try:
        if getattr(value, "ndim", 0):
            return f"{type(value).__name__} of shape {tuple(value.shape)}"  # type: ignore[attr-defined]
        return " ".join(_SHORT.repr(value).split())
    except Exception:  # of an integer with 5,000 digits there is no text, of a nested tensor no shape
        return f"an object of type {type(value).__name__}"


class ArmagnnError(Exception):
    """Base of every error that armagnn raises on purpose."""


class ShapeError(ArmagnnError, ValueError):
    """A tensor or array has the wrong shape."""


class DTypeError(ArmagnnError, TypeError):
    """A tensor or array has the wrong type of numbers."""


class DeviceError(ArmagnnError, ValueError):
    """Two tensors that must meet live on different devices."""


class GraphError(ArmagnnError, ValueError):
    """A graph cannot be what it claims to be: ids out of range, bad weights, an unknown kind."""


class SymmetryError(GraphError):
    """A symmetric operator is needed and a directed graph was given."""


class ParameterError(ArmagnnError, ValueError):
    """An option of a layer, a filter or a command lies outside its range."""


class UnknownNameError(ParameterError, KeyError):
    """A name (dataset, activation, option) that does not exist; the message carries the nearest known one."""

    def __init__(self, what: str, name: object, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name[:80].lower(), names, n=1, cutoff=0.5) if isinstance(name, str) else []
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"Unknown {what} {shown(name)}.{hint} Known: {', '.join(names)}.")
        self._arguments = (what, name, names)

    def __reduce__(self) -> tuple[type[UnknownNameError], tuple[str, object, list[str]]]:
        return type(self), self._arguments

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


class MissingAttributeError(ParameterError, AttributeError):
    """An attribute that only layers with another option have: ``hasattr`` and ``inspect`` see that it is not there."""


class UnsupportedError(ArmagnnError, NotImplementedError):
    """Something that torch can ask for and that is not offered here; the message names what to use instead."""


class DataError(ArmagnnError, ValueError):
    """A data file is corrupt, truncated, of another format, or holds values that are not finite."""


class RunError(ArmagnnError, ValueError):
    """A run folder is missing, incomplete, corrupt, or was not written by armagnn."""


class WriteError(DataError, RunError):
    """A file cannot be written: of a dataset, of a run, or one that was asked for."""


class RankError(ArmagnnError, RuntimeError):
    """Another rank of a process group raised, or ended: what it said is in the message."""


class ConvergenceError(ArmagnnError, RuntimeError):
    """An iteration did not reach its tolerance within the steps it was given."""


class ConvergenceWarning(UserWarning, RuntimeWarning):
    """The same, where it was asked that it should only warn, or where rounding errors allow no smaller error."""
