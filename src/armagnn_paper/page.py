"""The page of results: made from the committed rows, one per trial and metric, and from nothing else.

Its prose is in ``texts/``; the numbers of budgets in it come from the tables.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from armagnn.data.splits import FOLDS
from armagnn.errors import DataError
from armagnn.sealed import SUMS, check_all_there, read_table
from armagnn.training.record import CellName
from armagnn_paper import news_baselines
from armagnn_paper.headline import arma_cells, in_short
from armagnn_paper.heterophily_section import heterophily
from armagnn_paper.heterophily_table import HETEROPHILY
from armagnn_paper.search import FINAL_SEED
from armagnn_paper.summaries import (
    LABELS,
    PROCESSORS,
    TITLES,
    Summary,
    comparison,
    devices_of,
    leads_of,
    markdown,
    overview,
    read_cells,
)
from armagnn_paper.table import Table
from armagnn_paper.tables import GRAPHS, MOLECULAR, NODES, SIGNALS
from armagnn_paper.training_time import from_csv

MARKS: Final = ("<!-- table 1 -->", "<!-- end of table 1 -->")
BOUNDS: Final = "qm9-bound.csv"
LEAK: Final = "accuracy_leak"
LOSS: Final = "accuracy_loss"
NO_VALIDATION: Final = {"20news": " (20news: the code that made its data sets validation = test)"}
COMMAND: Final = f"armagnn data bound qm9 --out results/{BOUNDS}"


# --------------------------------------------------------------------------------------------------------------- tables


@dataclass(frozen=True)
class Section:
    """How a table is shown.

    Attributes:
        table: the table.
        digits: of its numbers.
        paired: ARMA's lead is tested fold by fold.
        short: begin with the table in short.
        together: all datasets share their tables, in place of one for each.
        others: further metrics, shown below the table of a dataset that has them, with their titles.
        remarks: what else there is to say, from the folder of the results and the cells.
    """

    table: Table
    digits: int = 1
    paired: bool = False
    short: bool = False
    together: bool = False
    others: Mapping[str, str] | None = None
    remarks: Callable[[Path, Mapping[CellName, Summary]], str] = lambda folder, cells: ""

    def show(self, path: Path) -> str:
        """The section, from the rows of the table."""
        table = self.table
        cells = read_cells(path, table.metric)
        others = {metric: read_cells(path, metric) for metric in self.others or {}}
        if table.leaks:
            others |= {LEAK: read_cells(path, LEAK), "": cells}
        parts = [text(table.name, b=table.search.budgets), self.remarks(path.parent, cells)]
        if self.short:
            ways = [way for way in ("paper", "tuned") if any(cell[2] == way for cell in cells)]
            datasets = table.datasets
            parts += [overview(cells, table.published, datasets, table.methods, way, self.digits) for way in ways]
            if LOSS in others:
                parts.append(text("best-loss"))
                parts += [overview(others[LOSS], table.published, datasets, table.methods, way) for way in ways]
        datasets = (*table.datasets, *table.beyond_datasets)
        parts += self._together(cells) if self.together else []
        for dataset in () if self.together else datasets:
            parts += self._dataset(dataset, cells, others)
        return "\n\n".join(part for part in parts if part)

    def _together(self, cells: Mapping[CellName, Summary]) -> list[str]:
        """How the cells were made, ARMA's leads, and what falls short, of all datasets."""
        table = self.table
        there = [dataset for dataset in table.datasets if self._own(dataset, cells)]
        if not there:
            return []
        group = there[0].partition("/")[0]
        command = f"armagnn reproduce {table.name} --dataset {group}/... --method METHOD --protocol PROTOCOL"
        runs = {dataset: self._other_runs(dataset, cells) for dataset in there}
        options = ": " + " ".join(f"{dataset}{more}" for dataset, more in runs.items())
        options = runs[there[0]] if len(set(runs.values())) == 1 else options
        made = f"Made on {devices_of(there, cells)} by `{command}`{options}"
        leads = [leads_of(cells, there, table.methods, way, self.digits, paired=self.paired) for way in table.protocols]
        short = [(dataset.partition("/")[2], self._short(dataset, cells)) for dataset in there]
        behind = ". ".join(f"{name}: {who}" for name, who in short if who)
        return [made, *leads, f"Short of the paper by more than its deviation: {behind}." if behind else ""]

    def _dataset(
        self, dataset: str, cells: Mapping[CellName, Summary], others: Mapping[str, Mapping[CellName, Summary]]
    ) -> list[str]:
        table, ways = self.table, {way: TITLES[way] for way in self.table.protocols if way != "leak"}
        shown = comparison(
            dataset, cells, table.published, table.methods, self.digits, paired=self.paired, protocols=ways
        )
        if not shown:
            return []
        command = f"armagnn reproduce {table.name} --dataset {dataset} --method METHOD --protocol PROTOCOL"
        made = f"Made on {devices_of([dataset], cells)} by `{command}`{self._other_runs(dataset, cells)}"
        title = f"### {LABELS.get(dataset, dataset)}"
        leaks = self._leaks(dataset, others)
        return [title, made, shown, self._behind(dataset, cells), *leaks, self._more(dataset, others)]

    def _leaks(self, dataset: str, others: Mapping[str, Mapping[CellName, Summary]]) -> list[str]:
        """What choosing the epoch on test data would claim, where it was watched."""
        leaks = [
            (LABELS[method], TITLES[way], others[LEAK][dataset, method, way], others[""][dataset, method, way])
            for way in self.table.leaks.get(dataset, ())
            for method in self.table.methods
            if (dataset, method, way) in others.get(LEAK, {})
        ]
        rows = [
            [method, way, honest.shown(self.digits), leak.shown(self.digits)] for method, way, leak, honest in leaks
        ]
        head = ["not a result", "protocol", "reported", "epoch chosen on the test set"]
        return [text("leak", which=NO_VALIDATION.get(dataset, "")), markdown(head, rows)] if rows else []

    def _more(self, dataset: str, others: Mapping[str, Mapping[CellName, Summary]]) -> str:
        """A table of the further metrics that a dataset has, a row for each method and protocol."""
        known = {m: title for m, title in (self.others or {}).items() if any(c[0] == dataset for c in others[m])}
        protocols = dict.fromkeys([*self.table.protocols, *(c[2] for found in others.values() for c in found)])
        rows = [
            [LABELS[method], way, *(_shown(others[m].get((dataset, method, way)), self.digits) for m in known)]
            for method in self.table.methods
            for way in protocols
            if way != "leak" and any((dataset, method, way) in others[metric] for metric in known)
        ]
        return markdown(["", "protocol", *known.values()], rows) if rows else ""

    def _own(self, dataset: str, cells: Mapping[CellName, Summary]) -> dict[tuple[str, str], Summary]:
        """The cells of a dataset that were run, by method and protocol."""
        ways = [way for way in self.table.protocols if way != "leak"]
        places = [(method, way) for method in self.table.methods for way in ways]
        return {place: cells[dataset, *place] for place in places if (dataset, *place) in cells}

    def _other_runs(self, dataset: str, cells: Mapping[CellName, Summary]) -> str:
        """What to add to the command for cells with another number of runs than it makes; which folds are missing."""
        table, more, unfinished, folds = self.table, dict[int, list[str]](), [], self.table.num_folds
        own = self._own(dataset, cells)
        for (method, way), cell in own.items():
            wanted = 1 if way in table.one_fold else folds
            there = len(set(cell.folds)) if folds > 1 else 1
            runs = len(cell.values) // there
            if runs != table.usual_runs(dataset, method):
                more.setdefault(runs, []).append(f"{LABELS[method]}, {TITLES[way]}")
            if there < wanted:
                unfinished.append(f"{LABELS[method]}, {TITLES[way]} ({there} of {FOLDS})")
        named = [f"`--runs {runs}`{_for(who, len(own))}" for runs, who in more.items()]
        end = f", with {'; '.join(named)}." if more else "."
        return f"{end} Not all folds yet: {'; '.join(unfinished)}." if unfinished else end

    def _behind(self, dataset: str, cells: Mapping[CellName, Summary]) -> str:
        """Which methods fall short of the paper, in a sentence; "" if none does."""
        short = self._short(dataset, cells)
        return f"Short of the paper by more than its deviation: {short}." if short else ""

    def _short(self, dataset: str, cells: Mapping[CellName, Summary]) -> str:
        """Which methods (with trials in all folds) fall short of the paper by more than its deviation, by protocol."""
        table, short, tried = self.table, dict[str, list[str]](), dict[str, list[str]]()
        for (method, way), cell in self._own(dataset, cells).items():
            if dataset in table.published.get(method, {}) and table.num_folds in (1, len(set(cell.folds))):
                mean, deviation = table.published[method][dataset]
                behind = cell.mean - mean if table.metric == "mse" else mean - cell.mean
                tried.setdefault(way, []).append(LABELS[method])
                short.setdefault(way, []).extend([LABELS[method]] if behind > deviation else [])
        if not any(short.values()):
            return ""
        most = max(map(len, tried.values()))
        none = {way: "none" if len(who) == most else f"none of {', '.join(who)}" for way, who in tried.items()}
        lines = [f"{', '.join(short[way]) or none[way]} ({TITLES[way]})" for way in table.protocols if way in short]
        return "; ".join(lines)


