from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import oracles
from armagnn.nn import CayleyConv, cayley_conv
from armagnn.nn.cayley_conv import is_polynomial
from armagnn.operators import GraphBatches, GraphOperator, knn_graph
from nn.cayley_oracle import jacobi, without_loops
from nn.layer_checks import NARROW, WIDE, OwnLayerChecks
from oracles import Graph, assert_near, numbers, random_graph


def complex_weights(conv: CayleyConv) -> list[Tensor]:
    pairs = conv.weight[:, 1:].unflatten(1, (conv.order, 2))
    return [torch.complex(pairs[:, j, 0], pairs[:, j, 1]) for j in range(conv.order)]


def exact(conv: CayleyConv, x: Tensor, laplacian: Tensor) -> Tensor:
    """The Cayley polynomial with a true inverse, power by power."""
    eye = torch.eye(len(laplacian), dtype=torch.complex128)
    transform = (conv.zoom * laplacian - 1j * eye) @ torch.linalg.inv(conv.zoom * laplacian + 1j * eye)
    terms = [
        torch.linalg.matrix_power(transform, j) @ x.to(torch.complex128) @ weight
        for j, weight in enumerate(complex_weights(conv), start=1)
    ]
    return x @ conv.weight[:, 0] + 2 * sum(terms).real  # type: ignore[union-attr]


