"""``armagnn data``: what the catalogue has, whether it is whole, and how to bring more."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from armagnn import data as room
from armagnn.cli.app import table_console, whole_table
from armagnn.data.arrays import pack_arrays
from armagnn.data.dataset_statistics import DatasetStatistics
from armagnn.data.graph_files import parse_graphs_file
from armagnn.data.loading import find, find_entry, locate
from armagnn.errors import DataError
from armagnn.files import write_atomic

COLOURS = {"ok": "green", "missing": "dim", "corrupt": "red"}


def _table(console: Console, *columns: str, title: str | None = None) -> Table:
    plain: dict[str, Any] = {} if console.is_terminal else {"box": None, "title_justify": "left", "pad_edge": False}
    return whole_table(*columns, title=title, **plain)


def _show(console: Console, found: DatasetStatistics, title: str, paper: Mapping[str, str] | None = None) -> None:
    """Print statistics, and the paper's where it has any."""
    table = _table(console, "statistic", "file", *(["paper"] if paper is not None else []), title=title)
    for key in dict.fromkeys([*found, *(paper or {})]):
        table.add_row(key, str(found.get(key, "")), *([paper.get(key, "")] if paper is not None else []))
    console.print(table)


def list_() -> None:
    """List every dataset: what it holds, its licence, and where its file is."""
    console = table_console()
    table = _table(console, "name", "holds", "file", "licence", "where")
    for name, entry in room.all_entries().items():
        places = [find(entry, name, file) for file in entry.files]
        where = "missing" if None in places else "embedded" if entry.embedded else str(Path(places[0].source).parent)  # type: ignore[union-attr]
        style = "dim" if where == "missing" else ""
        table.add_row(name, entry.kind, ", ".join(entry.files), entry.licence, where, style=style)
    console.print(table)


def info(
    name: Annotated[str, typer.Argument(help="A name of the catalogue, or your own .npz file or folder of graphs.")],
    paths: Annotated[bool, typer.Option(help="Compute the average shortest path, seconds on large graphs.")] = True,
) -> None:
    """Show a dataset's statistics, computed from its file; those of the catalogue next to the paper's."""
    console = table_console()
    if (
        name.endswith(".npz")
        or os.path.basename(name) != name
        or (os.path.isdir(name) and name not in room.all_entries())
    ):
        own = room.read_own(name)
        _show(console, room.statistics(own, paths=paths), Path(name).name or name)
        facts = {"file": name, "note": " ".join(own.notes)}
    else:
        facts = _of_entry(console, name, paths)
    for key, value in facts.items():
        if value:
            console.print(Text(f"{key:>8}  {value}"), soft_wrap=True)


def _of_entry(console: Console, name: str, paths: bool) -> dict[str, str]:
    """Show the statistics of a dataset that has a name, and return what else there is to say of it."""
    entry = find_entry(name)
    _show(console, room.statistics_of(name, paths=paths), entry.title or name, entry.paper)
    place = locate(entry, name)
    facts = {"file": place.source, "sha256": entry.sha256, "licence": entry.licence, "source": entry.source}
    if place.accepted[0] != entry.sha256 or len(place.accepted) > 1:
        facts["sha256"] = " or ".join(place.accepted)
    return facts | dict(entry.also) | {"note": entry.differences}


def bound(
    name: Annotated[str, typer.Argument(help="Graphs of the catalogue, a folder in TU's format, or an .npz file.")],
    out: Annotated[Path | None, typer.Option(help="Also write it to this .csv file.", show_default=False)] = None,
) -> None:
    """Show what no network that passes messages can do better than on these graphs, because some look alike to it.

    It sees the features of the nodes and who is joined with whom; where edges have labels, the same follows for one
    that would see those too.
    """
    graphs = room.load_graphs(name)
    header = ["dataset", "seen", "classes", "with a twin, %", "of", "best"]
    rows: list[list[str]] = []
    for labels in [False] if graphs.edge_labels is None else [False, True]:
        found = room.bound(graphs, room.refined_classes(graphs, edge_labels=labels))
        facts = ["edge labels too" if labels else "nodes, edges", f"{found.classes}", f"{100 * found.twins:.2f}"]
        kind = "mse of {}" if graphs.regression else "{}"
        rows += [[graphs.name, *facts, kind.format(of), f"{best:.6f}"] for of, best in found.best.items()]
    console = table_console()
    table = _table(console, *header)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if out is not None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([header, *rows])
        write_atomic(out, text.getvalue().encode())


