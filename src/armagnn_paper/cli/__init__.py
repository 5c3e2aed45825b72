"""The commands that come with the reproduction: ``armagnn reproduce | figure | results``."""

from __future__ import annotations

from typing import Final

from armagnn.cli.app import Group, Lazy

REPRODUCE: Final = "armagnn_paper.cli.reproduce"
EXPERIMENTS: Final = "armagnn_paper.cli.experiments"
RESULTS: Final = "armagnn_paper.cli.results"

NODES: Final = "node-classification"
TITLES: Final = {
    NODES: "Table 1: Cora, Citeseer, Pubmed and PPI.",
    "graph-signal": "Table 2: MNIST and 20news.",
    "graph-classification": "Table 3: five sets of graphs.",
    "graph-regression": "Table 4: nine properties of molecules.",
    "heterophily": "Heterophily: eight graphs with ten fixed splits.",
}
"""The tables; here, so that the help needs no torch (a test compares the names with the declarations)."""

COMMANDS: Final[dict[str, Lazy | Group]] = {
    "reproduce": Group(
        "Make a table of the paper again.",
        {name: Lazy(f"{REPRODUCE}:{name.replace('-', '_')}", title) for name, title in TITLES.items()}
        | {
            "node-classification-grid": Lazy(
                f"{REPRODUCE}:node_classification_grid", "The search of its protocol grid."
            ),
            "news-baselines": Lazy(f"{EXPERIMENTS}:news_baselines", "20news without a graph: naive Bayes and others."),
            "convergence": Lazy(f"{EXPERIMENTS}:convergence", "Theorem 1: ARMA iterated until it converges."),
            "reservoir": Lazy(f"{EXPERIMENTS}:reservoir", "Reservoir ARMA: random stacks, a trained readout."),
            "pace": Lazy(f"{EXPERIMENTS}:pace", "Measure the seconds of an epoch of every cell, for --plan."),
        }
        | {
            f"{name}-search": Lazy(
                f"{REPRODUCE}:{name.replace('-', '_')}_search",
                f"The search behind the tuned protocol of {title.split(':')[0]}.",
            )
            for name, title in TITLES.items()
        },
    ),
    "figure": Group(
        "Make a figure of the paper again.",
        {
            "response": Lazy(f"{EXPERIMENTS}:response", "Figures 2 and 3: responses of layers, random and trained."),
            "training-time": Lazy(f"{EXPERIMENTS}:training_time", "Figure 4: how long trainings take."),
            "heterophily": Lazy(f"{EXPERIMENTS}:heterophily", "Leads over GCN on the heterophily sets."),
            "gains": Lazy(f"{EXPERIMENTS}:gains", "What layers trained on heterophilous graphs do to each frequency."),
            "learned": Lazy(f"{EXPERIMENTS}:learned", "What a trained run does to the spectrum of its input."),
            "claims": Lazy(f"{EXPERIMENTS}:claims", "The paper's claims, measured on trained networks."),
        },
    ),
    "results": Group(
        "Look into run stores, merge those of several machines, write their tables.",
        {
            "list": Lazy(f"{RESULTS}:list_cells", "Show every cell of every table of a store."),
            "merge": Lazy(f"{RESULTS}:merge", "Merge stores."),
            "export": Lazy(f"{RESULTS}:export", "Write each table of a store as CSV."),
            "page": Lazy(f"{RESULTS}:page", "Write the page of results from the exported tables."),
            "restore": Lazy(f"{RESULTS}:restore", "Take trials back from exported tables."),
            "seal": Lazy(f"{RESULTS}:seal", "Write the digests of tables that were edited on purpose."),
        },
    ),
}
"""What the entry point of the group ``armagnn.commands`` names."""