class TestCayley(OwnLayerChecks):
    layer = CayleyConv
    options: ClassVar = [
        {}, {"order": 2, "act": None, "jacobi": 1}, {"order": 3, "jacobi": 4, "zoom": 0.4, "bias": False},
        {"order": 2, "zoom": 2.0, "train_zoom": False}, {"order": 2, "act": "tanh", "jacobi": 3},
    ]  # fmt: skip
    differentiable: ClassVar = {"order": 2, "jacobi": 2, "zoom": 0.7}
    bad: ClassVar = [{name: value} for name in ("order", "jacobi") for value in (0, 1.5, None)] + [
        {"zoom": value} for value in (0.0, -1.0, float("nan"), float("inf"), None, True)
    ]

    def truth(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        laplacian = torch.from_numpy(oracles.operator(adjacency.numpy(), "laplacian"))
        out, power = x @ conv.weight[:, 0], x.to(torch.complex128)
        for weight in complex_weights(conv):
            power = jacobi(laplacian, conv.zoom, conv.jacobi, power)
            out = out + 2 * (power @ weight).real
        return out

    @pytest.mark.parametrize("sizes", [NARROW, WIDE])
    def test_jacobi_converges_to_the_inverse_at_the_promised_rate(self, sizes: tuple[int, int]) -> None:
        graph = random_graph(12, 30, seed=5)
        graph = without_loops(graph).both_ways()  # without loops it converges for every zoom
        for zoom in (0.5, 1.0, 3.0):
            errors = []
            for iterations in (2, 8, 32, 400):
                conv = self.make(*sizes, order=3, jacobi=iterations, zoom=zoom, act=None, bias=False)
                x, op, adjacency = self.problem(conv, graph)
                truth = exact(conv, x, torch.from_numpy(oracles.operator(adjacency.numpy(), "laplacian")))
                errors.append(float((conv(x, op) - truth).detach().abs().max()))
            rate = zoom / (zoom**2 + 1) ** 0.5
            assert errors[0] > 1e-3  # few iterations are not the inverse
            assert errors[1] < errors[0] * rate**6 * 10
            assert errors[2] < errors[1] * rate**24 * 10 + 1e-12
            assert errors[3] < errors[0] * rate**398 * 10 + 1e-12

    def test_the_filter_is_the_cayley_polynomial_of_the_frequencies(self) -> None:
        conv = self.make(1, 1, order=2, jacobi=200, zoom=0.8, act=None, bias=False)
        graph = random_graph(8, 16, seed=2, lone=0).both_ways()
        _, op, adjacency = self.problem(conv, graph)
        eigenvalues, vectors = torch.linalg.eigh(torch.from_numpy(oracles.operator(adjacency.numpy(), "laplacian")))
        h, (c1, c2) = conv.zoom, (w.squeeze() for w in complex_weights(conv))
        phase = (h * eigenvalues - 1j) / (h * eigenvalues + 1j)
        torch.testing.assert_close(phase.abs(), torch.ones_like(eigenvalues))  # on the unit circle
        response = conv.weight[0, 0, 0] + 2 * (c1 * phase + c2 * phase**2).real
        for k in range(8):
            assert_near(conv(vectors[:, k : k + 1], op), response[k] * vectors[:, k : k + 1], 1e-9)

    def test_the_papers_sign_is_the_conjugate_weight(self) -> None:
        conv = self.make(*WIDE, order=2, jacobi=200, act=None, bias=False)
        graph = random_graph(8, 16, seed=2)
        graph = oracles.Graph(8, graph.source, (graph.source + 1) % 8, graph.weight).both_ways()
        x, op, adjacency = self.problem(conv, graph)
        laplacian = torch.from_numpy(oracles.operator(adjacency.numpy(), "laplacian"))
        eye = torch.eye(8, dtype=torch.complex128)
        transform = (laplacian + 1j * eye) @ torch.linalg.inv(laplacian - 1j * eye)  # Eq. 17
        out, power = x @ conv.weight[:, 0], x.to(torch.complex128)
        for weight in complex_weights(conv):
            power = transform @ power
            out = out + 2 * (power @ weight.conj()).real
        assert_near(conv(x, op), out, 1e-10)

    @pytest.mark.parametrize(("order", "iterations"), [(1, 1), (1, 3), (2, 2)])
    def test_the_layer_reaches_k_times_t_plus_one_hops(self, order: int, iterations: int) -> None:
        steps = torch.arange(8)
        path = torch.stack([torch.cat([steps, steps + 1]), torch.cat([steps + 1, steps])])
        for sizes in (NARROW, WIDE):
            conv = self.make(*sizes, order=order, jacobi=iterations, act=None)
            x = numbers(9, sizes[0]).requires_grad_()
            out = conv(x, path)
            reached = [torch.autograd.grad(row.sum(), x, retain_graph=True)[0][0].abs().max() > 1e-12 for row in out]
            assert reached == [hops <= order * (iterations + 1) for hops in range(9)]

    def test_zoom_is_trained_or_fixed(self) -> None:
        trained, fixed = CayleyConv(2, 3, zoom=0.5), CayleyConv(2, 3, zoom=0.5, train_zoom=False)
        assert [name for name, _ in trained.named_parameters()] == ["bias", "weight", "zoom"]
        assert [name for name, _ in fixed.named_parameters()] == ["bias", "weight"]
        assert trained.state_dict().keys() == fixed.state_dict().keys()
        with torch.no_grad():
            trained.zoom.fill_(3.0)
        trained.reset_parameters()
        assert trained.zoom.item() == fixed.zoom.item() == 0.5
        fixed.load_state_dict(trained.state_dict())
        x, index = torch.randn(3, 2), torch.tensor([[0, 1], [1, 0]])
        torch.testing.assert_close(fixed(x, index), trained(x, index))

    def test_repr(self) -> None:
        text = "CayleyConv(2, 3, order=2, jacobi=7, zoom=0.5, train_zoom=False)"
        assert repr(CayleyConv(2, 3, 2, 7, 0.5, False)) == text


class TestCayleyPolynomial(TestCayley):
    """The same of undirected graphs without self-loops, where the layer is a polynomial."""

    def problem(self, conv: Any, graph: Graph | None = None) -> tuple[Tensor, GraphOperator | None, Tensor]:
        graph = without_loops(random_graph(9, 30, seed=3) if graph is None else graph).both_ways()
        x, op, adjacency = super().problem(conv, graph)
        assert op is not None
        assert is_polynomial(op)
        return x, op, adjacency

    def test_all_arithmetic_is_real(self, monkeypatch: pytest.MonkeyPatch) -> None:
        conv = self.make(*WIDE, order=2)
        x, op, _ = self.problem(conv)
        seen: set[torch.dtype] = set()

        class Watch(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                out = func(*args, **(kwargs or {}))
                seen.update({out.dtype} if isinstance(out, Tensor) else set())
                return out

        with Watch():
            conv(x, op)
        assert torch.float64 in seen
        assert not any(dtype.is_complex for dtype in seen)

    def test_gradient_with_respect_to_edge_weights(self) -> None:
        graph = without_loops(random_graph(5, 9)).both_ways()
        for sizes in ((2, 3), (3, 2)):
            conv = self.make(*sizes, act="tanh", **self.differentiable)
            x, weight = numbers(5, sizes[0]), graph.edge_weight().requires_grad_()
            op = conv.operator(graph.edge_index, 5, weight)
            assert is_polynomial(op)
            assert op.value.requires_grad
            assert torch.autograd.gradcheck(lambda w, conv=conv, x=x: conv(x, graph.edge_index, w), (weight,))

    def test_edges_are_as_good_as_an_operator(self) -> None:
        graph, conv = without_loops(random_graph(6, 12)).both_ways(), self.make(2, 3)
        x, op, adjacency = self.problem(conv, graph)
        expected = conv(x, op)
        assert_near(conv(x, adjacency.to_sparse_csr()), expected)
        assert_near(conv(x, op.detach().with_value(op.value)), expected)  # by the iterations

    def test_a_graph_of_loops_alone(self) -> None:
        conv = self.make(*WIDE)
        loops = torch.tensor([0, 2]).numpy()
        op = conv.operator(Graph(3, loops, loops, numbers(2).numpy()).edge_index, 3)
        assert not op.unit_diagonal


@pytest.mark.parametrize("sizes", [NARROW, WIDE])
@pytest.mark.parametrize("loops", [True, False])
def test_padded_batches_are_the_graphs_alone(sizes: tuple[int, int], loops: bool) -> None:
    torch.manual_seed(0)
    conv = CayleyConv(*sizes, order=3, jacobi=4, zoom=3.0).double()
    parts = [random_graph(nodes, 3 * nodes, seed=nodes).both_ways() for nodes in (2, 4, 7)]
    parts = parts if loops else [without_loops(part) for part in parts]
    ops = [conv.operator(part.edge_index, part.num_nodes, part.edge_weight()) for part in parts]
    graphs = GraphBatches(GraphOperator.block_diagonal(ops), torch.tensor([0, 2, 6, 13]))
    x = numbers(13, sizes[0])
    batch = graphs.take_padded(torch.tensor([2, 0, 3]), rows=12, nonzeros=60)
    assert batch.op.unit_diagonal == (not loops)
    out = conv(x[batch.nodes], batch.op)
    alone = [conv(x[start : start + op.num_nodes], op) for start, op in ((6, ops[2]), (0, ops[0]))]
    assert_near(out[:9], torch.cat(alone))
    assert out.isfinite().all()
    for gradient in torch.autograd.grad(out.sum(), list(conv.parameters())):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("in_frequencies", [False, True])
@pytest.mark.parametrize("sizes", [(1, 4), (3, 4), (5, 4)])
def test_many_powers_and_iterations_in_float32(
    sizes: tuple[int, int], in_frequencies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cayley_conv, "spectral_pays", lambda *_: in_frequencies)
    grid = torch.cartesian_prod(torch.arange(12.0), torch.arange(12.0))
    edges, weight = knn_graph(grid, 8, "gaussian")
    for zoom in (0.5, 1.0, 5.0):
        torch.manual_seed(0)
        conv = CayleyConv(*sizes, order=12, jacobi=11, zoom=zoom, act=None)
        x = numbers(2, 144, sizes[0])
        results = []
        for dtype in (torch.float64, torch.float32):
            conv = conv.to(dtype)
            op = conv.operator(edges, 144, weight.double()).to(dtype)
            assert is_polynomial(op)
            out = conv(x.to(dtype), op)
            results.append([out, *torch.autograd.grad((out * numbers(*out.shape, seed=1)).sum(), conv.parameters())])
        for truth, found in zip(*results, strict=True):
            scale = float(truth.detach().abs().max())
            torch.testing.assert_close(found.double(), truth, rtol=0, atol=2e-5 * scale)


@pytest.mark.parametrize("sizes", [NARROW, WIDE])
def test_directed_cycles_of_a_high_order_in_float32(sizes: tuple[int, int]) -> None:
    """Their frequencies are 1 minus roots of unity, where Chebyshev polynomials of degree 144 reach 10^54."""
    steps = torch.arange(12)
    conv = CayleyConv(*sizes, order=12, jacobi=11, act=None)
    op = conv.operator(torch.stack([steps, (steps + 1) % 12]), 12)
    assert op.unit_diagonal
    x = numbers(12, sizes[0])
    truth = conv.double()(x, op.to(torch.float64))
    found = conv.float()(x.float(), op)
    torch.testing.assert_close(found.double(), truth, rtol=0, atol=1e-5 * float(truth.detach().abs().max()))


@pytest.mark.parametrize("sizes", [NARROW, WIDE])
@pytest.mark.parametrize("undirected", [True, False])
def test_trials_of_many_zooms_with_self_loops(sizes: tuple[int, int], undirected: bool) -> None:
    checks = TestCayley()
    conv = checks.make(*sizes, order=3, jacobi=4, act="tanh")
    graph = random_graph(9, 20, seed=1)
    x, op, adjacency = checks.problem(conv, graph.both_ways() if undirected else graph)
    assert (op.diagonal() != 1).any()
    names = [name for name, _ in conv.named_parameters()]
    leaves = {n: torch.stack([p.detach() * k for k in (0.5, 1.0, -1.0)]) for n, p in conv.named_parameters()}
    leaves = {name: leaf.requires_grad_() for name, leaf in (leaves | {"zoom": numbers(3, seed=5)}).items()}
    xs = torch.stack([x, 2 * x, x + 1]).requires_grad_()
    found = torch.vmap(lambda p, x: torch.func.functional_call(conv, p, (x, op)))(leaves, xs)
    inputs = [*(leaves[name] for name in names), xs]
    ours = torch.autograd.grad(found.square().sum(), inputs)
    for k in range(3):
        with torch.no_grad():
            for name, parameter in conv.named_parameters():
                parameter.copy_(leaves[name][k])
        one = xs[k].detach().requires_grad_()
        truth = checks.expected(conv, one, adjacency)
        assert_near(found[k], truth)
        theirs = torch.autograd.grad(truth.square().sum(), [*conv.parameters(), one])
        for a, b in zip(ours, theirs, strict=True):
            assert b.abs().max() > 0
            assert_near(a[k], b)


@pytest.mark.parametrize("sizes", [NARROW, WIDE])
def test_bfloat16_with_self_loops(sizes: tuple[int, int]) -> None:
    checks = TestCayley()
    conv = checks.make(*sizes, order=2, jacobi=3)
    x, op, _ = checks.problem(conv)
    truth = conv(x, op)
    found = conv.bfloat16()(x.bfloat16(), op.to(torch.bfloat16))
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), truth, rtol=0.05, atol=0.05 * float(truth.detach().abs().max()))
    found.sum().backward()
    assert conv.zoom.grad.isfinite()


