"""The run folder: everything a training leaves behind, checked whenever it is read.

======================= ===============================================================================
``config.json``         kind of run, hyperparameters, seeds, dataset and its SHA-256, versions
``graphs.json``         of a run on graphs: how they are described, for new ones; of a run on tables of nodes
                        ``tables.json``, of others ``description.json``
``trials/seed-N.*``     each finished trial: results and history (JSON), restored weights (safetensors)
``weights.safetensors`` the weights of the trial that is best on validation (never on test)
``metrics.json``        results per trial, mean and deviation
``baselines.json``      of a run on tables: the results of methods that ignore the edges or the features
``curve.png``           learning curves
``manifest.json``       the files above with their SHA-256
``checkpoint/``         while the run is not finished: the state of the batch at work
======================= ===============================================================================
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from armagnn import checks
from armagnn.arguments import checked
from armagnn.errors import ParameterError, RunError, UnknownNameError, shown
from armagnn.files import is_draft, read_plain, sha256_of, write_atomic
from armagnn.training.checkpoint import (
    AGAIN,
    CHECKPOINT,
    CONFIG,
    DESCRIPTIONS,
    DIGEST,
    FILES,
    FORMAT,
    LARGEST_JSON,
    MANIFEST,
    VERSION,
    Checkpoint,
    Manifest,
    from_bytes,
    to_bytes,
)
from armagnn.training.config import Config, config_of
from armagnn.training.outcome import Outcome, best_trial, draw_curves, same_json, summarise

METRICS, WEIGHTS, CURVE, BASELINES = "metrics.json", "weights.safetensors", "curve.png", "baselines.json"
HEAD = {"format", "version", "kind", "config", "seeds", "dataset_sha256", "versions"}
LARGEST = 2**31
"""Bytes of the largest file of weights."""


def current_versions() -> dict[str, str]:
    """The versions that results may depend on."""
    import armagnn

    return {
        "armagnn": armagnn.__version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


@checked
@dataclass(frozen=True, eq=False)
class Run:
    """A run folder that is open: what was asked for, and what is finished of it.

    Use :meth:`open` for one that exists (every file of it is checked) and :func:`armagnn.training.train` to
    make one.

    Example:
        >>> run = Run.open("runs/cora")  # doctest: +SKIP
        >>> run.metrics()["test"]["accuracy"]["mean"]  # doctest: +SKIP
    """

    path: Path
    config: Config
    dataset_sha256: str
    versions: dict[str, str]
    manifest: Manifest

    def __post_init__(self) -> None:
        if not DIGEST.fullmatch(self.dataset_sha256):
            raise ParameterError(f"dataset_sha256 must be 64 hexadecimal digits, got {shown(self.dataset_sha256)}.")

    @classmethod
    @checked
    def create(cls, path: Path, config: Config, dataset_sha256: str, description: dict[str, Any] | None = None) -> Run:
        """Begin a run in a vacant folder (see `make_vacant`)."""
        run = cls(path, config, dataset_sha256, current_versions(), Manifest())
        content = {
            "format": FORMAT,
            "version": VERSION,
            "kind": config.kind,
            "config": config.to_json(),
            "seeds": list(config.all_seeds),
            "dataset_sha256": dataset_sha256,
            "versions": run.versions,
        }
        run._write(CONFIG, to_bytes(content))
        if description is not None:
            run._write(config.DESCRIPTION, to_bytes(description))
        run.manifest.write(path)
        return run

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Open a run folder; a corrupt, truncated or foreign one is a :class:`~armagnn.errors.RunError`."""
        path = checks.path("path", path)
        if not_begun(path):
            raise RunError(f"{path}: the run was interrupted before it began. Start it again, without --resume.")
        manifest = Manifest.read(path)
        for name in manifest.files:
            _read(path, manifest, name)
        content = from_bytes(path / CONFIG, _read(path, manifest, CONFIG))
        if content.keys() | {"kind"} != HEAD or (content["format"], content["version"]) != (FORMAT, VERSION):
            raise RunError(f"{path / CONFIG}: not the configuration of an armagnn run. {AGAIN}")
        digest, versions = content["dataset_sha256"], content["versions"]
        if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
            raise RunError(f"{path / CONFIG}: dataset_sha256 is {shown(digest)}, no checksum. {AGAIN}")
        if not isinstance(versions, dict) or not all(isinstance(version, str) for version in versions.values()):
            raise RunError(f"{path / CONFIG}: versions are {shown(versions)}, not texts by name. {AGAIN}")
        kind = content.get("kind", "nodes")  # the first runs did not say, and were on nodes
        try:
            config = config_of(kind).from_json(content["config"])
        except UnknownNameError as error:
            raise RunError(
                f"{path / CONFIG}: a run on {shown(kind)}, which this armagnn does not know. Use a newer one."
            ) from error
        except RunError as error:
            raise RunError(f"{path / CONFIG}: {error} {AGAIN}") from error
        if content["seeds"] != list(config.all_seeds):
            raise RunError(f"{path / CONFIG}: seeds are not those of the configuration. {AGAIN}")
        run = cls(path, config, digest, versions, manifest)
        run._check_files()
        return run

    def _check_files(self) -> None:
        expected = {CONFIG} | {name for seed in self.finished_seeds for name in _trial_files(seed)}
        if self.config.described or self.config.DESCRIPTION in self.manifest.files:
            expected.add(self.config.DESCRIPTION)
        if BASELINES in self.manifest.files and self.complete:
            expected.add(BASELINES)
        if self.complete:
            expected |= {METRICS, WEIGHTS, CURVE}
            expected |= {name for seed in self.config.all_seeds for name in _trial_files(seed)}
        if expected != self.manifest.files.keys():
            odd = sorted(expected ^ self.manifest.files.keys())
            raise RunError(f"{self.path}: {odd[0]} is missing from the run or does not belong to it. {AGAIN}")

    @property
    def complete(self) -> bool:
        """Are all trials finished and summarised?"""
        return self.manifest.complete

    @property
    def finished_seeds(self) -> list[int]:
        """The seeds whose trials are finished, in order."""
        return [seed for seed in self.config.all_seeds if _trial_files(seed)[0] in self.manifest.files]

    @property
    def checkpoint(self) -> Checkpoint:
        """Where the batch at work is kept until the run is finished."""
        return Checkpoint(self.path, CHECKPOINT)

    @property
    def resume_command(self) -> str:
        """What to type to continue the run."""
        return f"armagnn {self.config.command} --out {shlex.quote(str(self.path))} --resume"

    @checked
    def check_data(self, sha256: str) -> None:
        """Refuse other data than those of the run."""
        if sha256 != self.dataset_sha256:
            raise RunError(
                f"{self.path}: the run was trained on another file of dataset {self.config.source!r}, or an older "
                f"armagnn read it otherwise (SHA-256 {self.dataset_sha256[:12]}..., not {sha256[:12]}...). Train again."
            )

    def description(self) -> dict[str, Any]:
        """What the run keeps to understand new data."""
        return from_bytes(self.path / self.config.DESCRIPTION, self._read(self.config.DESCRIPTION))

    # ---------------------------------------------------------------------------------------------------------- trials

    @checked
    def missing(self, keys: Iterable[str]) -> list[str]:
        """Of the keys of trials, which are their seeds as text, those that are not finished."""
        finished = {str(seed) for seed in self.finished_seeds}
        return [key for key in keys if checks.instance("a key", key, str, "a text") not in finished]

    def get(self, key: str) -> Outcome | None:
        """The finished trial with this key, or None."""
        return None if self.missing([key]) else self.load_trial(int(key))

    @checked
    def add(self, outcomes: Iterable[Outcome]) -> int:
        """Keep finished trials and return how many are new."""
        new = [each for each in outcomes if self.missing([str(getattr(each, "seed", each))])]
        for each in new:
            self.keep(each)
        return len(new)

    @checked
    def keep(self, outcome: Outcome) -> None:
        """Keep a finished trial for good."""
        content = _written(outcome, self.config.epochs)
        results, weights = _trial_files(outcome.seed)
        self._write(weights, safetensors.torch.save(outcome.state))
        self._write(results, to_bytes(content))
        self.manifest.write(self.path)

    @checked
    def load_trial(self, seed: int) -> Outcome:
        """A finished trial."""
        results, weights = _trial_files(seed)
        content = from_bytes(self.path / results, self._read(results))
        state = _parse_weights(self.path / weights, self._read(weights))
        try:
            return Outcome.from_json(content, state, self.config.setting(seed), self.config.epochs)
        except ValueError as error:
            raise RunError(f"{self.path / results}: not the results of a trial ({error}). {AGAIN}") from error

    def trials(self) -> list[Outcome]:
        """All finished trials, by seed."""
        return [self.load_trial(seed) for seed in self.finished_seeds]

    @checked
    def finish(self, baselines: dict[str, Any] | None = None) -> None:
        """Summarise the trials, keep the results of the baselines, and mark the run as complete."""
        trials = self.trials()
        if baselines:
            self._write(BASELINES, to_bytes(baselines))
        best = best_trial(trials, self.config.stop_on)
        self._write(METRICS, to_bytes(summarise(trials, self.config.stop_on)))
        self._write(WEIGHTS, safetensors.torch.save(best.state))
        self._write(CURVE, draw_curves(trials, f"{self.config.title}, {len(trials)} trials"))
        self.manifest.complete = True
        self.manifest.write(self.path)

    def require_complete(self) -> None:
        """Refuse to go on with a run that is not finished."""
        if not self.complete:
            raise RunError(
                f"{self.path}: {len(self.finished_seeds)} of {self.config.seeds} trials are finished. "
                f"Continue with: {self.resume_command}"
            )

    def metrics(self) -> dict[str, Any]:
        """The content of ``metrics.json``, which says what the trials say."""
        self.require_complete()
        found = from_bytes(self.path / METRICS, self._read(METRICS))
        if not same_json(found, summarise(self.trials(), self.config.stop_on)):
            raise RunError(f"{self.path / METRICS}: not the summary of the trials. {AGAIN}")
        return found

    def baselines(self) -> dict[str, Any]:
        """The results of methods that ignore the edges or the features, by name; of many runs there are none."""
        if BASELINES not in self.manifest.files:
            return {}
        from armagnn.training.node_baselines import are_baselines

        found = from_bytes(self.path / BASELINES, self._read(BASELINES))
        if not are_baselines(found):
            raise RunError(f"{self.path / BASELINES}: not the results of baselines. {AGAIN}")
        return found

    def weights(self) -> dict[str, Tensor]:
        """The weights of the best trial: finite real numbers."""
        self.require_complete()
        weights = _parse_weights(self.path / WEIGHTS, self._read(WEIGHTS))
        for name, weight in weights.items():
            if not weight.is_floating_point() or not bool(weight.isfinite().all()):
                raise RunError(f"{self.path / WEIGHTS}: {shown(name)} holds no finite real numbers. {AGAIN}")
        return weights

    def _write(self, name: str, content: bytes) -> None:
        write_atomic(self.path / name, content)
        self.manifest.files[name] = sha256_of(content)

    def _read(self, name: str) -> bytes:
        return _read(self.path, self.manifest, name)


