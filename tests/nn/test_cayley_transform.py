"""The Cayley transform against complex numbers, and against Jacobi's iterations in complex dense matrices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracles
from armagnn import GraphOperator
from armagnn.nn import CayleyConv
from armagnn.nn.cayley_conv import is_polynomial
from armagnn.nn.cayley_transform import Jacobi, coefficients, needed_degree, responses
from armagnn.nn.chebyshev_sum import chebyshev_coefficients
from armagnn.training.cuda_graphs import capture
from nn.cayley_oracle import jacobi
from oracles import Graph, assert_near, numbers, random_graph
from strategies import graphs

ZOOMS = [-2.0, -0.1, 0.05, 1.0, 30.0]


def by_complex_numbers(zoom: Tensor, iterations: int) -> Tensor:
    """The coefficients as the derivation writes them."""
    d = zoom + 1j
    u, a = (zoom - 1j) / d, -zoom / d
    return torch.stack([u, *((u - 1) * a**t for t in range(1, iterations + 1)), -(a ** (iterations + 1))])


@pytest.mark.parametrize("zoom", ZOOMS)
@pytest.mark.parametrize("iterations", [1, 2, 11])
def test_coefficients(zoom: float, iterations: int) -> None:
    h = torch.tensor(zoom, dtype=torch.float64, requires_grad=True)
    (found, slopes), truth = coefficients(h, iterations), torch.view_as_real(by_complex_numbers(h, iterations))
    assert_near(found, truth, 1e-13)
    for ours, one, two in zip(slopes.flatten(), found.flatten(), truth.flatten(), strict=True):
        by_truth = torch.autograd.grad(two, h, retain_graph=True)[0]
        assert_near(torch.autograd.grad(one, h, retain_graph=True)[0], by_truth, 1e-12)
        assert_near(ours, by_truth, 1e-12)


@pytest.mark.parametrize("zoom", [0.0, -1e-9, 1e-9])
def test_coefficients_are_smooth_where_the_zoom_is_zero(zoom: float) -> None:
    h = torch.tensor(zoom, dtype=torch.float64, requires_grad=True)
    assert_near(coefficients(h, 3)[0][0], [-1.0, -2 * zoom], 1e-12)
    assert torch.autograd.gradcheck(lambda h: coefficients(h, 3), (h,))
    assert torch.autograd.gradgradcheck(lambda h: coefficients(h, 3), (h,))


def test_coefficients_of_many_zooms_and_of_narrow_ones() -> None:
    zooms = torch.tensor(ZOOMS)
    for many in (torch.vmap(lambda h: coefficients(h, 4)[0])(zooms), coefficients(zooms, 4)[0]):
        assert many.dtype == torch.float64
        assert_near(many, torch.stack([coefficients(h, 4)[0] for h in zooms.double()]), 1e-7)


@pytest.mark.parametrize("zoom", ZOOMS)
@pytest.mark.parametrize(("iterations", "order"), [(1, 1), (2, 3), (4, 4), (11, 12)])
def test_responses(zoom: float, iterations: int, order: int) -> None:
    h = torch.tensor(zoom, dtype=torch.float64, requires_grad=True)
    e = torch.linspace(-1, 1, 7, dtype=torch.float64)
    p = sum(gamma * e**t for t, gamma in enumerate(by_complex_numbers(h, iterations)))
    powers = [p**j for j in range(1, order + 1)]  # type: ignore[operator]
    truth = torch.stack([torch.ones_like(e), *(part for z in powers for part in (2 * z.real, -2 * z.imag))], 1)
    found = responses(h, iterations, order, e)
    assert_near(found, truth, 1e-12)
    direction = numbers(*found.shape)
    one, two = (torch.autograd.grad((table * direction).sum(), h)[0] for table in (found, truth))
    assert_near(one, two, 1e-11)


@settings(max_examples=60)
@given(
    iterations=st.integers(1, 14),
    order=st.integers(1, 12),
    angle=st.floats(0.001, 3.14),
)
def test_beyond_the_needed_degree_there_is_nothing_to_see(iterations: int, order: int, angle: float) -> None:
    h = 1 / torch.tan(torch.tensor(angle, dtype=torch.float64))
    degree, needed = order * (iterations + 1), needed_degree(iterations, order)
    assert needed <= degree
    table = chebyshev_coefficients(lambda e: responses(h, iterations, order, e), degree, torch.device("cpu"))
    sizes = table[:, 1:].unflatten(1, (order, 2)).norm(dim=2)  # of complex numbers
    assert (sizes[needed + 1 :].sum(0) / sizes.sum(0)).max() < torch.finfo(torch.float32).eps / 3


@pytest.mark.parametrize(("iterations", "order"), [(10, 5), (11, 12), (20, 8), (10, 4)])
def test_the_needed_degree_is_needed(iterations: int, order: int) -> None:
    degree, needed = order * (iterations + 1), needed_degree(iterations, order)
    assert needed <= 0.75 * degree

    def left(angle: float) -> float:
        h = 1 / torch.tan(torch.tensor(angle, dtype=torch.float64))
        table = chebyshev_coefficients(lambda e: responses(h, iterations, order, e), degree, torch.device("cpu"))
        sizes = table[:, 1:].unflatten(1, (order, 2)).norm(dim=2)
        return float((sizes[needed:].sum(0) / sizes.sum(0)).max())

    assert max(left(angle) for angle in (0.001, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8)) > torch.finfo(torch.float32).eps / 8


def test_responses_of_many_zooms() -> None:
    zooms, e = torch.tensor(ZOOMS, dtype=torch.float64), torch.linspace(-1, 1, 4, dtype=torch.float64)
    many = torch.vmap(lambda h: responses(h, 3, 2, e))(zooms)
    assert_near(many, torch.stack([responses(h, 3, 2, e) for h in zooms]), 1e-14)
    own = e * torch.rand(len(zooms), 1)
    both = torch.vmap(lambda h, e: responses(h, 3, 2, e))(zooms, own)
    assert_near(both, torch.stack([responses(h, 3, 2, e) for h, e in zip(zooms, own, strict=True)]), 1e-14)
    h = zooms[3].clone().requires_grad_()
    shared = torch.vmap(lambda e: responses(h, 3, 2, e))(own)
    loop = torch.stack([responses(h, 3, 2, e) for e in own])
    assert_near(shared, loop, 1e-14)
    one, two = (torch.autograd.grad(out.square().sum(), h)[0] for out in (shared, loop))
    assert_near(one, two, 1e-12)


def test_derivatives_of_responses() -> None:
    e, h = torch.linspace(-1, 1, 4, dtype=torch.float64), torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

    def run(h: Tensor) -> Tensor:
        return responses(h, 3, 4, e)

    assert torch.autograd.gradcheck(run, (h,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(run, (h,))
    many = torch.tensor([0.7, -3.0], dtype=torch.float64)
    found = torch.vmap(torch.func.grad(lambda h: run(h).square().sum()))(many)
    truth = [torch.autograd.grad(run(h).square().sum(), h)[0] for h in many.requires_grad_().unbind()]
    assert_near(found, torch.stack(truth), 1e-12)


# ------------------------------------------------------------------------------------------------------ the iterations


def laplacian_of(graph: Graph) -> tuple[GraphOperator, Tensor]:
    op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight(), "laplacian")
    return op, torch.from_numpy(oracles.operator(graph.dense(), "laplacian"))


def by_dense_matrices(laplacian: Tensor, zoom: Tensor, iterations: int, y: Tensor) -> Tensor:
    """The transform of pairs, or of real numbers, (N, batch, F, 2 or 1)."""
    flat = (torch.complex(*y.unbind(3)) if y.shape[3] == 2 else y.squeeze(3).to(torch.complex128)).flatten(1)
    return torch.view_as_real(jacobi(laplacian, zoom, iterations, flat)).view(*y.shape[:3], 2)


@settings(max_examples=30)
@given(
    graph=graphs(),
    zoom=st.sampled_from([-2.0, -0.1, 0.0, 0.05, 1.0, 3.0]),
    iterations=st.integers(1, 4),
    parts=st.sampled_from([1, 2]),
)
def test_the_iterations(graph: Graph, zoom: float, iterations: int, parts: int) -> None:
    op, laplacian = laplacian_of(graph)
    h = torch.tensor(zoom, dtype=torch.float64, requires_grad=True)
    y = numbers(graph.num_nodes, 2, 3, parts, seed=1).requires_grad_()
    found, expected = Jacobi(op, h, iterations)(y), by_dense_matrices(laplacian, h, iterations, y)
    assert_near(found, expected)
    direction = numbers(*found.shape, seed=3)
    grads = [torch.autograd.grad((out * direction).sum(), [y, h]) for out in (found, expected)]
    for one, two in zip(*grads, strict=True):
        assert_near(one, two)
    with torch.no_grad():
        assert_near(Jacobi(op, h, iterations)(y), expected)


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("shared", [True, False])
def test_the_iterations_of_many_trials(undirected: bool, parts: int, shared: bool) -> None:
    graph = random_graph(7, 16, seed=1)
    op, laplacian = laplacian_of(graph.both_ways() if undirected else graph)
    assert (laplacian.diagonal() != 1).any()
    zooms = torch.tensor([-2.0, 0.0, 0.3, 1.0, 4.0], dtype=torch.float64, requires_grad=True)
    y = numbers(*(() if shared else (5,)), 7, 2, 3, parts, seed=2).requires_grad_()
    run = torch.vmap(lambda h, y: Jacobi(op, h, 3)(y), in_dims=(0, None if shared else 0))
    found = run(zooms, y)
    each = [y] * 5 if shared else list(y)
    truth = torch.stack([by_dense_matrices(laplacian, h, 3, z) for h, z in zip(zooms, each, strict=True)])
    assert_near(found, truth)
    direction = numbers(*found.shape, seed=3)
    grads = [torch.autograd.grad((out * direction).sum(), [zooms, y]) for out in (found, truth)]
    for one, two in zip(*grads, strict=True):
        assert_near(one, two)
    with torch.no_grad():
        assert_near(run(zooms, y), truth)


@pytest.mark.parametrize("parts", [1, 2])
def test_the_iterations_can_be_differentiated_twice(parts: int) -> None:
    op, laplacian = laplacian_of(random_graph(4, 8, seed=1))
    h = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    y = numbers(4, 1, 2, parts, seed=1).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda h, y: Jacobi(op, h, 2)(y), (h, y))
    zooms = torch.tensor([-0.5, 0.0, 2.0], dtype=torch.float64)

    def twice(transform: Any, h: Tensor) -> Tensor:
        return torch.func.grad(torch.func.grad(lambda h: transform(h).square().sum()))(h)

    found = torch.vmap(lambda h: twice(lambda h: Jacobi(op, h, 2)(y.detach()), h))(zooms)
    truth = [twice(lambda h: by_dense_matrices(laplacian, h, 2, y.detach()), h) for h in zooms]
    assert_near(found, torch.stack(truth))


def test_gradients_of_one_input_alone() -> None:
    op, laplacian = laplacian_of(random_graph(6, 12, seed=1))
    h, y = torch.tensor(0.7, dtype=torch.float64), numbers(6, 2, 3, 2, seed=1)
    for wanted in (h, y):
        wanted.requires_grad_()
        outs = Jacobi(op, h, 2)(y), by_dense_matrices(laplacian, h, 2, y)
        one, two = (torch.autograd.grad(out.square().sum(), wanted)[0] for out in outs)
        assert_near(one, two)
        wanted.requires_grad_(False)


@pytest.mark.parametrize("shape", [(0, 1, 2), (3, 0, 2), (3, 2, 0)])
def test_nothing_to_iterate(shape: tuple[int, ...]) -> None:
    op = GraphOperator.from_edge_index(torch.arange(shape[0]).expand(2, -1), shape[0], kind="laplacian")
    h, y = torch.ones((), requires_grad=True), torch.ones(*shape, 2, requires_grad=True)
    out = Jacobi(op, h, 2)(y)
    assert out.shape == (*shape, 2)
    by_h, by_y = torch.autograd.grad(out.sum(), [h, y])
    assert by_h == 0
    assert by_y.shape == y.shape


@pytest.mark.parametrize("start", range(4))
def test_pairs_anywhere_in_memory(start: int) -> None:
    """Complex numbers do not fit over pairs that start at an odd place."""
    op, laplacian = laplacian_of(random_graph(1, 2, seed=1, lone=0))
    h = torch.tensor(0.7, dtype=torch.float64)
    y = numbers(10)[start : start + 6].view(1, 1, 3, 2).requires_grad_()
    direction = numbers(10, seed=1)[start : start + 6].view(1, 1, 3, 2)
    outs = Jacobi(op, h, 2)(y), by_dense_matrices(laplacian, h, 2, y)
    assert_near(*outs)
    assert_near(torch.autograd.grad(outs[0], y, direction)[0], torch.autograd.grad(outs[1], y, direction.clone())[0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("loops", [True, False])
def test_on_a_gpu_one_by_one_and_recorded(dtype: torch.dtype, loops: bool) -> None:
    found = on_device(torch.device("cpu"), dtype, loops)
    assert set(found) == {"weight", "bias", "zoom", "x"}
    tolerance = 1e-4 if dtype == torch.float32 else 1e-11
    for name, there in on_device(torch.device("cuda"), dtype, loops).items():
        torch.testing.assert_close(there.cpu(), found[name.removeprefix("recorded ")], rtol=tolerance, atol=tolerance)


def on_device(device: torch.device, dtype: torch.dtype, loops: bool) -> dict[str, Tensor]:
    """Return the gradients of three trials of a layer, with self-loops or not; on a GPU, recorded as well."""
    edges = random_graph(40, 120, seed=3).edge_index
    edges = edges[:, edges[0] != edges[1]]
    some = torch.arange(0, 40, 3).expand(2, -1)[:, : 40 if loops else 0]
    conv = CayleyConv(3, 4, order=2, jacobi=3)
    op = conv.operator(torch.cat([edges, edges.flip(0), some], 1), 40, dtype=dtype).to(device)
    assert is_polynomial(op) != loops
    weights = {
        "weight": numbers(3, *conv.weight.shape, seed=1),
        "bias": numbers(3, 4, seed=2),
        "zoom": torch.tensor([0.5, 1.0, 3.0]),
        "x": numbers(3, 40, 3, seed=4),
    }
    weights = {name: tensor.to(device, dtype) for name, tensor in weights.items()}
    conv = conv.to(device, dtype)

    def loss(given: dict[str, Tensor]) -> Tensor:
        parameters = {name: tensor for name, tensor in given.items() if name != "x"}
        return torch.func.functional_call(conv, parameters, (given["x"], op)).square().sum()

    found = dict(torch.vmap(torch.func.grad(loss))(weights))
    if device.type == "cuda":
        recorded: dict[str, Tensor] = {}
        replay = capture(lambda: recorded.update(torch.vmap(torch.func.grad(loss))(weights)))
        for gradient in recorded.values():
            gradient.zero_()
        replay()
        found |= {f"recorded {name}": gradient for name, gradient in recorded.items()}
    return found
