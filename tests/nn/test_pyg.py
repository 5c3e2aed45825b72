from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import ARMAConv as PyGConv

from armagnn.errors import ParameterError
from armagnn.nn import ARMAConv
from nn.arma_oracle import random_graph

ACTS = (None, nn.ReLU(), nn.ELU(), nn.Tanh(), nn.GELU(), torch.sigmoid)


@pytest.mark.parametrize("case", range(50))
def test_parity_with_pyg(case: int) -> None:
    """Value and every gradient equal PyG's to 1e-6 on random configurations, directed and weighted ones among them."""
    g = torch.Generator().manual_seed(case)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (1,), generator=g))

    nodes, fin, fout, k, t = draw(1, 30), draw(1, 12), draw(1, 8), draw(1, 4), draw(1, 4)
    dtype = torch.float64 if case % 2 else torch.float32
    theirs = PyGConv(fin, fout, k, t, shared_weights=bool(draw(0, 1)), act=ACTS[draw(0, 5)], bias=bool(draw(0, 2))).to(
        dtype
    )
    if theirs.bias is not None:
        nn.init.normal_(theirs.bias)
    ours = ARMAConv.from_pyg(theirs)
    index = random_graph(nodes, draw(0, 40), case, directed=bool(draw(0, 1)))
    weights = [None, None]
    if draw(0, 1):
        weight = torch.rand(index.shape[1], dtype=dtype, generator=g) + 0.1
        weights = [weight.clone().requires_grad_(), weight.clone().requires_grad_()]
    x = torch.randn(nodes, fin, dtype=dtype, generator=g)
    xs = [x.clone().requires_grad_(), x.clone().requires_grad_()]
    out, expected = ours(xs[0], index, weights[0]), theirs(xs[1], index, weights[1])
    tolerance = {"rtol": 1e-6, "atol": 1e-6} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(out, expected, **tolerance)
    cotangent = torch.randn(out.shape, dtype=dtype, generator=g)
    out.backward(cotangent)
    expected.backward(cotangent)
    pairs = [(xs[0], xs[1])]
    pairs += [(ours.weight, theirs.weight)] if t > 1 else []
    pairs += [tuple(weights)] if weights[0] is not None and index.shape[1] else []
    for a, b in pairs:
        torch.testing.assert_close(a.grad, b.grad, **tolerance)
    torch.testing.assert_close(ours.initial_weight.grad.transpose(0, 1), theirs.init_weight.grad, **tolerance)
    torch.testing.assert_close(ours.skip_weight.grad.transpose(1, 2), theirs.root_weight.grad, **tolerance)
    if ours.bias is not None:
        torch.testing.assert_close(ours.bias.grad, theirs.bias.grad.squeeze(2), **tolerance)
    torch.testing.assert_close(ours.to_pyg()(x, index, weights[1]), expected, **tolerance)


@pytest.mark.parametrize("init", ["linear", "zero", "tied"])
def test_to_pyg_for_every_initial_state(init: str) -> None:
    conv = ARMAConv(4, 3, 2, 3, init=init, act="elu")
    x, index = torch.randn(7, 4), random_graph(7, 12)
    torch.testing.assert_close(conv.to_pyg()(x, index), conv(x, index), rtol=1e-5, atol=1e-6)


def test_lazy_pyg_layer() -> None:
    theirs = PyGConv(-1, 3, 2, 3, shared_weights=True)
    with pytest.raises(ParameterError, match="lazy"):
        ARMAConv.from_pyg(theirs)
    with pytest.raises(ParameterError, match="lazy"):
        ARMAConv(-1, 3).to_pyg()
    x, index = torch.randn(7, 4), random_graph(7, 12)
    theirs(x, index)
    torch.testing.assert_close(ARMAConv.from_pyg(theirs)(x, index), theirs(x, index), rtol=1e-5, atol=1e-6)


def test_from_pyg_refuses_other_layers_and_flows() -> None:
    with pytest.raises(TypeError, match=r"torch_geometric\.nn\.ARMAConv"):
        ARMAConv.from_pyg(nn.Linear(2, 2))
    with pytest.raises(ParameterError, match="flow"):
        ARMAConv.from_pyg(PyGConv(2, 2, flow="target_to_source"))


def test_sampled_subgraphs_of_a_neighbor_loader() -> None:
    index = random_graph(40, 120)
    data = Data(x=torch.randn(40, 5), edge_index=index)
    theirs = PyGConv(5, 3, 2, 2)
    ours = ARMAConv.from_pyg(theirs)
    for batch in _neighbor_batches(data):
        torch.testing.assert_close(
            ours(batch.x, batch.edge_index), theirs(batch.x, batch.edge_index), rtol=1e-5, atol=1e-6
        )


def _neighbor_batches(data: Data) -> list[Data]:
    try:
        return list(NeighborLoader(data, num_neighbors=[3, 2], batch_size=8))
    except ImportError:  # the sampler is compiled (pyg-lib); a directed subgraph made by hand stands in for it
        targets = torch.arange(8)
        keep = torch.isin(data.edge_index[1], targets)
        return [Data(x=data.x, edge_index=data.edge_index[:, keep])]


class _Net(nn.Module):
    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x, edge_index), edge_index)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("mask", ["object", None])
def test_gnn_explainer_returns_the_masks_it_returns_on_pygs_layer(directed: bool, mask: str | None) -> None:
    torch.manual_seed(0)
    theirs = _Net(PyGConv(6, 8, 2, 2), PyGConv(8, 3, 3, 1, act=None))
    ours = _Net(ARMAConv.from_pyg(theirs.first), ARMAConv.from_pyg(theirs.second))
    index = random_graph(20, 40, 3, directed)
    index = torch.cat([index, torch.tensor([[2, 5], [2, 5]])], dim=1)  # self-loops are messages like any other
    x = torch.randn(20, 6)
    explanations = []
    for model in (theirs, ours):
        torch.manual_seed(7)
        explainer = Explainer(
            model,
            GNNExplainer(epochs=40),
            explanation_type="model",
            node_mask_type="attributes",
            edge_mask_type=mask,
            model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
        )
        explanations.append(explainer(x, index, index=4))
    a, b = explanations
    if mask:
        assert a.edge_mask.max() > 0.1
        torch.testing.assert_close(b.edge_mask, a.edge_mask, rtol=0, atol=1e-4)
    torch.testing.assert_close(b.node_mask, a.node_mask, rtol=0, atol=1e-4)
    torch.testing.assert_close(ours(x, index), theirs(x, index), rtol=1e-5, atol=1e-6)  # masks are gone again


def test_arguments_stand_in_the_order_of_pyg() -> None:
    theirs = list(inspect.signature(PyGConv.__init__).parameters)[1:9]
    assert list(inspect.signature(ARMAConv.__init__).parameters)[1:9] == theirs
    given = (3, 4, 2, 3, True, torch.tanh, 0.25, False)
    ours, other = ARMAConv(*given), PyGConv(*given)
    assert (ours.num_stacks, ours.num_layers, ours.shared_weights) == (2, 3, other.shared_weights)
    assert (ours.act, ours.dropout, ours.bias) == (torch.tanh, other.dropout, other.bias)
    assert ARMAConv(3, 4, init="zero", fixed_point=None, cached=True).init == "zero"
    with pytest.raises(
        ParameterError, match="act is 'zero', an initial state and no activation: pass init='zero' by name"
    ):
        ARMAConv(3, 4, 2, 3, True, "zero")
    with pytest.raises(TypeError):
        ARMAConv(*given, "zero")  # type: ignore[misc]
