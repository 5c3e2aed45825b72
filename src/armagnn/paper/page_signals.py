"""The section of Table 2 on the page of results."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from armagnn.data.entries import CATALOGUE
from armagnn.paper.published_signals import SIGNAL_ACCURACY, SIGNAL_METHODS, SIGNAL_SETS
from armagnn.paper.summaries import LABELS, comparison, devices_of, markdown, read_cells

LAST: Final = "accuracy_last"

INTRODUCTION: Final = """## Table 2: graph-signal classification

Test accuracy in per cent, mean ± sample deviation over runs (their number); 20 epochs, the weights of the epoch with
the best validation accuracy. Validation is 5,000 of MNIST's training images, and a tenth of 20news' training documents.
The text is read in two ways, described in [graph-signals.md](graph-signals.md): to the letter (p_drop also on ARMA's
skip connections; 20news as embeddings times counts, averaged over all words), and, under "tuned", as in the setting of
Defferrard et al. that it says it follows (p_drop before the last layer only; 20news as one tf-idf number a word, all of
them to the softmax). Hyperparameters are the paper's in both; on MNIST only ARMA differs between them."""


def signal_section(folder: Path) -> list[str]:
    """The section of the table, if its rows are there."""
    path = folder / "graph-signal.csv"
    if not path.is_file():
        return []
    cells, last = read_cells(path, "accuracy"), read_cells(path, LAST)
    parts = [INTRODUCTION]
    for dataset in SIGNAL_SETS:
        table = comparison(dataset, cells, SIGNAL_ACCURACY, SIGNAL_METHODS, digits=2)
        if not table:
            continue
        command = f"armagnn reproduce graph-signal --dataset {dataset} --method METHOD --reading READING"
        rows = [
            [LABELS[method], way, last[dataset, method, way].shown(2)]
            for method in SIGNAL_METHODS
            for way in ("paper", "tuned")
            if (dataset, method, way) in last
        ]
        parts.append(
            f"### {CATALOGUE[dataset].title}\n\nMade on {devices_of(dataset, cells)} by `{command}`.\n\n{table}\n\n"
            f"{markdown(['', 'protocol', 'weights of the last epoch'], rows)}"
        )
    return ["\n\n".join(parts)]