# ----------------------------------------------------------------------------------------------------------- the folder


def check_vacant(path: Path, *, overwrite: bool) -> None:
    """Refuse a folder that holds anything, but for a run that had not begun, or any run if `overwrite`.

    Nothing is changed.
    """
    try:
        entries = list(path.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"{path}: is no folder for a run ({error.strerror}). Choose another.") from error
    if all(is_draft(entry) for entry in entries) or not_begun(path):
        return
    if not _is_run(path):
        raise RunError(f"{path}: holds files that no run of armagnn wrote, and is left alone. Choose another folder.")
    if not overwrite:
        raise RunError(f"{path}: already holds a run. Continue it with --resume or replace it with --overwrite.")


def make_vacant(path: Path) -> None:
    """Create the folder, or remove the files of a run from it (and only those: your own stay).

    The configuration and the manifest stay until those of the new run replace them: killed in between, the folder is
    still known as a run.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        for file in [*path.iterdir(), *path.glob("trials/*")]:
            name = file.relative_to(path).as_posix()
            if is_draft(file) or (FILES.fullmatch(name) and name != CONFIG):
                file.unlink()
        Checkpoint(path, CHECKPOINT).clear()
        trials = path / "trials"
        if trials.is_dir() and not any(trials.iterdir()):
            trials.rmdir()
    except OSError as error:
        raise RunError(f"{path}: cannot be made ready for a run ({error.strerror}).") from error


def not_begun(path: Path) -> bool:
    """Was a run killed before its manifest was written? Then nothing is lost with the folder."""
    try:
        names = {entry.name for entry in path.iterdir() if not is_draft(entry)}
    except OSError:
        return False
    return CONFIG in names <= {CONFIG, *DESCRIPTIONS} and _is_run(path)


def _is_run(path: Path) -> bool:
    """Does the folder claim to be a run, however damaged?"""
    for name in (CONFIG, MANIFEST):
        try:
            if FORMAT.encode() in read_plain(path / name, LARGEST_JSON):
                return True
        except OSError:
            continue
    return False


# ---------------------------------------------------------------------------------------------------------------- files


def _written(outcome: Outcome, most_epochs: int) -> dict[str, Any]:
    """A trial as plain JSON that can be read again."""
    try:
        content = outcome.to_json()
        Outcome.from_json(content, outcome.state, outcome.setting, most_epochs)
    except (TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise ParameterError(f"trial cannot be kept: {error}") from error
    return content


def _trial_files(seed: int) -> tuple[str, str]:
    return f"trials/seed-{seed}.json", f"trials/seed-{seed}.safetensors"


def _read(folder: Path, manifest: Manifest, name: str) -> bytes:
    if name not in manifest.files:
        raise RunError(f"{folder}: the run has no {name}. {AGAIN}")
    try:
        content = read_plain(folder / name, LARGEST_JSON if name.endswith(".json") else LARGEST)
    except OSError as error:
        raise RunError(f"{folder / name}: missing or unreadable ({error.strerror}). {AGAIN}") from error
    if sha256_of(content) != manifest.files[name]:
        raise RunError(f"{folder / name}: corrupt or truncated (checksum mismatch). {AGAIN}")
    return content


def _parse_weights(path: Path, content: bytes) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load(content)
    except (SafetensorError, ValueError, LookupError, RuntimeError, TypeError) as error:
        raise RunError(f"{path}: not a safetensors file ({error}). {AGAIN}") from error
