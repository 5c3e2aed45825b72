"""Commands that are imported when they are called: the help of a group needs their names and a line each, no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

MARKUP: Final = "markdown"


@dataclass(frozen=True)
class Lazy:
    """A command: where it is, as "module:attribute" (a function or a `typer.Typer`), and its line in the help."""

    place: str
    help: str


@dataclass(frozen=True)
class Group:
    """Commands under one name, and the line of the group in the help."""

    help: str
    commands: Mapping[str, Lazy | Group]


class LazyGroup(TyperGroup):
    """A group whose commands stand in a table; each is imported when it is called."""

    def __init__(self, table: Mapping[str, Lazy | Group], **options: Any) -> None:
        super().__init__(**options)
        self._table = table
        self.commands = {name: _stand_in(name, entry) for name, entry in table.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called, and what follows it."""
        name, command, rest = super().resolve_command(ctx, args)
        entry = self._table.get(name or "")
        return name, load(name, entry) if name and isinstance(entry, Lazy) else command, rest

    def get_params(self, ctx: Any) -> list[Any]:
        """The options of the group itself."""
        return _flags_without_type(super().get_params(ctx))


def load(name: str, entry: Lazy) -> Any:
    """Import a command.

    Example:
        >>> load("show", Lazy("armagnn.cli.finished_runs:show", "Show what was trained.")).name
        'show'
    """
    module, attribute = entry.place.split(":")
    found = getattr(import_module(module), attribute)
    frame = typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
    frame.callback()(lambda: None)  # so it is a group
    if isinstance(found, typer.Typer):
        frame.add_typer(found, name=name)
    else:
        frame.command(name)(found)
    group: Any = typer.main.get_command(frame)
    command = group.commands[name]
    _hide_types_of_flags(command)
    return command


def _stand_in(name: str, entry: Lazy | Group) -> Any:
    if isinstance(entry, Lazy):
        return TyperCommand(name, help=entry.help, rich_markup_mode=MARKUP)
    return LazyGroup(entry.commands, name=name, help=entry.help, no_args_is_help=True, rich_markup_mode=MARKUP)


def _hide_types_of_flags(command: Any) -> None:
    """Let a command and those below it show a flag as ``--resume``, not ``--resume <bool>``."""
    found = command.get_params
    command.get_params = lambda ctx: _flags_without_type(found(ctx))
    for each in getattr(command, "commands", {}).values():
        _hide_types_of_flags(each)


def _flags_without_type(options: Iterable[Any]) -> list[Any]:
    options = list(options)
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options