def _for(who: list[str], of: int) -> str:
    return "" if len(who) == of else f" for {'; '.join(who)}"


def _shown(summary: Summary | None, digits: int) -> str:
    return "" if summary is None else summary.shown(digits)


def text(name: str, **values: object) -> str:
    """A text of the page, with its numbers."""
    found = resources.files("armagnn_paper").joinpath(f"texts/{name}.md").read_text(encoding="utf-8")
    return found.format(**values).strip()


def _without_finals(folder: Path, cells: Mapping[CellName, Summary]) -> str:
    """A sentence that names the cells of Table 1 whose choice was made by the first stage alone."""
    path, search = folder / "search" / f"{NODES.name}.csv", NODES.search
    if not path.is_file():
        return ""
    finals: dict[tuple[str, str], dict[tuple[str, ...], int]] = {}
    try:
        for row in read_table(path):
            tried = finals.setdefault((row["dataset"], row["method"]), {})
            setting = tuple(row[name] for name in search.shown)
            tried[setting] = tried.get(setting, 0) + (int(row["seed"]) >= FINAL_SEED)
        held = {
            cell: sum(seeds >= max(search.budgets[cell[0]].final_seeds, 1) for seeds in tried.values())
            for cell, tried in finals.items()
        }
    except (KeyError, ValueError) as error:
        raise DataError(f"{path}: not the scores of a search ({error}).") from error
    rest = [
        f"{LABELS[method]} on {LABELS[dataset].split(' (')[0]}"
        for dataset in NODES.datasets
        for method in NODES.methods
        if search.budgets[dataset].finalists > held.get((dataset, method), search.budgets[dataset].finalists)
    ]
    return f"Without finals, by the first stage alone, were chosen: {', '.join(rest) or 'none'}."


