"""The commands, in the order in which they are used, and their frame: help, version, consoles, how errors are shown.

A command is imported when it is called: the help of a group needs the names and a line each, but no torch.

No text that is printed is taken for markup, and no character that a stream cannot show ends a command. Names of
datasets, methods and files are the user's: ``[/x]`` in one of them is text, as ``:cat:`` is.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

import armagnn
from armagnn import processors
from armagnn.errors import ArmagnnError, ParameterError

PLUGINS: Final = "armagnn.commands"
OF_PAPER: Final = ("reproduce", "figure", "results")
"""The commands of the package of the reproduction, for those who do not have it."""

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


# ------------------------------------------------------------------------------------------------------------ commands

DATA: Final = Group(
    "The datasets: what there is, whether it is whole, and how to bring more.",
    {
        "list": Lazy("armagnn.cli.data:list_", "List every dataset: what it holds, its licence, where its file is."),
        "info": Lazy("armagnn.cli.data:info", "Show the statistics of a dataset and those in the paper."),
        "add": Lazy("armagnn.cli.data:add", "Check your own file and add it to the catalogue."),
        "remove": Lazy("armagnn.cli.data:remove", "Take a dataset of your own out of the catalogue."),
        "fetch": Lazy("armagnn.cli.data:fetch", "Get a dataset's originals over the network and convert them."),
        "make": Group(
            "Make a dataset.",
            {
                "bench-hard": Lazy("armagnn.cli.data:make_bench_hard", "Draw a Bench-hard set by its recipe."),
                "20news": Lazy("armagnn.cli.data:make_news", "Prepare 20news: counts, embeddings, the graph of words."),
            },
        ),
        "verify": Lazy("armagnn.cli.data:verify", "Hash every file again: ok, missing or corrupt."),
        "bound": Lazy("armagnn.cli.data:bound", "Show what no network that passes messages can do better."),
    },
)

COMMANDS: Final[dict[str, Lazy | Group]] = {
    "train": Lazy("armagnn.cli.train:app", "Train a network on the nodes of a graph, or on whole graphs."),
    "tune": Lazy("armagnn.cli.tune:app", "Search hyperparameters on validation data."),
    "predict": Lazy("armagnn.cli.finished_runs:predict", "Write the predictions of a trained run as CSV."),
    "show": Lazy("armagnn.cli.finished_runs:show", "Show what was trained and how well."),
    "report": Lazy("armagnn.cli.finished_runs:report", "Write a report of a trained run as one HTML file."),
    "explore": Lazy("armagnn.cli.explore:explore", "Move the poles of a filter in the browser."),
    "features": Lazy("armagnn.cli.bank_features:features", "Put features through a bank of filters, onto the disk."),
    "partition": Lazy("armagnn.cli.partition:partition", "Cut a graph into parts, for training over ranks."),
    "data": DATA,
    "bench": Lazy("armagnn.cli.bench:bench", "Measure the speed, and how well layers learn filters."),
}


def all_commands() -> dict[str, Lazy | Group]:
    """Our commands, then those of other packages: mappings that entry points of the group ``armagnn.commands`` name."""
    found = dict(COMMANDS)
    for entry in entry_points(group=PLUGINS):
        found |= entry.load()
    return found


class Commands(LazyGroup):
    """Show errors that the user can mend as one red line; anything else is a bug and keeps its traceback."""

    def __init__(self, **options: Any) -> None:
        super().__init__(all_commands(), **options)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called; of those that are not installed, where they are."""
        if args and args[0] in OF_PAPER and args[0] not in self.commands:
            raise ParameterError(
                f"armagnn {args[0]} comes with the package armagnn-paper, which is not installed: pip install "
                "armagnn-paper (in a checkout of armagnn: pip install ./src/armagnn_paper)."
            )
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command line."""
        write_what_can_be_written()
        return super().main(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ArmagnnError as error:
            notes_console().print(Text(f"Error: {error}", style="red"), soft_wrap=True)
            raise typer.Exit(2) from error


# ------------------------------------------------------------------------------------------------------------ consoles

PLAIN: Final[dict[str, Any]] = {"markup": False, "emoji": False, "highlight": False}
PLAIN_WIDTH: Final = 200

IN_ASCII: Final = {
    "±": "+-", "×": "x", "·": "*", "‖": "||", "₂": "2", "²": "^2", "≤": "<=", "≥": ">=", "−": "-", "–": "-", "—": "-",
    "→": "->", "…": "...", "•": "*", "‘": "'", "’": "'", "“": '"', "”": '"', "λ": "lambda", "μ": "mu", "γ": "gamma",
    "σ": "sigma", "ε": "epsilon", "θ": "theta", "α": "alpha", "β": "beta", "τ": "tau", "Δ": "Delta",
}  # fmt: skip


def output_console() -> Console:
    """The console of results."""
    return Console(**PLAIN)


def notes_console() -> Console:
    """The console of notes and progress: standard error."""
    return Console(stderr=True, **PLAIN)


def table_console() -> Console:
    """The console for a table that may be wide: what is no terminal has no width, so nothing is cut or wrapped there.

    Example:
        >>> table_console().width >= 80
        True
    """
    console = output_console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH, **PLAIN)


def whole_table(*columns: str, names: int = 1, **options: Any) -> Table:
    """A table that cuts nothing off, however narrow the terminal is: the first columns, which are `names`, stay on one
    line where they can, and what is too long for its column goes on in the next line.

    Example:
        >>> [column.no_wrap for column in whole_table("dataset", "method", "file", names=2).columns]
        [True, True, False]
    """
    table = Table(**options)
    for place, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=place < names)
    return table


def write_what_can_be_written() -> None:
    """Let the standard streams write in ASCII what their encoding does not have, or a question mark.

    UTF-8 has no bytes for the names of files that are not text; of ASCII, as a job of cron has it, a ± is too much.
    """
    codecs.register_error("armagnn", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # what stands in for a stream need not have it
        if reconfigure is not None:
            reconfigure(errors="armagnn")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(IN_ASCII.get(character, "?") for character in text), error.end


# ----------------------------------------------------------------------------------------------------- the command line

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=MARKUP,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"armagnn {armagnn.__version__}")
        raise typer.Exit


@app.callback()
def frame(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Graph neural networks with convolutional ARMA filters."""


def main() -> None:
    """Run the command line (the console script ``armagnn``)."""
    processors.prepare()
    app(prog_name="armagnn")
