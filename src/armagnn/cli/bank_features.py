"""``armagnn features``: the columns of a table of nodes through a bank of filters, into a folder."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from armagnn import checks
from armagnn.cli.app import notes_console, output_console
from armagnn.cli.stage_bars import StageBars
from armagnn.data.tables.edge_tables import UNKNOWN, read_edges
from armagnn.data.tables.frame import Frame, NodeIds
from armagnn.data.tables.node_tables import find_id
from armagnn.errors import DataError, ParameterError, shown
from armagnn.estimators.column_source import ColumnSource, TableColumns
from armagnn.estimators.precompute import precompute_features
from armagnn.files import read_plain
from armagnn.filters import FilterBank
from armagnn.operators import GraphOperator
from armagnn.operators.building import Options, operator_of
from armagnn.table_files import TableFile, arrow, columns_of

GRAPH = "Graph"


def features(
    edges: Annotated[Path, typer.Argument(help="The edges: CSV, Parquet, or .npy of shape (2, E).", metavar="EDGES")],
    nodes: Annotated[
        Path, typer.Option(help="The features, a row for each node: CSV, Parquet, or .npy of shape (N, F).")
    ],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    bank: Annotated[
        str,
        typer.Option(
            help="The filters, with commas between: numbers in (-1, 1), low-pass where positive, and names such as "
            "high-pass; or a .json file of filters; or the folder of a run of --conv rational, for those it learned."
        ),
    ] = "0.9,0.5,-0.5",
    memory: Annotated[
        float | None,
        typer.Option(help="GiB that the operator and the solver may take.", show_default="half of the machine's"),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Which columns of a table are features, with commas between; all for all but the id."),
    ] = None,
    passthrough: Annotated[bool, typer.Option(help="Put the features themselves before the filtered ones.")] = True,
    type_: Annotated[str, typer.Option("--type", help="Of all numbers: float32 or float64.")] = "float32",
    tol: Annotated[
        float | None,
        typer.Option(help="Relative residual of the solves.", show_default="1e-6 in float32, 1e-12 in float64"),
    ] = None,
    id_column: Annotated[
        str,
        typer.Option("--id", help="The column of ids of a table.", rich_help_panel=GRAPH, show_default="id, node, ..."),
    ] = "",
    source: Annotated[
        str, typer.Option(help="The column of one end of an edge.", rich_help_panel=GRAPH, show_default="guessed")
    ] = "",
    dest: Annotated[
        str, typer.Option(help="The column of the other end.", rich_help_panel=GRAPH, show_default="guessed")
    ] = "",
    weight: Annotated[
        str, typer.Option(help="The column of weights.", rich_help_panel=GRAPH, show_default="guessed")
    ] = "",
    unknown: Annotated[
        str, typer.Option(help="Edges to nodes that are not there: error, or drop.", rich_help_panel=GRAPH)
    ] = "error",
) -> None:
    """Put the features of nodes through a bank of filters, for graphs that fit on the disk.

    armagnn features edges.parquet --nodes nodes.parquet --columns age,income --out bank

    Columns are filtered in blocks as wide as --memory allows. Ctrl-C or a crash costs the block at work: give the same
    command again. The folder holds features.npy, a row for each node, to be mapped into memory: train any model on it
    in minibatches (`armagnn.estimators.StoredFeatures`). Edges are undirected, each once, however often it is listed.
    """
    notes = notes_console()
    checks.choice("unknown", unknown, UNKNOWN)
    filters = bank_of(bank)
    ids: NodeIds | None = None
    x = ColumnSource.of(nodes)
    if isinstance(x, TableColumns):
        ids = ids_of(nodes, id_column)
        x = TableColumns(nodes, features_of(x, columns, ids.name))
    elif columns or id_column:
        raise ParameterError("--columns and --id are for tables of nodes; the rows of an .npy file count from 0.")
    budget = None if memory is None else memory * 2**30
    again = shlex.join(["armagnn", *sys.argv[1:]])
    try:
        with StageBars(notes) as bars:
            bars.tell("edges", 0, 1)
            op = graph_of(edges, ids or NodeIds.counted(x.rows), source, dest, weight, unknown)
            bars.tell("edges", 1, 1)
            found = precompute_features(
                op, x, out, filters=filters, passthrough=passthrough, memory=budget, dtype=type_, tol=tol,
                progress=bars.tell,
            )  # fmt: skip
    except KeyboardInterrupt:
        notes.print(f"Interrupted. Finished blocks are kept. Continue with: {again}", style="yellow", soft_wrap=True)
        raise typer.Exit(130) from None
    blocks = found.report["blocks"]
    steps = max((step for block in blocks for step in block["steps"]), default=0)
    residual = max(block["residual"] for block in blocks)
    size = found.array.nbytes / 1e9
    console = output_console()
    console.print(
        f"{out}: {found.shape[0]} nodes, {found.shape[1]} columns, {type_}, {size:.2f} GB; at most {steps} steps, "
        f"residuals up to {residual:.1e}.",
        soft_wrap=True,
    )
    if not all(block["converged"] for block in blocks):
        notes.print("Note: some solves stopped before they met --tol.", style="yellow", soft_wrap=True)


def bank_of(text: str) -> FilterBank:
    """The bank that a user names: numbers and names, a file of filters, or a run that learned some.

    Example:
        >>> bank_of("0.9, high-pass").names
        ('a=0.9', 'high-pass')
    """
    path = Path(text)
    if path.suffix == ".json":
        try:
            content = read_plain(path, 2**26)
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read ({error}). Check the path.") from error
        return FilterBank.parsed(content, str(path))
    if path.is_dir():
        return _learned(path)
    given: list[Any] = []
    for part in (part.strip() for part in text.split(",")):
        try:
            given.append(float(part))
        except ValueError:
            given.append(part)
    return FilterBank.of(given)


def _learned(path: Path) -> FilterBank:
    """The responses of the rational layers of a run's best trial."""
    from armagnn.nn import RationalConv
    from armagnn.training.run_folder import Run

    run = Run.open(path)
    net = run.config.experiment().trained(run)
    layers = [(name, layer) for name, layer in net.named_modules() if isinstance(layer, RationalConv)]
    if not layers:
        raise ParameterError(
            f"{path}: has no rational layers, so there is no filter to take: train with --conv rational."
        )
    named = {
        f"{name}" + (f" group {group}" if layer.groups > 1 else ""): layer.filter(group)
        for name, layer in layers
        for group in range(layer.groups)
    }
    return FilterBank(tuple(named.values()), tuple(named))