def _bounds(folder: Path, cells: Mapping[CellName, Summary]) -> str:
    """ARMA's errors on QM9, and the errors that its inputs leave at best."""
    path = folder / BOUNDS
    if not path.is_file():
        return ""
    best: dict[str, list[float]] = {dataset: [] for dataset in MOLECULAR.datasets}
    twins = ""
    lines = read_table(path)
    try:
        for row in lines:
            best[row["of"].replace("mse of ", "qm9/")].append(float(row["best"]))
            twins = twins or f"{float(row['with a twin, %']):.0f}"
        if any(len(bounds) != 2 for bounds in best.values()):
            raise ValueError("not two bounds of each property")
    except (LookupError, ValueError) as error:
        raise DataError(f"{path}: not the bounds of QM9 ({error}). Make it with: {COMMAND}.") from error
    rows, below = [], []
    for dataset, bounds in best.items():
        mean, deviation = MOLECULAR.published["arma"][dataset]
        ours = [_shown(cells.get((dataset, "arma", way)), 3) for way in ("paper", "tuned")]
        rows.append([dataset, f"{mean:.3f} ± {deviation:.3f}", *ours, *(f"{bound:.3f}" for bound in bounds)])
        below += [dataset] if mean < bounds[0] else []
    head = ["ARMA", "paper", "ours, text read literally", "ours, tuned", "least", "least, bond types seen"]
    note = f" The paper's {', '.join(below)} lies below it, and needs other inputs." if below else ""
    return f"{text('qm9-bound', twins=twins, command=COMMAND)}{note}\n\n{markdown(head, rows)}"


