"""``armagnn train``: a command for each kind of task, made from its configuration."""

from __future__ import annotations

import inspect
import os
import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from armagnn.cli.app import notes_console, output_console
from armagnn.errors import ParameterError, RunError
from armagnn.training.config import Config, config_of, data_name, kinds
from armagnn.training.shared_options import RUN, TABLES, layer_names

if TYPE_CHECKING:
    from armagnn.training.run_folder import Run

LAST = """

The run folder gets the configuration, every trial, the weights that are best on validation, the metrics and a picture
of the learning curves. Ctrl-C leaves a run that --resume continues to the same result; --resume needs no other options
than --out.
"""

NODES = """Train on your own tables, one of nodes and one of edges, and see what the graph brings.

    armagnn train nodes --nodes nodes.csv --edges edges.csv --target label --out runs/mine

Tables are CSV (any usual delimiter; also .gz) or Parquet. All columns of nodes but the id, the target and the split
become features: numbers are standardised, categories have a feature each, missing values are imputed and marked. The
target is recognised: classes, several labels (a|b), or a number; nodes without one are those to predict. Two simpler
methods are trained besides: one ignores the edges, one the features. `armagnn predict RUN` writes the predictions.

Of tables, what is not given is 32 units, K = 2, T = 1, dropout 0.1 of features and 0.5 of hidden units, 3 seeds and at
most 300 epochs with patience 50, rather than the paper's values for Cora that the options below name.

Without --nodes it is `armagnn train`: a dataset of the catalogue, or an .npz file, with --dataset.
"""

app = typer.Typer(invoke_without_command=True)


