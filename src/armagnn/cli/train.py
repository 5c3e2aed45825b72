"""``armagnn train``: the paper's 2-layer network, once per seed."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import torch
import typer
from rich.console import Console

from armagnn.cli.progress import ProgressBars
from armagnn.cli.report import print_report
from armagnn.errors import RunError
from armagnn.training import Run, TrainConfig
from armagnn.training import train as train_run
from armagnn.training.run import current_versions

NETWORK, TRAINING, RUN = "Network", "Training", "Run"


def option(panel: str, help: str, flag: str | None = None) -> Any:
    """An option in a panel of the help."""
    return typer.Option(*([flag] if flag else []), help=help, rich_help_panel=panel)


def train(
    ctx: typer.Context,
    dataset: Annotated[
        str, option(RUN, "cora, citeseer, pubmed, or the path of your own .npz file.")
    ] = TrainConfig.dataset,
    out: Annotated[
        Path | None, typer.Option(help="The run folder.", show_default="runs/DATASET", rich_help_panel=RUN)
    ] = None,
    resume: Annotated[bool, option(RUN, "Continue an interrupted run, to the same result.", "--resume")] = False,
    overwrite: Annotated[bool, option(RUN, "Replace the run in the folder.", "--overwrite")] = False,
    seed: Annotated[int, option(RUN, "Seed of the first trial; the next are seed + 1, ...")] = TrainConfig.seed,
    seeds: Annotated[int, option(RUN, "Number of trials, one per seed.")] = TrainConfig.seeds,
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Trials at a time; the results are the same.",
            show_default="one per core",
            rich_help_panel=RUN,
        ),
    ] = None,
    device: Annotated[str, option(RUN, "cpu, cuda or cuda:1.")] = TrainConfig.device,
    hidden: Annotated[int, option(NETWORK, "Units of the hidden layer.")] = TrainConfig.hidden,
    stacks: Annotated[int, option(NETWORK, "K: parallel stacks of each layer.")] = TrainConfig.stacks,
    layers: Annotated[int, option(NETWORK, "T: recursion steps of each stack.")] = TrainConfig.layers,
    act: Annotated[str, option(NETWORK, "Activation of the hidden layer, e.g. relu or elu.")] = TrainConfig.act,
    init: Annotated[
        str, option(NETWORK, "Start of the recursion: linear (X W0), zero, or tied (W0 = V).")
    ] = TrainConfig.init,
    dropout: Annotated[
        float, option(NETWORK, "Drop rate of the input features and of the hidden units.")
    ] = TrainConfig.dropout,
    skip_dropout: Annotated[
        float, option(NETWORK, "Drop rate of the skip connections X V.")
    ] = TrainConfig.skip_dropout,
    l2: Annotated[
        float, option(TRAINING, "c of the penalty c ||W||² on all kernels, as in Keras (gradient 2 c W).")
    ] = TrainConfig.l2,
    lr: Annotated[float, option(TRAINING, "Learning rate of Adam.")] = TrainConfig.lr,
    epochs: Annotated[int, option(TRAINING, "Most epochs of a trial.")] = TrainConfig.epochs,
    patience: Annotated[
        int, option(TRAINING, "Epochs without improvement after which a trial stops.")
    ] = TrainConfig.patience,
    stop_on: Annotated[
        str,
        option(TRAINING, "What must improve on validation: loss, or accuracy (the lower loss decides a tie)."),
    ] = TrainConfig.stop_on,
) -> None:
    """Train the paper's 2-layer ARMA network for node classification, once per seed.

    The run folder gets the configuration, every trial, the weights that are best on validation, the metrics
    and a picture of the learning curves. Ctrl-C leaves a run that --resume continues to the same result;
    --resume needs no other options than --out.

    The defaults are the paper's for Cora, with one exception: the paper's text stops on validation accuracy
    with patience 50 (--stop-on accuracy --patience 50); the authors' own script stops on validation loss, and
    so does the default here, with patience 100. The paper's values elsewhere: Citeseer --stacks 3; Pubmed
    --stacks 1 --dropout 0.25 --skip-dropout 0.25.
    """
    # Only what was typed: with --resume, all the rest is the run's own.
    sources = {field.name: ctx.get_parameter_source(field.name) for field in fields(TrainConfig)}
    typed = {name: ctx.params[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"}
    folder = out or Path("runs", Path(dataset).stem)
    notes = Console(stderr=True)
    if resume:
        begun = Run.open(folder)
        _compare_versions(begun, notes)
        config = replace(begun.config, **typed)
    else:
        config = TrainConfig(**typed)
    try:
        with ProgressBars(config, notes) as bars:
            run = train_run(
                config,
                folder,
                resume=resume,
                overwrite=overwrite,
                jobs=_cores(config) if jobs is None else jobs,
                watcher=bars,
            )
    except KeyboardInterrupt:
        _interrupted(folder, notes)
    console = Console()
    print_report(console, run)
    console.print(f"Run folder: {folder}", highlight=False, markup=False, soft_wrap=True)


def _cores(config: TrainConfig) -> int:
    # torch knows how many cores this process may use, also in a container. Trials would only share a GPU.
    return torch.get_num_threads() if config.device == "cpu" else 1


def _compare_versions(run: Run, notes: Console) -> None:
    changed = [f"{name} {run.versions.get(name)} -> {v}" for name, v in current_versions().items()
               if run.versions.get(name) != v]  # fmt: skip
    if changed:
        notes.print(
            f"Note: versions changed since the run began ({', '.join(changed)}); the last bits may differ.",
            style="yellow",
            soft_wrap=True,
        )


def _interrupted(folder: Path, notes: Console) -> NoReturn:
    try:
        run = Run.open(folder)
        message = (
            f"Interrupted. {len(run.finished_seeds)} of {run.config.seeds} trials are kept. "
            f"Continue with: {run.resume_command}"
        )
    except RunError:
        message = "Interrupted before the run began."
    notes.print(message, style="yellow", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(130)