def _without_graph(folder: Path, cells: Mapping[CellName, Summary]) -> str:
    """What classifiers make of 20news without a graph."""
    path = folder / news_baselines.NAME
    if not path.is_file():
        return ""
    found = news_baselines.read_baselines(path)
    rows = [[each.method, f"{each.accuracy:.2f}"] for each in found]
    return text("news-baselines", command=news_baselines.COMMAND, table=markdown(["", "test accuracy, %"], rows))


SECTIONS: Final = (
    Section(NODES, others={"micro_f1": "micro-F1, %"}, remarks=_without_finals),
    Section(SIGNALS, digits=2, others={"accuracy_last": "weights of the last epoch"}, remarks=_without_graph),
    Section(
        GRAPHS,
        paired=True,
        short=True,
        others={
            "accuracy": "best accuracy, ties by loss (reported)",
            "accuracy_loss": "best loss",
            "accuracy_last": "last weights, stop as best loss",
            "accuracy_first": "best accuracy, first hit",
        },
    ),
    Section(MOLECULAR, digits=3, short=True, together=True, remarks=_bounds),
)


# ------------------------------------------------------------------------------------------------------- other sections


def _times(path: Path) -> str:
    """The section of Figure 4."""
    timings = from_csv(path)
    rows = []
    for timing in timings:
        seconds = f"{1e3 * timing.seconds_per_epoch:.2f}", f"{timing.seconds_to_best:.2f}"
        epoch = f"{timing.best_epoch} of {timing.epochs}"
        rows.append([LABELS[timing.method], *seconds, epoch, f"{timing.val_accuracy:.1f}"])
    head = ["", "ms per epoch", "s to the best validation loss", "best epoch", "validation accuracy there, %"]
    most = max(timing.epochs for timing in timings)
    cut = ", ".join(LABELS[timing.method] for timing in timings if timing.epochs == most)
    devices = ", ".join(sorted({timing.device for timing in timings}))
    on = "cpu" if timings[0].device == "CPU" else "cuda"
    return text("training-time", devices=devices, on=on, most=most, cut=cut, table=markdown(head, rows))


CONVERGENCE: Final = {"accuracy": 1, "contraction": 3, "steps": 0, "plain_steps": 0, "epochs": 0}
"""What the section of Theorem 1 shows, with how many digits."""


def _convergence(path: Path) -> str:
    """The section of the convergent layer (Theorem 1)."""
    cells = {metric: read_cells(path, metric) for metric in CONVERGENCE}
    rows = [
        [cell[0], f"{cell[1]}, {cell[2]}", *(_shown(cells[name].get(cell), d) for name, d in CONVERGENCE.items())]
        for cell in cells["accuracy"]
    ]
    head = ["", "", "test accuracy, %", "contraction", "steps of a solve", "by plain iteration", "epochs"]
    return text("convergence", table=markdown(head, rows))


