"""Options that several commands share, as one argument of their functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from armagnn.training.results_store import DEFAULT_STORE


@dataclass(frozen=True)
class Where:
    """Where the trials of a table are done, and kept."""

    store: Annotated[Path, typer.Option(help="Where finished trials are kept.")] = DEFAULT_STORE
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:1.")] = "cpu"
    workers: Annotated[int, typer.Option(help="Processes at a time; on a GPU, trainings that take turns.")] = 1
    engine: Annotated[str, typer.Option(help="local, or ray for a Ray cluster.")] = "local"
    results: Annotated[Path, typer.Option(help="Where the exported tables are: plans go by their times.")] = Path(
        "results"
    )


@dataclass(frozen=True)
class Written:
    """What a search writes."""

    out: Annotated[Path | None, typer.Option(help="Write the choices to this JSON file.")] = None
    scores: Annotated[Path | None, typer.Option(help="Write every setting and its scores to this CSV file.")] = None


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with an option for each field of the dataclasses among the arguments of `command`.

    Example:
        >>> def command(written: Written, name: str) -> None:
        ...     print(name, written.scores)
        >>> with_groups(command)(name="cora", out=None, scores="scores.csv")
        cora scores.csv
        >>> list(inspect.signature(with_groups(command)).parameters)
        ['name', 'out', 'scores']
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    own, shared = [], []  # the command's own options come first
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            own.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[name]))
            continue
        kinds = get_type_hints(groups[name], include_extras=True)
        for each in fields(groups[name]):
            annotation = kinds[each.name]
            shared.append(
                inspect.Parameter(each.name, parameter.KEYWORD_ONLY, default=each.default, annotation=annotation)
            )
    parameters = own + shared

    @wraps(command)
    def called(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        command(**values)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer looks at
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called
