from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

import oracles
from armagnn import GraphOperator
from armagnn.errors import ConvergenceWarning, GraphError, ParameterError, SymmetryError, UnsupportedError
from armagnn.filters import ARMAFilter
from armagnn.nn import RationalConv, make_conv
from armagnn.nn import rational_conv as module
from armagnn.operators import GraphBatches
from nn.layer_checks import NARROW, WIDE, OwnLayerChecks
from oracles import Graph, assert_near, numbers, random_graph


def dense_filter(conv: Any, y: Tensor, matrix: Tensor) -> Tensor:
    """h(M) y by dense inverses, from the formula of the poles."""
    eye, groups, pairs = torch.eye(len(matrix), dtype=torch.complex128), conv.groups, conv._start.pairs
    columns = []
    for column in range(y.shape[1]):
        g = column * groups // y.shape[1]
        u, b = (p.view(groups, conv.order)[g] for p in (conv.pole, conv.residue))
        total = conv.constant[g] * y[:, column]
        for k in range(conv.order - pairs):
            first = 2 * k if k < pairs else pairs + k
            parts = [torch.complex(t[first], t[first + 1]) if k < pairs else t[first] + 0j for t in (u, b)]
            w = conv.radius * parts[0] / (1 + parts[0].abs() ** 2) ** 0.5
            pole = (w + 1 / w) / 2
            total = total + (parts[1] * torch.linalg.inv(eye - matrix / pole) @ y[:, column].to(eye.dtype)).real
        columns.append(total)
    return torch.stack(columns, 1)