def ids_of(nodes: Path, column: str) -> NodeIds:
    """The ids in a table of nodes, of which no other column is read."""
    file = TableFile.open(nodes)
    csv = file.form == "csv"

    found = find_id(Frame(str(nodes), arrow().table({name: [] for name in file.names})), column)
    return NodeIds.of(Frame(str(nodes), file.read([found]), 2 if csv else 1, csv, nodes), found)


def features_of(table: TableColumns, columns: str | None, id_column: str) -> list[str]:
    """The columns that are features; nobody guesses them, as what is to be predicted must not be among them."""
    if columns == "all":
        return [name for name in table.names if name != id_column]
    if not columns:
        raise ParameterError(
            f"{table.source}: which columns are features? {columns_of(table.names)} Name them with --columns: what is "
            "to be predicted is none."
        )
    return [name.strip() for name in columns.split(",") if name.strip()]


def graph_of(edges: Path, ids: NodeIds, source: str, dest: str, weight: str, unknown: str) -> GraphOperator:
    """The operator of a file of edges between nodes with ids; edges are undirected, each once."""
    value: Any = edges
    if edges.suffix == ".npy":
        try:
            array = np.load(edges, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{edges}: is no .npy file with an array of numbers ({error}).") from error
        if array.ndim != 2 or 2 not in array.shape or array.dtype.kind not in "iu":
            raise DataError(
                f"{edges}: must have shape (2, E) and whole numbers, got {array.dtype} {shown(array.shape)}."
            )
        ends = array if array.shape[0] == 2 else array.T
        value = {"source": ends[0], "target": ends[1]}
    found = read_edges(value, ids, source=source, dest=dest, weight=weight, unknown=unknown)
    small = len(ids) < 2**31
    row, col = (torch.from_numpy(ends.astype(np.int32) if small else ends) for ends in found.index)
    weights = torch.ones(1).expand(len(row)) if found.weight is None else torch.from_numpy(found.weight)
    del found, value  # before memory peaks, as the operator is built
    return GraphOperator(**operator_of(Options("arma"), row, col, weights, len(ids), torch.float32))
