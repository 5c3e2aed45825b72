"""The commands, in the order in which they are used, and their frame: help, version, and how errors are shown."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated, Any, Final

import typer
from rich.text import Text

import armagnn
from armagnn.cli.consoles import notes_console, write_what_can_be_written
from armagnn.cli.lazy_commands import MARKUP, Group, Lazy, LazyGroup
from armagnn.errors import ArmagnnError

PLUGINS: Final = "armagnn.commands"

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
    "predict": Lazy("armagnn.cli.finished_runs:predict", "Write the predictions of a trained run as CSV."),
    "show": Lazy("armagnn.cli.finished_runs:show", "Show what was trained and how well."),
    "explore": Lazy("armagnn.cli.explore:explore", "Move the poles of a filter in the browser."),
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
