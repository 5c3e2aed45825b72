"""Batches of small graphs: block-diagonal operators, cut out of one operator that holds them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from armagnn import checks
from armagnn.arguments import checked
from armagnn.checks import integer
from armagnn.errors import DeviceError, DTypeError, GraphError, ParameterError, ShapeError, shown
from armagnn.kernels.blocks import Blocks, Slicer, Taken
from armagnn.operators.graph import GraphOperator
from armagnn.operators.spectra import BlockSpectrum, GraphSpectra
from armagnn.randomness import MASK, philox
from armagnn.torch_private import learned, normal_mode

MOST: Final = 2**36
"""Stored entries of a batch; more are a slip."""

SHUFFLE: Final = 200
"""Purpose of the numbers that shuffle the graphs of an epoch; see `armagnn.randomness`."""


@checked
@dataclass(frozen=True, eq=False, slots=True)
class GraphBatch:
    """B graphs side by side, n nodes together, as one operator.

    Attributes:
        op: the block-diagonal operator, (n, n).
        ptr: (B + 1,) int64; graph b of the batch has the nodes ``ptr[b] .. ptr[b + 1] - 1`` of the batch.
        nodes: (n,) int64, the id that each node has among all: ``x[nodes]`` are the features of the batch.
        graph: (n,) int64, the graph 0 .. B-1 of each node.
        ids: (B,) int64, the id that each graph has among all: ``y[ids]`` are its labels.
        longest: nodes that a graph of the batch, or what it is padded by, may have at most.

    Example:
        >>> import torch
        >>> two = GraphOperator.from_edge_index(torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]]))
        >>> batch = GraphBatches(two, torch.tensor([0, 3, 5])).take([1, 1])
        >>> batch.nodes, batch.graph
        (tensor([3, 4, 3, 4]), tensor([0, 0, 1, 1]))
    """

    op: GraphOperator
    ptr: Tensor
    nodes: Tensor
    graph: Tensor
    ids: Tensor
    longest: int

    def __post_init__(self) -> None:
        for name in ("ptr", "nodes", "graph", "ids"):
            checks.tensor(name, getattr(self, name), 1)

    @property
    def num_graphs(self) -> int:
        """B."""
        return self.ids.shape[0]

    @property
    def num_nodes(self) -> int:
        """The number of nodes n of all graphs of the batch."""
        return self.nodes.shape[0]

    def __repr__(self) -> str:
        return f"GraphBatch(graphs={self.num_graphs}, {self.op!r})"


class GraphBatches:
    r"""All graphs of a dataset as one block-diagonal operator :math:`\mathrm{diag}(L_1, \dots, L_G)`, and any batch
    :math:`\mathrm{diag}(L_{i_1}, \dots, L_{i_B})` of them.

    The operator is built, checked and normalised once. A batch is cut out of it: no loop over graphs, nothing sorted,
    checked or normalised again, and to the last bit what ``GraphOperator.block_diagonal`` makes of the single
    operators. A batch is built where the operator lives; on a GPU nothing waits for the device as long as the ids are
    on the host. A symmetric operator has symmetric batches. Graphs without edges are allowed, and without nodes too.

    Args:
        op: the operator of all graphs, node ids one after the other; no entry may join two graphs.
        ptr: where the nodes of each graph start, integers of shape (G + 1), on any device.

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])  # a path of three nodes and one of two
        >>> graphs = GraphBatches(GraphOperator.from_edge_index(edge_index), torch.tensor([0, 3, 5]))
        >>> graphs
        GraphBatches(2 graphs, GraphOperator('arma', 5 nodes, nnz=6, float32, symmetric))
        >>> batch = graphs.take([1, 0, 1])
        >>> batch
        GraphBatch(graphs=3, GraphOperator('arma', 7 nodes, nnz=8, float32, symmetric))
        >>> x = torch.arange(5.).unsqueeze(1)
        >>> (batch.op @ x[batch.nodes]).squeeze()
        tensor([4.0000, 3.0000, 0.7071, 1.4142, 0.7071, 4.0000, 3.0000])
    """

    op: GraphOperator
    ptr: Tensor

    def __init__(self, op: GraphOperator, ptr: Tensor) -> None:
        if not isinstance(op, GraphOperator):
            raise DTypeError(f"op must be a GraphOperator of all graphs together, got {type(op).__name__}.")
        self.op, self.ptr = op, _checked_pointer(ptr, op)
        with normal_mode():
            starts = torch.stack([self.ptr, op.rowptr.index_select(0, self.ptr).long()])
            _check_blocks(op, self.ptr)
            plain = op.symmetric and not learned(op.value)
            blocks = Blocks(starts, op.rowptr, op.col, op.value, None if plain else op._structure())
            self._slicer = Slicer(blocks)
        self.longest = int(self.ptr.diff().max())
        self.spectra: GraphSpectra | None = None

    @property
    def num_graphs(self) -> int:
        """G."""
        return self.ptr.shape[0] - 1

    @property
    def device(self) -> torch.device:
        """Where the batches are built."""
        return self.op.device

    def to(self, *args: Any, **kwargs: Any) -> GraphBatches:
        """Move to a device and/or convert the values, as ``Tensor.to``."""
        op = self.op.to(*args, **kwargs)
        if op.device.type == "meta":
            raise DeviceError("batches cannot move to the meta device: they are cut by their values, which it has not.")
        return self if op is self.op else GraphBatches(op, self.ptr)

    def find_spectra(self) -> GraphSpectra:
        """Find the frequencies and vectors of every graph, once; ``op.blocks`` of batches has them from then on.

        The operator must be symmetric. Polynomial filters of a high degree are fast in them (`vectors_pay`). What
        `to` makes has to find its own.

        Example:
            >>> import torch
            >>> edges = torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]])
            >>> graphs = GraphBatches(GraphOperator.from_edge_index(edges, kind="laplacian"), torch.tensor([0, 3, 5]))
            >>> graphs.find_spectra()  # doctest: +ELLIPSIS
            <armagnn.operators.spectra.GraphSpectra object at ...>
            >>> graphs.take([1, 0]).op.blocks.frequencies.abs()
            tensor([0., 2., 0., 1., 2.], dtype=torch.float64)
        """
        if self.spectra is None:
            self.spectra = GraphSpectra(self.op, self.ptr)
        return self.spectra

    def take(self, ids: Tensor | Sequence[int]) -> GraphBatch:
        """Return the batch of the graphs ``ids`` (shape (B), at least one), in their order; an id may come twice.

        Ids on a GPU cost a wait for the device, which must tell how large the batch is; ids on the host do not.
        """
        ids = _checked_ids(ids)
        return self._take(ids.to(self.device, non_blocking=True), *self._measure(ids))

    @checked
    def take_padded(self, ids: Tensor, rows: int, nonzeros: int) -> GraphBatch:
        """Return a batch of ``rows`` nodes and ``nonzeros`` stored entries, whatever graphs ``ids`` name.

        Nothing waits for the device and no size depends on the ids, so a CUDA graph can record it, and what is computed
        with it, once for all batches. Graph G, one more than there are, has no nodes: it fills the places of a plan's
        last batch. The last graph of the batch is the padding: one node or more that only stored zeros lead to, with
        the features of node 0; its id is G too. `measure` says how much room the graphs need.

        Example:
            >>> import torch
            >>> two = GraphOperator.from_edge_index(torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]]))
            >>> batch = GraphBatches(two, torch.tensor([0, 3, 5])).take_padded(torch.tensor([1, 2]), rows=4, nonzeros=6)
            >>> batch.ids, batch.ptr
            (tensor([1, 2, 2]), tensor([0, 2, 2, 4]))
        """
        if ids.dim() != 1 or ids.dtype not in (torch.int64, torch.int32):
            raise DTypeError(f"ids must be integers, shape (B,), got {ids.dtype} of {tuple(ids.shape)}.")
        rows, nonzeros = integer("rows", rows, 0), integer("nonzeros", nonzeros, 0, MOST)
        if not ids.is_cuda:  # on a GPU, looking at them would wait for it
            for end in (ids.min(), ids.max()) if len(ids) else ():
                integer("ids", end, 0, self.num_graphs)
            nodes, entries = self._measure(ids[ids < self.num_graphs])
            if rows < nodes or nonzeros < entries or (rows == nodes and nonzeros > entries):
                raise ParameterError(
                    f"rows={rows} and nonzeros={nonzeros} are too few: the graphs have {nodes} nodes and {entries} "
                    "entries, and further entries need a further node; see measure(ids)."
                )
        ids, index = ids.to(self.device), torch.int32 if max(rows, nonzeros) < 2**31 else torch.int64
        with normal_mode():
            taken = self._slicer.take_padded(ids, rows, nonzeros, index)
            spectrum = None if self.spectra is None else self.spectra.take(ids, taken.rows, taken.blocks.starts[0])
            ids = torch.nn.functional.pad(ids, (0, 1), value=self.num_graphs)
        return self._batch(taken, rows, ids, spectrum, longest=rows)

    def measure(self, ids: Tensor | Sequence[int]) -> tuple[int, int]:
        """Return how many nodes and nonzeros the graphs ``ids`` have together."""
        return self._measure(_checked_ids(ids))

    @checked
    def epoch(self, plan: Sequence[Tensor]) -> Iterator[GraphBatch]:
        """Return the batches of a plan (see `batches_of`) one by one.

        The ids are checked, measured and brought to the device once, before the first batch; each batch is built when
        it is asked for. On a GPU that only queues work, so batches are ready ahead of the layers that use them.

        Example:
            >>> import torch
            >>> two = GraphOperator.from_edge_index(torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]]))
            >>> graphs = GraphBatches(two, torch.tensor([0, 3, 5]))
            >>> [batch.num_nodes for batch in graphs.epoch(batches_of(torch.arange(2), size=1, seed=0, epoch=0))]
            [2, 3]
        """
        parts = [_checked_ids(part).cpu() for part in plan]
        if not parts:
            return
        ids = torch.cat(parts)
        self._measure(ids)  # the first wrong id is found before the first batch
        for part, moved in zip(parts, torch.split(ids.to(self.device), [len(part) for part in parts]), strict=True):
            yield self._take(moved, *self._measure(part))

    def _measure(self, ids: Tensor) -> tuple[int, int]:
        """Return the nodes and nonzeros of the batch."""
        try:
            return self._slicer.measure(ids.numpy(force=True))
        except IndexError as error:
            raise GraphError(f"ids names graph {error}, but the graphs run from 0 to {self.num_graphs - 1}.") from None

    def _take(self, ids: Tensor, rows: int, nonzeros: int) -> GraphBatch:
        index = torch.int32 if max(rows, nonzeros) < 2**31 else torch.int64
        with normal_mode():
            taken = self._slicer.take(ids, rows, nonzeros, index)
            spectrum = None if self.spectra is None else self.spectra.take(ids, taken.rows, taken.blocks.starts[0])
            return self._batch(taken, rows, ids, spectrum, self.longest)

    def _batch(self, taken: Taken, rows: int, ids: Tensor, spectrum: BlockSpectrum | None, longest: int) -> GraphBatch:
        (starts, rowptr, col, value, transposed), nodes, graph = taken
        op = GraphOperator(
            rowptr,
            col,
            value,
            (rows, rows),
            kind=self.op.kind,
            transposed=transposed,
            symmetric=self.op.symmetric,
            unit_diagonal=self.op.unit_diagonal,
            shift=self.op.shift,
            check_invariants=False,
        )
        op.blocks = spectrum
        return GraphBatch(op, starts[0], nodes, graph, ids, longest)

    def __len__(self) -> int:
        return self.num_graphs

    def __repr__(self) -> str:
        return f"GraphBatches({self.num_graphs} graphs, {self.op!r})"


@checked
def batches_of(ids: Tensor, size: int, seed: int, epoch: int) -> tuple[Tensor, ...]:
    """Return ``ids`` (shape (G)) shuffled and cut into batches of ``size``; the last one may be smaller.

    The order is a function of the seed, the epoch and G alone (the counter-based generator of `armagnn.randomness`,
    a stable sort of 62 bits), so it is the same on every device, after a resume, and for all trials that share it.

    Example:
        >>> import torch
        >>> batches_of(torch.arange(10, 15), size=2, seed=0, epoch=3)
        (tensor([10, 14]), tensor([11, 12]), tensor([13]))
    """
    ids = _checked_ids(ids)
    size, seed = integer("size", size, 1, 2**62 - 1), integer("seed", seed, -(2**63), 2**63 - 1)
    epoch = integer("epoch", epoch, 0, MASK - 1)
    # two numbers of `bits` for each graph, but each block of four is computed once. By numpy, which wakes no threads:
    # on a busy machine torch waits for its own at every operation, in all for longer than an epoch may take.
    block = np.arange((len(ids) + 1) // 2)
    zero = np.zeros_like(block)
    key = (zero + (seed & MASK), zero + (seed >> 32 & MASK))
    words = np.stack(philox((block, zero, zero + epoch, zero + SHUFFLE), key), axis=-1).reshape(-1, 2) >> 1
    order = (words[: len(ids), 0] << 31 | words[: len(ids), 1]).argsort(kind="stable")
    return torch.split(ids.index_select(0, torch.from_numpy(order).to(ids.device)), size)


# ------------------------------------------------------------------------------------------------------------- checks


def _checked_ids(ids: Tensor | Sequence[int]) -> Tensor:
    """Return the ids as int64, side by side in memory; their range is checked where the sizes are looked up."""
    if not isinstance(ids, Tensor):
        try:
            ids = torch.as_tensor(ids)
        except (TypeError, ValueError, RuntimeError) as error:
            raise DTypeError(f"ids must be a torch.Tensor or a list of integers, got {shown(ids)}.") from error
        ids = ids.long() if ids.numel() == 0 else ids
    if ids.dtype not in checks.INTEGERS:
        hint = "mask.nonzero().squeeze(1)" if ids.dtype == torch.bool else "ids.long()"
        raise DTypeError(f"ids must hold integers, the graphs of the batch, got {ids.dtype}: use {hint}.")
    if ids.dim() != 1:
        raise ShapeError(f"ids must have shape (B,), one id per graph, got {tuple(ids.shape)}.")
    if ids.shape[0] == 0:
        raise GraphError("ids is empty: a batch needs at least one graph.")
    return ids.long().contiguous()


def _checked_pointer(ptr: Tensor, op: GraphOperator) -> Tensor:
    checks.dense("ptr", ptr, "(G + 1,)")
    if ptr.dtype not in checks.INTEGERS:
        raise DTypeError(f"ptr must hold integers, got {ptr.dtype}: use ptr.long().")
    if ptr.shape[0] < 2:
        raise ShapeError(f"ptr must have shape (G + 1,) for at least one graph, got {tuple(ptr.shape)}.")
    ptr = ptr.long().contiguous()
    first, last, step = torch.stack([ptr[0], ptr[-1], ptr.diff().min()]).tolist()
    if first != 0 or last != op.num_nodes or step < 0:
        raise GraphError(
            f"ptr must rise from 0 to the {op.num_nodes} nodes of op; it starts at {first}, ends at {last}"
            + (" and falls in between." if step < 0 else ".")
        )
    return ptr.to(op.device)


def _check_blocks(op: GraphOperator, ptr: Tensor) -> None:
    """Raise if an entry joins two graphs: a slice would name nodes that are not in it."""
    graph = torch.repeat_interleave(torch.arange(len(ptr) - 1, device=ptr.device), ptr.diff(), output_size=op.num_nodes)
    row = graph.index_select(0, op._rows())
    crossing = row != graph.index_select(0, op.col)
    if bool(crossing.any()):
        j = int(crossing.nonzero()[0])
        pair = int(row[j]), int(graph[op.col[j]])
        raise GraphError(
            f"an edge of op joins graphs {min(pair)} and {max(pair)}: op must be block-diagonal along ptr."
        )
