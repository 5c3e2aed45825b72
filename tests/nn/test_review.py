"""What a review found, and must not come back."""

from __future__ import annotations

import pickle

import pytest
import torch

from armagnn import CSR, GraphOperator
from armagnn.errors import DeviceError, DTypeError, ParameterError, UnknownNameError
from armagnn.nn import ARMAConv
from nn.arma_oracle import random_graph


@pytest.mark.parametrize("act", [torch.nn.ReLU(inplace=True), torch.nn.Hardswish(inplace=True)])
def test_an_activation_in_place_spares_the_skip_connection(act: torch.nn.Module) -> None:
    x, index = torch.randn(6, 4), random_graph(6, 9)
    conv = ARMAConv(4, 3, 2, 3, init="zero", act=act)
    plain = ARMAConv(4, 3, 2, 3, init="zero", act=type(act)())
    plain.load_state_dict(conv.state_dict())
    torch.testing.assert_close(conv(x, index), plain(x, index))


def test_vmap_over_batches_of_signals() -> None:
    conv, op = ARMAConv(4, 3, 2, 3), GraphOperator.from_edge_index(random_graph(6, 9), 6)
    x = torch.randn(2, 3, 6, 4)
    torch.testing.assert_close(torch.func.vmap(lambda y: conv(y, op))(x), conv(x, op), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("directed", [False, True])
def test_training_after_inference_mode(directed: bool) -> None:
    x, index = torch.randn(6, 4), random_graph(6, 9, directed=directed)
    conv, cached = ARMAConv(4, 3, 2, 2), ARMAConv(4, 3, 2, 2, cached=True)
    with torch.inference_mode():
        op = GraphOperator.from_edge_index(index, 6)
        conv(x, op)
        cached(x, index)
    for out in (conv(x, op), cached(x, index), conv.stacks(x, op)):
        out.sum().backward()


def test_narrow_ids_do_not_wrap() -> None:
    index = torch.tensor([[0, 1], [1, 0]])
    for dtype, nodes in ((torch.uint8, 300), (torch.int16, 40_000)):
        for kind in ("gcn", "laplacian"):
            narrow = GraphOperator.from_edge_index(index.to(dtype), nodes, kind=kind)
            wide = GraphOperator.from_edge_index(index, nodes, kind=kind)
            assert torch.equal(narrow.col, wide.col)
            assert torch.equal(narrow.value, wide.value)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_values_of_a_sparse_tensor_keep_their_gradient(layout: torch.layout) -> None:
    dense = (torch.rand(5, 5) + 0.1).requires_grad_()
    sparse = dense.to_sparse(layout=layout)
    (GraphOperator.from_torch_sparse(sparse, "adjacency") @ torch.ones(5, 1)).sum().backward()
    torch.testing.assert_close(dense.grad, torch.ones(5, 5))


def test_a_lazy_cached_layer_keeps_its_first_graph_and_its_bias() -> None:
    x = torch.randn(6, 4)
    conv = ARMAConv(-1, 3, 2, 2, cached=True)
    assert set(conv.state_dict()) == {"initial_weight", "weight", "skip_weight", "bias"}
    torch.nn.init.ones_(conv.bias)
    first = conv(x, random_graph(6, 9, 1))
    torch.testing.assert_close(conv(x, random_graph(6, 9, 2)), first)
    assert conv.bias.min() == 1


def test_a_mask_takes_the_weights_that_the_layer_takes() -> None:
    x, index = torch.randn(6, 4), random_graph(6, 9)
    conv = ARMAConv(4, 3, 2, 2)
    weight = torch.rand(index.shape[1]) + 0.1
    expected = conv(x, index, weight)
    conv.explain, conv._edge_mask, conv._apply_sigmoid = True, torch.ones(index.shape[1]), False
    for given in (weight, weight.unsqueeze(1), weight.double()):
        torch.testing.assert_close(conv(x, index, given), expected)
    with pytest.raises(ValueError, match="negative"):
        conv(x, index, -weight)


def test_retained_graphs_and_second_derivatives_survive_the_in_place_backward() -> None:
    x, op = (
        torch.randn(6, 4, dtype=torch.float64),
        GraphOperator.from_edge_index(random_graph(6, 9), 6, dtype=torch.float64),
    )
    conv = ARMAConv(4, 3, 2, 3, act="elu").double()
    loss = conv(x, op).square().sum()
    one = torch.autograd.grad(loss, list(conv.parameters()), retain_graph=True)
    two = torch.autograd.grad(loss, list(conv.parameters()))
    for a, b in zip(one, two, strict=True):
        assert torch.equal(a, b)


def test_building_is_not_rounded_by_autocast() -> None:
    index = random_graph(50, 400)
    with torch.autocast("cpu", torch.bfloat16):
        op = GraphOperator.from_edge_index(index, 50)
    assert torch.equal(op.value, GraphOperator.from_edge_index(index, 50).value)


def test_errors_name_what_is_wrong() -> None:
    conv, index = ARMAConv(4, 3), random_graph(6, 9)
    with pytest.raises(DTypeError, match="x must be float32"):
        conv(torch.ones(6, 4, dtype=torch.int64), index)
    with pytest.raises(DeviceError, match="weights"):
        conv.to("meta")(torch.ones(6, 4), index)
    with pytest.raises(ParameterError, match="act must be"):
        ARMAConv(4, 3, act=torch.nn.ReLU)
    with pytest.raises(UnknownNameError, match="Did you mean 'relu'"):
        ARMAConv(4, 3, act="ReLU")
    with pytest.raises(UnknownNameError, match="Did you mean 'symmetrize'"):
        GraphOperator.from_dense(torch.eye(3), simetrize="max")
    with pytest.raises(ParameterError, match="gamma"):
        GraphOperator.from_edge_index(index, 6, gamma=2.0)
    error = UnknownNameError("thing", "a", ["b"])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 600, lambda_max="computed").nnz == 600
    assert isinstance(CSR.from_dense(torch.eye(2)), CSR)
