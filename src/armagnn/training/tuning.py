"""A search for hyperparameters on validation data: what is tried, how it is trained, and the file that keeps it.

Optuna's sampler proposes; it lives in memory only. What was tried stands in ``search.json``, which is plain JSON with a
checksum and is written whole after each training. A search goes on from it to the same proposals.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from armagnn.arguments import checked
from armagnn.checks import choice, integer
from armagnn.errors import ArmagnnError, ParameterError, RunError, UnsupportedError, shown
from armagnn.files import is_draft, read_plain, write_atomic
from armagnn.training.checkpoint import CHECKPOINT, Checkpoint, from_bytes, signed, to_bytes
from armagnn.training.config import Config
from armagnn.training.outcome import Setting
from armagnn.training.search_space import Axis, search_space
from armagnn.training.trainer import Observer, run_trials

SEARCH, BEST = "search.json", "best.json"
LARGEST: Final = 2**27
"""Bytes of the largest file of a search."""
MOST_TRIALS: Final = 100_000

FIXED: Final = ("lr", "l2")
"""Options that may differ within a batch, besides the drop rates."""


class TuneObserver(Observer):
    """What `tune` reports besides its trainings."""

    def tried(self, search: Tuning) -> None:
        """A batch of settings is finished and kept."""


@dataclass
class Trial:
    """One setting of the search: the options that it changes, and the mean of its score on validation over seeds.

    A training that diverged has no score.
    """

    options: dict[str, Any]
    score: float | None


@dataclass
class Tuning:
    """What was tried around a configuration.

    Attributes:
        config: what every setting changes.
        axes: what is varied.
        metric: the metric on validation.
        seeds: trainings of each setting.
        batch: settings of one shape that are trained at a time.
        sha256: checksum of the data.
        trials: the settings that are finished, in order.
        part: of the batch at work, the scores that are there: by "place/seed".
    """

    config: Config
    axes: tuple[Axis, ...]
    metric: str
    seeds: int
    batch: int
    sha256: str
    trials: list[Trial] = field(default_factory=list)
    part: dict[str, float | None] = field(default_factory=dict)

    @property
    def higher(self) -> bool:
        """Is a higher score better?"""
        return self.metric not in ("loss", "mse") and not self.metric.startswith(("mae ", "rmse "))

    @property
    def best(self) -> Trial | None:
        """The trial with the best score on validation, the first of equals."""
        finished = [trial for trial in self.trials if trial.score is not None]
        sign = 1 if self.higher else -1
        return max(finished, key=lambda trial: sign * float(trial.score or 0.0)) if finished else None

    def best_config(self) -> Config:
        """The configuration with the best options that were found."""
        best = self.best
        if best is None:
            raise ParameterError("All trainings of the search diverged. Search smaller rates: --over lr=1e-5..1e-3.")
        return replace(self.config, **best.options)

    # ----------------------------------------------------------------------------------------------------------- JSON

    def to_bytes(self) -> bytes:
        """The content of ``search.json``."""
        return signed(
            {
                "format": "armagnn-search", "version": 1, "kind": self.config.kind, "config": self.config.to_json(),
                "axes": [{**asdict(axis), "choices": list(axis.choices)} for axis in self.axes],
                "metric": self.metric, "seeds": self.seeds, "batch": self.batch, "dataset_sha256": self.sha256,
                "trials": [asdict(trial) for trial in self.trials], "part": self.part,
            }
        )  # fmt: skip

    def continued(self, folder: Path) -> Tuning:
        """The same search with what a folder has of it; another search there is a RunError."""
        path = folder / SEARCH
        try:
            content = read_plain(path, LARGEST)
        except (OSError, ValueError) as error:
            raise RunError(f"{folder}: has no search to continue. Start one without --resume.") from error
        parsed = from_bytes(path, content)
        digest = parsed.pop("sha256", None)
        if parsed.get("format") != "armagnn-search" or signed(parsed) != content or digest is None:
            raise RunError(f"{path}: not a search of armagnn, or damaged. Start again with --overwrite.")
        own = from_bytes(path, replace(self, trials=[], part={}).to_bytes())
        same = ("version", "kind", "config", "axes", "metric", "seeds", "batch", "dataset_sha256")
        for name in same:
            if own[name] != parsed.get(name):
                raise RunError(f"{path}: is another search ({name} differs). Give the same options, or another folder.")
        try:
            trials = [Trial(dict(each["options"]), each["score"]) for each in parsed["trials"]]
            for trial in trials:
                replace(self.config, **trial.options)
                if trial.score is not None and not math.isfinite(trial.score):
                    raise ValueError
            return replace(self, trials=trials, part=dict(parsed["part"]))
        except (ArmagnnError, LookupError, TypeError, ValueError) as error:
            raise RunError(f"{path}: not a search of armagnn, or damaged. Start again with --overwrite.") from error


@checked
def tune(
    config: Config,
    out: str | Path,
    *,
    trials: int = 40,
    over: Sequence[str] = (),
    metric: str = "",
    batch: int = 4,
    seeds: int = 1,
    data: Any = None,
    resume: bool = False,
    overwrite: bool = False,
    observer: Observer | None = None,
) -> Tuning:
    """Search the options of a configuration by their score on validation; test data are not looked at.

    The first setting is the configuration itself. Of each batch, the sampler chooses the shape of the network (hidden
    units, stacks, ...) once, and learning rate, penalty and drop rates for each setting: so a batch trains as one.
    The folder gets ``search.json``, all that was tried, and ``best.json``, which ``armagnn train --config`` takes.

    Args:
        config: what to train, on what; its seeds are those of the final training.
        out: the folder.
        trials: how many settings are tried, with those of before where the search is resumed.
        over: what is varied, as `search_space` takes it.
        metric: the metric on validation; that which stops the training if not given.
        batch: settings that are trained at a time.
        seeds: trainings of each setting, whose mean counts.
        data: the dataset, if it is in memory.
        resume: go on with the search in the folder.
        overwrite: replace it.
        observer: sees how the search goes.

    Example:
        >>> search = tune(NodesConfig(), "runs/tuned", trials=20)  # doctest: +SKIP
        >>> run = train(search.best_config(), "runs/best")  # doctest: +SKIP
    """
    optuna = _optuna()
    integer("trials", trials, 1, MOST_TRIALS)
    integer("batch", batch, 1, 256)
    integer("seeds", seeds, 1, 100)
    if resume and overwrite:
        raise ParameterError("resume and overwrite exclude each other: continue the search or replace it.")
    folder, observer = Path(out), observer or Observer()
    axes = search_space(config, over)
    experiment = config.experiment(data)
    experiment.check_memory()
    search = Tuning(config, axes, metric or config.stop_on, seeds, batch, experiment.sha256)
    if resume:
        search = search.continued(folder)
    else:
        _make_vacant(folder, overwrite)
        write_atomic(folder / SEARCH, search.to_bytes())
    observer.start(trials)
    while len(search.trials) < trials:
        count = min(batch, trials - len(search.trials))
        proposed = _propose(optuna, search, count)
        _train(search, proposed, experiment.dataset, folder, observer)
        write_atomic(folder / BEST, to_bytes(_options(search.best_config() if search.best else config)))
        if isinstance(observer, TuneObserver):
            observer.tried(search)
    best = search.best_config()
    write_atomic(folder / BEST, to_bytes(_options(best)))
    return search


def _options(config: Config) -> dict[str, Any]:
    """The content of ``best.json``: all options but those of data that the search did not have."""
    unset = {
        each.name for each in fields(config) if each.name in config.LATER and getattr(config, each.name) == each.default
    }
    return {"kind": config.kind} | {name: value for name, value in config.to_json().items() if name not in unset}


# ------------------------------------------------------------------------------------------------------------ proposals


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise UnsupportedError("The search needs Optuna: pip install 'armagnn[tune]'.") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _propose(optuna: Any, search: Tuning, count: int) -> list[dict[str, Any]]:
    """Options of the next settings, which depend on those before and on nothing else."""
    space = {axis.name: _distribution(optuna, axis) for axis in search.axes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of options that Optuna calls experimental
        sampler = optuna.samplers.TPESampler(
            seed=(search.config.seed + 7919 * len(search.trials)) % 2**32, multivariate=True, constant_liar=True
        )
        study = optuna.create_study(direction="maximize" if search.higher else "minimize", sampler=sampler)
        for trial in search.trials:
            known = {"params": trial.options, "distributions": space}
            if trial.score is None:
                study.add_trial(optuna.trial.create_trial(state=optuna.trial.TrialState.FAIL, **known))
            else:
                study.add_trial(optuna.trial.create_trial(value=trial.score, **known))
        found: list[dict[str, Any]] = []
        own = {axis.name: getattr(search.config, axis.name) for axis in search.axes}
        if not search.trials and all(axis.has(own[axis.name]) for axis in search.axes):
            study.enqueue_trial(own)
        for _ in range(count):
            asked = study.ask(space).params
            found.append({axis.name: axis.rounded(asked[axis.name]) for axis in search.axes})
            if len(found) == 1:  # the others have its shape
                free = {*FIXED, *search.config.RATES}
                shape = {name: value for name, value in asked.items() if name not in free}
                if shape and len(shape) < len(space):
                    study.sampler = optuna.samplers.PartialFixedSampler(shape, sampler)
    return found


def _distribution(optuna: Any, axis: Axis) -> Any:
    kinds = optuna.distributions
    if axis.choices:
        return kinds.CategoricalDistribution(axis.choices)
    if axis.whole:
        return kinds.IntDistribution(int(axis.low), int(axis.high))
    return kinds.FloatDistribution(axis.low, axis.high, log=axis.log)


# ------------------------------------------------------------------------------------------------------------- training


def _train(search: Tuning, proposed: Sequence[Mapping[str, Any]], data: Any, folder: Path, observer: Observer) -> None:
    """Train what is proposed, each shape as one batch, and add it to the search."""
    configs = [replace(search.config, **options) for options in proposed]
    shapes: dict[Any, list[int]] = {}
    for place, config in enumerate(configs):
        shapes.setdefault(config.shape(), []).append(place)
    for places in shapes.values():
        _train_alike(search, configs, places, data, folder, observer)
    for place, options in enumerate(proposed):
        scores = [search.part[f"{place}/{seed}"] for seed in range(search.seeds)]
        known = [score for score in scores if score is not None]
        search.trials.append(Trial(dict(options), statistics.fmean(known) if len(known) == len(scores) else None))
    search.part = {}
    write_atomic(folder / SEARCH, search.to_bytes())


def _train_alike(
    search: Tuning, configs: Sequence[Config], places: Sequence[int], data: Any, folder: Path, observer: Observer
) -> None:
    """Train settings of one shape, and keep the score of each as soon as it is there."""
    experiment = configs[places[0]].experiment(data)
    wanted: dict[Setting, list[str]] = {}
    for place in places:
        own = configs[place].experiment(data)
        for seed in range(search.seeds):
            wanted.setdefault(own.setting(configs[place].seed + seed), []).append(f"{place}/{seed}")
    missing = {setting for setting, names in wanted.items() if any(name not in search.part for name in names)}
    if not missing:
        return
    trials = experiment.trials(list(wanted), device=search.config.torch_device())
    checkpoint = Checkpoint(folder, CHECKPOINT)
    for outcome in run_trials(trials, checkpoint, wanted=missing, observer=observer):
        if outcome is None or outcome.setting not in missing:
            continue
        choice("metric on validation", search.metric, outcome.val)
        score = outcome.val[search.metric]
        finite = outcome.best_epoch > 0 and math.isfinite(score)
        search.part |= dict.fromkeys(wanted[outcome.setting], score if finite else None)
        write_atomic(folder / SEARCH, search.to_bytes())


# --------------------------------------------------------------------------------------------------------------- folder


def _make_vacant(folder: Path, overwrite: bool) -> None:
    """Make a folder ready; one that holds a search only if it may be replaced, one of others' files never."""
    try:
        entries = [entry.name for entry in folder.iterdir() if not is_draft(entry)] if folder.exists() else []
        if entries and SEARCH not in entries:
            raise RunError(f"{folder}: holds files that no search wrote, and is left alone. Choose another folder.")
        if entries and not overwrite:
            raise RunError(f"{folder}: already holds a search. Continue with --resume or replace it with --overwrite.")
        folder.mkdir(parents=True, exist_ok=True)
        Checkpoint(folder, CHECKPOINT).clear()
        for name in (BEST, SEARCH):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"{folder}: is no folder for a search ({error.strerror}). Choose another.") from error


