"""The frame of the command line: its help, its version, and how errors are shown."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

import armagnn
from armagnn.cli.commands import all_commands
from armagnn.cli.consoles import notes_console, write_what_can_be_written
from armagnn.cli.lazy import MARKUP, LazyGroup
from armagnn.errors import ArmagnnError


class Commands(LazyGroup):
    """Show errors that the user can mend as one red line; anything else is a bug and keeps its traceback."""

    def __init__(self, **options: Any) -> None:
        super().__init__(all_commands(), **options)

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
