"""The page of results: made from the committed rows, one per trial, and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from armagnn.errors import DataError
from armagnn.paper.page_convergence import convergence_section
from armagnn.paper.page_graphs import graph_sections
from armagnn.paper.page_reservoir import reservoir_section
from armagnn.paper.page_signals import signal_section
from armagnn.paper.published import ACCURACY, DATASETS, METHODS
from armagnn.paper.sealed import SUMS, check_all_there, read_table
from armagnn.paper.search import BUDGETS
from armagnn.paper.summaries import LABELS, Cell, Summary, comparison, devices_of, markdown, overview, read_cells
from armagnn.paper.training_time import from_csv

MARKS: Final = ("<!-- table 1 -->", "<!-- end of table 1 -->")


def node_classification(path: Path) -> str:
    """The section of Table 1."""
    accuracy, f1 = read_cells(path, "accuracy"), read_cells(path, "micro_f1")
    scores = path.parent / "search" / path.name
    parts = [NODES, finals_held(scores) if scores.is_file() else ""]
    parts += [_accuracy_section(dataset, accuracy) for dataset in DATASETS]
    parts += [_f1_section(f1)] if f1 else []
    return "\n\n".join(part for part in parts if part)


def _accuracy_section(dataset: str, cells: Mapping[Cell, Summary]) -> str:
    table = comparison(dataset, cells, ACCURACY, METHODS)
    command = f"`armagnn reproduce node-classification --dataset {dataset} --method METHOD --protocol PROTOCOL`"
    if not table:
        return ""
    return (
        f"### {LABELS[dataset]}\n\nTest accuracy in per cent, mean ± sample deviation (runs); seeds are 0, 1, 2, ... "
        f"Made on {devices_of(dataset, cells)} by {command}.\n\n{table}"
    )


def _f1_section(cells: Mapping[Cell, Summary]) -> str:
    rows = [
        [LABELS[method], *(str(cells.get(("ppi", method, way), "")) for way in ("paper", "tuned", "wide"))]
        for method in METHODS
        if any(("ppi", method, way) in cells for way in ("paper", "tuned", "wide"))
    ]
    return f"### PPI: micro-F1\n\nIn per cent.\n\n{markdown(['', 'text read literally', 'tuned', 'wide'], rows)}"


def with_overview(text: str, folder: Path) -> str:
    """A text with Table 1 in short, between its two marks, made anew."""
    if not all(mark in text for mark in MARKS):
        raise DataError(f"The text has no place for the table: put {MARKS[0]} and {MARKS[1]} where it belongs.")
    before, rest = text.split(MARKS[0], 1)
    after = rest.split(MARKS[1], 1)[1]
    table = overview(read_cells(folder / "node-classification.csv", "accuracy"), ACCURACY, DATASETS, METHODS, "tuned")
    return f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}"


def finals_held(path: Path) -> str:
    """A sentence that names the cells whose choice was made in finals that were held to their end."""
    seen: dict[tuple[str, str], int] = {}
    rows = read_table(path)
    try:
        for row in rows:
            cell, budget = (row["dataset"], row["method"]), BUDGETS[row["dataset"]]
            complete = row["stage"] == "finals" and len(row["seeds"].split()) >= budget.final_seeds
            seen[cell] = seen.get(cell, 0) + complete
    except KeyError as error:
        raise DataError(f"{path}: not the scores of a search ({error}).") from error
    rest = [
        f"{LABELS[m]} on {LABELS[d].split(' (')[0]}"
        for d in DATASETS
        for m in METHODS
        if (d, m) in seen and BUDGETS[d].finalists > seen[d, m]
    ]
    return f"Without finals, by the first stage alone, were chosen: {', '.join(rest) or 'none'}."


def times_section(path: Path) -> list[str]:
    """The section of Figure 4, if its numbers are there."""
    if not path.is_file():
        return []
    timings = from_csv(path)
    rows = [
        [
            LABELS[timing.method],
            f"{1e3 * timing.seconds_per_epoch:.2f}",
            f"{timing.seconds_to_best:.2f}",
            f"{timing.best_epoch} of {timing.epochs}",
            f"{timing.val_accuracy:.1f}",
        ]
        for timing in timings
    ]
    head = ["", "ms per epoch", "s to the best validation loss", "best epoch", "validation accuracy there, %"]
    most = max(timing.epochs for timing in timings)
    on = "cpu" if timings[0].device == "CPU" else "cuda"
    cut = [LABELS[timing.method] for timing in timings if timing.epochs == most]
    devices = ", ".join(sorted({timing.device for timing in timings}))
    return [
        "## Figure 4: training time on PPI\n\nThe paper's hyperparameters, seed 0; an epoch is a step on all 20 "
        f"training graphs and its validation. Made on {devices} by `armagnn figure training-time --device {on} "
        f"--epochs {most}`. Not yet stopped after {most} epochs, so that their best may come later: {', '.join(cut)}."
        "\n\n"
        f"{markdown(head, rows)}\n\n![training time](figures/training-time.png)"
    ]


def results_page(folder: Path) -> str:
    """The whole page, from the CSV files of a folder; it has the sections whose tables are there."""
    for part in (folder, *(path.parent for path in sorted(folder.glob(f"*/{SUMS}")))):
        check_all_there(part)
    nodes = folder / "node-classification.csv"
    sections = [
        *([node_classification(nodes)] if nodes.is_file() else []),
        *times_section(folder / "training-time.csv"),
        *signal_section(folder),
        *graph_sections(folder),
        *convergence_section(folder),
        *reservoir_section(folder),
    ]
    if not sections:
        raise DataError(f"{folder}: has no table of results. Make them with: armagnn results export.")
    return "\n\n".join([INTRODUCTION, *sections]) + "\n"


INTRODUCTION: Final = """# Results