TRAINED: Final = {
    "cora": (NODES, "tuned"),
    "citeseer": (NODES, "tuned"),
    "bench-hard": (GRAPHS, "paper"),
    "mutag": (GRAPHS, "paper"),
}
"""Where the rows of the trained layer are that a reservoir is compared with, and of which protocol."""


def _reservoir(path: Path) -> str:
    """The section of Reservoir ARMA: random stacks and the layer that is trained."""
    rows = []
    for (dataset, method, protocol), found in read_cells(path, "accuracy").items():
        if method == "reservoir":
            spent = _seconds(path, dataset, method, protocol)
            rows.append([LABELS[dataset], str(found), spent, *_trained(path.parent, dataset)])
    head = ["", "reservoir", "seconds", "trained layer", "seconds"]
    return text("reservoir", table=markdown(head, rows))


def _trained(folder: Path, dataset: str) -> tuple[str, str]:
    """Accuracy and seconds of the trained layer; of the citation networks as timed with the reservoir."""
    table, protocol = TRAINED[dataset]
    path, cell = folder / f"{table.name}.csv", (dataset, "arma", protocol)
    if not path.is_file() or cell not in (cells := read_cells(path, "accuracy")):
        return "", ""
    return str(cells[cell]), _seconds(folder / "reservoir.csv", *cell) or _seconds(path, *cell)


def _seconds(path: Path, *cell: str) -> str:
    """Seconds of a run on a processor: what a GPU needs for some trials is no measure for a reservoir."""
    found = [
        float(row["seconds"])
        for row in read_table(path)
        if row["metric"] == "accuracy" and (row["dataset"], row["method"], row["protocol"]) == cell
        and row["device"] in PROCESSORS
    ]  # fmt: skip
    return f"{statistics.fmean(found):.1f}" if found else ""


# ----------------------------------------------------------------------------------------------------------------- page


def results_page(folder: Path) -> str:
    """The whole page, from the CSV files of a folder; it has the sections whose tables are there."""
    for part in (folder, *(path.parent for path in sorted(folder.glob(f"*/{SUMS}")))):
        check_all_there(part)
    (nodes, show), *others = [(section.table.name, section.show) for section in SECTIONS]
    parts = [(nodes, show), ("training-time", _times), *others]
    parts += [(HETEROPHILY.name, lambda path: heterophily(path, text(HETEROPHILY.name, b=HETEROPHILY.search.budgets)))]
    parts += [("convergence", _convergence), ("reservoir", _reservoir)]
    sections = [show(path) for name, show in parts if (path := folder / f"{name}.csv").is_file()]
    if not sections:
        raise DataError(f"{folder}: has no table of results. Make them with: armagnn results export.")
    return "\n\n".join([text("page"), *_headline(folder), *sections]) + "\n"


def _headline(folder: Path) -> list[str]:
    """The paper's cells of ARMA, of the tables that are there."""
    found = [
        (section.table, read_cells(path, section.table.metric), section.digits)
        for section in SECTIONS
        if section.table.published and (path := folder / f"{section.table.name}.csv").is_file()
    ]
    return [text("headline", table=arma_cells(found))] if found else []


def with_overview(page: str, folder: Path) -> str:
    """A page with Table 1 in short, between its two marks, made anew."""
    if not all(mark in page for mark in MARKS):
        raise DataError(f"The text has no place for the table: put {MARKS[0]} and {MARKS[1]} where it belongs.")
    before, rest = page.split(MARKS[0], 1)
    after = rest.split(MARKS[1], 1)[1]
    cells = read_cells(folder / f"{NODES.name}.csv", "accuracy")
    table = in_short(NODES, cells, NODES.published)
    return f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}"
