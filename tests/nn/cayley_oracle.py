"""Jacobi's iterations in complex dense matrices, and graphs for them."""

from __future__ import annotations

import torch
from torch import Tensor

from oracles import Graph


def without_loops(graph: Graph) -> Graph:
    keep = graph.source != graph.target
    return Graph(graph.num_nodes, graph.source[keep], graph.target[keep], graph.weight[keep])


def jacobi(laplacian: Tensor, zoom: Tensor, iterations: int, y: Tensor) -> Tensor:
    """T Jacobi iterations for (hL + iI) z = (hL - iI) y, in complex dense matrices, as Levie et al. write them."""
    eye = torch.eye(len(laplacian), dtype=torch.complex128)
    system = zoom * laplacian + 1j * eye
    inverse = torch.diag(1 / system.diagonal())
    right = inverse @ (zoom * laplacian - 1j * eye) @ y
    state = right
    for _ in range(iterations):
        state = right - inverse @ (system - torch.diag(system.diagonal())) @ state
    return state
