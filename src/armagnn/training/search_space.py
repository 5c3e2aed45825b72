"""Which options a search varies, and between what."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from armagnn.errors import ParameterError, UnknownNameError, shown
from armagnn.training.config import Config

DIGITS: Final = 3
"""Of numbers that are searched on a logarithmic scale: more mean nothing."""


@dataclass(frozen=True)
class Axis:
    """An option that a search varies: one of some choices, or a number between two ends.

    Attributes:
        name: the option.
        choices: what it may be; empty for numbers between two ends.
        low: the lower end.
        high: the upper end.
        log: are numbers drawn on a logarithmic scale?
        whole: are they integers?

    Example:
        >>> Axis("lr", low=1e-3, high=0.1, log=True)
        Axis(name='lr', choices=(), low=0.001, high=0.1, log=True, whole=False)
    """

    name: str
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False

    def has(self, value: Any) -> bool:
        """Is a value one that the search may draw?"""
        return value in self.choices if self.choices else bool(self.low <= value <= self.high)

    def rounded(self, value: Any) -> Any:
        """Return a value as the configuration gets it."""
        if self.choices or self.whole or value == 0:
            return value
        places = DIGITS - 1 - math.floor(math.log10(abs(value))) if self.log else DIGITS
        return min(max(round(float(value), places), self.low), self.high)


SIZES: Final = (8, 16, 32, 64, 128)

USUAL: Final[Mapping[str, Axis]] = {
    each.name: each
    for each in (
        Axis("hidden", SIZES),
        Axis("stacks", low=1, high=4, whole=True),
        Axis("layers", low=1, high=4, whole=True),
        Axis("depth", low=1, high=4, whole=True),
        Axis("lr", low=1e-3, high=0.1, log=True),
        Axis("l2", low=1e-6, high=1e-2, log=True),
        Axis("input_dropout", low=0.0, high=0.8),
        Axis("hidden_dropout", low=0.0, high=0.8),
        Axis("skip_dropout", low=0.0, high=0.8),
    )
}
"""What is searched unless one says otherwise, where the kind of task has it."""


def search_space(config: Config, over: Sequence[str] = ()) -> tuple[Axis, ...]:
    """The axes of a search around a configuration.

    Args:
        config: what stays as it is where no axis changes it.
        over: each an option (with its usual range), ``option=low..high``, or ``option=a|b|c``.

    Example:
        >>> from armagnn.training import NodesConfig
        >>> [axis.name for axis in search_space(NodesConfig(conv="gcn"))]
        ['hidden', 'layers', 'lr', 'l2', 'input_dropout', 'hidden_dropout']
        >>> search_space(NodesConfig(), ["conv=arma|gcn", "lr=0.001..0.01"])[1]
        Axis(name='lr', choices=(), low=0.001, high=0.01, log=True, whole=False)
    """
    known = {each.name: each for each in fields(config) if each.metadata["help"]}
    if over:
        found = tuple(_axis(each, config, known) for each in over)
        double = [axis.name for place, axis in enumerate(found) if axis.name in {a.name for a in found[:place]}]
        if double:
            raise ParameterError(f"over names {double[0]!r} twice.")
    else:
        rates = config.RATES if config.conv == "arma" else [rate for rate in config.RATES if rate != "skip_dropout"]
        unused = {name for name in USUAL if name.endswith("_dropout") and name not in rates} | set(config._unused)
        unused |= set(config.LATER)  # what makes another network than the usual one is searched on request
        found = tuple(axis for name, axis in USUAL.items() if name in known and name not in unused)
    for axis in found:  # what the configuration refuses is refused before anything is trained
        for value in axis.choices or (axis.low, axis.high):
            replace(config, **{axis.name: value})
    return found


def _axis(text: str, config: Config, known: Mapping[str, Any]) -> Axis:
    name, equals, values = text.partition("=")
    name = name.strip().replace("-", "_")
    fixed = {*config.OF_DATA, *config.PATHS, "seed", "seeds", "device", "epochs", "patience", "stop_on"}
    may = [each for each in known if each not in fixed and known[each].metadata["panel"] != "Tables"]
    if name not in may:
        raise UnknownNameError("option to search", name, may)
    if not equals:
        if name not in USUAL:
            raise ParameterError(f"over: {name} has no usual range. Write {name}=low..high or {name}=a|b|c.")
        usual = USUAL[name]
        return replace(usual, low=max(usual.low, config.LIMITS[name][0])) if usual.whole else usual
    kind = type(known[name].default)
    low, dots, high = values.partition("..")
    if dots:
        ends = _read(kind, name, low), _read(kind, name, high)
        if kind not in (int, float) or not ends[0] < ends[1]:
            raise ParameterError(f"over: {shown(text)}: a range has a lower and a higher number, as lr=0.001..0.1.")
        log = name in USUAL and USUAL[name].log and ends[0] > 0
        return Axis(name, (), *ends, log=log, whole=kind is int)
    return Axis(name, tuple(dict.fromkeys(_read(kind, name, value) for value in values.split("|"))))


def _read(kind: type, name: str, text: str) -> Any:
    text = text.strip()
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return kind(text)
    except (KeyError, ValueError, OverflowError) as error:
        wanted = {int: "an integer", float: "a number", bool: "true or false"}[kind]
        raise ParameterError(f"over: {name} must be {wanted}, got {shown(text)}.") from error
