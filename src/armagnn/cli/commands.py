"""The commands, in the order in which they are used: where each is, and its line in the help."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

from armagnn.cli.lazy import Group, Lazy

PLUGINS: Final = "armagnn.commands"

DATA: Final = Group(
    "The datasets: what there is, whether it is whole, and how to bring more.",
    {
        "list": Lazy("armagnn.cli.data:list_", "List every dataset: what it holds, its licence, where its file is."),
        "info": Lazy("armagnn.cli.data:info", "Show a dataset's statistics, beside the paper's."),
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
    "predict": Lazy("armagnn.cli.predict:predict", "Write the predictions of a trained run as CSV."),
    "show": Lazy("armagnn.cli.show:show", "Show what was trained and how well."),
    "data": DATA,
    "bench": Lazy("armagnn.cli.bench:bench", "Measure the speed, and how well layers learn filters."),
}


def all_commands() -> dict[str, Lazy | Group]:
    """Our commands, then those of other packages: mappings that entry points of the group ``armagnn.commands`` name."""
    found = dict(COMMANDS)
    for entry in entry_points(group=PLUGINS):
        found |= entry.load()
    return found
