"""Layers with a fixed point, and graphs for them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from armagnn import GraphOperator
from armagnn.nn import ARMAConv
from armagnn.solvers import FixedPoint
from oracles import Graph, numbers, random_graph

TIGHT = FixedPoint(tol=1e-12, contraction=0.8)
ACTS: dict[Any, Any] = {
    None: lambda z: z, "relu": torch.relu, "leaky_relu": F.leaky_relu, "elu": F.elu, "celu": F.celu,
    "tanh": torch.tanh, "sigmoid": torch.sigmoid, "softplus": F.softplus, "softsign": F.softsign,
}  # fmt: skip


def make(fin: int = 3, fout: int = 4, stacks: int = 2, fixed_point: FixedPoint = TIGHT, **options: Any) -> ARMAConv:
    conv = ARMAConv(fin, fout, stacks, fixed_point=fixed_point, **options).double()
    if conv.bias is not None:
        nn.init.normal_(conv.bias)
    return conv


def problem(graph: Graph | None = None, fin: int = 3) -> tuple[Tensor, GraphOperator]:
    graph = random_graph(9, 14, seed=3).both_ways() if graph is None else graph
    op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight())
    return numbers(graph.num_nodes, fin, seed=4), op
