"""A table of the paper as a declaration, and what all tables do: cells, trials, batches, records.

A `Table` says which datasets, methods and protocols there are, which configuration a cell has, and how often it is run.
Everything else (`reproduce`, its search, `restore`, `results`, the page) is written once against it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import torch

from armagnn.checks import choice, integer
from armagnn.errors import ParameterError
from armagnn.sealed import read_sealed
from armagnn.training.checkpoint import Checkpoint
from armagnn.training.config import Config
from armagnn.training.cuda_graphs import on_own_stream
from armagnn.training.experiment import Experiment
from armagnn.training.outcome import Outcome, Setting
from armagnn.training.record import Record, trial_key
from armagnn.training.run_folder import current_versions
from armagnn.training.trainer import run_trials
from armagnn.training.trials import Trials
from armagnn_paper.published import Published

if TYPE_CHECKING:
    from armagnn_paper.search import Search

PER_CENT: Final = ("accuracy", "micro_f1", "roc_auc")
"""Metrics that are shares, and reported in per cent."""

MOST_RUNS: Final = 100_000
"""Trials of a cell: more are a slip."""

EVERY: Final = 60.0
"""Seconds between two checkpoints of a batch of trials."""


class NotTunedError(ParameterError):
    """No search has chosen the settings of a cell yet."""


class Cell(NamedTuple):
    """A cell of a table."""

    dataset: str
    method: str
    protocol: str

    def __str__(self) -> str:
        return " ".join(self)


@dataclass(frozen=True)
class CellTrial:
    """One trial of a table: its cell, its configuration, its number in the cell, its seed, its fold."""

    cell: Cell
    config: Config
    run: int
    seed: int
    fold: int = 0


@dataclass(frozen=True)
class Table:
    """A table of the paper.

    Attributes:
        name: of the table, its file in ``results/`` and its command.
        kind: the configuration of its trainings.
        datasets: its datasets.
        methods: its methods, ARMA first.
        published: the paper's numbers.
        literal: the configuration of a cell (dataset, method, protocol) that no search chooses.
        usual_runs: how often a dataset is run by a method, unless asked for otherwise.
        most: trials of a batch.
        search: how the protocol ``tuned`` is chosen.
        metric: the metric that is reported; `metrics` has it by dataset, where it is another.
        protocols: what the command does by default.
        beyond_datasets: further datasets, done when they are named.
        beyond_protocols: further protocols, done when they are named.
        protocols_of: the protocols that a dataset and a method have, where that differs.
        labels: what the store keeps of a protocol, besides its name.
        other_rules: stopping rules whose results are kept in addition to the one that is reported.
        leaks: by dataset, the protocols that also keep what a choice of the epoch on test data would claim.
        one_fold: protocols that have one split in place of folds.
        by_name: protocols that are done when they are named.
        searched: the protocols that a search chooses, with what their file of choices has after the table's name.
        places: (run, fold) of every trial of a cell, for a number of runs.
        by_fold: every fold chooses its own settings.
        fixed_splits: the folds are fixed splits of one graph, and trials of different folds are trained together.
    """

    name: str
    kind: type[Config]
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    published: Published
    literal: Callable[[str, str, str], Config]
    usual_runs: Callable[[str, str], int]
    most: Callable[[Config], int]
    search: Search
    metric: str = "accuracy"
    protocols: tuple[str, ...] = ("paper", "tuned")
    beyond_datasets: tuple[str, ...] = ()
    beyond_protocols: tuple[str, ...] = ()
    protocols_of: Callable[[str, str], tuple[str, ...]] | None = None
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    other_rules: tuple[str, ...] = ()
    leaks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    one_fold: tuple[str, ...] = ()
    by_name: tuple[str, ...] = ()
    searched: Mapping[str, str] = field(default_factory=lambda: {"tuned": ""})
    places: Callable[[int], list[tuple[int, int]]] = lambda runs: [(run, 0) for run in range(runs)]
    by_fold: bool = False
    metrics: Mapping[str, str] = field(default_factory=dict)
    fixed_splits: bool = False

    # ---------------------------------------------------------------------------------------------------------- cells

    def metric_of(self, dataset: str) -> str:
        """The metric that is reported of a dataset."""
        return self.metrics.get(dataset, self.metric)

    def check(self, dataset: str, method: str, protocol: str = "tuned") -> None:
        """Refuse names that the table does not have."""
        datasets = (*self.datasets, *self.beyond_datasets)
        choice(f"dataset of {self.name}", dataset, datasets)
        choice("method", method, self.methods)
        protocols = (*self.protocols, *self.beyond_protocols)
        choice("protocol", protocol, protocols)
        own = self.own_protocols(dataset, method)
        if protocol not in own:
            raise ParameterError(
                f"On {dataset}, {method} has no protocol {protocol}: it would be the same network as another. Ask for "
                f"--protocol {' or '.join(own)}."
            )

    def own_protocols(self, dataset: str, method: str) -> tuple[str, ...]:
        """The protocols of a dataset and a method that are different networks."""
        own = self.protocols if self.protocols_of is None else self.protocols_of(dataset, method)
        return (*own, *self.beyond_protocols)

    def config(self, cell: Cell, fold: int = 0, chosen: Path | None = None) -> Config:
        """The configuration of a cell, read literally or (of one fold, where folds choose) as its search chose it."""
        self.check(*cell)
        if cell.protocol not in self.searched:
            return self.literal(*cell)
        return self._chosen(cell, fold if self.by_fold else None, chosen)

    def _chosen(self, cell: Cell, fold: int | None, chosen: Path | None) -> Config:
        """The choice of the search that is committed with the package, or of one of your own."""
        place, where = f"{cell.dataset}/{cell.method}", cell.dataset
        if fold is not None:
            place, where = f"{place}/{fold}", f"fold {fold} of {cell.dataset}"
        folder = resources.files("armagnn_paper").joinpath("chosen") if chosen is None else chosen.parent
        command = f"{self.name}-{'grid' if cell.protocol == 'grid' else 'search'}"
        source = folder.joinpath(f"{self.name}{self.searched[cell.protocol]}.json" if chosen is None else chosen.name)
        absent = chosen is None and not source.is_file()
        choices = "{}" if absent else read_sealed(folder, source.name, needed=chosen is None)
        try:
            content = json.loads(choices).get(place)
            config = None if content is None else self.kind.from_stored(content)
            if config is not None and self.stored(cell, config) != content:
                raise ValueError(f"{place} has other entries than a configuration")
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise ParameterError(f"{source}: not the choices of a search ({error}).") from error
        if config is None:
            raise NotTunedError(
                f"No search has been made for {cell.method} on {where}: run armagnn reproduce {command} "
                f"--dataset {cell.dataset} --method {cell.method} --out chosen.json, then this command with --chosen "
                "chosen.json."
            )
        return config

    def stored(self, cell: Cell, config: Config) -> dict[str, Any]:
        """A configuration as the store keeps it: with what tells the protocols of a cell apart."""
        return {"protocol": cell.protocol, **self.labels.get(cell.protocol, {}), **config.stored()}

    def is_current(self, record: Record) -> bool:
        """Has a trial the configuration that its cell has now? A new search leaves trials of the old choice."""
        cell = Cell(*record.cell)
        try:
            return record.config == self.stored(cell, self.config(cell, record.fold))
        except ParameterError:
            return False

    def trials(self, cell: Cell, runs: int | None = None, chosen: Path | None = None) -> list[CellTrial]:
        """All trials of a cell; run n has seed n."""
        runs = integer("runs", self.usual_runs(cell.dataset, cell.method) if runs is None else runs, 1, MOST_RUNS)
        places = [(run, 0) for run in range(runs)] if cell.protocol in self.one_fold else self.places(runs)
        folds = sorted({fold for _, fold in places})
        configs = {fold: self.config(cell, fold, chosen) for fold in folds}
        return [CellTrial(cell, configs[fold], run, run, fold) for run, fold in places]

    @property
    def num_folds(self) -> int:
        """Folds that every run has."""
        return len(self.places(1))

    def finished(self, there: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
        """Of the trials (run, fold) of a cell, those whose folds are not half done: the first to end are not its mean.

        Half done folds have fewer runs than another, or gaps between them. Where every run has another fold, all
        below the first run that is missing count.

        Example:
            >>> from armagnn_paper.tables import GRAPHS, MOLECULAR
            >>> sorted(GRAPHS.finished([(0, 0), (1, 0), (0, 1), (1, 1), (1, 2), (0, 3)]))
            [(0, 0), (0, 1), (1, 0), (1, 1)]
            >>> sorted(MOLECULAR.finished([(0, 0), (1, 0), (2, 0), (3, 1), (5, 1)]))
            [(0, 0), (1, 0), (2, 0), (3, 1)]
        """
        own_folds = self.num_folds == 1 and len({fold for _, fold in self.places(100)}) > 1
        if own_folds:
            runs = {run for run, _ in there}
            missing = min(set(range(len(runs) + 1)) - runs)
            return {(run, fold) for run, fold in there if run < missing}
        folds: dict[int, set[int]] = {}
        for run, fold in there:
            folds.setdefault(fold, set()).add(run)
        most = set(range(max(map(len, folds.values()), default=0)))
        return {(run, fold) for run, fold in there if folds[fold] == most}

    # ----------------------------------------------------------------------------------------------------------- jobs

    def jobs(
        self, trials: Sequence[CellTrial], *, checkpoints: Path, device: str = "cpu", search: bool = False
    ) -> list[Job]:
        """Group trials into batches: of one protocol, one shape and (unless splits are fixed) one fold."""
        groups: dict[tuple[Any, ...], list[CellTrial]] = {}
        for trial in trials:
            place = (-1 if self.fixed_splits else trial.fold, trial.cell.protocol)
            groups.setdefault((*place, *trial.config.shape()), []).append(trial)
        jobs = []
        for group in groups.values():
            most = self.most(group[0].config)
            for first in range(0, len(group), most):
                batch = tuple(group[first : first + most])
                job = Job(self.name, search, batch, data_sha256(batch[0].config), device, str(checkpoints))
                jobs.append(replace(job, checkpoint=sha256("".join(job.keys).encode()).hexdigest()))
        return jobs


# a configuration is a frozen dataclass, which mypy does not see in its base class: hence Any
@cache
def _loaded(kind: Any, names: tuple[str, ...]) -> Any:
    return kind(**dict(zip(kind.OF_DATA, names, strict=True))).load()


def _data(config: Config) -> Any:
    """The data of a configuration, loaded once for a process."""
    kind: Any = type(config)
    return _loaded(kind, tuple(getattr(config, name) for name in config.OF_DATA))


def data_sha256(config: Config) -> str:
    """Checksum of the data of a configuration."""
    return str(_data(config).sha256)


@cache
def experiment_of(config: Any) -> Experiment:
    """The experiment of a configuration, made once for a process."""
    return cast(Experiment, config.experiment(_data(config)))


@dataclass(frozen=True)
class Job:
    """Trials that train as one batch, for `armagnn.training.engine.execute`.

    Attributes:
        table: the table that the trials belong to.
        search: they are those of its search: nothing is looked at on test data.
        trials: those of the batch; they share a fold, unless these are splits.
        data_sha256: checksum of the dataset.
        device: where to train.
        checkpoints: the folder where a long training keeps what it goes on from.
        checkpoint: the name there, the same for what is left of the job.
    """

    table: str
    search: bool
    trials: tuple[CellTrial, ...]
    data_sha256: str
    device: str
    checkpoints: str
    checkpoint: str = ""

    @property
    def stored_table(self) -> str:
        """What the store calls the table."""
        return f"{self.table}-search" if self.search else self.table

    @cached_property
    def contents(self) -> list[dict[str, Any]]:
        """The configurations of the trials, as the store keeps them."""
        table = table_of(self.table)
        return [table.stored(trial.cell, trial.config) for trial in self.trials]

    @cached_property
    def _trials_by_key(self) -> dict[str, CellTrial]:
        return {
            trial_key(self.stored_table, content, trial.seed, trial.fold, self.data_sha256): trial
            for trial, content in zip(self.trials, self.contents, strict=True)
        }

    @property
    def keys(self) -> Sequence[str]:
        """The keys of its records."""
        return list(self._trials_by_key)

    @property
    def gpus(self) -> int:
        """GPUs that one worker needs."""
        return int(self.device.startswith("cuda"))

    def only(self, keys: Collection[str]) -> Job:
        """The same job with these trials only."""
        return replace(self, trials=tuple(trial for key, trial in self._trials_by_key.items() if key in keys))

    def settings(self) -> list[Setting]:
        """What each trial is trained with; of fixed splits, the trial's target is its split."""
        splits = table_of(self.table).fixed_splits
        found = [(experiment_of(trial.config).setting(trial.seed), trial.fold) for trial in self.trials]
        return [replace(each, target=fold) if splits else each for each, fold in found]

    def make(self) -> Trials:
        """Its trials, ready to run; where two have the same setting, it is trained once."""
        first, table = self.trials[0], table_of(self.table)
        leaks = not self.search and first.cell.protocol in table.leaks.get(first.cell.dataset, ())
        other_rules = (*table.other_rules, "leak") if leaks else table.other_rules
        settings = list(dict.fromkeys(self.settings()))
        return experiment_of(first.config).trials(settings, first.fold, self.device, other_rules)


