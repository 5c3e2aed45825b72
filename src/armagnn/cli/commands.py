"""The commands, in the order in which they are used: where each is, and its line in the help."""

from __future__ import annotations

from typing import Final

from armagnn.cli.lazy import Group, Lazy

REPRODUCE: Final = Group(
    "Make a table of the paper again.",
    {
        "node-classification": Lazy(
            "armagnn.cli.reproduce:node_classification", "Table 1: Cora, Citeseer, Pubmed and PPI."
        ),
        "graph-signal": Lazy("armagnn.cli.reproduce_signals:graph_signal", "Table 2: MNIST and 20news."),
        "graph-classification": Lazy(
            "armagnn.cli.reproduce_graphs:graph_classification", "Table 3: five sets of graphs."
        ),
        "graph-regression": Lazy(
            "armagnn.cli.reproduce_graphs:graph_regression", "Table 4: nine properties of molecules."
        ),
        "convergence": Lazy("armagnn.cli.convergence:convergence", "Theorem 1: ARMA iterated until it converges."),
        "reservoir": Lazy("armagnn.cli.reproduce:reservoir_table", "Reservoir ARMA: random stacks, a trained readout."),
        "pace": Lazy("armagnn.cli.pace:pace", "Measure the seconds of an epoch of every cell, for --plan."),
        "node-classification-search": Lazy(
            "armagnn.cli.reproduce:node_classification_search", "The search behind the tuned protocol of Table 1."
        ),
        "graph-signal-search": Lazy(
            "armagnn.cli.reproduce_signals:graph_signal_search", "The search behind the tuned protocol of Table 2."
        ),
        "graph-classification-search": Lazy(
            "armagnn.cli.reproduce_graphs:graph_classification_search",
            "The search behind the tuned protocol of Table 3.",
        ),
        "graph-regression-search": Lazy(
            "armagnn.cli.reproduce_graphs:graph_regression_search", "The search behind the tuned protocol of Table 4."
        ),
    },
)

FIGURE: Final = Group(
    "Make a figure of the paper again.",
    {
        "response": Lazy("armagnn.cli.figure:response", "Figures 2 and 3: responses of layers, random and trained."),
        "training-time": Lazy("armagnn.cli.figure:training_time", "Figure 4: how long trainings take."),
        "learned": Lazy("armagnn.cli.figure:learned", "What a trained run does to the spectrum of its input."),
        "claims": Lazy("armagnn.cli.figure:claims", "The paper's claims, measured on trained networks."),
    },
)

RESULTS: Final = Group(
    "Look into run stores, merge those of several machines, write their tables.",
    {
        "list": Lazy("armagnn.cli.results:list_cells", "Show every cell of every table of a store."),
        "merge": Lazy("armagnn.cli.results:merge", "Merge stores."),
        "export": Lazy("armagnn.cli.results:export", "Write each table of a store as CSV."),
        "page": Lazy("armagnn.cli.results:page", "Write the page of results from the exported tables."),
        "restore": Lazy("armagnn.cli.results:restore", "Take trials back from exported tables."),
        "seal": Lazy("armagnn.cli.results:seal", "Write the digests of tables that were edited on purpose."),
    },
)

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
    "train": Lazy("armagnn.cli.train_graphs:app", "Train a network on the nodes of a graph, or on whole graphs."),
    "predict": Lazy("armagnn.cli.predict:predict", "Write the predictions of a trained run as CSV."),
    "show": Lazy("armagnn.cli.show:show", "Show what was trained and how well."),
    "data": DATA,
    "bench": Lazy("armagnn.cli.bench:bench", "Measure the speed, and how well layers learn filters."),
    "reproduce": REPRODUCE,
    "figure": FIGURE,
    "results": RESULTS,
}
