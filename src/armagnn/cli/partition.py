"""``armagnn partition``: a graph cut into parts, one for each rank of a training."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from armagnn.cli.app import notes_console, output_console
from armagnn.cli.stage_bars import StageBars
from armagnn.data import NodeDataset, load
from armagnn.distributed.edge_stream import EdgeStream
from armagnn.distributed.partition_report import PartitionReport, widths_of_arma
from armagnn.distributed.partitioning import partition as cut
from armagnn.distributed.partitioning import partition_dataset
from armagnn.distributed.rows_of_nodes import PartRows
from armagnn.errors import ParameterError

NODES, GRAPH = "Nodes", "Graph"


def partition(
    edges: Annotated[
        Path | None,
        typer.Argument(help="The edges: CSV, Parquet, or .npy of shape (2, E).", metavar="[EDGES]", show_default=False),
    ] = None,
    *,
    parts: Annotated[int, typer.Option(help="How many parts: the most ranks that can train.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    order: Annotated[
        str,
        typer.Option(
            help="Order of the nodes before they are cut: blocks (as they are), rcm (neighbours near each other) or "
            "metis (the fewest edges cut; needs pymetis). The last two hold the graph in memory."
        ),
    ] = "blocks",
    dataset: Annotated[
        str, typer.Option(help="A dataset of the catalogue, or an .npz file of nodes; no EDGES.", show_default=False)
    ] = "",
    x: Annotated[
        Path | None, typer.Option("--x", help=".npy of the features, (N, F).", rich_help_panel=NODES)
    ] = None,
    y: Annotated[
        Path | None,
        typer.Option("--y", help=".npy of the targets: classes 0 .. C-1, (N, C) of 0 and 1, or reals.",
                     rich_help_panel=NODES),
    ] = None,
    nodes: Annotated[
        str, typer.Option(help="Or a table of nodes, as of `armagnn train nodes`.", rich_help_panel=NODES)
    ] = "",
    target: Annotated[str, typer.Option(help="The column of such a table to learn.", rich_help_panel=NODES)] = "",
    id_column: Annotated[str, typer.Option("--id", help="Its column of ids.", rich_help_panel=NODES)] = "",
    features: Annotated[
        str, typer.Option(help="How features are scaled: standardise or none; of a dataset also rows.",
                          rich_help_panel=NODES)
    ] = "auto",
    split: Annotated[
        str,
        typer.Option(
            help="The column that says train, val or test; beside --x and --y an .npy of 0, 1, 2 (others: none).",
            rich_help_panel=NODES, show_default="drawn",
        ),
    ] = "",
    val: Annotated[float, typer.Option(help="Share that is drawn for validation.", rich_help_panel=NODES)] = 0.2,
    test: Annotated[float, typer.Option(help="Share that is drawn for the test.", rich_help_panel=NODES)] = 0.2,
    split_seed: Annotated[int, typer.Option(help="Seed of the draw.", rich_help_panel=NODES)] = 0,
    source: Annotated[str, typer.Option(help="The column of the ends that edges come from.", rich_help_panel=GRAPH,
                                        show_default="guessed")] = "",
    dest: Annotated[str, typer.Option(help="The column of the ends that edges go to.", rich_help_panel=GRAPH,
                                      show_default="guessed")] = "",
    weight: Annotated[str, typer.Option(help="The column of weights.", rich_help_panel=GRAPH,
                                        show_default="guessed")] = "",
    directed: Annotated[bool, typer.Option("--directed", help="Keep the direction of edges.",
                                           rich_help_panel=GRAPH)] = False,
    num_nodes: Annotated[int | None, typer.Option(help="N, of a file of edges alone.", rich_help_panel=GRAPH,
                                                  show_default="one more than the largest id")] = None,
) -> None:  # fmt: skip
    """Cut a graph into parts, a folder for each rank of a training; no rank then holds the whole graph.

    armagnn partition edges.parquet --parts 4 --out parts --x x.npy --y y.npy

    armagnn partition --dataset cora --parts 4 --out parts

    torchrun --standalone --nproc-per-node 4 -m armagnn train nodes --parts parts

    Edges are streamed: in memory are a few numbers a node, and one part. Their ids are numbers from 0 on; only those of
    a table of nodes, which is read as a whole, may be texts. Parts have equally many nonzeros. Edges are undirected,
    each once, however often it is listed. The report says what a rank must receive of others: few rows where neighbours
    lie in one part. The same command again goes on with what was interrupted.
    """
    given = {"--dataset": bool(dataset), "--nodes": bool(nodes), "--x": x is not None}
    chosen = [name for name, there in given.items() if there]
    if len(chosen) > 1:
        raise ParameterError(f"{chosen[0]} and {chosen[1]} exclude each other: the nodes come from one place.")
    if bool(dataset) == (edges is not None):
        raise ParameterError("name a file of EDGES, or a --dataset that has edges of its own, and not both.")
    if (x is None) != (y is None):
        raise ParameterError("--x and --y belong together: features and targets of the nodes.")
    notes = notes_console()
    again = shlex.join(["armagnn", *sys.argv[1:]])
    try:
        with StageBars(notes) as bars:
            if dataset or nodes:
                if nodes and edges is not None and edges.suffix == ".npy":
                    raise ParameterError("--nodes is for a table of edges; beside an .npy of edges take --x and --y.")
                wish: dict[str, Any] = {
                    "target": target, "id": id_column, "source": source, "dest": dest, "weight": weight,
                    "directed": directed, "features": features, "split": split, "val": val, "test": test,
                    "seed": split_seed,
                }  # fmt: skip
                data = (
                    NodeDataset.from_tables(nodes, edges, **wish) if nodes else load(dataset, features=features)  # type: ignore[arg-type]  # it is checked
                )
                for note in data.notes:
                    notes.print(f"Note: {note}", style="yellow", soft_wrap=True)
                report = partition_dataset(data, out, parts, order=order, tell=bars.tell)
            else:
                assert edges is not None
                rows = None
                if x is not None and y is not None:
                    if features not in ("auto", "standardise", "none"):
                        raise ParameterError(f"features is {features!r}; beside --x it is standardise or none.")
                    given_split = Path(split) if split else None
                    rows = PartRows.of_arrays(
                        x, y, given_split, standardise=features != "none", val=val, test=test, seed=split_seed
                    )
                stream = EdgeStream.of_file(edges, source, dest, weight)
                report = cut(
                    stream, out, parts, order=order, directed=directed, rows=rows, num_nodes=num_nodes, tell=bars.tell
                )
    except KeyboardInterrupt:
        notes.print(f"Interrupted. Continue with: {again}", style="yellow", soft_wrap=True)
        raise typer.Exit(130) from None
    print_partition(output_console(), report, out)


SHOWN = 16
"""Parts that are listed one by one."""


def print_partition(console: Console, report: PartitionReport, out: Path) -> None:
    """Say how evenly a partition shares out the work, and what its ranks send."""
    facts = report.facts

    def say(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False)

    say(f"{'part':>5} {'nodes':>12} {'nonzeros':>14} {'halo rows':>12} {'rows sent':>12}")
    rows = zip(report.nodes, report.nonzeros, report.halo_rows, report.rows_sent, strict=True)
    for part, sizes in enumerate(rows):
        if part < SHOWN:
            say(f"{part:>5} {sizes[0]:>12,} {sizes[1]:>14,} {sizes[2]:>12,} {sizes[3]:>12,}")
    if facts.parts > SHOWN:
        say(f"  ... {facts.parts - SHOWN} more parts")
    say(f"Balance: the largest part has {report.balance:.2f} times the mean of nonzeros.")
    say(f"Halo: {report.halo_share:.3f} rows of others per own row.")
    most, total = max(report.rows_sent), sum(report.rows_sent)
    say(
        f"A product with F columns of float32 sends 4 F x {most:,} bytes from one rank at most, 4 F x {total:,} in all."
    )
    if facts.rows:
        outputs = len(facts.rows["classes"]) or 1
        widths = widths_of_arma(facts.rows["features"], outputs, sparse=facts.rows["sparse"])
        sent = report.bytes_sent(widths)
        say(
            f"A training step of two ARMA layers (32 units, K = 2, T = 1) sends {max(sent) / 1e6:,.2f} MB from a "
            f"rank at most, {sum(sent) / 1e6:,.2f} MB in all."
        )
        say(f"Train: torchrun --standalone --nproc-per-node {facts.parts} -m armagnn train nodes --parts {out}")