def verify(
    names: Annotated[list[str] | None, typer.Argument(help="Which datasets; all of them if none is named.")] = None,
) -> None:
    """Hash every file again: ok, missing or corrupt. The exit code is 1 if something is corrupt."""
    console = table_console()
    table = _table(console, "name", "file", "state", "note")
    checks = room.verify(names or ())
    for check in checks:
        table.add_row(check.name, check.file, Text(check.state, style=COLOURS[check.state]), Text(check.note))
    console.print(table)
    if any(check.state == "corrupt" for check in checks):
        raise typer.Exit(1)


def add(
    file: Annotated[Path, typer.Argument(help="Your own .npz file; docs/reference/datasets.md describes the format.")],
    name: Annotated[
        str | None, typer.Option(help="What to call it.", show_default="the file's name without .npz")
    ] = None,
) -> None:
    """Check your own file and add it to the catalogue, to be loaded by name."""
    name, found = room.add(file, name)
    console = table_console()
    _show(console, found, name)
    place = locate(find_entry(name), name)
    console.print(Text(f"{name} is in {place.source}, SHA-256 {place.accepted[0]}"), soft_wrap=True)


def remove(
    name: Annotated[str, typer.Argument(help="The name of a dataset that was added, fetched or made.")],
) -> None:
    """Take a dataset out of the data folder: its file there, and its name. The file that it was added from stays."""
    table_console().print(Text(f"{name} is removed: {room.remove(name)}"), soft_wrap=True)


def fetch(
    name: Annotated[str, typer.Argument(help="A name of the catalogue.")],
) -> None:
    """Get a dataset's originals over the network and convert them. What is here already is left as it is."""
    table_console().print(Text(f"{name}: {room.fetch(name)}"), soft_wrap=True)


def make_bench_hard(
    seed: Annotated[int, typer.Option(help="The same seed draws the same graphs everywhere.")] = 0,
    small: Annotated[
        bool, typer.Option("--small", help="100 graphs a class of 40 to 80 nodes, not 600 of 100 to 200.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The .npz file to write; one that is there is left as it is.",
            show_default="bench-hard-SEED.npz, or bench-hard-small-SEED.npz",
        ),
    ] = None,
) -> None:
    """Draw a Bench-hard set by the published recipe and show its statistics and the published ones."""
    name = "bench-hard-small" if small else "bench-hard"
    out = out or Path(f"{name}-{seed}.npz")
    if out.suffix != ".npz":
        raise DataError(f"{out}: is written as an .npz file; give it such a name.")
    if out.exists():
        raise DataError(f"{out}: is there already; remove it or choose another name.")
    content = pack_arrays(room.make_bench_hard(seed, small=small))
    data = parse_graphs_file(content, name=out.stem, source=str(out))
    write_atomic(out, content)
    console = table_console()
    title = f"Bench-hard, seed {seed}{', small' if small else ''}"
    _show(console, room.statistics(data, paths=False), title, find_entry(name).paper or None)
    console.print(Text(f"{out}: SHA-256 {data.sha256}"), soft_wrap=True)


def make_news(
    seed: Annotated[int, typer.Option(help="Of word2vec; the same seed gives the same graph.")] = 0,
    plain: Annotated[bool, typer.Option("--plain", help="20news-plain: words as armagnn counted them before.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Make it again, in the place of one that is there.")] = False,
) -> None:
    """Prepare 20news: counts of words, embeddings by word2vec (gensim, minutes), the graph of words; kept for all.

    Documents and words are those of mdeff/cnn_graph, whose code the paper used. The file goes into the data folder; a
    machine without gensim can use it.
    """
    path, found = room.make_news(seed, plain=plain, force=force)
    name = "20news-plain" if plain else "20news"
    console = table_console()
    _show(console, found, f"{name}, prepared")
    console.print(
        Text(f"{path} is ready: armagnn train signals --dataset {name} (in Python: load_signals)"),
        soft_wrap=True,
    )
