"""``armagnn train nodes --parts``: over the ranks that torchrun or Ray started, of which the first one speaks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from armagnn.cli.app import notes_console
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.training.parts_config import PartsConfig

if TYPE_CHECKING:
    from armagnn.training.run_folder import Run

ENGINES = ("torchrun", "ray")


def train_on_parts(
    typed: dict[str, Any], out: Path, *, engine: str, resume: bool, overwrite: bool, tensorboard: bool
) -> Run | None:
    """Train with the options that were typed; the first rank gets the run, the others get None."""
    from armagnn.cli.progress import TrainingProgress
    from armagnn.distributed.part_training import train_parts
    from armagnn.distributed.rank_groups import is_first
    from armagnn.training.trainer import Observer

    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, ENGINES)
    config = PartsConfig.begun(typed) if typed.get("parts") else None
    if config is None and not resume:
        raise ParameterError("ranks train on a partition: name its folder with --parts, or start one process.")
    if engine == "ray":
        from armagnn.distributed.ray_ranks import train_with_ray

        if config is None:
            raise ParameterError("parts is missing: with --engine ray name the folder of the partition again.")
        return train_with_ray(config, out, resume=resume, overwrite=overwrite)
    if not is_first():
        return train_parts(config, out, changes=typed, resume=resume, overwrite=overwrite)
    notes = notes_console()
    shown = config or PartsConfig(parts="parts")
    with TrainingProgress(shown, notes) as progress:
        observer: Observer = progress
        if tensorboard:
            from armagnn.training.tensorboard_log import Observers, TensorBoardLog

            observer = Observers(progress, TensorBoardLog(out / "tensorboard"))
        return train_parts(config, out, observer=observer, changes=typed, resume=resume, overwrite=overwrite)


def tell_interrupted(out: Path, notes: Console) -> None:
    """Say how to go on; the other ranks say nothing."""
    from armagnn.distributed.rank_groups import is_first

    if is_first():
        notes.print(f"Interrupted; what was done is kept. The same command goes on ({out}).", style="yellow")
    raise typer.Exit(130)
