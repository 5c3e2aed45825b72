"""``armagnn reproduce pace``: the seconds of an epoch, for plans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from armagnn.checks import choice
from armagnn.cli.consoles import notes_console, output_console
from armagnn.errors import ArmagnnError
from armagnn.paper import pace as room
from armagnn.paper.plan import known_times
from armagnn.paper.restore import CONFIGS


def pace(
    table: Annotated[list[str] | None, typer.Argument(help="Tables, e.g. graph-signal; by default all four.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:1.")] = "cpu",
    out: Annotated[Path, typer.Option(help="The table; what is in it is not measured again.")] = Path(
        "results", room.PACE
    ),
) -> None:
    """Measure an epoch of every cell of the tables, for `--plan`: many minutes, and hours on a processor.

    Cells that have trials on such a device in the exported tables need none; neither do those without settings.
    """
    for name in table or ():
        choice("table", name, CONFIGS)
    for name in table or CONFIGS:
        known = known_times(name, out.parent, ()).spent
        configs = []
        for cell in room.cells(name):
            if (cell, not device.startswith("cuda")) in known:
                continue
            try:
                configs.append(CONFIGS[name](*cell, 0))
            except ArmagnnError as error:
                notes_console().print(f"{' '.join(cell)} is left out: {error}", soft_wrap=True)
        for found in room.measure(configs, out, device) if configs else ():
            cell_name = f"{found.dataset} {found.method} {found.protocol}"
            output_console().print(f"{cell_name}: {found.seconds:.3g} s an epoch and training", soft_wrap=True)