class TestRational(OwnLayerChecks):
    layer = RationalConv
    defaults: ClassVar = {"method": "exact"}
    options: ClassVar = [
        {}, {"order": 1, "act": None}, {"order": 3, "init": "comb", "bias": False}, {"order": 2, "learn_poles": False},
        {"order": 2, "act": "tanh", "init": [1.1, -1.3]},
    ]  # fmt: skip
    differentiable: ClassVar = {"order": 3, "init": [2.0, 0.3 + 0.6j, 0.3 - 0.6j]}
    bad: ClassVar = [
        {"order": 0}, {"order": 17}, {"order": 1.5}, {"groups": 0}, {"groups": 2}, {"learn_poles": 1},
        {"method": "cg"}, {"tol": 0.0}, {"tol": 1.0}, {"max_iter": 0}, {"radius": 1.0}, {"radius": 0.0},
    ]  # fmt: skip

    def truth(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        matrix = torch.from_numpy(oracles.operator(adjacency.numpy(), "arma"))
        return dense_filter(conv, x @ conv.weight, matrix)

    def problem(self, conv: Any, graph: Graph | None = None) -> tuple[Tensor, GraphOperator | None, Tensor]:
        return super().problem(conv, (random_graph(9, 20, seed=3) if graph is None else graph).both_ways())

    def test_edges_are_as_good_as_an_operator(self) -> None:
        graph, conv = random_graph(6, 9).both_ways(), self.make(2, 3)
        x, op, adjacency = self.problem(conv, graph)
        assert_near(conv(x, graph.edge_index, graph.edge_weight()), conv(x, op))
        assert_near(conv(x, adjacency.to_sparse_csr()), conv(x, op))

    def test_gradient_with_respect_to_edge_weights(self) -> None:
        graph, weight = random_graph(5, 6), numbers(6).square().requires_grad_()
        edges = torch.cat([graph.edge_index, graph.edge_index.flip(0)], 1)
        for sizes in ((2, 3), (3, 2)):
            conv, x = self.make(*sizes, act="tanh", **self.differentiable), numbers(5, sizes[0])
            assert torch.autograd.gradcheck(lambda w, conv=conv, x=x: conv(x, edges, w.repeat(2)), (weight,))

    def test_values_and_gradients_of_edge_weights_are_those_of_the_dense_layer(self) -> None:
        graph = random_graph(6, 12, seed=2).both_ways()
        weight, x = graph.edge_weight().requires_grad_(), numbers(6, 3)
        conv = self.make(3, 4, act="tanh")
        ours = torch.autograd.grad(conv(x, graph.edge_index, weight).square().sum(), weight)[0]
        matrix = oracles.torch_operator(graph.edge_index, weight, 6, "arma")
        truth = torch.tanh(dense_filter(conv, x @ conv.weight, matrix) + conv.bias)
        assert_near(ours, torch.autograd.grad(truth.square().sum(), weight)[0], 1e-9)

    def test_a_directed_graph_is_refused(self) -> None:
        with pytest.raises(SymmetryError, match="symmetrize"):
            self.make(2, 3)(numbers(3, 2), torch.tensor([[0, 1], [1, 2]]))

    def test_each_group_has_its_own_response(self) -> None:
        for sizes in ((2, 6), (7, 6)):
            conv = self.make(*sizes, groups=3)
            with torch.no_grad():
                for parameter in (conv.pole, conv.residue, conv.constant):
                    parameter += 0.3 * numbers(*parameter.shape, seed=1)
            x, op, adjacency = self.problem(conv)
            one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
            ours, truth = conv(one, op), self.expected(conv, two, adjacency)
            assert_near(ours, truth)
            assert conv.response(torch.linspace(-1, 1, 5)).shape == (3, 5)
            assert conv.poles.shape == (3, 4)
            for a, b in zip(
                torch.autograd.grad(ours.square().sum(), [one, *conv.parameters()]),
                torch.autograd.grad(truth.square().sum(), [two, *conv.parameters()]),
                strict=True,
            ):
                assert_near(a, b, 1e-9)

    def test_every_parameter_may_be_drawn_twice(self) -> None:
        conv = self.make(2, 3)
        before = copy.deepcopy(conv.state_dict())
        with torch.no_grad():
            conv.pole += 1
            conv.residue += 1
        conv.reset_parameters()
        for name in ("pole", "residue", "constant"):
            assert_near(conv.state_dict()[name], before[name], 1e-6)

    def test_repr(self) -> None:
        text = "RationalConv(2, 4, order=3, init='heat', groups=2, learn_poles=False, method='exact', act='tanh')"
        made = RationalConv(2, 4, 3, "heat", 2, False, "exact", act="tanh")
        assert repr(made) == text
        assert "init='given'" in repr(RationalConv(2, 4, 1, [2.0]))


class TestInFrequencies(TestRational):
    """The same in the frequencies of the graph, where second derivatives are possible."""

    defaults: ClassVar = {"method": "eigen"}

    def test_gradient_with_respect_to_edge_weights(self) -> None:
        graph = random_graph(5, 6).both_ways()
        with pytest.raises(GraphError, match="edge weights"):
            self.make(2, 3)(numbers(5, 2), graph.edge_index, graph.edge_weight().requires_grad_())

    test_values_and_gradients_of_edge_weights_are_those_of_the_dense_layer = None
    test_sparse_features_are_never_made_dense = None  # the features are not, but the operator is
    test_compiles_without_a_break = None

    def test_is_refused_by_the_compiler(self) -> None:
        conv = self.make(*NARROW)
        x, op, _ = self.problem(conv)
        with pytest.raises(Exception, match="does not compile"):
            torch.compile(conv, fullgraph=True, backend="aot_eager")(x, op)

    def test_second_derivatives(self) -> None:
        conv = self.make(2, 2, act=None, order=2)
        x, op, _ = self.problem(conv, random_graph(4, 6))
        x.requires_grad_()
        assert torch.autograd.gradgradcheck(lambda x, *_: conv(x, op), (x, *conv.parameters()), atol=1e-4)


class TestByRecursion(TestRational):
    """The same by the recursion of Eq. 8, for poles that allow it."""

    defaults: ClassVar = {"method": "recursion", "order": 2, "init": [1.5, -2.0]}
    options: ClassVar = [{}, {"order": 2, "act": "tanh", "init": [1.0 + 0.7j, 1.0 - 0.7j]}]
    differentiable: ClassVar = {}
    bad: ClassVar = []

    test_gradient_with_respect_to_edge_weights = TestInFrequencies.test_gradient_with_respect_to_edge_weights

    test_values_and_gradients_of_edge_weights_are_those_of_the_dense_layer = None
    test_compiles_without_a_break = test_per_signal_gradients = test_trials_draw_their_own_masks = None
    test_vmap_over_three_trials_equals_a_loop = None

    def test_is_refused_under_vmap(self) -> None:
        conv = self.make(*WIDE)
        x, op, _ = self.problem(conv)
        with pytest.raises(UnsupportedError, match="recursion"):
            torch.vmap(lambda x: conv(x, op))(torch.stack([x, x]))
        several = {name: torch.stack([value, value]) for name, value in conv.state_dict().items()}
        with pytest.raises(UnsupportedError, match="recursion"):
            torch.vmap(lambda state: torch.func.functional_call(conv, state, (x, op)))(several)

    def test_repr(self) -> None:
        assert "method='recursion'" in repr(self.make(2, 3))

    def test_poles_within_the_unit_disk_are_refused(self) -> None:
        conv = self.make(2, 3, init=[0.5j, -0.5j])
        x, op, _ = self.problem(conv)
        with pytest.raises(ParameterError, match="exact"):
            conv(x, op)

    def test_each_group_has_its_own_response(self) -> None:
        conv = self.make(2, 6, groups=2)
        with torch.no_grad():
            conv.pole += 0.1 * numbers(4)
        x, op, adjacency = self.problem(conv)
        assert_near(conv(x, op), self.expected(conv, x, adjacency))


# ------------------------------------------------------------------------------------------------------------ responses


class TestSeries(TestRational):
    """The same layer by its Chebyshev series, whose length the radius bounds."""

    defaults: ClassVar = {"method": "series", "radius": 0.7}
    options: ClassVar = [
        {}, {"order": 3, "init": "comb", "bias": False}, {"order": 2, "act": "tanh", "init": [1.1, -1.3]},
    ]  # fmt: skip
    differentiable: ClassVar = {"order": 2, "init": [2.0, -1.5], "radius": 0.5}

    def test_repr(self) -> None:
        assert repr(RationalConv(2, 3, method="series")) == "RationalConv(2, 3, order=4, method='series')"

    def test_auto_takes_it_where_the_radius_bounds_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "SMALL", 0)
        ring = torch.stack([torch.arange(40), (torch.arange(40) + 1) % 40])
        edges, x = torch.cat([ring, ring.flip(0)], 1), numbers(40, 2)
        for radius, solved in ((0.6, False), (0.9, True)):
            conv = RationalConv(2, 3, radius=radius).double()
            out = conv(x, edges)
            assert (conv.statistics is not None) == solved
            conv.method = "eigen"
            assert_near(out, conv(x, edges), 1e-10)


