"""``armagnn train``: the paper's network of two convolutions, once per seed; and what all trainings share."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from armagnn.cli.progress import ProgressBar
from armagnn.cli.report import print_report
from armagnn.errors import ParameterError, RunError
from armagnn.paper.published import HYPERPARAMETERS, METHODS
from armagnn.training import Run, RunConfig, TrainConfig
from armagnn.training import train as train_run
from armagnn.training.run import current_versions

NETWORK, TRAINING, RUN = "Network", "Training", "Run"
PAPERS = "the paper's"


def option(panel: str, help: str, flag: str | None = None, default: str | bool = True) -> Any:
    """An option in a panel of the help; `default` is what to show where the default is looked up."""
    return typer.Option(*([flag] if flag else []), help=help, rich_help_panel=panel, show_default=default)


app = typer.Typer(invoke_without_command=True)


@app.callback()
def train(
    ctx: typer.Context,
    dataset: Annotated[
        str, option(RUN, "cora, citeseer, pubmed, ppi, or the path of your own .npz file.")
    ] = TrainConfig.dataset,
    features: Annotated[
        str,
        option(
            RUN,
            "How features are scaled: rows (each row divided by its sum, for bags of words), standardise (each column, "
            "on the training nodes) or none. auto: your own are standardised, those of the catalogue have their own.",
        ),
    ] = TrainConfig.features,
    conv: Annotated[str, option(RUN, f"The layers: {', '.join(METHODS)}.")] = TrainConfig.conv,
    out: Annotated[Path | None, option(RUN, "The run folder.", default="runs/DATASET-CONV")] = None,
    resume: Annotated[bool, option(RUN, "Continue an interrupted run, to the same result.", "--resume")] = False,
    overwrite: Annotated[bool, option(RUN, "Replace the run in the folder.", "--overwrite")] = False,
    seed: Annotated[int, option(RUN, "Seed of the first trial; the next are seed + 1, ...")] = TrainConfig.seed,
    seeds: Annotated[
        int, option(RUN, "Number of trials, one per seed; they are trained together.")
    ] = TrainConfig.seeds,
    device: Annotated[str, option(RUN, "cpu, cuda or cuda:1.")] = TrainConfig.device,
    hidden: Annotated[int | None, option(NETWORK, "Units of the hidden layer.", default=PAPERS)] = None,
    stacks: Annotated[
        int | None, option(NETWORK, "K: stacks of arma, order of chebyshev and cayley.", default=PAPERS)
    ] = None,
    layers: Annotated[
        int | None,
        option(
            NETWORK,
            "T: recursion steps of arma, Jacobi iterations of cayley. L: layers in each of the two places for the "
            "others (chebyshev has none).",
            default=PAPERS,
        ),
    ] = None,
    last_stacks: Annotated[int | None, option(NETWORK, "K of the second convolution.", default="as the first")] = None,
    act: Annotated[str, option(NETWORK, "Activation of the hidden layer, e.g. relu or elu.")] = TrainConfig.act,
    init: Annotated[
        str, option(NETWORK, "Start of arma's recursion: linear (X W0), zero, or tied (W0 = V).")
    ] = TrainConfig.init,
    dropout: Annotated[
        float | None, option(NETWORK, "Short for --input-dropout and --hidden-dropout.", default=PAPERS)
    ] = None,
    input_dropout: Annotated[float | None, option(NETWORK, "Drop rate of the input features.", default=PAPERS)] = None,
    hidden_dropout: Annotated[float | None, option(NETWORK, "Drop rate of the hidden units.", default=PAPERS)] = None,
    skip_dropout: Annotated[
        float | None, option(NETWORK, "Drop rate of arma's skip connections X V.", default=PAPERS)
    ] = None,
    l2: Annotated[
        float | None,
        option(TRAINING, "c of the penalty c ||W||² on all kernels, as in Keras (gradient 2 c W).", default=PAPERS),
    ] = None,
    lr: Annotated[float | None, option(TRAINING, "Learning rate of Adam.", default=PAPERS)] = None,
    epochs: Annotated[int, option(TRAINING, "Most epochs of a trial.")] = TrainConfig.epochs,
    patience: Annotated[
        int | None,
        option(TRAINING, "Epochs without improvement after which a trial stops.", default="100; 300 on ppi"),
    ] = None,
    stop_on: Annotated[
        str,
        option(TRAINING, "What must improve on validation: loss, or accuracy (the lower loss decides a tie)."),
    ] = TrainConfig.stop_on,
) -> None:
    """Train the paper's network of two convolutions for node classification, once per seed.

    For whole graphs, and your own, see `armagnn train graphs --help`.

    The run folder gets the configuration, every trial, the weights that are best on validation, the metrics
    and a picture of the learning curves. Ctrl-C leaves a run that --resume continues to the same result;
    --resume needs no other options than --out.

    What is not given is the paper's value for the dataset and the layers (for your own files: that for Cora), with
    one exception: the paper's text stops on validation accuracy with patience 50 (--stop-on accuracy --patience 50);
    the authors' own script stops on validation loss, and so does the default here, with patience 100. On PPI it is
    300, as the paper's patience stops far too early there.
    """
    typed = typed_options(ctx)
    if ctx.invoked_subcommand is not None:
        if typed:
            flag = next(iter(typed)).replace("_", "-")
            raise ParameterError(f"--{flag} stands before {ctx.invoked_subcommand!r}; write the options after it.")
        return
    rate = typed.pop("dropout", None)
    if rate is not None:
        typed = {"input_dropout": rate, "hidden_dropout": rate} | typed
    if dataset.endswith(".npz"):
        typed["dataset"] = os.path.abspath(dataset)  # a run is continued, and predicts, from wherever it is asked
    folder = out or Path("runs", f"{Path(dataset).stem}-{conv}")
    carry_out(TrainConfig, defaults(dataset, conv), typed, folder, resume=resume, overwrite=overwrite)


def typed_options(ctx: typer.Context) -> dict[str, Any]:
    """The options that were typed."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    return {name: ctx.params[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"}


