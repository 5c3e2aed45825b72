"""Arguments are checked against the annotations of the function that takes them: one decorator, one kind of error.

A function says what it takes once, in its signature; `checked` holds every call to it. What lies within a type (a
range, a shape, a name that is known) stays with the function and `armagnn.checks`.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import torch
from torch import Tensor

from armagnn import checks
from armagnn.errors import ArmagnnError, DTypeError, ParameterError, shown
from armagnn.torch_private import is_wrapped

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Read = Callable[[Any], Any]
"""Returns a value as the function wants it; raises `_Other` where it is something else."""

INT64: Final = 2**63 - 1


class _Other(Exception):
    """A value is not of the kind."""


def checked(decorated: Decorated) -> Decorated:
    """Check the arguments of a function, a method or a class against the annotations, at every call.

    A whole number may also be one of numpy or a tensor without axes, and comes as an `int`; so with `float` and `bool`.
    ``Tensor`` means a plain dense one (see `armagnn.checks.dense`). Elements of sequences and values of mappings are
    looked at, those of iterators are not. ``Any``, and what cannot be looked up, lets everything pass. Compiled code
    stays free of the checks.

    Example:
        >>> @checked
        ... def repeat(text: str, times: int = 2) -> str:
        ...     return text * times
        >>> repeat("ab", np.int64(3))
        'ababab'
        >>> repeat("ab", 1.5)
        Traceback (most recent call last):
        armagnn.errors.ParameterError: times must be an integer, got 1.5.
    """
    if isinstance(decorated, type):
        decorated.__init__ = _wrapped(decorated.__init__)  # type: ignore[misc]
        return decorated
    return _wrapped(decorated)  # type: ignore[return-value]


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    places = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]

    @functools.cache
    def readers() -> tuple[dict[str, Read], list[tuple[int, Read]]]:
        by_name = {}
        for parameter in parameters:
            kind = _resolved(parameter.annotation, function)
            if kind is not Any:
                by_name[parameter.name] = _argument(parameter.name, kind, parameter.default)
        return by_name, [(place, by_name[name]) for place, name in enumerate(places) if name in by_name]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        by_name, by_place = readers()
        given = list(args)
        for place, read in by_place:
            if place >= len(given):
                break
            given[place] = read(given[place])
        for name in kwargs.keys() & by_name.keys():
            kwargs[name] = by_name[name](kwargs[name])
        return function(*given, **kwargs)

    return call


def _argument(name: str, kind: Any, default: Any) -> Read:
    """The reader of an argument of this name, which raises an error for the user."""
    reader, described = _reader(kind), _described(kind)

    def read(value: Any) -> Any:
        if value is default:
            return value
        try:
            return reader(value)
        except _Other as error:
            wrong = error.args[0] if error.args else value
            refused: type[ArmagnnError] = ParameterError if described.startswith(_PLAIN) else DTypeError
            raise refused(f"{name} must be {described}, got {_named(wrong)}.") from None
        except (MemoryError, RecursionError):
            raise ParameterError(f"{name} is too large or too deep to be read.") from None

    return read


def _named(value: Any) -> str:
    """What a value is, for an error: a short one as it stands, of others the type."""
    kind = checks._not_dense(value) if isinstance(value, Tensor) else None
    if kind is not None:
        return kind
    plain = value is None or isinstance(value, bool | int | float | str | bytes | list | tuple | dict | set)
    return shown(value) if plain or getattr(value, "ndim", None) is not None else f"an object of {type(value).__name__}"


# ---------------------------------------------------------------------------------------------------------- annotations


def _resolved(annotation: Any, function: Callable[..., Any]) -> Any:
    """The annotation itself, from its text; Any for one that is missing or names what is imported for mypy only."""
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    module = sys.modules.get(function.__module__)
    try:
        return eval(annotation, vars(module) if module else {})  # the source of the package, no text of a user
    except (NameError, AttributeError, TypeError):
        return Any


def _reader(kind: Any) -> Read:
    """The reader of an annotation."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in _READERS:
        return _READERS[kind]
    if isinstance(kind, str):
        return _anything  # a text within an annotation
    if origin in (typing.Union, types.UnionType):
        # a tensor stays one, with its gradient, where a number would do, too
        return _one_of(sorted((_reader(part) for part in inner), key=lambda reader: reader in (_int, _float)))
    if origin is typing.Literal:
        return _one_of([_reader(type(value)) for value in inner])
    if origin is Callable or kind is Callable:
        return _that(callable)
    if origin in (Sequence, list, tuple) or kind in (list, tuple):
        pair = origin is tuple and ... not in inner  # of a fixed length
        return _sequence([_reader(part) for part in inner if part is not ...], len(inner) if pair else None)
    if origin in (Mapping, dict) or kind is dict:
        return _mapping(*map(_reader, inner or (Any, Any)))
    if origin is Iterable:
        return _that(lambda value: isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0)
    if origin is np.ndarray:
        return _that(lambda value: isinstance(value, np.ndarray) and value.dtype.kind in "biuf")
    if not isinstance(kind, type):
        return _anything
    if getattr(kind, "_is_protocol", False):
        names = [name for name in (*vars(kind), *getattr(kind, "__annotations__", {})) if not name.startswith("_")]
        return _that(lambda value: not isinstance(value, type) and all(hasattr(value, name) for name in names))
    return _that(lambda value: isinstance(value, kind))


