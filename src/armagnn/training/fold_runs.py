"""All folds in one call: a run folder for each fold, their summary, and predictions that no fold made in training."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from armagnn import checks
from armagnn.arguments import checked
from armagnn.errors import ParameterError, RunError
from armagnn.training.experiment import Prediction, predict
from armagnn.training.node_config import NodesConfig
from armagnn.training.run_folder import Run
from armagnn.training.task_configs import GraphsConfig
from armagnn.training.trainer import Observer, train


@checked
def train_folds(
    config: NodesConfig | GraphsConfig,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    observer: Observer | None = None,
) -> list[Run]:
    """Train for every fold that `config` asks for (its `folds`), each in a folder ``fold-0``, ``fold-1``, ... of `out`.

    With `resume`, folds that are finished stay, one that was interrupted goes on, and the others begin.

    Example:
        >>> runs = train_folds(GraphsConfig(data="mutag", folds=10), "runs/mutag")  # doctest: +SKIP
        >>> summary_of(runs)["accuracy"]["mean"]  # doctest: +SKIP
    """
    runs = []
    for number, each in enumerate(config.fold_configs()):
        folder = fold_folder(Path(out), number)
        begun = resume and folder.is_dir()
        runs.append(train(each, folder, resume=begun, overwrite=overwrite and not begun, observer=observer))
    return runs


def fold_folder(out: Path, number: int) -> Path:
    """The run folder of a fold.

    Example:
        >>> fold_folder(Path("runs"), 3).name
        'fold-3'
    """
    return out / f"fold-{number}"


def has_folds(path: str | Path) -> bool:
    """Is it a folder with a run for each fold, rather than a run?"""
    folder = checks.path("path", path)
    return fold_folder(folder, 0).is_dir() and not (folder / "manifest.json").exists()


def open_folds(path: str | Path) -> list[Run]:
    """The runs of all folds, which must all be finished."""
    folder = checks.path("path", path)
    first = Run.open(fold_folder(folder, 0))
    runs, config = [first], first.config
    count = config.fold_count if isinstance(config, NodesConfig | GraphsConfig) else 0
    for number in range(1, count):
        each = fold_folder(folder, number)
        if not each.is_dir():
            raise RunError(
                f"{folder}: fold {number} of {count} is not trained. Continue with: armagnn "
                f"{first.config.command} --out {folder} --resume"
            )
        runs.append(Run.open(each))
    for run in runs:
        run.require_complete()
    return runs


def _some(runs: Sequence[Run]) -> Sequence[Run]:
    if not runs:
        raise ParameterError("runs must hold the run of one fold or more, got none.")
    return runs


@checked
def summary_of(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Of every test metric, the mean and the sample deviation over folds of the mean over the seeds of a fold."""
    found = [run.metrics()["test"] for run in _some(runs)]
    columns = {name: [each[name]["mean"] for each in found] for name in found[0] if all(name in f for f in found)}
    return {
        name: {"mean": statistics.fmean(values), "std": statistics.stdev(values) if len(values) > 1 else 0.0}
        for name, values in columns.items()
    }


@checked
def predict_folds(runs: Sequence[Run], data: Any = None) -> Prediction:
    """What the runs of all folds say together: the mean of their probabilities or numbers.

    Of its own data, a node or graph is predicted by the run of the fold that tests it alone, which did not learn from
    it; those that no fold tests have the mean.
    """
    said: list[Any] = [predict(run, data) for run in _some(runs)]
    first = said[0]
    if not all(hasattr(each, "values") and hasattr(each, "split") for each in said):
        raise ParameterError("the folds predict nothing that has a mean: predict with the run of one fold.")
    values = torch.stack([each.values for each in said])
    together = values.mean(0)
    if first.split is None:
        return replace(first, values=together)  # type: ignore[no-any-return]
    fold = torch.full((len(together),), -1)
    for number, each in enumerate(said):
        tested = torch.tensor([split == "test" for split in each.split])
        together[tested], fold[tested] = values[number][tested], number
    names = [f"test of fold {number}" if number >= 0 else "" for number in fold.tolist()]
    return replace(first, values=together, split=names)  # type: ignore[no-any-return]