@pytest.mark.parametrize("sizes", [NARROW, WIDE])
def test_a_single_node_with_a_learned_self_loop(sizes: tuple[int, int]) -> None:
    conv = TestCayley().make(*sizes, order=2, jacobi=2, act=None)
    op = conv.operator(torch.zeros(2, 1, dtype=torch.int64), 1, torch.ones(1, dtype=torch.float64))
    x = numbers(1, sizes[0]).requires_grad_()

    def run(x: Tensor, value: Tensor, *_: Tensor) -> Tensor:
        return conv(x, op.with_value(value))

    value = torch.full((1,), 0.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (x, value, *conv.parameters()))
    assert torch.autograd.gradcheck(run, (x, value.detach(), *conv.parameters()))


def test_trials_multiply_the_fewer_matrices_on_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[bool] = []
    real = cayley_conv.polynomial
    monkeypatch.setattr(cayley_conv, "polynomial", lambda *given: chosen.append(given[-1]) or real(*given))
    edges = without_loops(random_graph(30, 60, seed=1)).edge_index
    conv = CayleyConv(32, 32, order=2, jacobi=10).double()
    op = conv.operator(torch.cat([edges, edges.flip(0)], 1), 30, dtype=torch.float64)
    x, weight = numbers(3, 30, 32), numbers(3, *conv.weight.shape, seed=2)

    def run(x: Tensor, weight: Tensor) -> Tensor:
        return torch.func.functional_call(conv, {"weight": weight}, (x, op))

    together = torch.vmap(run)(x, weight)
    shared = torch.vmap(run, in_dims=(None, 0))(x[0], weight)
    for r in range(3):
        assert_near(run(x[r], weight[r]), together[r], 1e-11)
        assert_near(run(x[0], weight[r]), shared[r], 1e-11)
    assert chosen == [False, True, *[True] * 6]
