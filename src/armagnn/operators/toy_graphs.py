"""Graphs to play with: an operator, and a place in the plane for each node."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from armagnn import checks
from armagnn.operators.graph import GraphOperator
from armagnn.operators.neighbours import knn_graph

MOST = 10_000_000
"""Nodes of a graph to play with."""

Placed = tuple[GraphOperator, Tensor]


def ring(num_nodes: int = 64, **options: Any) -> Placed:
    r"""Return N nodes on a circle, each joined with the next; and their places, (N, 2).

    Its frequencies are those of a discrete Fourier transform, :math:`\mu_n = \cos(2 \pi n / N)`.

    Args:
        num_nodes: N, at least 3.
        options: of the operator, as `GraphOperator.from_edge_index` takes them.

    Example:
        >>> ring(6)[0]
        GraphOperator('arma', 6 nodes, nnz=12, float32, symmetric)
    """
    n = checks.integer("num_nodes", num_nodes, 3, MOST)
    node = torch.arange(n)
    angle = 2 * math.pi * node.double() / n
    places = torch.stack([angle.cos(), angle.sin()], 1)
    return _both_ways(node, (node + 1) % n, n, options), places


def grid(rows: int = 16, columns: int | None = None, **options: Any) -> Placed:
    """Return the pixels of an image, row by row, each joined with its four neighbours; and their places.

    Args:
        rows: the height; the first row is at the top.
        columns: the width; as many as rows if not given.
        options: of the operator, as `GraphOperator.from_edge_index` takes them.

    Example:
        >>> op, places = grid(2, 3)
        >>> op.nnz, places[:3].tolist()
        (14, [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    """
    rows = checks.integer("rows", rows, 1, MOST)
    columns = rows if columns is None else checks.integer("columns", columns, 1, MOST // rows)
    node = torch.arange(rows * columns).view(rows, columns)
    source = torch.cat([node[:, :-1].flatten(), node[:-1].flatten()])
    target = torch.cat([node[:, 1:].flatten(), node[1:].flatten()])
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    places = torch.stack([x.flatten(), rows - 1 - y.flatten()], 1).double()
    return _both_ways(source, target, rows * columns, options), places


def sensor(num_nodes: int = 128, neighbours: int = 6, seed: int = 0, **options: Any) -> Placed:
    """Return sensors at random places of the unit square, each joined with its nearest; and these places.

    Weights fall with the distance, as `knn_graph` with ``weights="gaussian"`` makes them.

    Args:
        num_nodes: N.
        neighbours: k, how many others a sensor asks for, less than N.
        seed: of the places.
        options: of the operator, as `GraphOperator.from_edge_index` takes them.

    Example:
        >>> op, places = sensor(50, seed=1)
        >>> op.symmetric, places.shape
        (True, torch.Size([50, 2]))
    """
    n = checks.integer("num_nodes", num_nodes, 2, MOST)
    seed = checks.integer("seed", seed, -(2**63), 2**64 - 1)
    places = torch.rand(n, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    edge_index, weight = knn_graph(places, neighbours, "gaussian")
    return GraphOperator.from_edge_index(edge_index, n, weight, **options), places


def _both_ways(source: Tensor, target: Tensor, n: int, options: dict[str, Any]) -> GraphOperator:
    edges = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    return GraphOperator.from_edge_index(edges, n, **options)