This page is made by `armagnn results page` from the rows of `results/*.csv`, one per trial and metric. No number in its
tables is typed by hand; an empty cell has not been run. "Paper" is the published number. "Text read literally" is the
paper's architecture, hyperparameters and stopping rule. "Tuned" changes what the text leaves open, chosen on validation
data alone; the choices are in `src/armagnn/paper/chosen/`. How, when a training stops, and how ARMA's lead over a
method is tested, stands with each table; every p-value is that of its own test, not corrected for how many tests the
page has. A cell that is made again agrees with its rows up to rounding, not to the bit:
float32 sums depend on the version, the processor, its threads and how many trials train as one batch, and hundreds of
epochs enlarge the difference, so that single trials may end elsewhere."""

NODES: Final = """## Table 1: node classification

Read literally, training stops on validation accuracy, patience 50. "Tuned" changes drop rates, L2, activation and K of
the last layer, chosen by a random search: 48 settings, the same for every method, 3 seeds each; then the 8 best from
20 fresh seeds each; no seed is one of the reported runs; stopping on validation loss (patience 100; 300 on PPI). On
PPI 8 settings are tried (7, where two differ in nothing that the method has), one training of 1,000 epochs each, and
there are no finals. Every setting that was tried and its validation scores are in
`results/search/node-classification.csv`. ARMA's lead over a method is the difference of the means, with the p-value of
Welch's t-test.

Tuned, ARMA falls short of the paper on Cora. There the choice of the first stage was reported first (81.5 ± 0.7 over
100 runs, H200); the finals then chose what its row shows. On PPI a first search (rates in [0, 0.3], never 0; 12
settings, 300 epochs) had chosen a setting that reached 86.5 ± 0.1 on the test graphs; rates of 0 and longer trainings
were then allowed, as others' experience with PPI suggests. Where baselines differ from the published numbers by more
than two deviations: the text's p_drop of 0.75 is far from what GAT's and GIN's authors use, and GAT has 2 units in each
of its 8 heads here, so that the hidden layer has the 16 units of the others; Chebyshev on Pubmed, read literally, stops
after 107 epochs on average. Tuned, GCN, Chebyshev, CayleyNet and GraphSAGE are above what was published for them on the
citation networks: the same search serves every method. GIN on Citeseer and Pubmed stays below, and its runs end far
apart. A first version of GIN's rows had, in the output layer, MLPs no wider than the number of classes; their test
scores were known when they were replaced (literally and tuned: Cora 72.3 and 75.9, Citeseer 49.9 and 49.8, Pubmed 66.3
and 59.7). On PPI, where a node has up to 721 neighbours, the sums of sums of GIN's four layers make its first loss
about 17,000 (seed 0, validation graphs). At the text's learning rate it comes down from there with dead units: in every
run, literal or tuned, all nodes get the labels that most nodes have (which scores 74.35 on the test graphs).
GraphSAGE's published 70.0 is about what no label at all scores (70.1 here); ours learns. Tuned, it, CayleyNet and GAT
are far above what was published for them on PPI: each chose ELU and dropped (next to) nothing, where the text drops a
quarter of all units, and trains on until the validation loss has not fallen for 300 epochs. So tuned, GAT does as well
as ARMA. "Wide" is ARMA with 512 units, beyond the paper."""
