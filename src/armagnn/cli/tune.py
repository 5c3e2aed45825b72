"""``armagnn tune``: a command for each kind of task, with the options of ``armagnn train`` and those of the search."""

from __future__ import annotations

import inspect
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armagnn.cli.app import notes_console, output_console, table_console, whole_table
from armagnn.cli.train import folder_of, options_of, prepared, refuse_before
from armagnn.training.config import Config, config_of, kinds
from armagnn.training.shared_options import TABLES

if TYPE_CHECKING:
    from armagnn.training.tuning import Tuning

HELP = """Search hyperparameters of {kind} on validation data; test data are not looked at.

    armagnn tune nodes --nodes nodes.csv --edges edges.csv --target label --out runs/tuned

    armagnn train nodes --config runs/tuned/best.json --out runs/mine

The options are those of `armagnn train`, and are what stays the same; --over says what is searched. Settings of one
shape train as a batch. Ctrl-C leaves a search that --resume continues to the same result. Needs Optuna: pip install
'armagnn[tune]'.
"""

SEARCH = "Search"
OWN: dict[str, Any] = {
    "trials": Annotated[int, typer.Option(help="Settings that are tried.", rich_help_panel=SEARCH)],
    "over": Annotated[
        str,
        typer.Option(
            help="What is searched, with commas between: lr, lr=0.001..0.1 or conv=arma|gcn.",
            rich_help_panel=SEARCH,
            show_default="hidden, stacks, layers, lr, l2, drop rates",
        ),
    ],
    "metric": Annotated[
        str,
        typer.Option(help="The metric on validation.", rich_help_panel=SEARCH, show_default="what --stop-on says"),
    ],
    "batch_of": Annotated[
        int, typer.Option("--at-once", help="Settings that train at a time.", rich_help_panel=SEARCH)
    ],
    "repeats": Annotated[
        int, typer.Option("--repeats", help="Trainings of each setting, from different seeds.", rich_help_panel=SEARCH)
    ],
}
DEFAULTS = {"trials": 40, "over": "", "metric": "", "batch_of": 4, "repeats": 1}

app = typer.Typer(invoke_without_command=True)


def command_of(kind: type[Config], what: str, without: str = "") -> Any:
    """The command that searches for a kind of task."""

    def command(ctx: typer.Context, **options: Any) -> None:
        own = {name: options.pop(name) for name in OWN}
        given = {name: value for name, value in options.items() if value is not None}
        if ctx.invoked_subcommand is not None:
            refuse_before(ctx, given)
            return
        _tune(kind, given, own)

    option = inspect.Parameter
    parameters = [option("ctx", option.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    for name, annotation in OWN.items():
        parameters.append(option(name, option.KEYWORD_ONLY, default=DEFAULTS[name], annotation=annotation))
    for name, annotation in options_of(kind, without).items():
        if name != "tensorboard":
            parameters.append(option(name, option.KEYWORD_ONLY, default=None, annotation=annotation))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer looks at
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = HELP.format(kind=what)
    return command


def _tune(kind: type[Config], given: dict[str, Any], own: dict[str, Any]) -> None:
    from armagnn.cli.progress import TrainingProgress
    from armagnn.training.tuning import BEST, TuneObserver, tune

    out, resume, overwrite = (given.pop(name, None) for name in ("out", "resume", "overwrite"))
    typed = prepared(kind, given, out, resume=False)
    config = kind.begun(typed)
    folder = out or Path(f"{folder_of(kind, typed)}-tuned")
    notes = notes_console()

    class Progress(TrainingProgress, TuneObserver):
        """The bar of the batch at work, and a line for each batch."""

        def tried(self, search: Tuning) -> None:
            best = search.best
            text = f"{len(search.trials)} of {own['trials']} settings"
            self._say(f"{text}; best {search.metric} on validation: {_number(best.score if best else None)}")

    over = [part for part in own["over"].split(",") if part.strip()]
    try:
        with Progress(config, notes) as progress:
            search = tune(
                config, folder, trials=own["trials"], over=over, metric=own["metric"], batch=own["batch_of"],
                seeds=own["repeats"], resume=bool(resume), overwrite=bool(overwrite), observer=progress,
            )  # fmt: skip
    except KeyboardInterrupt:
        words = [word for word in sys.argv[1:] if word != "--overwrite"]
        again = shlex.join(["armagnn", *words, *([] if "--resume" in words else ["--resume"])])
        notes.print(f"Interrupted. What was tried is kept. Continue with: {again}", style="yellow", soft_wrap=True)
        raise typer.Exit(130) from None
    _print(search)
    command = shlex.join(["armagnn", *kind.command.split(), *(["nodes"] if typed.get("nodes") else [])])
    best = shlex.quote(str(folder / BEST))
    output_console().print(f"Train it: {command} --config {best} --out FOLDER", soft_wrap=True)


def _print(search: Tuning) -> None:
    """Print the ten best settings."""
    sign = -1 if search.higher else 1
    finished = sorted((t for t in search.trials if t.score is not None), key=lambda t: sign * float(t.score or 0.0))
    table = whole_table(f"val. {search.metric}", *(axis.name.replace("_", "-") for axis in search.axes))
    for trial in finished[:10]:
        table.add_row(_number(trial.score), *(_number(trial.options[axis.name]) for axis in search.axes))
    table_console().print(table)
    lost = len(search.trials) - len(finished)
    rest = f", of which {lost} diverged" if lost else ""
    output_console().print(
        f"The best of {len(search.trials)} settings{rest}, on validation data: the test is still to come."
    )


def _number(value: Any) -> str:
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


app.callback()(command_of(config_of("nodes"), "nodes", TABLES))
app.command("nodes")(command_of(config_of("nodes"), "your own tables"))
for _kind in kinds():
    if _kind not in ("nodes", "parts"):
        app.command(_kind)(command_of(config_of(_kind), _kind))
