"""torch.export: one program of a layer serves graphs of every size, and loads where nothing but armagnn is imported."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from armagnn.errors import GraphError
from armagnn.nn import ARMAConv, CayleyConv, ChebConv, GCNConv
from nn.arma_oracle import random_graph

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "arma": lambda: ARMAConv(4, 3, num_stacks=2, num_layers=3),
    "arma wide": lambda: ARMAConv(2, 8, num_stacks=2, num_layers=2),
    "arma zero": lambda: ARMAConv(4, 3, num_layers=2, shared_weights=False, init="zero", act="gelu"),
    "arma tied": lambda: ARMAConv(4, 3, num_layers=2, init="tied", act=None),
    "gcn": lambda: GCNConv(4, 3),
    "chebyshev": lambda: ChebConv(4, 3, order=4),
    "chebyshev wide": lambda: ChebConv(2, 8, order=3),
    "cayley": lambda: CayleyConv(4, 3, order=2),
    "cayley wide": lambda: CayleyConv(2, 8, order=2),
}
every_layer = pytest.mark.parametrize("name", LAYERS)
kinds = pytest.mark.parametrize("name", ["arma", "gcn", "chebyshev", "cayley"])


@functools.cache
def layer(name: str) -> nn.Module:
    torch.manual_seed(0)
    return LAYERS[name]().double().eval()


def features(name: str, *shape: int) -> Tensor:
    return torch.randn(*shape, layer(name).in_channels, dtype=torch.float64)


@functools.cache
def exported(name: str, weighted: bool = False, strict: bool = False) -> ExportedProgram:
    """A program made with six nodes and eighteen edges; the numbers of both are open."""
    nodes, edges = Dim("nodes"), Dim("edges")
    index = random_graph(6, 9)
    arguments, sizes = [features(name, 6), index], [{0: nodes}, {1: edges}]
    if weighted:
        arguments, sizes = [*arguments, torch.rand(index.shape[1], dtype=torch.float64)], [*sizes, {0: edges}]
    return torch.export.export(layer(name), tuple(arguments), dynamic_shapes=tuple(sizes), strict=strict)


@every_layer
@pytest.mark.parametrize("weighted", [False, True])
def test_one_program_serves_two_sizes(name: str, weighted: bool) -> None:
    _serves_two_sizes(name, weighted, strict=False)


@kinds
def test_a_strict_export_serves_two_sizes(name: str) -> None:
    _serves_two_sizes(name, weighted=True, strict=True)


def _serves_two_sizes(name: str, weighted: bool, strict: bool) -> None:
    conv, program = layer(name), exported(name, weighted, strict).module()
    for nodes, edges in ((6, 9), (11, 30)):
        index = random_graph(nodes, edges, seed=edges)
        weight = (torch.rand(index.shape[1], dtype=torch.float64),) if weighted else ()
        x = features(name, nodes)
        torch.testing.assert_close(program(x, index, *weight), conv(x, index, *weight))


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(LAYERS)), st.integers(1, 9), st.integers(0, 20), st.integers(0, 99), st.booleans())
def test_a_program_equals_the_layer_on_every_graph(
    name: str, nodes: int, edges: int, seed: int, directed: bool
) -> None:
    """With lone nodes, self-loops and parallel edges, which a recorded layer cannot see."""
    x, index = features(name, nodes), random_graph(nodes, edges, seed, directed)
    torch.testing.assert_close(exported(name).module()(x, index), layer(name)(x, index), rtol=1e-6, atol=1e-8)


@every_layer
def test_no_nodes(name: str) -> None:
    assert exported(name).module()(features(name, 0), torch.zeros(2, 0, dtype=torch.int64)).shape[0] == 0


@every_layer
def test_a_program_has_the_gradients_of_the_layer(name: str) -> None:
    index = random_graph(11, 30)
    x, weight = features(name, 11).requires_grad_(), torch.rand(60, dtype=torch.float64, requires_grad=True)
    program = exported(name, weighted=True).module()
    out, expected = program(x, index, weight), layer(name)(x, index, weight)
    along = torch.randn_like(out)
    got = torch.autograd.grad(out, [x, weight, *program.parameters()], along)
    torch.testing.assert_close(got, torch.autograd.grad(expected, [x, weight, *layer(name).parameters()], along))


@kinds
def test_many_signals_of_an_open_number(name: str) -> None:
    sizes = ({0: Dim("signals"), 1: Dim("nodes")}, {1: Dim("edges")})
    program = torch.export.export(layer(name), (features(name, 3, 6), random_graph(6, 9)), dynamic_shapes=sizes)
    for signals, nodes in ((3, 6), (20, 11)):
        x, index = features(name, signals, nodes), random_graph(nodes, 25)
        torch.testing.assert_close(program.module()(x, index), layer(name)(x, index))


def test_a_program_refuses_ids_that_do_not_exist() -> None:
    with pytest.raises(GraphError, match="node 11, but ids run from 0 to 5"):
        exported("arma").module()(features("arma", 6), random_graph(6, 9) + 6)


LOAD = """
import armagnn
import torch
where = {where!r}
numbers = torch.load(where + "/numbers.pt", weights_only=True)
for name, (x, index, expected) in numbers.items():
    found = torch.export.load(f"{{where}}/{{name}}.pt2").module()(x, index)
    torch.testing.assert_close(found, expected)
print("loaded", len(numbers))
"""


def test_a_saved_program_needs_nothing_but_armagnn_to_load(tmp_path: Path) -> None:
    numbers = {}
    for name in LAYERS:
        x, index = features(name, 11), random_graph(11, 30)
        torch.export.save(exported(name), tmp_path / f"{name}.pt2")
        numbers[name] = x, index, layer(name)(x, index).detach()
    torch.save(numbers, tmp_path / "numbers.pt")
    code = LOAD.format(where=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.stdout == f"loaded {len(LAYERS)}\n", done.stderr
