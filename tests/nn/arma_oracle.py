"""The ARMA layer as the paper writes it: dense matrices, float64, one stack and one step at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from armagnn import GraphOperator
from armagnn.nn import ARMAConv


def arma(conv: ARMAConv, x: Tensor, operator: Tensor, act: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the K outputs before the mean, shape (K, ..., N, F_out), by Eq. 14."""
    outputs = []
    for k in range(conv.num_stacks):
        state = None
        for t in range(conv.num_layers):
            s = 0 if conv.shared_weights else t
            v = conv.skip_weight[s, :, k]
            pre = x @ v
            if t == 0:
                if conv.init == "linear":
                    pre = pre + operator @ x @ conv.initial_weight[:, k]
                elif conv.init == "tied":
                    pre = pre + operator @ x @ v
            else:
                pre = pre + operator @ state @ conv.weight[0 if conv.shared_weights else t - 1, k]
            if conv.bias is not None:
                pre = pre + conv.bias[s, k]
            state = act(pre)
        outputs.append(state)
    return torch.stack(outputs)


def random_graph(nodes: int, edges: int, seed: int = 0, directed: bool = False) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    half = torch.randint(0, nodes, (2, edges), generator=generator)
    return half if directed else torch.cat([half, half.flip(0)], dim=1)


def make(fin: int, fout: int, k: int, t: int, **options: object) -> ARMAConv:
    conv = ARMAConv(fin, fout, k, t, **options).double()
    if conv.bias is not None:
        torch.nn.init.normal_(conv.bias)
    return conv


def problem(
    nodes: int = 9, fin: int = 4, seed: int = 0, directed: bool = False
) -> tuple[Tensor, GraphOperator, Tensor]:
    """Return features, operator and its dense truth, built here from the definition."""
    index = random_graph(nodes, 2 * nodes, seed, directed)
    adjacency = torch.zeros(nodes, nodes, dtype=torch.float64)
    for source, target in index.T.tolist():
        adjacency[target, source] += 1
    x = torch.randn(nodes, fin, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    op = GraphOperator.from_edge_index(index, nodes, dtype=torch.float64)
    return x, op, normalized(adjacency)


def normalized(adjacency: Tensor) -> Tensor:
    """The operator of a dense adjacency, by its definition."""
    degree = adjacency.sum(1)
    scale = torch.where(degree > 0, degree.clamp(min=1e-30).rsqrt(), 0.0)
    return scale[:, None] * adjacency * scale
