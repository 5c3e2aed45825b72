"""Training over ranks that Ray Train starts: on the cluster of ``RAY_ADDRESS``, or on this machine."""

from __future__ import annotations

import importlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from armagnn.distributed.part_folder import facts_of
from armagnn.errors import ParameterError, RankError
from armagnn.training.parts_config import PartsConfig
from armagnn.training.run_folder import Run


def train_with_ray(
    config: PartsConfig, out: Path, *, resume: bool = False, overwrite: bool = False, workers: int | None = None
) -> Run:
    """Train on a partition with Ray Train, which starts the ranks and ends them all when one fails.

    The folders of the partition and of the run must be seen by all machines, or by the one of the first rank.

    Args:
        config: what to train.
        out: the run folder.
        resume: there must be a run to go on with.
        overwrite: replace the run in the folder.
        workers: how many ranks; by default one for each part, or for each processor if these are fewer.

    Example:
        >>> train_with_ray(PartsConfig(parts="parts"), Path("runs/parts"))  # doctest: +SKIP
    """
    try:
        ray, train = importlib.import_module("ray"), importlib.import_module("ray.train")
        torch_train = importlib.import_module("ray.train.torch")
    except ImportError as error:
        raise ParameterError(
            "engine is 'ray', but Ray Train is not installed. Install it with: pip install 'armagnn[ray]'"
        ) from error
    gpus = config.device.startswith("cuda")
    ours = not ray.is_initialized()
    if ours:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        there = int(ray.cluster_resources().get("GPU" if gpus else "CPU", 1))
        count = workers or max(min(facts_of(config.parts).parts, there), 1)
        config = replace(config, parts=str(Path(config.parts).resolve()))  # the ranks run in another folder
        given = {"config": config.to_json(), "out": str(out.resolve()), "resume": resume, "overwrite": overwrite}
        with tempfile.TemporaryDirectory() as storage:
            trainer = torch_train.TorchTrainer(
                _loop,
                train_loop_config=given,
                scaling_config=train.ScalingConfig(num_workers=count, use_gpu=gpus),
                torch_config=torch_train.TorchConfig(backend="cpu:gloo,cuda:nccl" if gpus else "gloo"),
                run_config=train.RunConfig(storage_path=storage),
            )
            try:
                trainer.fit()
            except Exception as error:  # Ray has classes of its own, other ones in each version
                raise RankError(f"a rank of Ray Train failed: {_words(error)}") from error
    finally:
        if ours:
            ray.shutdown()
    return Run.open(out)


def _words(error: BaseException) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _loop(given: dict[str, Any]) -> None:
    """What every rank does; Ray Train has made the process group."""
    from armagnn.distributed.part_training import train_parts

    config = PartsConfig.from_json(given["config"])
    train_parts(config, given["out"], resume=given["resume"], overwrite=given["overwrite"])
