r"""The spectrum of every graph of a set, :math:`L_g = U_g \mathrm{diag}(\lambda_g) U_g^\top`, found once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from armagnn.errors import ParameterError, SymmetryError
from armagnn.kernels.blocks import DenseBlocks
from armagnn.operators.graph import GraphOperator
from armagnn.torch_private import learned, normal_mode

AT_ONCE: Final = 1 << 22
"""Numbers of the matrices that are decomposed at a time, about."""

SMALL: Final = 64
"""Nodes of graphs that are decomposed on the processor: a GPU's solver refuses tens of thousands at once."""

RATIO: Final = 4
"""Numbers of the vectors for one nonzero and degree: each is multiplied twice, but in fast, dense products."""

MOST: Final = 1 << 28
"""Numbers of all vectors: 1 GiB in float32."""

FEWEST: Final = 12
"""Nodes of a graph, on average, on a processor: very small blocks cost more than they save there."""

LONGEST: Final = {True: 1024, False: 8192}
"""Nodes of a graph, on a processor or not: decomposing one takes a second there."""


@dataclass(frozen=True, eq=False, slots=True)
class BlockSpectrum:
    """The spectrum of a batch of graphs.

    Attributes:
        frequencies: (n,) float64; in the places of the nodes of a graph stand its frequencies, ascending.
        vectors: the U of each graph.
    """

    frequencies: Tensor
    vectors: DenseBlocks


class GraphSpectra:
    """The spectra of all graphs along the diagonal of a symmetric operator, of which batches take what they need.

    Args:
        op: the operator of all graphs.
        ptr: (G + 1,) int64, where the nodes of each graph start, on the device of the operator.

    Example:
        >>> pair = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 3, kind="laplacian")
        >>> GraphSpectra(pair, torch.tensor([0, 2, 3])).frequencies.abs()
        tensor([0., 2., 1.], dtype=torch.float64)
    """

    def __init__(self, op: GraphOperator, ptr: Tensor) -> None:
        if not op.symmetric:
            raise SymmetryError("The spectra of graphs need a symmetric operator.")
        if learned(op.value):
            raise ParameterError("The values of the operator are trained, and spectra would go stale: detach them.")
        with normal_mode(), torch.no_grad():
            size = ptr.diff()
            starts = torch.nn.functional.pad((size * size).cumsum(0), (1, 0))
            graph = torch.repeat_interleave(torch.arange(len(size), device=ptr.device), size, output_size=op.num_nodes)
            rows = op._rows()
            owner = graph.index_select(0, rows)
            place = starts[owner] + (rows - ptr[owner]) * size[owner] + op.col - ptr[owner]
            self.store = torch.zeros(int(starts[-1]), dtype=op.dtype, device=op.device).index_add_(0, place, op.value)
            self.frequencies = torch.empty(op.num_nodes, dtype=torch.float64, device=op.device)
            self.starts, self.longest = starts, int(size.max())
            for number in sorted(set(size.tolist())):
                if number:
                    self._decompose((size == number).nonzero().squeeze(1), number, ptr)

    def _decompose(self, graphs: Tensor, size: int, ptr: Tensor) -> None:
        """Replace the matrices of graphs of one size by their vectors."""
        inside, nodes = (torch.arange(count, device=ptr.device) for count in (size * size, size))
        where = "cpu" if size <= SMALL else ptr.device
        for some in torch.split(graphs, max(1, AT_ONCE // size**2)):
            places = self.starts[some].unsqueeze(1) + inside
            matrices = self.store[places].to(where, torch.float64).view(-1, size, size)
            frequencies, vectors = torch.linalg.eigh(matrices)
            self.store[places] = vectors.to(self.store).flatten(1)
            self.frequencies[ptr[some].unsqueeze(1) + nodes] = frequencies.to(ptr.device)

    def take(self, ids: Tensor, nodes: Tensor, ptr: Tensor) -> BlockSpectrum:
        """Return the spectrum of a batch of graphs ``ids``; what lies behind them is padding, without vectors.

        Args:
            ids: (B,) int64; one more than there are is a graph without nodes.
            nodes: (n,) int64, the id that each node of the batch has among all.
            ptr: (B + 1,) int64, or (B + 2,) with padding: where the nodes of each graph start in the batch.
        """
        first = self.starts.index_select(0, ids)
        padding = len(ptr) - 1 - len(ids)
        first = torch.nn.functional.pad(first, (0, padding), value=-1) if padding else first
        blocks = DenseBlocks(self.store, first, ptr, self.longest)
        return BlockSpectrum(self.frequencies.index_select(0, nodes), blocks)


def vectors_pay(op: GraphOperator, ptr: Tensor, degree: int) -> bool:
    """Return whether polynomials of that degree are computed faster in the frequencies of each graph.

    Two products with the vectors of the graphs take the place of a product with the operator for every degree. It is a
    rule of thumb: numbers of the vectors against nonzeros (and nodes) times the degree.

    Example:
        >>> path = torch.arange(20)
        >>> path = GraphOperator.from_edge_index(torch.stack([path[1:], path[:-1]]), kind="laplacian", symmetrize="max")
        >>> ptr = torch.tensor([0, 20])
        >>> vectors_pay(path, ptr, degree=12), vectors_pay(path, ptr, degree=1)
        (True, False)
    """
    size = ptr.diff()
    dense, sparse, longest = int((size * size).sum()), degree * (op.nnz + op.num_nodes), int(size.max())
    if op.device.type == "cpu" and op.num_nodes < FEWEST * len(size):
        return False
    return op.symmetric and longest <= LONGEST[op.device.type == "cpu"] and dense <= min(RATIO * sparse, MOST)