def work(job: Job) -> Iterator[Record | None]:
    """Train a batch and yield a record for every trial as it stops; None as `Trials.in_turns` does.

    On a GPU every job has a separate stream, so that jobs run at the same time.
    """
    device = torch.device(job.device)
    return on_own_stream(_train(job), device) if device.type == "cuda" else _train(job)


def _train(job: Job) -> Iterator[Record | None]:
    by_setting: dict[Setting, list[tuple[CellTrial, dict[str, Any]]]] = {}
    for trial, content, setting in zip(job.trials, job.contents, job.settings(), strict=True):
        by_setting.setdefault(setting, []).append((trial, content))
    device = torch.device(job.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    checkpoint = Checkpoint(Path(job.checkpoints), job.checkpoint)
    for outcome in run_trials(job.make(), checkpoint, every=EVERY):
        if outcome is None:
            yield None
            continue
        metrics = metrics_of(outcome, tests=not job.search)
        for trial, content in by_setting[outcome.setting]:
            yield Record(
                job.stored_table, *trial.cell, trial.run, trial.fold, trial.seed, content, metrics, outcome.epochs,
                outcome.seconds, current_versions(), job.data_sha256, name,
            )  # fmt: skip


def metrics_of(outcome: Outcome, *, tests: bool) -> dict[str, float]:
    """The metrics of a record: those of test data by their names, ``val_...``, and those of other stopping rules.

    Example:
        >>> outcome = Outcome(Setting(0, 0.1, 0.0), 3, 9, {"loss": 1.0}, {"loss": 2.0, "accuracy": 0.5}, 1.0, {}, {})
        >>> metrics_of(outcome, tests=True), metrics_of(outcome, tests=False)
        ({'accuracy': 50.0, 'val_loss': 1.0}, {'val_loss': 1.0})
    """
    found = dict(outcome.test) if tests else {}
    for rule, other in outcome.other_rules.items() if tests else ():
        found |= {f"{name}_{rule}": value for name, value in other.items() if name != "loss"}
    found |= {f"val_{name}": value for name, value in outcome.val.items()}
    found.pop("loss", None)
    metrics = {
        name: 100 * value if name.removeprefix("val_").startswith(PER_CENT) else value for name, value in found.items()
    }
    if outcome.best_epoch == 0:  # no validation loss was ever finite: these are the metrics of the initial weights
        metrics["diverged"] = 1.0
    return metrics


def table_of(name: str) -> Table:
    """The table of a name (workers of other processes know the tables by their names)."""
    from armagnn_paper.tables import TABLES

    return TABLES[choice("table", name, TABLES)]
