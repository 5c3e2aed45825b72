"""The graphs and layers that are measured, ours and PyG's with the same sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import ARMAConv as PyGConv

from armagnn import CSR, GraphOperator
from armagnn.bench.timing import check_sizes
from armagnn.checks import choice, integer
from armagnn.data import load
from armagnn.nn import ARMAConv


def random_graph(nodes: int, nonzeros: int, seed: int = 0) -> Tensor:
    """Return the edges of an undirected random graph, both directions, shape (2, nonzeros)."""
    check_sizes(nodes=nodes, nonzeros=nonzeros)
    generator = torch.Generator().manual_seed(integer("seed", seed, 0))
    half = torch.randint(0, nodes, (2, nonzeros // 2), generator=generator)
    return torch.cat([half, half.flip(0)], dim=1)


@dataclass(frozen=True)
class Case:
    """One layer on one graph, for us (a pre-built operator) and for PyG (an edge index)."""

    x: Tensor | CSR
    dense_x: Tensor
    edge_index: Tensor
    op: GraphOperator
    ours: ARMAConv
    pyg: Any

    def forward(self, which: str) -> Callable[[], Tensor]:
        """Return a forward pass without gradients: ``"ours"``, ``"pyg"``, or ``"edges"`` (ours, graph built anew)."""
        run = self._run(which)

        def inference() -> Tensor:
            with torch.no_grad():
                return run()

        return inference

    def training_step(self, which: str) -> Callable[[], None]:
        """Return a forward and backward pass and the zeroing of gradients."""
        run, module = self._run(which), self.pyg if which == "pyg" else self.ours

        def step() -> None:
            module.zero_grad()
            run().sum().backward()  # type: ignore[no-untyped-call]

        return step

    def _run(self, which: str) -> Callable[[], Tensor]:
        choice("layer", which, ("ours", "pyg", "edges"))
        if which == "pyg":
            return lambda: self.pyg(self.dense_x, self.edge_index)
        if which == "edges":
            return lambda: self.ours(self.x, self.edge_index)
        return lambda: self.ours(self.x, self.op)


def large_case(
    nodes: int = 20_000, nonzeros: int = 560_000, fin: int = 50, fout: int = 64, k: int = 3, t: int = 2
) -> Case:
    """Return a layer of PPI's shape on a random graph."""
    index = random_graph(nodes, nonzeros)
    x = torch.randn(nodes, fin, generator=torch.Generator().manual_seed(1))
    op = GraphOperator.from_edge_index(index, nodes)
    return Case(x, x, index, op, ARMAConv(fin, fout, k, t), PyGConv(fin, fout, k, t, shared_weights=True))


def cora_case() -> Case:
    """Return the first layer of the paper's network on Cora: ours on the sparse features, PyG's on dense ones."""
    data = load("cora")
    fin, fout, k, t = data.x.shape[1], 16, 2, 1
    op = GraphOperator.from_edge_index(data.edge_index, data.x.shape[0])
    return Case(
        data.x, data.x.to_dense(), data.edge_index, op, ARMAConv(fin, fout, k, t), PyGConv(fin, fout, k, t, True)
    )