def _described(kind: Any) -> str:
    """An annotation in words."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in _WORDS:
        return _WORDS[kind]
    if origin in (typing.Union, types.UnionType):
        words = list(dict.fromkeys(_described(part) for part in inner))
        return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    if origin is typing.Literal:
        return " or ".join(map(repr, inner))
    if origin is Callable or kind is Callable:
        return "a function"
    if origin in (Sequence, list, tuple) and inner:
        return f"a sequence, each {_described(inner[0])}"
    if origin in (Mapping, dict):
        return f"a dictionary, each value {_described(inner[-1])}"
    if origin is Iterable:
        return "a sequence"
    if origin is np.ndarray:
        return "an array of numbers"
    name = getattr(kind, "__name__", str(kind))
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


# ------------------------------------------------------------------------------------------------------------- readers


def _anything(value: Any) -> Any:
    return value


def _that(suits: Callable[[Any], bool]) -> Read:
    """Return a reader that lets a value pass as it is, if it suits."""

    def read(value: Any) -> Any:
        if not suits(value):
            raise _Other(value)
        return value

    return read


def _int(value: Any) -> int:
    if isinstance(value, Tensor) and is_wrapped(value):
        return value  # type: ignore[return-value]  # a trial's own, under vmap
    try:
        return checks.integer("", value, -INT64 - 1, INT64)
    except ParameterError:
        raise _Other(value) from None


def _float(value: Any) -> float:
    """A real number; NaN and infinite ones are for the function to judge."""
    number = checks._scalar(value) if not isinstance(value, Tensor) or checks._not_dense(value) is None else None
    if isinstance(number, bool) or not isinstance(number, Real):
        raise _Other(value)
    try:
        converted = float(number)
    except (OverflowError, ValueError):
        raise _Other(value) from None
    whole: Any = number  # an integer stays one
    return whole if type(whole) is int else converted


def _one_of(readers: Sequence[Read]) -> Read:
    def read(value: Any) -> Any:
        for reader in readers:
            try:
                return reader(value)
            except _Other:
                continue
        raise _Other(value)

    return read


def _sequence(elements: Sequence[Read], length: int | None = None) -> Read:
    def read(value: Any) -> Any:
        if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
            raise _Other(value)
        if isinstance(value, np.ndarray):
            if value.ndim != 1:
                raise _Other(value)
            value = value.tolist()
        if length is not None and len(value) != length:
            raise _Other(value)
        if isinstance(value, range) or not elements:
            for part in value[:1] if elements else ():
                elements[0](part)
            return value
        found = [elements[min(place, len(elements) - 1)](part) for place, part in enumerate(value)]
        return tuple(found) if isinstance(value, tuple) else found

    return read


def _mapping(key: Read, element: Read) -> Read:
    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _Other(value)
        for name, part in value.items():
            key(name)
            element(part)
        return value

    return read


_none = _that(lambda value: value is None)
_path = _that(lambda value: isinstance(value, os.PathLike) and "\0" not in os.fspath(value))
_READERS: Final[dict[Any, Read]] = {
    Any: _anything,
    object: _anything,
    None: _none,
    type(None): _none,
    bool: lambda value: bool(_that(lambda value: isinstance(value, bool | np.bool_))(value)),
    int: _int,
    float: _float,
    str: _that(lambda value: isinstance(value, str)),
    Path: _path,
    os.PathLike: _path,
    os.PathLike[str]: _path,
    Tensor: _that(lambda value: checks._not_dense(value) is None),
}
_WORDS: Final = {
    bool: "True or False", int: "an integer", float: "a real number", str: "a text", Path: "a path",
    os.PathLike: "a path", os.PathLike[str]: "a path", Tensor: "a dense tensor", None: "None", type(None): "None",
    Any: "anything",
}  # fmt: skip
_PLAIN: Final = ("an integer", "a real number", "True or False", "a text", "a path", "a sequence", "a dictionary")
