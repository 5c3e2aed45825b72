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
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from armagnn.errors import RunError
from armagnn.training.atomic import write_atomic
from armagnn.training.checkpoint import Checkpoint
from armagnn.training.config import RunConfig
from armagnn.training.curve import draw_curves
from armagnn.training.description import Description
from armagnn.training.graphs_config import GraphsConfig
from armagnn.training.manifest import AGAIN, CHECKPOINT, FORMAT, VERSION, Manifest, from_bytes, sha256, to_bytes
from armagnn.training.metrics import best_trial, summarise
from armagnn.training.problem import CONFIGS
from armagnn.training.trial import Trial

CONFIG, GRAPHS, METRICS, WEIGHTS = "config.json", "graphs.json", "metrics.json", "weights.safetensors"
CURVE = "curve.png"


def current_versions() -> dict[str, str]:
    """The versions that results may depend on."""
    import armagnn

    return {
        "armagnn": armagnn.__version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


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

    @classmethod
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
        path = Path(path)
        manifest = Manifest.read(path)
        for name in manifest.files:
            _read(path, manifest, name)
        content = from_bytes(path / CONFIG, _read(path, manifest, CONFIG))
        if not isinstance(content.get("dataset_sha256"), str) or not isinstance(content.get("versions"), dict):
            raise RunError(f"{path / CONFIG}: dataset_sha256 or versions missing. {AGAIN}")
        kind = content.get("kind", "nodes")  # the first runs did not say, and were on nodes
        if not isinstance(kind, str) or kind not in CONFIGS:
            raise RunError(f"{path / CONFIG}: a run on {kind!r}, which this armagnn does not know. Use a newer one.")
        config = CONFIGS[kind].from_json(content.get("config"))
        run = cls(path, config, content["dataset_sha256"], content["versions"], manifest)
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

    def check_data(self, sha256: str) -> None:
        """Refuse other data than those of the run."""
        if sha256 != self.dataset_sha256:
            raise RunError(
                f"{self.path}: the run was trained on another file of dataset {self.config.source!r} "
                f"(with SHA-256 {self.dataset_sha256[:12]}..., not {sha256[:12]}...)."
            )

    def graphs(self) -> Description:
        """The content of ``graphs.json``, of a run on graphs."""
        content = from_bytes(self.path / GRAPHS, self._read(GRAPHS))
        try:
            return Description.from_json(content)
        except ValueError as error:
            raise RunError(f"{self.path / GRAPHS}: not the description of graphs ({error}). {AGAIN}") from error

    def save_trial(self, trial: Trial) -> None:
        """Keep a finished trial for good."""
        results, weights = _trial_files(trial.seed)
        content = {field.name: getattr(trial, field.name) for field in fields(Trial) if field.name != "state"}
        content["history"] = {name: list(map(_finite, values)) for name, values in trial.history.items()}
        self._write(weights, safetensors.torch.save(trial.state))
        self._write(results, to_bytes(content))
        self.manifest.write(self.path)

    def load_trial(self, seed: int) -> Trial:
        """A finished trial."""
        results, weights = _trial_files(seed)
        content = from_bytes(self.path / results, self._read(results))
        try:
            past = content.pop("history").items()
            history = {name: [math.nan if value is None else value for value in values] for name, values in past}
            state = _parse_weights(self.path / weights, self._read(weights))
            return Trial(**content, history=history, state=state)
        except (TypeError, KeyError, AttributeError) as error:
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
        """The content of ``metrics.json``."""
        self.require_complete()
        return from_bytes(self.path / METRICS, self._read(METRICS))

    def weights(self) -> dict[str, Tensor]:
        """The weights of the best trial."""
        self.require_complete()
        return _parse_weights(self.path / WEIGHTS, self._read(WEIGHTS))

    def _write(self, name: str, content: bytes) -> None:
        write_atomic(self.path / name, content)
        self.manifest.files[name] = sha256(content)

    def _read(self, name: str) -> bytes:
        return _read(self.path, self.manifest, name)


def _finite(value: float) -> float | None:
    """JSON has no NaN: losses after a divergence, which came later than the restored state, are null."""
    return value if math.isfinite(value) else None


def _trial_files(seed: int) -> tuple[str, str]:
    return f"trials/seed-{seed}.json", f"trials/seed-{seed}.safetensors"


def _read(folder: Path, manifest: Manifest, name: str) -> bytes:
    if name not in manifest.files:
        raise RunError(f"{folder}: the run has no {name}. {AGAIN}")
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise RunError(f"{folder / name}: missing or unreadable ({error.strerror}). {AGAIN}") from error
    if sha256(content) != manifest.files[name]:
        raise RunError(f"{folder / name}: corrupt or truncated (checksum mismatch). {AGAIN}")
    return content


def _parse_weights(path: Path, content: bytes) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise RunError(f"{path}: not a safetensors file ({error}). {AGAIN}") from error
