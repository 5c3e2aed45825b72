"""torch.jit: a layer can be traced, for graphs of one size, and says that it cannot be scripted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from armagnn.errors import UnsupportedError
from armagnn.nn import ARMAConv, CayleyConv, ChebConv, GCNConv
from nn.arma_oracle import random_graph

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "arma": lambda: ARMAConv(4, 3, num_stacks=2, num_layers=3),
    "gcn": lambda: GCNConv(4, 3),
    "chebyshev": lambda: ChebConv(4, 3, order=4),
    "cayley": lambda: CayleyConv(4, 3, order=2),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


@every_layer
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_a_traced_layer_serves_other_graphs_of_its_size(name: str) -> None:
    conv, x = LAYERS[name](), torch.randn(6, 4)
    traced = torch.jit.trace(conv, (x, random_graph(6, 9)))
    for seed in range(4):  # with self-loops and parallel edges where the example had others, or none
        y, index = torch.randn(6, 4), random_graph(6, 9, seed, directed=seed == 3)
        if index.shape[1] == 18:
            torch.testing.assert_close(traced(y, index), conv(y, index), rtol=1e-4, atol=1e-5)
    got, expected = (
        torch.autograd.grad(f(x, random_graph(6, 9)).sum(), list(conv.parameters())) for f in (traced, conv)
    )
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@every_layer
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_a_traced_layer_reads_no_foreign_memory(name: str) -> None:
    traced = torch.jit.trace(LAYERS[name](), (torch.randn(6, 4), random_graph(6, 9)))
    wrong: list[tuple[Any, ...]] = [
        (torch.randn(6, 4), torch.full((2, 18), 10**6)),
        (torch.randn(6, 4), torch.full((2, 18), -1)),
        (torch.randn(2, 4), random_graph(6, 9)),
        (torch.randn(9, 4), random_graph(9, 9)),
    ]
    for x, index in wrong:
        with pytest.raises(RuntimeError):
            traced(x, index)


@every_layer
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripting_is_refused_with_advice(name: str) -> None:
    for model in (LAYERS[name](), nn.Sequential(LAYERS[name]())):
        with pytest.raises(UnsupportedError, match=r"torch\.export\.export"):
            torch.jit.script(model)
