"""The parts of the report of a run: each is a name, a heading and HTML."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, Final

import torch

from armagnn.errors import ArmagnnError
from armagnn.explore.learned import BANDS, StackResponse, in_bands, learned_responses
from armagnn.explore.run_facts import Judgement, data_facts
from armagnn.explore.svg_charts import Chart, Points, escaped, histogram, html_table, legend, limits, number
from armagnn.training.config import Config
from armagnn.training.outcome import Outcome
from armagnn.training.run_folder import Run

Part = tuple[str, str, str]

MOST_CLASSES: Final = 16
"""Of a matrix of confusions; with more the most frequent ones are listed."""
MOST_CURVES: Final = 20
"""Trials whose learning curves are drawn."""

MEASURES: Final = {
    "accuracy": ("accuracy", True),
    "macro_f1": ("macro-F1", True),
    "micro_f1": ("micro-F1", True),
    "roc_auc": ("ROC-AUC", True),
    "r2": ("R²", False),
    "mse": ("MSE of standardised targets", False),
}
"""What metrics are called, and whether they are shown in per cent."""


METHODS: Final = {
    "mlp": ("no edges: MLP", "the network that ignores the edges"),
    "label_propagation": ("no features: label propagation", "label propagation, which ignores the features"),
}
"""What baselines are called, in a table and in a sentence."""


# -------------------------------------------------------------------------------------------------------------- summary


def measured(name: str, found: dict[str, float], several: bool, unit: bool = True) -> str:
    """Mean and deviation of a metric, to read."""
    percent = MEASURES.get(name, ("", False))[1]
    scale, digits = (100.0, 1) if percent else (1.0, 3)
    mean, deviation = scale * found["mean"], scale * found["std"]
    if percent:
        text = f"{mean:.{digits}f}" + (f" ± {deviation:.{digits}f}" if several else "")
        return text.replace("-", "−") + (" %" if unit else "")
    return number(mean, 4) + (f" ± {number(deviation, 2)}" if several else "")


def main_measure(metrics: dict[str, Any]) -> str:
    """The metric that stands for a run."""
    return next(name for name in ("micro_f1", "accuracy", "r2", "mse", "loss") if name in metrics)


def summary(run: Run, metrics: dict[str, Any]) -> str:
    """What was trained, in a sentence or two, as HTML."""
    config, name = run.config, main_measure(metrics["test"])
    count = len(metrics["trials"])
    what = MEASURES.get(name, (name, False))[0]
    value = measured(name, metrics["test"][name], count > 1)
    seeds = f"mean and deviation over {count} seeds" if count > 1 else "one seed"
    conv, kind = ("ARMA" if config.conv == "arma" else config.conv), config.kind
    text = (
        f"A network of {conv} layers, trained on {kind}. On the test {kind} its {what} is {value} ({seeds}). Nothing "
        "was chosen on test data: validation data decided when to stop, and which weights to keep."
    )
    return escaped(text)


def _rank(metric: str) -> int:
    """The place of a metric among those that are shown large."""
    order = ("accuracy", "micro_f1", "macro_f1", "roc_auc", "r2", "mae", "rmse", "mse")
    first = metric.partition(" ")[0]
    return order.index(first) if first in order else len(order)


def tiles(run: Run, metrics: dict[str, Any]) -> str:
    """The results on the test, large."""
    several = len(metrics["trials"]) > 1
    shown: list[str] = []
    for name, found in sorted(metrics["test"].items(), key=lambda each: _rank(each[0])):
        error, _, target = name.partition(" ")
        if name in MEASURES:
            label = f"test {MEASURES[name][0]}"
        elif error in ("mae", "rmse") and len(shown) < 6:
            label = {"mae": "mean absolute error", "rmse": "root mean squared error"}[error]
            label += "" if target == "target" else f", {target}"
        else:
            continue
        mean, _, deviation = measured(name, found, several).partition(" ± ")
        small = f" <small>± {escaped(deviation)}</small>" if deviation else ""
        shown.append(f"<li><b>{escaped(mean)}{small}</b><span>{escaped(label)}</span></li>")
    return f'<ul class="tiles">{"".join(shown)}</ul>'


# ------------------------------------------------------------------------------------------------------------ baselines


def baselines_part(config: Config, metrics: dict[str, Any], baselines: dict[str, Any]) -> Part | None:
    """What the graph brings over methods that ignore the edges or the features."""
    if not baselines:
        return None
    name = main_measure(metrics["test"])
    what, percent = MEASURES.get(name, (name, False))
    scale = 100.0 if percent else 1.0
    rows = [("this run", metrics["test"], len(metrics["trials"]))]
    for method, found in baselines.items():
        rows.append((METHODS.get(method, (method, method))[0], found["test"], int(found.get("seeds", 1))))
    rows = [row for row in rows if name in row[1]]
    ends = [
        scale * (each["mean"] + sign * each["std"])
        for _, found, _ in rows
        for each in [found[name]]
        for sign in (-1, 1)
    ]
    chart = Chart(
        "What the graph brings", "; ".join(f"{row}: {measured(name, found[name], n > 1)}" for row, found, n in rows),
        limits(ends, share=0.35), (0.0, float(len(rows))), f"test {what}{' (%)' if percent else ''}",
        height=62 + 44 * len(rows), y_ticks=[(len(rows) - 0.5 - place, "") for place in range(len(rows))], left=12,
    )  # fmt: skip
    for place, (row, found, n) in enumerate(rows):
        height, mean, deviation = len(rows) - 0.5 - place, scale * found[name]["mean"], scale * found[name]["std"]
        style = "one" if place == 0 else "three"
        chart.line([(mean - deviation, height - 0.12), (mean + deviation, height - 0.12)], f"{style} wide")
        chart.dots([(mean, height - 0.12)], "big" if place == 0 else "soft-dot", 5.5)
        text = f"{row}, {measured(name, found[name], n > 1)}"
        chart.words(chart.x[0], height + 0.27, text)
    table = html_table(
        ["on the test", *(MEASURES[each][0] for each in metrics["test"] if each in MEASURES), "seeds"],
        [
            [
                row,
                *(measured(m, found[m], n > 1) if m in found else "–" for m in metrics["test"] if m in MEASURES),
                str(n),
            ]
            for row, found, n in rows
        ],
    )
    body = f"<p>{escaped(_verdict(name, rows, percent))}</p>"
    body += f"<figure>{chart.svg()}</figure>{table}"
    return "graph", "What the graph brings", body


def _verdict(name: str, rows: Sequence[tuple[str, dict[str, Any], int]], percent: bool) -> str:
    """What the comparison means, in words."""
    others = rows[1:]
    if not others:
        return ""
    better = name != "mse" and name != "loss"
    best = max(others, key=lambda row: row[1][name]["mean"] * (1 if better else -1))
    own, other = rows[0][1][name], best[1][name]
    gain = (own["mean"] - other["mean"]) * (1 if better else -1)
    noise = math.hypot(own["std"], other["std"])
    size = f"{abs(100 * gain):.1f} points" if percent else number(abs(gain), 2)
    simpler = next((sentence for label, sentence in METHODS.values() if label == best[0]), best[0])
    if abs(gain) <= noise:
        return (
            f"The run and {simpler} differ by {size}. That is within the deviation between seeds: here edges and "
            "features together bring nothing that one of them alone does not."
        )
    if gain > 0:
        return f"With edges and features the run is {size} better than {simpler}, the better of the simpler methods."
    return (
        f"A simpler method, {simpler}, is {size} better than this run: use that one, or tune this one (armagnn tune)."
    )


# ----------------------------------------------------------------------------------------------------------------- data


def data_part(config: Config, data: Any, judged: Judgement | None, missing: str) -> Part:
    """What the data are: sizes, splits, classes, what was done with them."""
    if data is None:
        text = f"The data of this run could not be read, so the report has no predictions: {missing}"
        return "data", "The data", f'<p class="note">{escaped(text)}</p>'
    facts = data_facts(data)
    charts = []
    if judged is not None:
        counts = {name: list(judged.split).count(name) for name in ("train", "val", "test", "")}
        facts.append(
            (
                "Split",
                f"{counts['train']:,} for training, {counts['val']:,} for validation, {counts['test']:,} for the test",
            )
        )
        if counts[""]:
            facts.append(("Without a split", f"{counts['']:,} {config.kind}, whose target training did not see"))
        charts.append(_shares(judged) if judged.task != "numbers" else _targets(judged))
    rows = "".join(f'<tr><th scope="row">{escaped(a)}</th><td>{escaped(b)}</td></tr>' for a, b in facts)
    body = f'<div class="charts"><div class="scroll"><table class="facts"><tbody>{rows}</tbody></table></div>'
    body += "".join(charts) + "</div>"
    notes = getattr(data, "notes", ())
    if notes:
        body += (
            "<h3>What was done with them</h3><ul>" + "".join(f"<li>{escaped(note)}</li>" for note in notes) + "</ul>"
        )
    return "data", "The data", body


def _shares(judged: Judgement) -> str:
    """How many nodes of each class are known, and how many are predicted."""
    size = len(judged.names)
    if judged.task == "classes":
        known = torch.bincount(judged.truth[judged.truth >= 0], minlength=size)
        said = torch.bincount(judged.guess, minlength=size)
    else:
        known, said = (judged.truth > 0.5).sum(0), (judged.values > 0.5).sum(0)
    order = torch.argsort(known, descending=True, stable=True).tolist()[:MOST_CLASSES]
    names = [str(judged.names[place]) for place in order]
    left = min(170, 24 + 7 * max(len(name) for name in names))
    rows = [f"{judged.names[place]}: {int(known[place])} known, {int(said[place])} predicted" for place in order]
    chart = Chart(
        "Classes", ", ".join(rows), (0.0, 1.12 * max(int(known.max()), int(said.max()), 1)), (0.0, float(len(order))),
        "number", height=58 + 24 * len(order), left=left,
        y_ticks=[(len(order) - 0.5 - i, name if len(name) < 20 else name[:18] + "…") for i, name in enumerate(names)],
    )  # fmt: skip
    for row, place in enumerate(order):
        y = len(order) - row
        chart.bar((0, float(known[place])), (y - 0.48, y - 0.12), "fill")
        chart.bar((0, float(said[place])), (y - 0.86, y - 0.5), "soft")
    rest = f" (the {len(order)} most frequent of {size})" if size > len(order) else ""
    keys = legend([("one", "known"), ("three", "predicted, of all")])
    return f"<figure><figcaption>Classes{escaped(rest)}</figcaption>{chart.svg()}{keys}</figure>"


def _targets(judged: Judgement) -> str:
    """How the known numbers of the first target are distributed."""
    known = judged.truth[:, 0][judged.truth[:, 0].isfinite()]
    return histogram(known.tolist(), f"{judged.names[0]}: known values", str(judged.names[0]))


# --------------------------------------------------------------------------------------------------------------- curves


def curves_part(trials: Sequence[Outcome]) -> Part:
    """Loss and accuracy over epochs."""
    shown = list(trials)[:MOST_CURVES]
    longest = max(len(trial.history["val_loss"]) for trial in shown)
    losses = [v for trial in shown for name in ("train_loss", "val_loss") for v in trial.history[name]]
    high = _without_peaks(losses)
    text = f"{len(shown)} trials. The lowest validation loss, of the weights that were kept, is "
    text += f"{number(min(trial.val['loss'] for trial in shown))}."
    chart = Chart(
        "Loss over epochs", text, (1, longest), (0.0 if min(losses) >= 0 else min(losses), high), "epoch", "loss"
    )
    for trial in shown:
        chart.line(_over_epochs(trial.history["train_loss"], high), "three thin")
        chart.line(_over_epochs(trial.history["val_loss"], high), "one")
    chart.dots([(trial.best_epoch, trial.val["loss"]) for trial in shown], "mark", 3.6)
    figures = [f"<figure><figcaption>Loss</figcaption>{chart.svg()}</figure>"]
    if "val_accuracy" in shown[0].history:
        percent = [[100 * v for v in trial.history["val_accuracy"]] for trial in shown]
        mean = 100 * statistics.fmean(trial.val["accuracy"] for trial in shown)
        text = f"The mean accuracy of the weights that were kept is {mean:.1f} %."
        chart = Chart(
            "Validation accuracy over epochs", text, (1, longest), limits(v for row in percent for v in row),
            "epoch", "validation accuracy (%)",
        )  # fmt: skip
        for row in percent:
            chart.line(_over_epochs(row, 101.0), "one thin")
        chart.dots([(trial.best_epoch, 100 * trial.val["accuracy"]) for trial in shown], "mark", 3.6)
        figures.append(f"<figure><figcaption>Accuracy</figcaption>{chart.svg()}</figure>")
    keys = legend([("three", "training (with dropout)"), ("one", "validation"), ("mark", "weights that were kept")])
    rest = f" The first {MOST_CURVES} of {len(trials)} trials are shown." if len(trials) > MOST_CURVES else ""
    note = f"<p class='note'>One line for each of {len(shown)} trials.{rest}</p>"
    return "curves", "Learning curves", f'{keys}<div class="charts">{"".join(figures)}</div>{note}'


def _over_epochs(values: Sequence[float], most: float) -> Points:
    return [(epoch, value if value <= most else math.nan) for epoch, value in enumerate(values, 1)]


def _without_peaks(values: Iterable[float]) -> float:
    """The upper end of an axis that shows nearly all numbers: the first epochs may be far away."""
    found = sorted(value for value in values if math.isfinite(value))
    return 1.15 * max(found[int(0.985 * (len(found) - 1))], 1e-12) if found else 1.0


# ------------------------------------------------------------------------------------------------------------ responses


def responses_part(run: Run, data: Any, wanted: bool | None, most: int, given: Any = None) -> Part | None:
    """What every stack does to the spectrum (Eq. 20)."""
    heading = "What every stack does to the spectrum"
    if wanted is False or run.config.kind == "signals":
        return None
    if wanted is None and run.config.kind == "nodes" and data.num_nodes > most:
        text = f"The graph has {data.num_nodes:,} nodes. Its spectrum takes a while: ask for it with --responses."
        return "responses", heading, f'<p class="note">{escaped(text)}</p>'
    try:
        mu, found = learned_responses(run, given)
    except ArmagnnError as error:
        return "responses", heading, f'<p class="note">{escaped(error)}</p>'
    figures = "".join(_response(mu, each) for each in found)
    keys = legend([("one", "response h̃ (Eq. 20)"), ("two dashed", "gain of energy")])
    body = (
        "<p>Left are the low frequencies, signals that change little along edges; right the high ones. Above 0 a stack "
        "keeps a frequency, at 0 it removes it, below it turns it around. Where the two lines differ, features of "
        f'either sign cancel in the mean.</p>{keys}<div class="charts small">{figures}</div>'
    )
    return "responses", heading, body


def _response(mu: torch.Tensor, each: StackResponse) -> str:
    middles, values = (part.double() for part in each.bands)
    places, gain = in_bands(mu, each.gain)
    curves = [
        [(1 - m, v) for m, v in zip(a.tolist(), b.tolist(), strict=True)]
        for a, b in ((middles, values), (places, gain))
    ]
    curves = [sorted((x, y) for x, y in curve if math.isfinite(y)) for curve in curves]
    low, high = limits([0.0, *(y for curve in curves for _, y in curve)], share=0.12)
    peak = max(curves[0], key=lambda point: point[1], default=(0.0, 0.0))
    text = f"In {BANDS} bands. The response is largest, {number(peak[1])}, at lambda = {number(peak[0])}."
    chart = Chart(each.title, text, (0.0, 2.0), (low, high), "λ", height=250, x_ticks=[(0, "0"), (1, "1"), (2, "2")])
    chart.line([(0, 0), (2, 0)], "zero")
    chart.line(curves[1], "two dashed")
    chart.line(curves[0], "one wide")
    return f"<figure><figcaption>{escaped(each.title)}</figcaption>{chart.svg()}</figure>"


# ------------------------------------------------------------------------------------------------------------- settings


def settings_part(run: Run, command: str | None) -> Part:
    """How to make the run again."""
    if command is None:
        text = "The data were in memory: pass them to armagnn.training.train again, with the settings below."
        body = f"<p>{escaped(text)}</p>"
    else:
        body = f"<p>This command makes the run again:</p><pre><code>{escaped(command)}</code></pre>"
        body += f"<p>And this one makes this report: <code>armagnn report {escaped(run.path)}</code></p>"
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    seconds = sum(trial.seconds for trial in run.trials())
    facts = [(name.replace("_", " "), value) for name, value in run.config.to_json().items() if value != ""]
    facts += [("versions", versions), ("SHA-256 of the data", run.dataset_sha256), ("trained for", f"{seconds:.0f} s")]
    rows = "".join(f'<tr><th scope="row">{escaped(a)}</th><td>{escaped(b)}</td></tr>' for a, b in facts)
    body += f'<h3>All settings</h3><div class="scroll"><table class="facts"><tbody>{rows}</tbody></table></div>'
    return "again", "How to make it again", body