def test_the_response_is_that_of_the_filter_and_of_the_layer() -> None:
    conv = RationalConv(1, 1, order=5, init="comb", act=None, bias=False).double()
    graph = random_graph(12, 40, seed=2).both_ways()
    op = conv.operator(graph.edge_index, 12, graph.edge_weight())
    mu, vectors = torch.linalg.eigh(op.to_dense())
    expected = conv.response(mu) * (conv.weight[0, 0] * vectors)
    for method in ("exact", "eigen"):
        conv.method = method
        assert_near(torch.cat([conv(vectors[:, k : k + 1], op) for k in range(12)], 1), expected, 1e-9)
    f = conv.filter()
    assert isinstance(f, ARMAFilter)
    assert f.order == 6
    np.testing.assert_allclose(f.response(mu.numpy()), conv.response(mu).detach().numpy(), rtol=1e-9)
    again = RationalConv(1, 1, order=5, init=f).double()
    torch.testing.assert_close(again.response(mu), conv.response(mu), rtol=1e-5, atol=1e-5)
    assert_near(torch.sort((1 / f.a[:-1]).real)[0], torch.sort(conv.poles.real)[0], 1e-9)


@pytest.mark.parametrize("name", ["low-pass", "heat", "band-stop", lambda mu: 1 / (1.2 - mu)])
def test_a_designed_start_is_near_its_target(name: Any) -> None:
    conv, f = RationalConv(1, 1, order=4, init=name), ARMAFilter.design(name, 4)
    mu = np.linspace(-1, 1, 201)
    assert np.sqrt(np.mean((conv.response(mu) - f.response(mu)) ** 2)) < 0.03


def test_given_poles_are_where_the_layer_starts() -> None:
    given = torch.tensor([0.2 - 0.4j, 0.2 + 0.4j, 1.5, -3.0])
    conv = RationalConv(1, 1, init=given)
    found = conv.poles.detach()
    for pole in given:
        assert (found - pole).abs().min() < 1e-5


