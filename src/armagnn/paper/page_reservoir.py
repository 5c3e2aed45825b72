"""The section of Reservoir ARMA on the page of results: random stacks beside the layer that is trained."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Final

from armagnn.paper.sealed import read_table
from armagnn.paper.summaries import LABELS, PROCESSORS, markdown, read_cells

TRAINED: Final = {
    "cora": ("node-classification.csv", "tuned"), "citeseer": ("node-classification.csv", "tuned"),
    "bench-hard": ("graph-classification.csv", "paper"), "mutag": ("graph-classification.csv", "paper"),
}  # fmt: skip
"""Where the trained layer's rows are, and of which protocol."""


def reservoir_section(folder: Path) -> list[str]:
    """The section, if its rows are there."""
    path = folder / "reservoir.csv"
    if not path.is_file():
        return []
    rows = []
    for (dataset, method, protocol), found in read_cells(path, "accuracy").items():
        if method == "reservoir":
            spent = _seconds(path, dataset, method, protocol)
            rows.append([LABELS[dataset], str(found), spent, *_trained(folder, dataset)])
    text = (
        "## Reservoir ARMA (Section 4.1)\n\nRandom stacks and a ridge regression on their states, beside the trained "
        "layer (Cora and Citeseer tuned, the others read literally): test accuracy in per cent, mean ± deviation "
        "(runs), and the seconds of a run on a CPU (of a training: where seeds train as one batch, its share). "
        "[reservoir.md](reservoir.md) describes it. Made on a CPU by `armagnn reproduce reservoir`."
    )
    return [f"{text}\n\n{markdown(['', 'reservoir', 'seconds', 'trained layer', 'seconds'], rows)}"]


def _trained(folder: Path, dataset: str) -> tuple[str, str]:
    """Accuracy and seconds of the trained layer; of the citation networks the latter are those beside the reservoir."""
    file, protocol = TRAINED[dataset]
    cell = (dataset, "arma", protocol)
    if not (path := folder / file).is_file() or cell not in (cells := read_cells(path, "accuracy")):
        return "", ""
    return str(cells[cell]), _seconds(folder / "reservoir.csv", *cell) or _seconds(path, *cell)


def _seconds(path: Path, *cell: str) -> str:
    """Seconds of a run on a processor: what a GPU needs for some trials is no measure beside a reservoir's."""
    found = [
        float(row["seconds"])
        for row in read_table(path)
        if row["metric"] == "accuracy" and (row["dataset"], row["method"], row["protocol"]) == cell
        and row["device"] in PROCESSORS
    ]  # fmt: skip
    return f"{statistics.fmean(found):.1f}" if found else ""
