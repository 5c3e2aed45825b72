"""`edge_file`: an operator from a file of edges, read block by block, for many edges between nodes that are numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn import checks
from armagnn.errors import DataError
from armagnn.operators import GraphOperator, entries
from armagnn.operators.building import Kind, Options, operator_of
from armagnn.table_files import TableFile, arrow, table_path

Array = NDArray[Any]


def both_ways(edge_index: NDArray[np.int64], num_nodes: int) -> NDArray[np.int64]:
    """Return every edge in both directions, once each, self-loops once, sorted by source and target.

    It is for files that armagnn writes; the edges of a user's file keep their order, see `node_files.undirected`.

    Example:
        >>> both_ways(np.array([[0, 1, 2], [1, 0, 2]]), 3).tolist()
        [[0, 1, 2], [1, 0, 2]]
    """
    source, target = np.hstack([edge_index, edge_index[::-1]])
    code = np.unique(source * num_nodes + target)
    return np.stack([code // num_nodes, code % num_nodes])


def edge_file(
    path: str | Path,
    kind: Kind = "arma",
    *,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    num_nodes: int | None = None,
    undirected: bool = False,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> GraphOperator:
    """Build an operator from a file of edges, CSV (also gzipped) or Parquet.

    Blocks of the file are read one after the other, and of each the ids stay, eight bytes an edge. With the operator
    that is built of them, the peak is about 36 bytes for an edge, whatever else the file holds: 50 million edges took
    1.8 GB, and take twice that if ``undirected`` doubles them. Names of nodes that are no numbers, and features, are
    read by `NodeDataset.from_tables`.

    Args:
        path: the file; its first row has the names of the columns.
        kind: of the operator.
        source: the column with the node at which an edge begins, a number from 0 on.
        target: the column with the node at which it ends, and which receives.
        weight: the column of the weights, if there is one.
        num_nodes: the number of nodes; by default one more than the largest id.
        undirected: each edge stands in the file once and goes both ways.
        dtype: of the values, torch's default type if None.
        options: ``gamma``, ``lambda_min``, ``lambda_max``, ``symmetrize``, ``allow_isolated``, as of `GraphOperator`.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "edges.csv")
        >>> _ = path.write_text("source,target\\n0,1\\n1,2\\n")
        >>> edge_file(path, undirected=True)
        GraphOperator('arma', 3 nodes, nnz=4, float32, symmetric)
    """
    wanted, insist = checks.dtype_option(dtype), bool(options.pop("allow_isolated", False))
    chosen = Options(kind, **options)
    file = TableFile.open(table_path("path", path))
    number = np.float64 if wanted == torch.float64 else np.float32
    parts: list[list[Array]] = [[], [], []]
    for ends in edge_blocks(file, source, target, weight):
        for kept, column, type_ in zip(parts, ends, (_ids(ends[0]), _ids(ends[1]), number), strict=False):
            kept.append(column.astype(type_))
    row, col, value = _joined(parts[1], np.int32), _joined(parts[0], np.int32), None
    if weight is not None:
        value = _joined(parts[2], number)
        checks.finite(f"column {weight!r}", value, DataError, "clean them before building")
    if undirected:
        once = row != col  # a self-loop goes one way
        others = col[once], row[once]
        row, col = torch.cat([row, others[0]]), torch.cat([col, others[1]])
        value = None if value is None else torch.cat([value, value[once]])
        del once, others
    nodes = _count(row, col, num_nodes)
    entries.justified(nodes, row.shape[0], insist)
    if value is None:
        value = torch.ones(1, dtype=wanted).expand(row.shape[0])
    return GraphOperator(**operator_of(chosen, row, col, value, nodes, wanted))


def edge_blocks(file: TableFile, source: str, target: str, weight: str | None) -> Iterator[tuple[Array, ...]]:
    """Yield source, target and weight of the edges, block by block."""
    pa = arrow()
    types = {source: pa.int64(), target: pa.int64()} | ({} if weight is None else {weight: pa.float64()})
    for name in types:
        file.require(name)
    before = 0
    for batch in file.batches(types, types):
        columns = []
        for name, type_ in types.items():
            column = batch.column(name)
            if column.null_count:
                row = before + column.is_null().to_numpy(zero_copy_only=False).argmax() + 1
                raise DataError(f"{file.path}, edge {row}: column {name!r} is empty. Write a number, or leave it out.")
            try:
                columns.append(column.cast(type_).to_numpy(zero_copy_only=False))
            except pa.ArrowException as error:
                what = "ids, whole numbers" if type_ == pa.int64() else "numbers"
                raise DataError(f"{file.path}: column {name!r} must hold {what}: {error}.") from error
        before += batch.num_rows
        yield tuple(columns)


def _ids(column: Array) -> type:
    """Return the narrowest type that the kernels read and that holds these ids."""
    fits = not column.size or (column.min() >= 0 and column.max() < 2**31)
    return np.int32 if fits else np.int64


def _joined(parts: list[Array], type_: type) -> Tensor:
    """Return the blocks as one tensor, and let them go."""
    joined = np.concatenate(parts) if parts else np.empty(0, dtype=type_)
    parts.clear()
    return torch.from_numpy(joined)


def _count(row: Tensor, col: Tensor, num_nodes: int | None) -> int:
    """Return the number of nodes that all ids fit."""
    if not row.numel():
        return checks.integer("num_nodes", num_nodes or 0, 0, 2**40 - 1)
    low, high = min(int(row.min()), int(col.min())), max(int(row.max()), int(col.max()))
    count = checks.integer("num_nodes", high + 1 if num_nodes is None else num_nodes, 0, 2**40 - 1)
    if low < 0 or high >= count:
        raise DataError(
            f"the file names node {low if low < 0 else high}, but ids run from 0 to {count - 1}: renumber them, or "
            "pass a larger num_nodes."
        )
    return count
