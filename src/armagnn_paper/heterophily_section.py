"""The section of the heterophily tables on the page of results, and their picture."""

from __future__ import annotations

import io
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from armagnn_paper.heterophily_table import DATASETS, HETEROPHILY, LARGE, METHODS, SPLITS
from armagnn_paper.summaries import LABELS, Summary, corrected, devices_of, fold_leads, markdown, read_cells

TESTED: Final = dict.fromkeys(DATASETS, 0.2) | dict.fromkeys(LARGE, 0.25) | {"chameleon-filtered": 0.22}
"""The share of the nodes of a split that test."""

OURS: Final = ("arma", "rational")
"""The methods that are compared with all others."""

Cells = Mapping[tuple[str, str], Summary]
"""The mean of the seeds on each split, by dataset and method."""


def of_splits(cell: Summary) -> Summary:
    """The mean of the seeds on each split, in the order of the splits.

    Example:
        >>> of_splits(Summary((1.0, 2.0, 5.0), frozenset(), ("0", "0", "1"))).values
        (1.5, 5.0)
    """
    values: dict[str, list[float]] = {}
    for split, value in zip(cell.folds, cell.values, strict=True):
        values.setdefault(split, []).append(value)
    splits = sorted(values, key=int)
    return Summary(tuple(statistics.fmean(values[split]) for split in splits), cell.devices, tuple(splits))


def read(path: Path) -> Cells:
    """The cells of the table's file, each by the metric of its dataset."""
    found = {}
    for metric in ("accuracy", "roc_auc"):
        for (dataset, method, _), cell in read_cells(path, metric).items():
            if HETEROPHILY.metric_of(dataset) == metric:
                found[dataset, method] = of_splits(cell)
    return found


def lead(cells: Cells, dataset: str, method: str, other: str) -> tuple[float, float]:
    """The mean lead of a method over another on the splits that both have, and its p-value; nan where there is none."""
    if (dataset, method) not in cells or (dataset, other) not in cells:
        return math.nan, math.nan
    leads = fold_leads(cells[dataset, method], cells[dataset, other])
    return (statistics.fmean(leads), corrected(leads, TESTED[dataset])) if leads else (math.nan, math.nan)


def _shown(cells: Cells, dataset: str, method: str) -> str:
    cell = cells.get((dataset, method))
    if cell is None:
        return ""
    missing = "" if len(cell.values) == SPLITS else f" ({len(cell.values)} splits)"
    text = f"{cell.mean:.1f} ± {cell.deviation:.1f}"
    best = max(other.mean for (name, _), other in cells.items() if name == dataset)
    return (f"**{text}**" if cell.mean == best else text) + missing


def _lead_shown(found: tuple[float, float]) -> str:
    mean, p = found
    if math.isnan(mean):
        return ""
    return f"{mean:+.1f}" + ("" if math.isnan(p) else f" ({'< 0.001' if p < 0.001 else f'{p:.3f}'})")


def _verdict(cells: Cells) -> str:
    """On how many sets ARMA or Rational is not behind GCN."""
    both = {d: [lead(cells, d, method, "gcn")[0] for method in OURS] for d in DATASETS}
    known = {d: [mean for mean in means if not math.isnan(mean)] for d, means in both.items()}
    known = {d: means for d, means in known.items() if means}
    level = [LABELS[d] for d, means in known.items() if max(means) >= 0]
    behind = [LABELS[d] for d, means in known.items() if max(means) < 0]
    parts = [f"ARMA or Rational is not behind GCN on {len(level)} of {len(known)} sets"]
    parts += [f"behind on {', '.join(behind)}"] if behind else []
    alone = [f"{LABELS[m]} alone on {sum(means[i] >= 0 for means in both.values())}" for i, m in enumerate(OURS)]
    return f"{'; '.join(parts)} ({', '.join(alone)}; the better of two has two chances)."


def heterophily(path: Path, text: str) -> str:
    """The section, from the rows of the table and its text."""
    cells = read(path)
    names = [dataset for dataset in DATASETS if any(known == dataset for known, _ in cells)]
    titles = [LABELS[dataset] for dataset in names]
    rows = [[LABELS[method], *(_shown(cells, dataset, method) for dataset in names)] for method in METHODS]
    metrics = ["metric", *("ROC-AUC" if dataset in LARGE else "accuracy" for dataset in names)]
    parts = [text, markdown(["", *titles], [metrics, *rows])]
    devices = sorted({device for dataset in names for device in _devices(cells, dataset).split(", ")})
    parts.append(f"Made on {', '.join(devices)} by `armagnn reproduce heterophily`. {_verdict(cells)}")
    for ours in OURS:
        others = [method for method in METHODS if method != ours]
        leads = [[LABELS[m], *(_lead_shown(lead(cells, d, ours, m)) for d in names)] for m in others]
        parts.append(markdown([f"{LABELS[ours]}'s lead over (p)", *titles], leads))
    return "\n\n".join(parts)


def _devices(cells: Cells, dataset: str) -> str:
    return devices_of([dataset], {(name, method, "tuned"): cell for (name, method), cell in cells.items()})


# -------------------------------------------------------------------------------------------------------------- picture

COLORS: Final = {"arma": "tab:red", "rational": "tab:orange", "mlp": "black"}
"""The methods that the picture shows in colour; the others are blue."""


def draw(cells: Cells) -> bytes:
    """Each method's lead over GCN on each set, as PNG: the mean over the splits and its standard error."""
    from matplotlib.figure import Figure  # slow to import, and needed only here

    names = [dataset for dataset in DATASETS if (dataset, "gcn") in cells]
    figure = Figure(figsize=(11, 2.7 * -(-max(len(names), 1) // 4)), layout="constrained")
    panels = figure.subplots(-(-max(len(names), 1) // 4), 4, squeeze=False).flatten()
    for panel in panels[len(names) :]:
        panel.axis("off")
    for panel, dataset in zip(panels, names, strict=False):
        shown = [method for method in METHODS if method != "gcn" and (dataset, method) in cells]
        for place, method in enumerate(reversed(shown)):
            leads = fold_leads(cells[dataset, method], cells[dataset, "gcn"])
            error = statistics.stdev(leads) / math.sqrt(len(leads)) if len(leads) > 1 else 0.0
            panel.errorbar(statistics.fmean(leads), place, xerr=error, fmt="o", color=COLORS.get(method, "tab:blue"))
        panel.axvline(0, color="tab:gray", linewidth=0.8)
        panel.set_yticks(range(len(shown)), [LABELS[method].split(" (")[0] for method in reversed(shown)])
        panel.set_title(f"{LABELS[dataset]} (GCN {cells[dataset, 'gcn'].mean:.1f})", fontsize=10)
    figure.supxlabel("lead over GCN (points; the bar is one standard error over splits)", fontsize=10)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    return picture.getvalue()
