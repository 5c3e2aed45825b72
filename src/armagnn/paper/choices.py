"""What the searches of the ``tuned`` protocols have in common: how settings are drawn, scored, chosen and read again.

A search compares validation data only. Its choices are a JSON file with a configuration for each cell (and fold);
those of the package are in ``chosen/``.
"""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from armagnn.errors import ParameterError
from armagnn.paper.jobs import CellTrial, content_of
from armagnn.paper.sealed import read_sealed
from armagnn.training.record import Record

ConfigT = TypeVar("ConfigT")
FIRST_SEED: Final = 1_000_000
"""Seeds of the searches; those of the reported runs begin at 0."""


class NotTunedError(ParameterError):
    """No search has chosen the settings of a cell yet."""


def chosen_config(
    kind: Callable[..., ConfigT],
    table: str,
    dataset: str,
    method: str,
    fold: int | None = None,
    chosen: Path | None = None,
) -> ConfigT:
    """The choice of the search that is committed with the package, or of one of your own, for a cell (or its fold)."""
    place, where = f"{dataset}/{method}", dataset
    if fold is not None:
        place, where = f"{place}/{fold}", f"fold {fold} of {dataset}"
    folder = resources.files("armagnn.paper").joinpath("chosen") if chosen is None else chosen.parent
    source = folder.joinpath(f"{table}.json" if chosen is None else chosen.name)
    absent = chosen is None and not source.is_file()
    text = "{}" if absent else read_sealed(folder, source.name, needed=chosen is None)
    try:
        choices = json.loads(text)
        cell = choices.get(place)
        config = None if cell is None else kind(**cell)
    except (ValueError, TypeError, AttributeError) as error:
        raise ParameterError(f"{source}: not the choices of a search ({error}).") from error
    if config is None:
        raise NotTunedError(
            f"No search has been made for {method} on {where}: run armagnn reproduce {table}-search "
            f"--dataset {dataset} --method {method} --out chosen.json, then this command with --chosen chosen.json."
        )
    return config


def log_uniform(generator: np.random.Generator, low: float, high: float) -> float:
    """A number between `low` and `high` whose logarithm is uniform, to three digits.

    Example:
        >>> log_uniform(np.random.default_rng(0), 1e-6, 1e-2)
        0.000353
    """
    return float(f"{np.exp(generator.uniform(np.log(low), np.log(high))):.3g}")


def choose(
    records: Iterable[Record], search: Callable[[str, str], Iterable[CellTrial]]
) -> dict[tuple[str, str, int], Any]:
    """The best configuration that was tried, for every cell (dataset, method) and fold whose search is complete.

    Best is the highest mean validation accuracy, of equal ones the lower validation loss. `search` gives the trials
    that a fold of a cell has now; what earlier searches tried, settings or seeds, is not considered.
    """
    cells: dict[tuple[str, str, int], dict[tuple[str, int], Record]] = {}
    for record in records:
        done = cells.setdefault((record.dataset, record.method, record.fold), {})
        done[_text(record.config), record.seed] = record
    best = {}
    for (dataset, method, fold), done in sorted(cells.items()):
        settings: dict[Any, dict[tuple[str, int], None]] = {}
        for trial in search(dataset, method):
            settings.setdefault(trial.config, {})[_text(content_of(trial.config)), trial.seed] = None
        if all(place in done for own in settings.values() for place in own):
            scores = {config: _score([done[place] for place in own]) for config, own in settings.items()}
            best[dataset, method, fold] = max(scores, key=lambda config: scores[config])  # first of equals
    return best


def _text(config: dict[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


def _score(records: Sequence[Record]) -> tuple[float, float]:
    """How good a setting is on validation data: greater is better."""
    loss = statistics.fmean(record.metrics["val_loss"] for record in records)
    accuracies = [record.metrics["val_accuracy"] for record in records if "val_accuracy" in record.metrics]
    return (statistics.fmean(accuracies) if accuracies else 0.0, -loss)


def trials_csv(records: Iterable[Record], shown: Sequence[str]) -> str:
    """Every trial of a search, with these fields of its setting and its validation scores."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["dataset", "method", "fold", *shown, "seed", "val_accuracy", "val_loss", "epochs"])
    for record in sorted(records, key=lambda record: (*record.cell, record.fold, record.run)):
        accuracy = record.metrics.get("val_accuracy")
        scores = ["" if accuracy is None else f"{accuracy:.2f}", f"{record.metrics['val_loss']:.5g}"]
        settings = [record.config[name] for name in shown]
        writer.writerow([record.dataset, record.method, record.fold, *settings, record.seed, *scores, record.epochs])
    return table.getvalue()
