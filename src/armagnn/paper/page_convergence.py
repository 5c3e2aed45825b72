"""The section of the convergent layer (Theorem 1) on the page of results."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from armagnn.paper.summaries import markdown, read_cells

METRICS: Final = {"accuracy": 1, "contraction": 3, "steps": 0, "plain_steps": 0, "epochs": 0}
"""What is shown, with how many digits."""

HEAD: Final = ("", "", "test accuracy, %", "contraction", "steps of a solve", "by plain iteration", "epochs")


def convergence_section(folder: Path) -> list[str]:
    """The section, if its rows are there."""
    path = folder / "convergence.csv"
    if not path.is_file():
        return []
    cells = {metric: read_cells(path, metric) for metric in METRICS}
    rows = [
        [dataset, f"{method}, {protocol}"]
        + [
            cells[metric][dataset, method, protocol].shown(digits)
            if (dataset, method, protocol) in cells[metric]
            else ""
            for metric, digits in METRICS.items()
        ]
        for dataset, method, protocol in cells["accuracy"]
    ]
    text = (
        "## Theorem 1: the convergent layer beside T fixed\n\nOne ARMA layer and a linear readout, 10 seeds, mean ± "
        "sample deviation (runs); [convergence.md](convergence.md) describes the tasks. "
        "Made on a CPU by `armagnn reproduce convergence`."
    )
    return [f"{text}\n\n{markdown(HEAD, rows)}"]
