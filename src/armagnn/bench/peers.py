"""GAT, GraphSAGE and GIN, as our kernels collect from the neighbours, beside PyG's own layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

from armagnn import GraphOperator
from armagnn.bench.problems import random_graph
from armagnn.bench.report import Comparison
from armagnn.bench.timing import check_sizes, medians
from armagnn.errors import ParameterError
from armagnn.nn.gat_conv import HEADS, GATConv
from armagnn.nn.gin_conv import GINConv
from armagnn.nn.sage_conv import SAGEConv


def compare_peers(
    rounds: int = 3, nodes: int = 20_000, nonzeros: int = 560_000, width: int = 64
) -> Iterator[Comparison]:
    """Measure a training step of each layer beside PyG's, with a gradient of the input as in a second layer."""
    check_sizes(rounds=rounds, nodes=nodes, nonzeros=nonzeros, width=width)
    if width % HEADS:
        raise ParameterError(f"width is {width}; GAT needs a multiple of {HEADS}, the number of its heads.")
    op = GraphOperator.from_edge_index(random_graph(nodes, nonzeros), nodes, kind="adjacency")
    edges = torch.stack([op.col.long(), op._rows()])
    x = torch.randn(nodes, width, generator=torch.Generator().manual_seed(1)).requires_grad_()
    for name, ours, theirs in layers(width):
        times = medians({"ours": _step(ours, x, op), "pyg": _step(theirs, x, edges)}, rounds)
        work = f"{name} {width} -> {width}, {nodes:,} nodes, {op.nnz:,} nonzeros, training step"
        yield Comparison(work, "ms", times["ours"], times["pyg"], times["pyg"] / times["ours"])


def layers(width: int) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    """The name of each layer, ours, and PyG's with the same weights."""
    ours: nn.Module
    theirs: Any
    ours, theirs = GATConv(width, width, 8, True, act=None, bias=False), pyg.GATConv(width, width // 8, 8, bias=False)
    yield "GAT (8 heads)", ours, _with(theirs, ours)
    ours, theirs = SAGEConv(width, width, act=None, bias=False), pyg.SAGEConv(width, width, aggr="max", bias=False)
    yield "GraphSAGE (max)", ours, _with(theirs, ours)
    ours = GINConv(width, width, act=None, bias=False)
    yield "GIN", ours, _with(pyg.GINConv(nn.Sequential(*ours.conv.nn), train_eps=True), ours)


def _with(theirs: nn.Module, ours: Any) -> nn.Module:
    theirs.load_state_dict(ours.conv.state_dict())
    return theirs


def _step(layer: nn.Module, x: Tensor, graph: Any) -> Callable[[], None]:
    def step() -> None:
        layer.zero_grad()
        x.grad = None
        layer(x, graph).sum().backward()

    return step
