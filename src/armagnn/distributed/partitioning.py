"""A graph cut into parts, one for each rank: from edges that are streamed to folders that load alone.

Edges are gone through twice. First the nonzeros of each row are counted and the nodes put in order; then every nonzero
goes to the file of its part. Each part is then read, sorted and written by itself. In memory are a few numbers for each
node, and one part.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from armagnn.checks import instance, integer, room
from armagnn.data import NodeDataset
from armagnn.distributed.edge_stream import MOST_NODES, EdgeStream, Integers
from armagnn.distributed.node_order import order_nodes, require_order
from armagnn.distributed.part_folder import MANIFEST, MOST_PARTS, WHOLE, Facts, part_path, read_manifest, read_signed
from armagnn.distributed.part_folder import write_part as write_files
from armagnn.distributed.partition_report import PartitionReport
from armagnn.distributed.rows_of_nodes import PartRows
from armagnn.distributed.work_folder import alone, read_json, save_array, sizes
from armagnn.errors import DataError, ParameterError, shown
from armagnn.files import write_atomic
from armagnn.training.checkpoint import signed, to_bytes

WORK: Final = ".work"
JOB, COUNTED, ORDERED, SORTED = "job.json", "counted.json", "ordered.json", "sorted.json"
LONELY: Final = 10**6, 64
"""Where nobody gives the number of nodes: so many there may be, and so many more for each edge."""
Tell = Callable[[str, int, int], None]
Array = NDArray[Any]


def partition(
    edges: EdgeStream,
    out: str | Path,
    parts: int,
    *,
    order: str = "blocks",
    directed: bool = False,
    rows: PartRows | None = None,
    num_nodes: int | None = None,
    tell: Tell = lambda stage, done, total: None,
) -> PartitionReport:
    """Cut a graph into parts and write them; an interrupted call goes on where it was when it is repeated.

    An edge that is listed again counts once; its weights are added up. Undirected, an edge goes both ways, with the
    larger of the two weights where both directions are listed.

    Args:
        edges: of the graph.
        out: the folder to write.
        parts: how many parts, of nearly equally many nonzeros.
        order: ``blocks``, ``rcm`` or ``metis``; see `order_nodes`.
        directed: keep the direction of edges.
        rows: features, targets and split of the nodes.
        num_nodes: N; by default the nodes of `rows`, or one more than the largest id, which must then not be far
            beyond the number of edges.
        tell: is told the stage, what is done of it, and of how much (0: nobody knows).

    Example:
        >>> import tempfile
        >>> ring = EdgeStream.of_arrays(np.stack([np.arange(9), (np.arange(9) + 1) % 9]), None, "ring")
        >>> report = partition(ring, tempfile.mkdtemp(), 3)
        >>> report.nodes, report.nonzeros, report.halo_rows
        ((3, 3, 3), (6, 6, 6), (2, 2, 2))
    """
    integer("parts", parts, 1, MOST_PARTS)
    require_order(order)
    if num_nodes is not None:
        num_nodes = integer("num_nodes", num_nodes, 0, MOST_NODES)
    if rows is not None and num_nodes not in (None, len(rows.y)):
        raise ParameterError(f"num_nodes is {num_nodes}, but there are {len(rows.y)} rows of nodes.")
    known = len(rows.y) if rows is not None else num_nodes
    job = {
        "edges": edges.mark, "parts": parts, "order": order, "directed": directed, "num_nodes": known,
        "rows": None if rows is None else rows.digest,
    }  # fmt: skip
    return _Partition(edges, Path(out), parts, order, directed, rows, known, tell, job).run()


def partition_dataset(
    data: NodeDataset, out: str | Path, parts: int, *, order: str = "blocks", tell: Tell = lambda *told: None
) -> PartitionReport:
    """Cut a dataset that is in memory into parts, with its features, targets and split.

    Example:
        >>> import tempfile
        >>> from armagnn.data import load
        >>> partition_dataset(load("cora"), tempfile.mkdtemp(), 2).nonzeros
        (5258, 5298)
    """
    instance("data", data, NodeDataset, "a NodeDataset")
    index = data.edge_index.numpy()
    weight = None if data.edge_weight is None else data.edge_weight.numpy()
    edges = EdgeStream.of_arrays(index, weight, data.name)
    edges.mark["sha256"] = data.sha256
    rows = PartRows.of_dataset(data)
    directed = not _goes_both_ways(index, weight, data.num_nodes)
    return partition(edges, out, parts, order=order, directed=directed, rows=rows, tell=tell)


def _goes_both_ways(index: Integers, weight: Array | None, nodes: int) -> bool:
    """Is each edge there in both directions, with the same weights?"""
    there, back = index[0] * nodes + index[1], index[1] * nodes + index[0]
    if weight is None:
        return np.array_equal(np.sort(there), np.sort(back))
    fore, rear = np.lexsort([weight, there]), np.lexsort([weight, back])
    return np.array_equal(there[fore], back[rear]) and np.array_equal(weight[fore], weight[rear])


@dataclass
class _Partition:
    """One call of `partition`."""

    edges: EdgeStream
    out: Path
    parts: int
    order: str
    directed: bool
    rows: PartRows | None
    known: int | None
    tell: Tell
    job: dict[str, Any]
    work: Path = field(init=False)

    def run(self) -> PartitionReport:
        self.work = self.out / WORK
        if (self.out / MANIFEST).is_file():
            found = read_signed(self.out / MANIFEST, WHOLE)
            self._compare(found.get("job"))
            return PartitionReport.of(self.out)
        self._look()
        with alone(self.work):
            if not (self.out / MANIFEST).is_file():  # another process may just have ended
                self._cut()
        shutil.rmtree(self.work, ignore_errors=True)
        found = read_signed(self.out / MANIFEST, WHOLE)
        self._compare(found.get("job"))
        return PartitionReport.of(self.out)

    def _cut(self) -> None:
        if not (self.work / JOB).is_file():
            write_atomic(self.work / JOB, to_bytes(self.job))
        self._compare(read_json(self.work / JOB))
        loads, counted = self._count()
        order, facts = self._ordered(loads, counted)
        self._sort(order, facts, counted["edges"])
        reports = [self._finish(number, order, facts) for number in range(self.parts)]
        body = {"facts": facts.to_json(), "job": self.job} | {
            name: [each[name] for each in reports] for name in ("nonzeros", "halo")
        }
        write_atomic(self.out / MANIFEST, signed(WHOLE | body))

    # -------------------------------------------------------------------------------------------------------- resuming

    def _look(self) -> None:
        """Refuse a folder that holds anything but this partition, unfinished."""
        if (self.work / JOB).is_file():
            self._compare(read_json(self.work / JOB))
            return
        try:
            strange = [entry.name for entry in self.out.iterdir() if entry.name != WORK] if self.out.exists() else []
        except OSError as error:
            raise DataError(f"{self.out}: is no folder for a partition ({error.strerror}). Choose another.") from error
        if strange:
            raise DataError(
                f"{self.out}: holds {shown(sorted(strange)[0])}, which no unfinished partition has, and is left alone. "
                "Choose another folder."
            )

    def _compare(self, other: Any) -> None:
        """Refuse the folder of another partition."""
        ours = json.loads(json.dumps(self.job))
        if other == ours:
            return
        theirs = other if isinstance(other, dict) else {}
        name = next((name for name in ours if ours[name] != theirs.get(name)), "job")
        raise DataError(
            f"{self.out}: holds another partition ({name}: {shown(theirs.get(name))}, not {shown(ours.get(name))}). "
            "Choose another folder, or remove this one."
        )

    # ---------------------------------------------------------------------------------------------------------- stages

    def _count(self) -> tuple[Integers, dict[str, Any]]:
        """Count the nonzeros of each row (those of repeated edges, too)."""
        if (self.work / COUNTED).is_file():
            return np.load(self.work / "loads.npy", allow_pickle=False), read_json(self.work / COUNTED)
        with room("the counts of nodes", self.known or 0, most=MOST_NODES):
            loads: Integers = np.zeros(self.known or 0, dtype=np.int64)
        count, digest = 0, hashlib.sha256()
        for source, target, weight in self.edges:
            high = int(max(source.max(initial=-1), target.max(initial=-1)))
            if self.known is not None and high >= self.known:
                raise DataError(
                    f"{self.edges.name}: names node {high}, but ids run from 0 to {self.known - 1}: renumber them, or "
                    "give all nodes a row."
                )
            if high >= loads.size:
                self._require_near(high, count + source.size)
                with room("the counts of nodes", high + 1, most=MOST_NODES):
                    loads = _longer(loads, max(high + 1, 2 * loads.size))
            loads[: high + 1] += np.bincount(target, minlength=high + 1)
            if not self.directed:
                loads[: high + 1] += np.bincount(source[source != target], minlength=high + 1)
            for column in (source, target) if weight is None else (source, target, weight):
                digest.update(column.tobytes())
            count += source.size
            self.tell("count", count, 0)
        if self.known is None:
            loads = loads[: int(np.flatnonzero(loads).max(initial=-1)) + 1]
            if self.directed and count:
                loads = _longer(loads, self._extent[1] + 1)
        save_array(self.work / "loads.npy", loads)
        counted = {"edges": count, "digest": digest.hexdigest()}
        write_atomic(self.work / COUNTED, to_bytes(counted))
        self.tell("count", count, count)
        return loads, counted

    @cached_property
    def _extent(self) -> tuple[int, int]:
        """The number of edges and the largest id: directed, the last nodes may receive nothing."""
        edges, highest = 0, -1
        for source, target, _ in self.edges:
            edges += source.size
            highest = max(highest, int(source.max(initial=-1)), int(target.max(initial=-1)))
        return edges, highest

    def _require_near(self, high: int, edges: int) -> None:
        """Refuse an id that is far beyond what the edges could name, of which so many were seen."""
        free, each = LONELY
        if high < free + each * edges:
            return
        edges, highest = self._extent  # there may be many more to come
        if highest >= free + each * edges:
            raise DataError(
                f"{self.edges.name}: names node {highest}, but has {edges} edges only, and a row is kept for every id "
                "below it: renumber the nodes from 0 on, or give their number (num_nodes, --num-nodes) if it is meant."
            )

    def _ordered(self, loads: Integers, counted: dict[str, Any]) -> tuple[Integers, Facts]:
        """Put the nodes in order."""
        path, place = self.work / ORDERED, self.work / "order.npy"
        if path.is_file():
            return np.load(place, allow_pickle=False), Facts.from_json(read_json(path), path)
        self.tell("order", 0, 1)
        order, starts = order_nodes(self.order, self.edges, loads, self.parts)
        facts = Facts(
            int(loads.size), starts, not self.directed, self.edges.weighted,
            hashlib.sha256(order.tobytes()).hexdigest(), counted["digest"],
            {} if self.rows is None else self.rows.described(),
        )  # fmt: skip
        save_array(place, order)
        write_atomic(path, to_bytes(facts.to_json()))
        self.tell("order", 1, 1)
        return order, facts

    def _sort(self, order: Integers, facts: Facts, count: int) -> None:
        """Put every nonzero into the file of its part, in the new numbers of its nodes."""
        if (self.work / SORTED).is_file():
            if read_json(self.work / SORTED) == sizes(self.work.glob("bucket-*")):
                return
            (self.work / SORTED).unlink()  # something of them was lost
        for old in self.work.glob("bucket-*"):
            old.unlink()
        place = np.empty(order.size, dtype=np.int64)
        place[order] = np.arange(order.size)
        starts, done = np.array(facts.starts), 0
        for source, target, weight in self.edges:
            done += source.size
            source, target = place[source], place[target]
            self._throw(starts, target, source, weight, "fore")
            if not self.directed:
                other = source != target
                back = None if weight is None else weight[other]
                self._throw(starts, source[other], target[other], back, "fore" if weight is None else "back")
            self.tell("sort", done, count)
        write_atomic(self.work / SORTED, to_bytes(sizes(self.work.glob("bucket-*"), sync=True)))

    def _throw(self, starts: Array, row: Array, col: Array, weight: Array | None, name: str) -> None:
        part = np.searchsorted(starts[1:-1], row, side="right")
        by_part = np.argsort(part, kind="stable")
        ends = np.searchsorted(part[by_part], np.arange(self.parts + 1))
        pairs: Array = np.stack([row, col], axis=1).astype(_index_type(int(starts[-1])))[by_part]
        weights = None if weight is None else weight[by_part]
        for number in np.flatnonzero(np.diff(ends)):
            some = slice(ends[number], ends[number + 1])
            for array, kind in ((pairs, name), (weights, f"{name}-weight")):
                if array is not None:
                    with open(self._bucket(int(number), kind), "ab") as file:
                        array[some].tofile(file)

    def _bucket(self, number: int, kind: str) -> Path:
        return self.work / f"bucket-{number:05}.{kind}"

    def _finish(self, number: int, order: Integers, facts: Facts) -> dict[str, Any]:
        """Sort the rows of a part and write it, unless that is done."""
        path = part_path(self.out, number)
        if (path / MANIFEST).is_file():
            found = read_manifest(self.out, number)
            if found["facts"] == facts:
                return found
        first, stop = facts.starts[number : number + 2]
        kind = _index_type(facts.nodes)
        code, weight = self._rows_of(number, facts, kind)
        row, col = code // max(facts.nodes, 1), code % max(facts.nodes, 1)
        del code
        rowptr = np.concatenate([[0], np.cumsum(np.bincount(row - first, minlength=stop - first))]).astype(np.int64)
        del row
        halo = np.unique(col[(col < first) | (col >= stop)])
        node = order[first:stop]
        arrays: dict[str, Array] = {"rowptr": rowptr, "col": col.astype(kind), "node": node}
        if weight is not None:
            arrays["weight"] = weight
        if self.rows is not None:
            arrays |= self.rows.cut(node)
            if self.rows.ids is not None:
                arrays["ids"] = _as_array(self.rows.ids.part(node))
        of_owner = np.diff(np.searchsorted(halo, facts.starts)).tolist()
        write_files(self.out, number, facts, arrays, of_owner)
        self.tell("parts", number + 1, self.parts)
        return read_manifest(self.out, number)

    def _rows_of(self, number: int, facts: Facts, kind: type) -> tuple[Integers, Array | None]:
        """Each place of the rows of a part once, as row * N + column, ascending; and the weights."""

        def read(name: str, what: Any) -> Array:
            path = self._bucket(number, name)
            return np.fromfile(path, dtype=what) if path.is_file() else np.empty(0, dtype=what)

        def codes(name: str) -> Integers:
            pairs = read(name, kind).reshape(-1, 2)
            found: Integers = pairs[:, 0].astype(np.int64)
            found *= facts.nodes
            found += pairs[:, 1]
            return found

        code = codes("fore")
        if not facts.weighted:
            code.sort()
            fresh = np.ones(code.size, dtype=bool)
            np.not_equal(code[1:], code[:-1], out=fresh[1:])
            return code[fresh], None
        listed = code.size
        places, place = np.unique(np.concatenate([code, codes("back")]), return_inverse=True)
        sums = [
            np.bincount(of, weights, places.size)
            for of, weights in (
                (place[:listed], read("fore-weight", np.float64)),
                (place[listed:], read("back-weight", np.float64)),
            )
        ]
        with np.errstate(over="ignore"):
            weight = np.maximum(*sums).astype(np.float32)
        if not np.isfinite(weight).all():
            raise DataError(f"{self.edges.name}: a sum of weights is too large for float32. Scale the weights.")
        return places, weight


def _longer(loads: Integers, size: int) -> Integers:
    return np.concatenate([loads, np.zeros(max(size - loads.size, 0), dtype=np.int64)])


def _index_type(nodes: int) -> type:
    return np.int32 if nodes < 2**31 else np.int64


def _as_array(ids: Any) -> Array:
    return ids.values if ids.integers else np.array(list(ids), dtype=np.str_)
