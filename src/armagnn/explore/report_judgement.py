"""The parts of the report that compare what a run says with what is true: confusions, calibration, doubts."""

from __future__ import annotations

import math
from typing import Final

import torch

from armagnn.explore.report_parts import MOST_CLASSES, Part
from armagnn.explore.run_facts import Judgement, calibration, confusion, least_sure
from armagnn.explore.svg_charts import Chart, escaped, histogram, html_table, limits, number

MOST_ROWS: Final = 20
"""Of the nodes that the run is least sure of, and of other lists."""
MOST_DOTS: Final = 1500
"""Points of a cloud."""
MOST_TARGETS: Final = 6
"""Targets that have pictures."""
FEW: Final = 30
"""Below so many items in the test, shares say little."""


# ------------------------------------------------------------------------------------------------------------- mistakes


def mistakes_part(judged: Judgement, kind: str) -> Part:
    """What is taken for what on the test; or how far numbers are off."""
    rows = judged.rows("test")
    few = (
        f'<p class="note">The test has {len(rows)} {escaped(kind)}: shares of so few say little.</p>'
        if len(rows) < FEW
        else ""
    )
    if judged.task == "numbers":
        return "mistakes", "Residuals on the test", few + _residuals(judged, rows)
    if judged.task == "labels":
        return "mistakes", "Labels on the test", few + _labels(judged, rows)
    counts = confusion(judged)
    if len(judged.names) > MOST_CLASSES:
        return "mistakes", "Confusions on the test", few + _frequent(judged, counts)
    return "mistakes", "Confusions on the test", few + _matrix(judged, counts)


