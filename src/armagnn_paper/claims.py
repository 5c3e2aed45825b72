"""What the paper claims of its layer, measured on trained networks: a question, jobs, a table and a picture each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from armagnn.checks import choice
from armagnn_paper import claims_depth, claims_robustness, claims_stacks, claims_transfer
from armagnn_paper.claims_rows import ClaimRow, Measurement, collect, mean_and_deviation

RUNS: Final = 10


@dataclass(frozen=True)
class Claim:
    """A claim: what is asked, what is measured, and how it is drawn."""

    name: str
    question: str
    jobs: Callable[[], list[Measurement]]
    draw: Callable[[Sequence[ClaimRow]], Any]


CLAIMS: Final = {
    claim.name: claim
    for claim in (
        Claim(
            "robustness",
            "Is ARMA more robust than GCN and Chebyshev to noise and to a changed graph?",
            claims_robustness.jobs,
            claims_robustness.draw,
        ),
        Claim(
            "transfer",
            "Does a trained network transfer to graphs of other sizes and topologies?",
            claims_transfer.jobs,
            claims_transfer.draw,
        ),
        Claim("depth", "Can GCS layers be stacked without over-smoothing?", claims_depth.jobs, claims_depth.draw),
        Claim(
            "diversity",
            "Does dropout of the skip connections make the stacks differ?",
            claims_stacks.diversity_jobs,
            claims_stacks.draw_diversity,
        ),
        Claim("norms", "Does weight decay keep ‖W_k‖ below 1?", claims_stacks.norm_jobs, claims_stacks.draw_norms),
    )
}


def claim(name: str) -> Claim:
    """A claim by its name.

    Example:
        >>> claim("depth").question
        'Can GCS layers be stacked without over-smoothing?'
    """
    return CLAIMS[choice("claim", name, CLAIMS)]


def table(rows: Sequence[ClaimRow], most: int = 8) -> tuple[list[str], list[list[str]]]:
    """Head and lines of a table: mean ± deviation, a line per method, variable and metric, a column per level.

    Of many levels, as epochs are, `most` are shown, evenly chosen, with the first and the last.

    Example:
        >>> table([ClaimRow("arma", "noise", "0", run, "accuracy", value) for run, value in enumerate([80.0, 82.0])])
        (['method', 'varied', 'metric', 'at', 'mean ± deviation'], [['arma', 'noise', 'accuracy', '0', '81 ± 1.4']])
    """
    lines = []
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for (method, variable, metric, level), values in collect(rows, "method", "variable", "metric", "level").items():
        mean, deviation = mean_and_deviation(values)
        groups.setdefault((method, variable, metric), []).append((level, f"{mean:.3g} ± {deviation:.2g}"))
    for (method, variable, metric), cells in groups.items():
        kept = sorted({round(i * (len(cells) - 1) / (most - 1)) for i in range(most)}) if len(cells) > most else None
        for index, (level, cell) in enumerate(cells):
            if kept is None or index in kept:
                lines.append([method, variable, metric, level, cell])
    return ["method", "varied", "metric", "at", "mean ± deviation"], lines
