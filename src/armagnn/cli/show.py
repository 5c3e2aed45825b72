"""``armagnn show``: what was trained, how well."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from armagnn import training
from armagnn.cli.consoles import output_console
from armagnn.cli.report import print_report


def show(
    run: Annotated[Path, typer.Argument(help="The run folder.", metavar="RUN")],
) -> None:
    """Show what was trained and how well. Every file of the run is checked on the way."""
    opened = training.Run.open(run)
    console = output_console()
    for name, value in opened.config.to_json().items():
        console.print(f"{name.replace('_', '-'):>14}  {value}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"{'data sha256':>14}  {opened.dataset_sha256}", highlight=False, markup=False, soft_wrap=True)
    versions = ", ".join(f"{name} {version}" for name, version in opened.versions.items())
    console.print(f"{'versions':>14}  {versions}", highlight=False, markup=False, soft_wrap=True)
    seconds = sum(trial.seconds for trial in opened.trials())
    console.print(f"{'trained':>14}  {len(opened.finished_seeds)} of {opened.config.seeds} trials, {seconds:.0f} s")
    if opened.complete:
        print_report(console, opened)
    else:
        console.print(
            f"Not finished. Continue with: {opened.resume_command}", highlight=False, markup=False, soft_wrap=True
        )