def _matrix(judged: Judgement, counts: torch.Tensor) -> str:
    names = [escaped(name) for name in judged.names]
    share = counts.double() / counts.sum(1, keepdim=True).clamp(min=1)
    right = counts.diagonal()
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    rows = []
    for place, name in enumerate(names):
        cells = []
        for other in range(len(names)):
            part = float(share[place, other])
            marks = {"own": other == place, "strong": part > 0.6, "none": not counts[place, other]}
            style = " ".join(mark for mark, holds in marks.items() if holds)
            cells.append(f'<td class="{style}" style="--share:{0.9 * part:.2f}">{int(counts[place, other])}</td>')
        found = "–" if counts[place].sum() == 0 else f"{100 * float(share[place, place]):.0f} %"
        said = int(counts[:, place].sum())
        precision = "–" if not said else f"{100 * int(right[place]) / said:.0f} %"
        rows.append(
            f'<tr><th scope="row">{name}</th>{"".join(cells)}<td style="--share:0">{found}</td>'
            f'<td style="--share:0">{precision}</td></tr>'
        )
    return (
        "<p>Rows are the true classes, columns the predicted ones, by the run's weights. Recall: the share of a true "
        "class that is found. Precision: the share of a predicted class that is right.</p>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Confusions"><table class="matrix">'
        f'<thead><tr><th scope="col">true ↓ predicted →</th>{head}<th scope="col">recall</th>'
        f'<th scope="col">precision</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _frequent(judged: Judgement, counts: torch.Tensor) -> str:
    wrong = counts.clone()
    wrong.fill_diagonal_(0)
    order = torch.argsort(wrong.flatten(), descending=True, stable=True).tolist()[:MOST_ROWS]
    size, total = len(judged.names), counts.sum(1)
    rows = [
        [str(judged.names[place // size]), str(judged.names[place % size]), str(int(wrong.flatten()[place])),
         f"{100 * float(wrong.flatten()[place]) / max(1, int(total[place // size])):.0f} %"]
        for place in order if wrong.flatten()[place] > 0
    ]  # fmt: skip
    return html_table(
        ["true", "taken for", "how often", "of the true"], rows, f"The most frequent of {size} classes.", texts=2
    )


def _labels(judged: Judgement, rows: torch.Tensor) -> str:
    said, true = judged.values[rows] > 0.5, judged.truth[rows] > 0.5
    hits, found, there = (each.sum(0).tolist() for each in (said & true, said, true))
    order = sorted(range(len(judged.names)), key=lambda place: -there[place])[:MOST_ROWS]
    table = [
        [str(judged.names[p]), str(there[p]), _percent(hits[p], there[p]), _percent(hits[p], found[p]),
         _percent(2 * hits[p], there[p] + found[p])]
        for p in order
    ]  # fmt: skip
    caption = f"The {len(order)} most frequent of {len(judged.names)} labels." if len(order) < len(judged.names) else ""
    return html_table(["label", "true", "recall", "precision", "F1"], table, caption)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "–"


def _residuals(judged: Judgement, rows: torch.Tensor) -> str:
    figures = []
    for target, name in list(enumerate(judged.names))[:MOST_TARGETS]:
        true, said = judged.truth[rows, target].double(), judged.values[rows, target].double()
        ends = limits([*true.tolist(), *said.tolist()])
        error = said - true
        mean, absolute = number(float(error.mean())), number(float(error.abs().mean()))
        text = f"{len(rows)} points; mean error {mean}, mean absolute error {absolute}."
        chart = Chart(f"{name}: predicted over true", text, ends, ends, f"true {name}", "predicted")
        chart.line([(ends[0], ends[0]), (ends[1], ends[1])], "three dashed")
        chart.dots(list(zip(true.tolist(), said.tolist(), strict=True))[:MOST_DOTS], "cloud", 3.2)
        figures.append(f"<figure><figcaption>{escaped(name)}: predicted over true</figcaption>{chart.svg()}</figure>")
        if target == 0 or len(judged.names) <= MOST_TARGETS // 2:
            figures.append(histogram(error.tolist(), f"{name}: predicted − true", "error"))
    rest = len(judged.names) - MOST_TARGETS
    note = f'<p class="note">{rest} more targets are not drawn.</p>' if rest > 0 else ""
    return f'<div class="charts">{"".join(figures)}</div>{note}'


# ------------------------------------------------------------------------------------------------------------ certainty


def calibration_part(judged: Judgement) -> Part | None:
    """Is a probability of 0.8 right in 80 of 100 cases?"""
    if judged.task == "numbers" or not len(judged.rows("test")):
        return None
    bins, error = calibration(judged)
    rows = [f"{each.count} with confidence {each.confidence:.2f}: {each.right:.2f} right" for each in bins]
    chart = Chart("Calibration", "; ".join(rows), (0.0, 1.0), (0.0, 1.0), "confidence", "share that is right")
    chart.line([(0, 0), (1, 1)], "three dashed")
    most = max(each.count for each in bins)
    for each in bins:
        chart.dots([(each.confidence, each.right)], "big", 3 + 6 * math.sqrt(each.count / most))
    table = html_table(
        ["confidence", "number", "right"],
        [[f"{b.confidence:.2f}", str(b.count), f"{100 * b.right:.0f} %"] for b in bins],
    )
    mean = sum(each.count * (each.confidence - each.right) for each in bins) / sum(each.count for each in bins)
    lean = "as sure as it is right" if abs(mean) < 0.02 else ("too sure" if mean > 0 else "less sure than it could be")
    body = (
        f"<p>On the dashed line, a confidence of 0.8 is right in 80 of 100 cases. On the test the network is on "
        f"average {lean}; the mean distance from the line is {100 * error:.1f} points (expected calibration error, ten "
        "bins). Larger points are more cases.</p>"
        f'<div class="charts"><figure>{chart.svg()}</figure><div>{table}</div></div>'
    )
    return "calibration", "Calibration", body


def doubts_part(judged: Judgement, kind: str) -> Part | None:
    """The nodes, graphs or signals that the run is least sure of."""
    rows = least_sure(judged, MOST_ROWS)
    if not rows:
        return None
    one = kind.removesuffix("s")
    table = []
    for row in rows:
        where = judged.split[row] or "no split"
        if judged.task == "numbers":
            assert judged.spread is not None
            truth = float(judged.truth[row, 0])
            table.append(
                [str(judged.ids[row]), where, number(float(judged.values[row, 0]), 4),
                 f"± {number(float(judged.spread[row, 0]), 2)}", number(truth, 4)]
            )  # fmt: skip
            continue
        if judged.task == "classes":
            order = torch.argsort(judged.values[row], descending=True).tolist()[:2]
            said = [f"{judged.names[place]} ({100 * float(judged.values[row, place]):.0f} %)" for place in order]
            truth_name = "unknown" if judged.truth[row] < 0 else str(judged.names[int(judged.truth[row])])
        else:
            place = int((judged.values[row] - 0.5).abs().argmin())
            said = [str(judged.names[place]), f"{100 * float(judged.values[row, place]):.0f} %"]
            truth_name = "yes" if judged.truth[row, place] > 0.5 else "no"
        table.append([str(judged.ids[row]), where, *said, truth_name])
    heads = {
        "classes": [one, "split", "most probable", "next", "true"],
        "labels": [one, "split", "least sure label", "its probability", "true"],
        "numbers": [one, "split", str(judged.names[0]), "between networks", "true"],
    }[judged.task]
    text = {
        "numbers": "The networks of the run, which differ by their seeds, disagree most about these.",
    }.get(judged.task, "Look at these by hand first, or ask somebody for their classes.")
    body = f"<p>{text} {escaped(kind.capitalize())} for training and validation are left out.</p>"
    return (
        "doubts",
        f"{kind.capitalize()} that the run is least sure of",
        body + html_table(heads, table, texts=len(heads)),
    )