def carry_out(
    kind: type[RunConfig],
    defaults: dict[str, Any],
    typed: dict[str, Any],
    folder: Path,
    *,
    resume: bool,
    overwrite: bool,
) -> None:
    """Train with the options that were `typed`; the others are the defaults or, with `resume`, the run's own."""
    typed = {field.name: typed[field.name] for field in fields(kind) if field.name in typed}
    notes = Console(stderr=True)
    if resume:
        begun = Run.open(folder)
        if not isinstance(begun.config, kind):
            raise RunError(f"{folder}: is a run on {begun.config.kind}. Continue with: {begun.resume_command}")
        _compare_versions(begun, notes)
        config: RunConfig = replace(begun.config, **typed)
    else:
        config = kind(**defaults | typed)
    try:
        with ProgressBar(config, notes) as bar:
            run = train_run(config, folder, resume=resume, overwrite=overwrite, watcher=bar)
    except KeyboardInterrupt:
        _interrupted(folder, notes)
    console = Console()
    print_report(console, run)
    shown = str(folder).encode(errors="replace").decode()  # a path need not be text
    console.print(f"Run folder: {shown}", highlight=False, markup=False, soft_wrap=True)


def defaults(dataset: str, conv: str) -> dict[str, Any]:
    """The options of the paper for a dataset of its own (or else for Cora) and the layers `conv`.

    Example:
        >>> chosen = defaults("ppi", "arma")
        >>> chosen["hidden"], chosen["stacks"], chosen["layers"], chosen["patience"]
        (64, 3, 2, 300)
    """
    paper = HYPERPARAMETERS.get(dataset, HYPERPARAMETERS["cora"])
    stacks, layers = paper.order(conv)
    return {
        "dataset": dataset,
        "conv": conv,
        "hidden": paper.hidden,
        "stacks": stacks,
        "layers": layers,
        **dict.fromkeys(("input_dropout", "hidden_dropout", "skip_dropout"), paper.dropout),
        "l2": paper.l2,
        "lr": paper.lr,
        "patience": 300 if dataset == "ppi" else TrainConfig.patience,
    }


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
            f"Interrupted. {len(run.finished_seeds)} of {run.config.seeds} trials are finished; all are kept. "
            f"Continue with: {run.resume_command}"
        )
    except RunError:
        message = "Interrupted before the run began."
    notes.print(message, style="yellow", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(130)