def command_of(kind: type[Config], help: str = "", without: str = "") -> Any:
    """The command that trains a kind of task: an option for each field of its configuration that has a help.

    Args:
        kind: the configuration.
        help: what the help says first; by default what the configuration says.
        without: the panel of the options that the command does not have.
    """

    def command(ctx: typer.Context, **options: Any) -> None:
        given = {name: value for name, value in options.items() if value is not None}
        if ctx.invoked_subcommand is not None:
            refuse_before(ctx, given)
            return
        out = given.pop("out", None)
        engine = given.pop("engine", "")
        if kind.kind == "nodes" and not without and (given.get("parts") or engine or _among_ranks()):
            _train_parts(given, out, engine or "torchrun", _flags(given))
            return
        flags = _flags(given)
        _train(kind, prepared(kind, given, out, resume=flags["resume"]), out, **flags)

    option = inspect.Parameter
    parameters = [option("ctx", option.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    for name, annotation in options_of(kind, without).items():
        parameters.append(option(name, option.KEYWORD_ONLY, default=None, annotation=annotation))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer looks at
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = inspect.cleandoc(help or kind.HELP) + LAST
    return command


def options_of(kind: type[Config], without: str) -> dict[str, Any]:
    """The options of a command, with what the help says of them."""
    found: dict[str, Any] = {}
    for each in fields(kind):
        if not each.metadata["help"] or each.metadata["panel"] == without:
            continue
        text = each.metadata["help"].replace("{layers}", ", ".join(layer_names()))
        flags = [each.metadata["flag"]] if each.metadata["flag"] else []
        if type(each.default) is bool:
            flag = each.name.replace("_", "-")
            flags = [f"--{flag}/--no-{flag}" if each.default else f"--{flag}"]
        found[each.name] = Annotated[
            type(each.default) | None,
            typer.Option(
                *flags, help=text, rich_help_panel=each.metadata["panel"], show_default=each.metadata["shown"]
            ),
        ]
        for short, names in kind.SHORTCUTS.items():
            if names[-1] == each.name:
                text = "Short for " + " and ".join(f"--{name.replace('_', '-')}" for name in names) + "."
                panel = each.metadata["panel"]
                found[short] = Annotated[type(each.default) | None, typer.Option(help=text, rich_help_panel=panel)]
    default = f"runs/{kind.OF_DATA[0].upper()}-CONV"
    found["out"] = Annotated[
        Path | None, typer.Option(help="The run folder.", rich_help_panel=RUN, show_default=default)
    ]
    found["config"] = Annotated[
        Path | None,
        typer.Option(help="A file of options, JSON or TOML, as `armagnn tune` writes one.", rich_help_panel=RUN),
    ]
    if kind.kind == "nodes" and not without:
        for each in fields(config_of("parts")):
            if each.name in ("parts", "clusters"):
                found[each.name] = Annotated[
                    type(each.default) | None,
                    typer.Option(help=each.metadata["help"], rich_help_panel=RUN, show_default=each.metadata["shown"]),
                ]
        text = "Who starts the ranks of --parts: torchrun (or this process alone), or ray."
        found["engine"] = Annotated[str | None, typer.Option(help=text, rich_help_panel=RUN, show_default="torchrun")]
    for name, text in (
        ("resume", "Continue an interrupted run, to the same result."),
        ("overwrite", "Replace the run in the folder."),
        ("tensorboard", "Write logs for TensorBoard into the run folder."),
    ):
        found[name] = Annotated[bool | None, typer.Option(f"--{name}", help=text, rich_help_panel=RUN)]
    return found


def _flags(given: dict[str, Any]) -> dict[str, bool]:
    """Take the flags that are no options of the configuration."""
    return {name: bool(given.pop(name, None)) for name in ("resume", "overwrite", "tensorboard")}


def _among_ranks() -> bool:
    """Did torchrun start this process as one of several?"""
    return os.environ.get("WORLD_SIZE", "1") != "1" and "RANK" in os.environ


def refuse_before(ctx: typer.Context, given: dict[str, Any]) -> None:
    """Refuse options that stand before the name of a command."""
    if given:
        flag = next(iter(given)).replace("_", "-")
        raise ParameterError(f"--{flag} stands before {ctx.invoked_subcommand!r}; write the options after it.")


def prepared(kind: type[Config], given: dict[str, Any], out: Path | None, *, resume: bool) -> dict[str, Any]:
    """The options that were typed, with those of a file of options, and with whole paths."""
    file = given.pop("config", None)
    for short, names in kind.SHORTCUTS.items():
        if short in given:
            given = dict.fromkeys(names, given.pop(short)) | given
    if file is not None:
        from armagnn.training.tuning import read_options

        given = read_options(file, kind) | given
    place = kind.OF_DATA[0]
    if place not in given and kind.NEEDS_DATA and not (resume and out):
        if resume:
            raise ParameterError("out is missing: name the run folder to continue with --out FOLDER.")
        raise ParameterError(f"{place} is missing: name a folder of {kind.kind} with --{place} FOLDER.")
    for name in (place, *kind.PATHS):  # a run is continued, and predicts, from wherever it is asked
        if given.get(name) and (name in kind.PATHS or kind.is_path(given[name])):
            given[name] = os.path.abspath(given[name])
    return given


def folder_of(kind: type[Config], typed: dict[str, Any]) -> Path:
    """The run folder where none is named."""
    defaults: dict[str, Any] = {each.name: each.default for each in fields(kind)}
    place = kind.OF_DATA[0]
    source = next((typed[name] for name in (*kind.PATHS, place) if typed.get(name)), defaults[place])
    return Path("runs", f"{data_name(source)}-{typed.get('conv', defaults['conv'])}")


def _train(
    kind: type[Config], typed: dict[str, Any], out: Path | None, *, resume: bool, overwrite: bool, tensorboard: bool
) -> None:
    """Train with the options that were typed; the others are the defaults or, with `resume`, the run's own."""
    # these import torch, which the help does not wait for
    from armagnn.cli.progress import TrainingProgress, print_folds, print_report
    from armagnn.training.fold_runs import fold_folder, has_folds, train_folds
    from armagnn.training.run_folder import Run
    from armagnn.training.trainer import Observer, train

    folder = out or folder_of(kind, typed)
    notes = notes_console()
    if resume:
        folds = has_folds(folder)
        begun = Run.open(fold_folder(folder, 0) if folds else folder)
        if not isinstance(begun.config, kind):
            raise RunError(f"{folder}: is a run on {begun.config.kind}. Continue with: {begun.resume_command}")
        _compare_versions(begun, notes)
        config: Config = replace(begun.config, **typed)
    else:
        config = kind.begun(typed)
        folds = bool(typed.get("folds")) and "fold" not in typed
    try:
        with TrainingProgress(config, notes) as progress:
            observer: Observer = progress
            if tensorboard:
                from armagnn.training.tensorboard_log import Observers, TensorBoardLog

                observer = Observers(progress, TensorBoardLog(folder / "tensorboard"))
            work: Any = train_folds if folds else train
            run = work(config, folder, resume=resume, overwrite=overwrite, observer=observer)
    except KeyboardInterrupt:
        _interrupted(folder, notes)
    console = output_console()
    if isinstance(run, list):
        print_folds(console, run)
    else:
        print_report(console, run)
    shown = str(folder).encode(errors="replace").decode()  # a path need not be text
    console.print(f"Run folder: {shown}", soft_wrap=True)


def _train_parts(given: dict[str, Any], out: Path | None, engine: str, flags: dict[str, bool]) -> None:
    """Train over ranks with the options that were typed."""
    from armagnn.cli.progress import print_report
    from armagnn.cli.train_parts import tell_interrupted, train_on_parts

    kind = config_of("parts")
    typed = prepared(kind, given, out, resume=flags["resume"])
    folder = out or folder_of(kind, typed)
    try:
        run = train_on_parts(typed, folder, engine=engine, **flags)
    except KeyboardInterrupt:
        tell_interrupted(folder, notes_console())
    else:
        if run is not None:
            console = output_console()
            print_report(console, run)
            console.print(f"Run folder: {folder}", soft_wrap=True)


def _compare_versions(run: Run, notes: Console) -> None:
    from armagnn.training.run_folder import current_versions

    current = current_versions()
    changed = [f"{name} {run.versions.get(name)} -> {v}" for name, v in current.items() if run.versions.get(name) != v]
    if changed:
        notes.print(
            f"Note: versions changed since the run began ({', '.join(changed)}); the last bits may differ.",
            style="yellow",
            soft_wrap=True,
        )


def _interrupted(folder: Path, notes: Console) -> NoReturn:
    from armagnn.training.fold_runs import fold_folder, has_folds
    from armagnn.training.run_folder import Run

    try:
        run = Run.open(folder)
        message = (
            f"Interrupted. {len(run.finished_seeds)} of {run.config.seeds} trials are finished; all are kept. "
            f"Continue with: {run.resume_command}"
        )
    except RunError:
        message = "Interrupted before the run began."
        if has_folds(folder):
            first = Run.open(fold_folder(folder, 0)).config
            message = f"Interrupted. Continue with: armagnn {first.command} --out {shlex.quote(str(folder))} --resume"
    notes.print(message, style="yellow", soft_wrap=True)
    raise typer.Exit(130)


app.callback()(command_of(config_of("nodes"), without=TABLES))
app.command("nodes")(command_of(config_of("nodes"), NODES))
for _kind in kinds():
    if _kind not in ("nodes", "parts"):  # which `train nodes` trains, too
        app.command(_kind)(command_of(config_of(_kind)))
