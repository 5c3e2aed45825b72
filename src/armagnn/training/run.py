"""The run folder: everything a training leaves behind, checked whenever it is read.

======================= ===============================================================================
``config.json``         kind of run, hyperparameters, seeds, dataset and its SHA-256, versions
``graphs.json``         of a run on graphs: how they are described, for new ones
``trials/seed-N.*``     each finished trial: results and history (JSON), restored weights (safetensors)
``weights.safetensors`` the weights of the trial that is best on validation (never on test)
``metrics.json``        results per trial, mean and deviation
``curve.png``           learning curves
``manifest.json``       the files above with their SHA-256
``checkpoint/``         while the run is not finished: the state of the batch at work
======================= ===============================================================================
"""

from __future__ import annotations

import math
import platform
import shlex
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
from armagnn.errors import ParameterError, RunError, shown
from armagnn.training.atomic import read_plain, write_atomic
from armagnn.training.checkpoint import Checkpoint
from armagnn.training.config import RunConfig
from armagnn.training.curve import draw_curves
from armagnn.training.description import Description
from armagnn.training.folder import not_begun
from armagnn.training.graphs_config import GraphsConfig
from armagnn.training.manifest import (
    AGAIN,
    CHECKPOINT,
    CONFIG,
    DIGEST,
    FORMAT,
    GRAPHS,
    LARGEST_JSON,
    VERSION,
    Manifest,
    from_bytes,
    sha256,
    to_bytes,
)
from armagnn.training.metrics import best_trial, summarise
from armagnn.training.problem import CONFIGS
from armagnn.training.trial import Trial

METRICS, WEIGHTS, CURVE = "metrics.json", "weights.safetensors", "curve.png"
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
    config: RunConfig
    dataset_sha256: str
    versions: dict[str, str]
    manifest: Manifest

    def __post_init__(self) -> None:
        if not DIGEST.fullmatch(self.dataset_sha256):
            raise ParameterError(f"dataset_sha256 must be 64 hexadecimal digits, got {shown(self.dataset_sha256)}.")

    @classmethod
    @checked
    def create(cls, path: Path, config: RunConfig, dataset_sha256: str, graphs: Description | None = None) -> Run:
        """Begin a run in a vacant folder (see :func:`armagnn.training.folder.make_vacant`)."""
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
        if graphs is not None:
            run._write(GRAPHS, to_bytes(graphs.to_json()))
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
        if not isinstance(kind, str) or kind not in CONFIGS:
            raise RunError(
                f"{path / CONFIG}: a run on {shown(kind)}, which this armagnn does not know. Use a newer one."
            )
        try:
            config = CONFIGS[kind].from_json(content["config"])
        except RunError as error:
            raise RunError(f"{path / CONFIG}: {error} {AGAIN}") from error
        if content["seeds"] != list(config.all_seeds):
            raise RunError(f"{path / CONFIG}: seeds are not those of the configuration. {AGAIN}")
        run = cls(path, config, digest, versions, manifest)
        run._check_files()
        return run

    def _check_files(self) -> None:
        expected = {CONFIG} | {name for seed in self.finished_seeds for name in _trial_files(seed)}
        if self.config.kind == GraphsConfig.kind:
            expected.add(GRAPHS)
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

    def graphs(self) -> Description:
        """The content of ``graphs.json``, of a run on graphs."""
        content = from_bytes(self.path / GRAPHS, self._read(GRAPHS))
        try:
            return Description.from_json(content)
        except ValueError as error:
            raise RunError(f"{self.path / GRAPHS}: not the description of graphs ({error}). {AGAIN}") from error

    @checked
    def save_trial(self, trial: Trial) -> None:
        """Keep a finished trial for good."""
        content = _written(trial, self.config.epochs)
        results, weights = _trial_files(trial.seed)
        self._write(weights, safetensors.torch.save(trial.state))
        self._write(results, to_bytes(content))
        self.manifest.write(self.path)

    @checked
    def load_trial(self, seed: int) -> Trial:
        """A finished trial."""
        results, weights = _trial_files(seed)
        content = from_bytes(self.path / results, self._read(results))
        state = _parse_weights(self.path / weights, self._read(weights))
        try:
            return Trial.from_json(content, state, seed, self.config.epochs)
        except ValueError as error:
            raise RunError(f"{self.path / results}: not the results of a trial ({error}). {AGAIN}") from error

    def trials(self) -> list[Trial]:
        """All finished trials, by seed."""
        return [self.load_trial(seed) for seed in self.finished_seeds]

    def finish(self) -> None:
        """Summarise the trials and mark the run as complete."""
        trials = self.trials()
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
        if not _alike(found, summarise(self.trials(), self.config.stop_on)):
            raise RunError(f"{self.path / METRICS}: not the summary of the trials. {AGAIN}")
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
        self.manifest.files[name] = sha256(content)

    def _read(self, name: str) -> bytes:
        return _read(self.path, self.manifest, name)


def _written(trial: Trial, most_epochs: int) -> dict[str, Any]:
    """A trial as plain JSON that can be read again."""
    try:
        content = trial.to_json()
        Trial.from_json(content, trial.state, checks.integer("seed", trial.seed, 0, 2**63 - 1), most_epochs)
    except (TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise ParameterError(f"trial cannot be kept: {error}") from error
    return content


def _alike(found: Any, expected: Any) -> bool:
    """Is it the same JSON, up to the last digits? Other versions of Python sum in another order."""
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and found.keys() == expected.keys()
            and all(_alike(found[name], value) for name, value in expected.items())
        )
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(_alike, found, expected))
    if isinstance(expected, float):
        return isinstance(found, float) and math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12)
    return type(found) is type(expected) and bool(found == expected)


def _trial_files(seed: int) -> tuple[str, str]:
    return f"trials/seed-{seed}.json", f"trials/seed-{seed}.safetensors"


def _read(folder: Path, manifest: Manifest, name: str) -> bytes:
    if name not in manifest.files:
        raise RunError(f"{folder}: the run has no {name}. {AGAIN}")
    try:
        content = read_plain(folder / name, LARGEST_JSON if name.endswith(".json") else LARGEST)
    except OSError as error:
        raise RunError(f"{folder / name}: missing or unreadable ({error.strerror}). {AGAIN}") from error
    if sha256(content) != manifest.files[name]:
        raise RunError(f"{folder / name}: corrupt or truncated (checksum mismatch). {AGAIN}")
    return content


def _parse_weights(path: Path, content: bytes) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load(content)
    except (SafetensorError, ValueError, LookupError, RuntimeError, TypeError) as error:
        raise RunError(f"{path}: not a safetensors file ({error}). {AGAIN}") from error