@pytest.mark.parametrize(
    ("init", "message"),
    [([0.5, 2.0], "on \\[-1, 1\\]"), ([1j, 2j], "conjugate"), ([2.0], "as many"), ([float("nan"), 2.0], "NaN")],
)
def test_poles_that_cannot_be_are_refused(init: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        RationalConv(2, 3, order=2, init=init)


def test_no_training_moves_a_pole_onto_the_frequencies() -> None:
    conv = RationalConv(1, 1, order=4, radius=0.9)
    for scale in (1e-3, 1.0, 1e3, 1e30):
        with torch.no_grad():
            conv.pole.copy_(scale * numbers(4, seed=int(scale)).float())
        p = conv.poles.detach()
        w = (p + torch.sqrt(p - 1) * torch.sqrt(p + 1)).abs()
        assert float(w.min()) >= 1 / 0.9 - 1e-6
        assert conv.response(torch.linspace(-1, 1, 50)).isfinite().all()


def test_plot_draws_every_group() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    assert len(RationalConv(1, 4, groups=2).plot().lines) == 2


# --------------------------------------------------------------------------------------------------------------- solves


def test_statistics_of_a_solve_and_of_its_backward_pass() -> None:
    conv = RationalConv(2, 3, method="exact").double()
    graph = random_graph(30, 90, seed=1).both_ways()
    op = conv.operator(graph.edge_index, 30, graph.edge_weight())
    assert conv.statistics is None
    out = conv(numbers(30, 2), op)
    found = conv.statistics
    assert found.converged == [True, True]
    assert len(found.steps) == 2
    assert found.residual < 1e-9
    assert found.adjoint is None
    out.sum().backward()
    assert found.adjoint.converged == [True, True]
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        RationalConv(2, 3, method="exact", max_iter=2).double()(numbers(30, 2), op)


def test_a_solve_multiplies_with_the_operator_once_for_all_poles(monkeypatch: pytest.MonkeyPatch) -> None:
    from armagnn.kernels import cpu

    columns: list[int] = []
    real = cpu.gcs
    monkeypatch.setattr(cpu, "gcs", lambda *args, **given: columns.append(args[3].shape[1]) or real(*args, **given))
    conv = RationalConv(2, 3, order=8, method="exact").double()
    graph = random_graph(60, 150, seed=1).both_ways()
    op = conv.operator(graph.edge_index, 60, graph.edge_weight())
    with torch.no_grad():
        conv(numbers(60, 2), op)
    steps = max(conv.statistics.steps)
    assert steps > 20
    assert sum(columns) == 2 * (steps + 1)  # of two columns, with the true residual; four pairs one by one: 16 steps


def test_memory_does_not_grow_with_the_steps() -> None:
    graph = random_graph(40, 100, seed=1).both_ways()
    sizes = []
    for tol in (1e-2, 1e-12):
        conv = RationalConv(2, 3, method="exact", tol=tol).double()
        op = conv.operator(graph.edge_index, 40, graph.edge_weight())
        kept: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, kept=kept: kept.append(t.numel()) or t, lambda t: t):
            conv(numbers(40, 2), op)
        sizes.append((sum(kept), max(conv.statistics.steps)))
    assert sizes[0][0] == sizes[1][0]
    assert sizes[0][1] < sizes[1][1]


@pytest.mark.parametrize("method", ["auto", "exact"])
def test_batches_of_graphs_with_known_spectra(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    conv = RationalConv(3, 4, order=3, method=method).double()
    parts = [random_graph(nodes, 3 * nodes, seed=nodes).both_ways() for nodes in (2, 4, 7)]
    ops = [conv.operator(part.edge_index, part.num_nodes, part.edge_weight()) for part in parts]
    graphs = GraphBatches(GraphOperator.block_diagonal(ops), torch.tensor([0, 2, 6, 13]))
    x = numbers(13, 3)
    alone = [conv(x[start : start + op.num_nodes], op) for start, op in ((6, ops[2]), (0, ops[0]))]
    graphs.find_spectra()
    if method == "auto":
        monkeypatch.setattr(module, "partial_fractions", lambda *_: pytest.fail("solved"))
    batch = graphs.take(torch.tensor([2, 0]))
    assert_near(conv(x[batch.nodes], batch.op), torch.cat(alone))


def test_auto_solves_large_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(300, 900, seed=1).both_ways()
    conv = RationalConv(2, 3).double()
    op = conv.operator(graph.edge_index, 300, graph.edge_weight())
    solved = conv(numbers(300, 2), op)
    assert conv.statistics is not None
    monkeypatch.setattr(module, "SMALL", 300)
    conv.statistics = None
    assert_near(conv(numbers(300, 2), op), solved, 1e-9)
    assert conv.statistics is None


def test_bfloat16_is_solved_in_single_precision() -> None:
    checks = TestRational()
    conv = checks.make(*WIDE)
    x, op, _ = checks.problem(conv)
    truth = conv(x, op)
    found = conv.bfloat16()(x.bfloat16(), op.to(torch.bfloat16))
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), truth, rtol=0.1, atol=0.1 * float(truth.detach().abs().max()))
    found.sum().backward()
    assert conv.pole.grad.isfinite().all()


def test_an_eigenvalue_beyond_a_real_pole_is_an_error() -> None:
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), lambda_max=3.0)  # eigenvalues 1.5 and -0.5
    with pytest.raises(GraphError, match="beyond the pole"):
        RationalConv(1, 1, order=1, init=[1.2], method="exact")(torch.ones(2, 1), op)


def test_a_layer_without_numbers() -> None:
    with torch.device("meta"):
        conv = RationalConv(2, 3, order=3, init="heat")
    assert conv.pole.is_meta
    made = conv.to_empty(device="cpu")
    made.reset_parameters()
    assert_near(made.response(torch.tensor([0.5])), RationalConv(2, 3, order=3, init="heat").response([0.5]), 1e-6)


def test_make_conv_knows_it() -> None:
    assert repr(make_conv("rational", 2, 3, order=2)) == "RationalConv(2, 3, order=2)"