# --------------------------------------------------------------------------------------------------------- config files


def read_options(path: Path, kind: type[Config]) -> dict[str, Any]:
    """The options in a file: JSON or TOML of options by name, ``best.json``, or the ``config.json`` of a run.

    Example:
        >>> read_options(Path("runs/tuned/best.json"), NodesConfig)["lr"]  # doctest: +SKIP
        0.0123
    """
    import json
    import tomllib

    toml = path.suffix.lower() == ".toml"
    try:
        text = read_plain(path, LARGEST).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise ParameterError(f"{path}: cannot be read as a file of options ({error}).") from error
    try:
        content = tomllib.loads(text) if toml else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{path}: is no {'TOML' if toml else 'JSON'} ({error}).") from error
    if not isinstance(content, dict):
        raise ParameterError(f"{path}: holds no options by name, but {shown(content)}.")
    named = content.pop("kind", kind.kind)
    if named != kind.kind:
        raise ParameterError(f"{path}: has options of a training on {shown(named)}, not on {kind.kind}.")
    content = content["config"] if isinstance(content.get("config"), dict) else content
    known = {each.name: each for each in fields(kind)}
    found = {}
    for name, value in content.items():
        plain = choice(f"option in {path}", str(name).replace("-", "_"), known)
        usual = type(known[plain].default)
        if type(value) is not usual and not (usual is float and type(value) is int):
            raise ParameterError(f"{path}: {name} must be of type {usual.__name__}, got {shown(value)}.")
        found[plain] = usual(value)
    return found
