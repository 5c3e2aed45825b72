from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from armagnn import CSR, GraphOperator
from armagnn.errors import ParameterError
from armagnn.nn import GCNConv, make_conv
from armagnn.nn.gat_conv import GATConv
from armagnn.nn.gin_conv import GINConv
from armagnn.nn.layer_sequence import LayerSequence
from armagnn.nn.mlp_conv import MLPConv
from armagnn.nn.sage_conv import SAGEConv
from oracles import assert_near, numbers, random_graph

LAYERS = {"gcn": GCNConv, "gat": GATConv, "sage": SAGEConv, "gin": GINConv, "mlp": MLPConv}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_as_many_layers_as_asked_for(name: str, count: int) -> None:
    conv = make_conv(name, 3, 5, num_layers=count)
    layers: list[Any] = [module for module in conv.modules() if isinstance(module, LAYERS[name])]
    assert len(layers) == count
    assert [(layer.in_channels, layer.out_channels) for layer in layers] == [(3, 5), *[(5, 5)] * (count - 1)]
    assert conv.kind == LAYERS[name].kind


@pytest.mark.parametrize("layer", LAYERS.values())
def test_a_stack_is_its_layers_one_after_another(layer: Any) -> None:
    stack = LayerSequence(layer, 3, 5, 3, act="tanh").double()
    graph = random_graph(7, 12)
    op, x = stack.operator(graph.edge_index, 7, graph.edge_weight()), numbers(7, 3)
    expected = x
    for one in stack.layers:
        expected = one(expected, op)
    assert_near(stack(x, op), expected, 0.0)
    assert_near(stack(x, graph.edge_index, graph.edge_weight()), expected)
    assert_near(stack(CSR.from_dense(x), op), expected)
    assert_near(stack(torch.stack([x, x]), op)[1], expected)


def test_a_stack_of_gcn_reaches_as_many_hops() -> None:
    steps = torch.arange(5)
    path = torch.stack([torch.cat([steps, steps + 1]), torch.cat([steps + 1, steps])])
    x = numbers(6, 2).requires_grad_()
    out = LayerSequence(GCNConv, 2, 3, 3, act="tanh").double()(x, path)
    reached = [torch.autograd.grad(row.sum(), x, retain_graph=True)[0][0].abs().max() > 0 for row in out]
    assert reached == [True] * 3 + [reached[3]] + [False] * 2
    assert reached[3]


def test_every_layer_has_an_activation_and_the_last_one_the_given() -> None:
    def acts(act: Any) -> list[Any]:
        return [layer.act for layer in LayerSequence(GCNConv, 2, 3, 3, act=act)]

    assert acts(None) == ["relu", "relu", None]
    assert acts("tanh") == ["tanh"] * 3
    learned = nn.PReLU()
    assert acts(learned)[2] is learned
    assert len({id(act) for act in acts(learned)}) == 3


def test_options_go_to_every_layer_and_the_graph_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = LayerSequence(GCNConv, 2, 3, 3, gamma=2.0, dropout=0.25, bias=False)
    assert [(layer.gamma, layer.dropout, layer.bias) for layer in stack] == [(2.0, 0.25, None)] * 3
    built: list[Any] = []
    original = GraphOperator.from_edge_index.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(
        GraphOperator, "from_edge_index", classmethod(lambda cls, *a, **k: built.append(k) or original(cls, *a, **k))
    )
    stack(torch.randn(4, 2), torch.tensor([[0, 1], [1, 0]]))
    assert [options["gamma"] for options in built] == [2.0]


def test_vmap_over_three_stacks_equals_a_loop() -> None:
    stacks = [LayerSequence(GCNConv, 3, 2, 2, act=None).double() for _ in range(3)]
    op, x = stacks[0].operator(random_graph(7, 12).edge_index, 7, dtype=torch.float64), numbers(7, 3)
    parameters = torch.func.stack_module_state(stacks)[0]
    out = torch.func.vmap(lambda p: torch.func.functional_call(stacks[0], p, (x, op)))(parameters)
    assert_near(out, torch.stack([stack(x, op) for stack in stacks]))


def test_reset_length_repr_and_bad_counts() -> None:
    stack = LayerSequence(GCNConv, 2, 3, 2)
    before = [layer.weight.clone() for layer in stack]
    stack.reset_parameters()
    assert not any(torch.equal(a, layer.weight) for a, layer in zip(before, stack, strict=True))
    assert len(stack) == 2
    assert repr(stack) == "LayerSequence(GCNConv(2, 3), GCNConv(3, 3))"
    for count in (0, -1, 1.5, None, "2"):
        with pytest.raises(ParameterError, match="num_layers"):
            make_conv("gcn", 2, 3, num_layers=count)
