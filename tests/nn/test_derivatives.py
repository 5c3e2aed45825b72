"""Derivatives of the layers in batches (is_grads_batched, vectorize=True) and forwards, against the loop."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.functional import jacobian
from torch.func import functional_call, jacfwd, jvp

from armagnn import CSR, GraphOperator
from armagnn.errors import GraphError, UnsupportedError
from armagnn.filters import ARMAFilter
from armagnn.nn import ARMAConv, CayleyConv, ChebConv, GCNConv, make_conv
from armagnn.operators import GraphBatches
from armagnn.solvers import FixedPoint
from nn.arma_oracle import random_graph

INDEX, DIRECTED = random_graph(6, 9), random_graph(6, 12, directed=True)
TIGHT = FixedPoint(tol=1e-12)
LAYERS: dict[str, Callable[[], Any]] = {
    "arma": lambda: ARMAConv(3, 4, num_stacks=2, num_layers=3),
    "arma elu": lambda: ARMAConv(3, 2, num_layers=2, act="elu", init="zero"),
    "arma tied": lambda: ARMAConv(3, 2, num_stacks=2, num_layers=2, act="tanh", init="tied", shared_weights=False),
    "arma gelu": lambda: ARMAConv(3, 2, num_layers=2, act="gelu"),
    "gcn": lambda: GCNConv(3, 4),
    "chebyshev": lambda: ChebConv(3, 4, order=4, act="tanh"),
    "cayley": lambda: CayleyConv(3, 4, order=2, act="tanh"),
    "gin": lambda: make_conv("gin", 3, 4),
}
BACKWARDS_ONLY: dict[str, Callable[[], Any]] = {
    "gat": lambda: make_conv("gat", 3, 4),
    "sage": lambda: make_conv("sage", 3, 4),
    "fixed point": lambda: ARMAConv(3, 4, num_stacks=2, act="tanh", fixed_point=TIGHT),
}
every_layer = pytest.mark.parametrize("name", LAYERS)
graphs = pytest.mark.parametrize("index", [INDEX, DIRECTED], ids=["undirected", "directed"])


@functools.cache
def layer(name: str) -> Any:
    torch.manual_seed(0)
    return (LAYERS | BACKWARDS_ONLY)[name]().double()


def features(*shape: int) -> Tensor:
    return torch.randn(*shape, 3, dtype=torch.float64)


def along(jacobians: Tensor, tangent: Tensor) -> Tensor:
    return torch.tensordot(jacobians, tangent, tangent.dim())


def near(found: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------------------------------- whole batches


@pytest.mark.parametrize("name", [*LAYERS, *BACKWARDS_ONLY])
@pytest.mark.parametrize("signals", [(), (5,)], ids=["one", "many"])
def test_batches_of_gradients_equal_the_loop(name: str, signals: tuple[int, ...]) -> None:
    conv = layer(name)
    x = features(*signals, 6).requires_grad_()
    for graph in (conv.operator(INDEX, 6, dtype=torch.float64), INDEX):
        inputs = [x, *conv.parameters()]
        out = conv(x, graph)
        many = torch.randn(3, *out.shape, dtype=torch.float64)
        loop = [torch.autograd.grad(out, inputs, one, retain_graph=True) for one in many]
        batch = torch.autograd.grad(out, inputs, many, is_grads_batched=True)  # the last pass, which may reuse buffers
        for found, expected in zip(batch, zip(*loop, strict=True), strict=True):
            near(found, torch.stack(expected))


@every_layer
@graphs
def test_a_vectorised_jacobian_equals_the_loop(name: str, index: Tensor) -> None:
    conv, x, weight = layer(name), features(6), torch.rand(index.shape[1], dtype=torch.float64) + 0.2
    functions = [(lambda x: conv(x, index), x)]
    functions += [] if name == "gin" else [(lambda w: conv(x, index, w), weight)]
    for function, at in functions:
        expected = jacobian(function, at)
        near(jacobian(function, at, vectorize=True), expected)
        near(jacobian(function, at, vectorize=True, create_graph=True), expected)
        near(jacobian(function, at, vectorize=True, strategy="forward-mode"), expected)
        near(jacfwd(function)(at), expected)


def test_a_signal_is_dropped_alike_in_every_gradient_of_a_batch() -> None:
    conv, op = ARMAConv(3, 4, 2, 3, dropout=0.5).double(), GraphOperator.from_edge_index(INDEX, 6, dtype=torch.float64)
    x = features(6).requires_grad_()
    out = conv(x, op)
    many = torch.eye(24, dtype=torch.float64).view(24, 6, 4)
    (batch,) = torch.autograd.grad(out, x, many, is_grads_batched=True, retain_graph=True)
    near(batch, torch.stack([torch.autograd.grad(out, x, one, retain_graph=True)[0] for one in many]))


# ------------------------------------------------------------------------------------------------------------- forwards


@every_layer
@graphs
def test_forwards_along_everything(name: str, index: Tensor) -> None:
    conv, x = layer(name), features(6)
    parameters = {key: value.detach() for key, value in conv.named_parameters()}
    op = conv.operator(index, 6, dtype=torch.float64)

    def function(x: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        out: Tensor = functional_call(conv, parameters, (x, op))
        return out

    tangents = features(6), {key: torch.randn_like(value) for key, value in parameters.items()}
    found = jvp(function, (x, parameters), tangents)[1]
    expected = along(jacobian(lambda x: function(x, parameters), x), tangents[0])
    for key, value in parameters.items():
        expected = expected + along(
            jacobian(lambda p, key=key: function(x, {**parameters, key: p}), value), tangents[1][key]
        )
    near(found, expected)
    with forward_ad.dual_level():
        dual = {key: forward_ad.make_dual(value, tangents[1][key]) for key, value in parameters.items()}
        out = function(forward_ad.make_dual(x, tangents[0]), dual)
        near(forward_ad.unpack_dual(out).tangent, expected)


@every_layer
def test_forwards_through_trials(name: str) -> None:
    conv, x = layer(name), features(4, 6)
    op = conv.operator(INDEX, 6, dtype=torch.float64)

    def single(x: Tensor) -> Tensor:
        out: Tensor = conv(x, op)
        return out

    expected = torch.stack([jvp(single, (one,), (one,))[1] for one in x])
    near(jvp(torch.vmap(single), (x,), (x,))[1], expected)
    near(torch.vmap(lambda x: jvp(single, (x,), (x,))[1])(x), expected)
    with forward_ad.dual_level():
        near(forward_ad.unpack_dual(torch.vmap(single)(forward_ad.make_dual(x, x))).tangent, expected)


@pytest.mark.parametrize("name", ["arma tied", "gcn", "chebyshev", "cayley"])
@pytest.mark.parametrize("of", ["x", "edge_weight"])
def test_second_derivatives_agree_in_every_mode(name: str, of: str) -> None:
    conv, x, weight = layer(name), features(6), torch.rand(18, dtype=torch.float64) + 0.2

    def total(tensor: Tensor) -> Tensor:
        out: Tensor = conv(tensor, INDEX) if of == "x" else conv(x, INDEX, tensor)
        return out.square().sum()

    at = x if of == "x" else weight
    expected = torch.autograd.functional.hessian(total, at)
    near(torch.autograd.functional.hessian(total, at, vectorize=True), expected, 1e-9)
    near(torch.func.hessian(total)(at), expected, 1e-9)
    near(jacfwd(jacfwd(total))(at), expected, 1e-9)
    near(torch.func.jacrev(jacfwd(total))(at), expected, 1e-9)


def test_forwards_by_the_zoom_twice() -> None:
    """Of a batch of graphs whose spectra are known: blocks of vectors, responses and their slopes."""
    conv, x = layer("cayley"), features(12)
    laplacian = conv.operator(INDEX, 6, dtype=torch.float64)
    batches = GraphBatches(GraphOperator.block_diagonal([laplacian, laplacian]), torch.tensor([0, 6, 12]))
    batches.find_spectra()
    op, zoom = batches.take([1, 0]).op, conv.zoom.detach()

    def total(zoom: Tensor) -> Tensor:
        out: Tensor = functional_call(conv, {"zoom": zoom}, (x, op))
        return out.square().sum()

    expected = torch.func.jacrev(torch.func.jacrev(total))(zoom)
    for second in (torch.func.hessian(total), jacfwd(jacfwd(total)), torch.func.jacrev(jacfwd(total))):
        near(second(zoom), expected)


def test_forwards_by_the_values_of_sparse_features() -> None:
    conv, op = layer("arma"), GraphOperator.from_edge_index(INDEX, 6, dtype=torch.float64)
    sparse = CSR.from_dense(features(6).clamp(min=0.0))

    def function(value: Tensor) -> Tensor:
        out: Tensor = conv(sparse.with_value(value), op)
        return out

    expected = jacobian(function, sparse.value)
    near(jacobian(function, sparse.value, vectorize=True), expected)
    near(jacfwd(function)(sparse.value), expected)


def test_an_unrolled_fixed_point_has_a_derivative_forwards_by_dual_numbers() -> None:
    conv = ARMAConv(3, 4, act="tanh", fixed_point=FixedPoint(tol=1e-12, backward="unrolled")).double()
    x, op = features(6), GraphOperator.from_edge_index(INDEX, 6, dtype=torch.float64)
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(conv(forward_ad.make_dual(x, x), op)).tangent
    near(found, along(jacobian(lambda x: conv(x, op), x), x), 1e-8)


# ---------------------------------------------------------------------------------------------------- what is not there


@pytest.mark.parametrize("name", BACKWARDS_ONLY)
def test_what_has_no_derivative_forwards_says_what_to_use_instead(name: str) -> None:
    conv, x = layer(name), features(6)
    op = conv.operator(INDEX, 6, dtype=torch.float64)
    with pytest.raises(UnsupportedError, match=r"torch\.autograd"):
        jvp(lambda x: conv(x, op), (x,), (x,))
    with forward_ad.dual_level(), pytest.raises(UnsupportedError, match=r"torch\.autograd\.grad"):
        conv(forward_ad.make_dual(x, x), op)


@pytest.mark.parametrize("method", ["exact", "recursion"])
def test_a_filter_that_is_solved_takes_batches_and_refuses_transforms(method: Any) -> None:
    op, x = GraphOperator.from_edge_index(INDEX, 6, dtype=torch.float64), features(6)

    def function(x: Tensor) -> Tensor:
        return ARMAFilter(a=[0.5], b=[0.3]).filter(op, x, method=method)

    near(jacobian(function, x, vectorize=True), jacobian(function, x))
    with pytest.raises(UnsupportedError, match=r"does not run under torch\.func"):
        jvp(function, (x,), (x,))
    with forward_ad.dual_level(), pytest.raises(UnsupportedError, match="no derivatives forwards"):
        function(forward_ad.make_dual(x, x))


# ------------------------------------------------------------------------------------- tangents of an operator's values


def weighted(weight: Tensor, kind: Any = "laplacian") -> GraphOperator:
    """An undirected graph of nine weights."""
    return GraphOperator.from_edge_index(INDEX, 6, torch.cat([weight, weight]), kind)


USES: dict[str, Callable[[Tensor], Tensor]] = {
    "frequencies": lambda w: layer("chebyshev")(torch.ones(20, 6, 3, dtype=torch.float64), weighted(w)),
    "batches": lambda w: GraphBatches(weighted(w, "arma"), torch.tensor([0, 6])).take([0, 0]).op.to_dense(),
    "joined": lambda w: GraphOperator.block_diagonal([weighted(w), weighted(2 * w)]).to_dense(),
    "off the diagonal": lambda w: weighted(w).off_diagonal().to_dense(),
    "transposed twice": lambda w: weighted(w, "arma").T.T.to_dense(),
}


@pytest.mark.parametrize("name", USES)
def test_no_tangent_of_a_value_is_lost(name: str) -> None:
    weight = torch.rand(9, dtype=torch.float64) + 0.2
    tangent = torch.randn(9, dtype=torch.float64)
    expected = along(jacobian(USES[name], weight), tangent)
    assert expected.any()
    if name != "batches":  # what they are cut by lives on the host, which torch.func does not see
        near(jvp(USES[name], (weight,), (tangent,))[1], expected)
    with forward_ad.dual_level():
        near(forward_ad.unpack_dual(USES[name](forward_ad.make_dual(weight, tangent))).tangent, expected)


def test_the_transpose_of_a_symmetric_matrix_has_the_transposed_tangent() -> None:
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), dtype=torch.float64)

    def flipped(value: Tensor) -> Tensor:
        return GraphOperator(op.rowptr, op.col, value, op.shape, symmetric=True).T.to_dense()

    tangent = torch.tensor([1.0, 3.0], dtype=torch.float64)
    near(jvp(flipped, (op.value,), (tangent,))[1], torch.tensor([[0.0, 3.0], [1.0, 0.0]], dtype=torch.float64))


def test_nothing_with_a_tangent_outlives_its_level() -> None:
    x, op = features(6), GraphOperator.from_edge_index(DIRECTED, 6, dtype=torch.float64)
    with forward_ad.dual_level():
        dual = GraphOperator(
            op.rowptr, op.col, forward_ad.make_dual(op.value, op.value), op.shape, transposed=op._structure()
        )
        assert forward_ad.unpack_dual(dual @ x).tangent is not None
        assert forward_ad.unpack_dual(dual.detach() @ x).tangent is None
        assert dual._t_value is None


def test_a_filter_that_is_solved_loses_no_tangent_of_the_values() -> None:
    weight = torch.rand(9, dtype=torch.float64) + 0.2
    with forward_ad.dual_level(), torch.no_grad():
        op = weighted(forward_ad.make_dual(weight, weight), "arma")
        with pytest.raises(GraphError, match="no gradient for the operator's values"):
            ARMAFilter(a=[0.5], b=[0.3]).filter(op, features(6))
