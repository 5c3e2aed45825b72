"""What every filter must do. A subject says how it is built and what its response is; it inherits the rest.

The truth is U diag(h) U^T x, by numpy, of the operator as tests/oracles.py writes it: nothing of it uses armagnn.
"""

from __future__ import annotations

from typing import Any, ClassVar

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

import oracles
from armagnn import GraphOperator
from armagnn.errors import ArmagnnError, DTypeError, GraphError, ShapeError, SymmetryError, UnknownNameError
from armagnn.filters import Filter, PolynomialFilter
from oracles import Graph, assert_near, numbers, random_graph
from strategies import undirected

mpl.use("Agg")

Array = npt.NDArray[Any]
NEAR = 1e-8
"""All methods agree with the truth to this, relative to the size of the result."""


class FilterChecks:
    """Checks of any filter."""

    kind: ClassVar[str] = "arma"
    gamma: ClassVar[float] = 1.0
    refused: ClassVar[tuple[str, ...]] = ("laplacian", "adjacency")
    parameters: ClassVar[list[Tensor]] = []
    """The coefficients in which the filter is differentiable, float64 or complex128."""

    def make(self, *parameters: Tensor) -> Filter:
        """The filter with these coefficients."""
        raise NotImplementedError

    def truth(self, eigenvalues: Array) -> Array:
        """The response at the operator's eigenvalues, in plain numpy."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------------------- helpers

    @property
    def subject(self) -> Filter:
        return self.make(*self.parameters)

    def operator(self, graph: Graph, dtype: torch.dtype = torch.float64, kind: str | None = None) -> GraphOperator:
        kind = self.kind if kind is None else kind
        options = {"gamma": self.gamma} if kind == "gcn" else {}
        weight = graph.edge_weight()
        op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, weight, kind, **options)  # type: ignore[arg-type]
        return op.to(dtype)

    def dense(self, graph: Graph) -> Array:
        """The dense matrix of the filter."""
        matrix = oracles.operator(graph.dense(), self.kind, self.gamma)
        eigenvalues, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        return (vectors * self.truth(eigenvalues)) @ vectors.T

    def assert_filters(self, graph: Graph, x: Tensor) -> None:
        """Every method gives the truth."""
        expected = torch.from_numpy(self.dense(graph)) @ x
        for method in self.subject.methods:
            assert_near(self.subject.filter(self.operator(graph), x, method), expected, NEAR)

    # ------------------------------------------------------------------------------------------------------- response

    def test_response_of_tensors_arrays_and_numbers(self) -> None:
        mu = np.linspace(-1, 1, 41)
        eigenvalues = 1 - mu if self.kind == "laplacian" else mu
        expected = self.truth(eigenvalues)
        ours = self.subject.response(mu)
        assert isinstance(ours, np.ndarray)
        np.testing.assert_allclose(ours, expected, rtol=1e-11, atol=1e-11)
        tensor = self.subject(torch.from_numpy(mu).view(41, 1))
        assert tensor.shape == (41, 1)
        assert tensor.dtype == torch.float64
        assert_near(tensor.squeeze(1), expected)
        assert_near(self.subject.response(torch.from_numpy(mu).float()), expected, 2e-4)
        assert self.subject.response(float(mu[7])) == pytest.approx(float(expected[7]))
        np.testing.assert_allclose(self.subject.response(list(mu[:3])), expected[:3], rtol=1e-11, atol=1e-11)

    def test_response_has_gradients(self) -> None:
        mu = torch.tensor([-0.9, -0.31, 0.27, 0.8], dtype=torch.float64, requires_grad=True)
        inputs = [p.clone().requires_grad_() for p in self.parameters]
        assert gradcheck(lambda m, *p: self.make(*p).response(m), (mu, *inputs))

    @pytest.mark.parametrize("bad", ["low", None, [[1.0], [2.0, 3.0]]])
    def test_bad_frequencies_are_refused(self, bad: Any) -> None:
        with pytest.raises(DTypeError, match="mu must"):
            self.subject.response(bad)

    # ----------------------------------------------------------------------------------------------- values, gradients

    def test_filters_like_the_dense_truth_on_any_graph(self) -> None:
        @settings(max_examples=12)
        @given(undirected(), st.integers(0, 99))
        def check(graph: Graph, seed: int) -> None:
            self.assert_filters(graph, numbers(graph.num_nodes, 2, seed=seed))

        check()

    def test_filters_like_the_dense_truth_on_a_larger_graph(self) -> None:
        graph = random_graph(60, 150, seed=2, lone=3).both_ways()
        x = numbers(60, 4, seed=1)
        assert (torch.from_numpy(self.dense(graph)) @ x).abs().max() > 0.01
        self.assert_filters(graph, x)

    @pytest.mark.parametrize("nodes", [1, 3])
    def test_a_graph_without_edges(self, nodes: int) -> None:
        empty = np.empty(0)
        self.assert_filters(Graph(nodes, empty.astype(int), empty.astype(int), empty), numbers(nodes, 2))

    def test_gradients_of_every_method(self) -> None:
        op = self.operator(random_graph(6, 9, seed=5).both_ways())
        inputs = (numbers(6, 2).requires_grad_(), *(p.clone().requires_grad_() for p in self.parameters))
        for method in self.subject.methods:
            gradcheck(lambda x, *p, method=method: self.make(*p).filter(op, x, method), inputs, fast_mode=True)
            out = self.subject.filter(op, inputs[0], method)
            assert out.requires_grad  # or there was nothing to check

    def test_float32(self) -> None:
        graph = random_graph(20, 50, seed=3).both_ways()
        x = numbers(20, 3, dtype=torch.float32)
        expected = torch.from_numpy(self.dense(graph)) @ x.double()
        for method in self.subject.methods:
            out = self.subject.filter(self.operator(graph, torch.float32), x, method)
            assert out.dtype == torch.float32
            assert_near(out, expected, 5e-5)

    # ------------------------------------------------------------------------------------------------------- properties

    def test_linear(self) -> None:
        op = self.operator(random_graph(12, 30).both_ways())
        x, y = numbers(12, 2, seed=1), numbers(12, 2, seed=2)
        for method in self.subject.methods:
            one, two = (self.subject.filter(op, z, method) for z in (x, y))
            assert_near(self.subject.filter(op, 2 * x - 3 * y, method), 2 * one - 3 * two, NEAR)

    def test_a_renumbered_graph_gives_renumbered_rows(self) -> None:
        @settings(max_examples=6)
        @given(undirected(), st.integers(0, 99))
        def check(graph: Graph, seed: int) -> None:
            perm = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
            x = numbers(graph.num_nodes, 2, seed=seed)
            moved = torch.empty_like(x).index_copy(0, perm, x)
            for method in self.subject.methods:
                out = self.subject.filter(self.operator(graph.permuted(perm.numpy())), moved, method)
                assert_near(out[perm], self.subject.filter(self.operator(graph), x, method), NEAR)

        check()

    def test_many_signals_equal_a_loop(self) -> None:
        op = self.operator(random_graph(12, 30).both_ways())
        x = numbers(2, 3, 12, 4)
        for method in self.subject.methods:
            together = self.subject.filter(op, x, method)
            assert together.shape == x.shape
            for i in range(2):
                for j in range(3):
                    assert_near(together[i, j], self.subject.filter(op, x[i, j], method), NEAR)
            one = self.subject.filter(op, x[0, 0, :, 0], method)
            assert one.shape == (12,)
            assert_near(one, together[0, 0, :, 0], NEAR)
            assert self.subject.filter(op, x[0, 0, :, :0], method).shape == (12, 0)

    def test_disjoint_graphs_are_filtered_alone(self) -> None:
        ops = [self.operator(random_graph(n, 3 * n, seed=n).both_ways()) for n in (5, 8)]
        x = numbers(13, 2)
        for method in self.subject.methods:
            together = self.subject.filter(GraphOperator.block_diagonal(ops), x, method)
            alone = [self.subject.filter(op, part, method) for op, part in zip(ops, x.split([5, 8]), strict=True)]
            assert_near(together, torch.cat(alone), NEAR)

    def test_a_given_spectrum_is_used(self) -> None:
        graph = random_graph(9, 20).both_ways()
        op, x = self.operator(graph), numbers(9, 2)
        eigenvalues, vectors = (torch.from_numpy(part) for part in np.linalg.eigh(op.to_dense().numpy()))
        assert_near(self.subject.filter(op, x, "eigen", spectrum=(eigenvalues, vectors)), self.dense(graph) @ x.numpy())
        with pytest.raises(ShapeError, match="spectrum"):
            self.subject.filter(op, x, "eigen", spectrum=(eigenvalues[:5], vectors[:, :5]))

    # ------------------------------------------------------------------------------------------- binding, algebra, plot

    def test_bound_to_a_graph(self) -> None:
        op, x = self.operator(random_graph(9, 20).both_ways()), numbers(9, 2)
        for method in self.subject.methods:
            bound = self.subject.bind(op, method)
            assert bound.shape == (9, 9)
            assert torch.equal(bound @ x, self.subject.filter(op, x, method))
        assert type(self.subject).__name__ in repr(self.subject.bind(op))

    def test_sums_and_multiples(self) -> None:
        graph = random_graph(9, 20).both_ways()
        op, x, mu = self.operator(graph), numbers(9, 2), np.linspace(-1, 1, 9)
        lam = self.kind == "laplacian"
        other = PolynomialFilter([0.3, -0.2], variable="lambda" if lam else "mu")
        factor = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        for combined in (factor * self.subject - (other - self.subject), -other + self.subject * 3):
            np.testing.assert_allclose(combined(mu), 3 * self.subject(mu) - other(mu), atol=1e-11)
            assert set(combined.kinds) == set(self.subject.kinds) & set(other.kinds)
            for method in combined.methods:
                expected = 3 * self.subject.filter(op, x) - other.filter(op, x)
                assert_near(combined.filter(op, x, method), expected, NEAR)
        out = (factor * self.subject).filter(op, x).sum()
        (slope,) = torch.autograd.grad(out, factor)
        assert_near(slope, self.subject.filter(op, x).sum(), NEAR)
        for bad in ("2", 1j, [2], None):
            with pytest.raises(TypeError):
                bad * self.subject  # type: ignore[operator]
            with pytest.raises(TypeError):
                self.subject + bad  # type: ignore[operator]

    def test_plot(self) -> None:
        import matplotlib.pyplot as plt

        ax = self.subject.plot(mu=torch.tensor([-0.5, 0.5]), label="here")
        try:
            curve, marks = ax.lines
            np.testing.assert_allclose(curve.get_ydata(), self.subject.response(1 - curve.get_xdata()))
            np.testing.assert_allclose(marks.get_xdata(), [1.5, 0.5])
            assert curve.get_label() == "here"
            assert ax.get_xlabel() == "λ = 1 − μ"
            assert self.subject.plot(ax=ax) is ax
            assert len(ax.lines) == 3
        finally:
            plt.close(ax.figure)

    # -------------------------------------------------------------------------------------------------------- bad input

    def test_operators_of_another_kind_are_refused_with_advice(self) -> None:
        graph = random_graph(6, 9).both_ways()
        for kind in self.refused:
            with pytest.raises(GraphError, match="build"):
                self.subject.filter(self.operator(graph, kind=kind), numbers(6, 2))
            with pytest.raises(GraphError, match=f"kind {kind!r}|[Ll]aplacian"):
                self.subject.bind(self.operator(graph, kind=kind))

    def test_bad_input_is_refused(self) -> None:
        op = self.operator(random_graph(6, 9).both_ways())
        empty = self.operator(Graph(0, np.empty(0, int), np.empty(0, int), np.empty(0)))
        directed = self.operator(Graph(3, np.array([0, 1]), np.array([1, 2]), np.ones(2)))
        f = self.subject
        with pytest.raises(ShapeError, match="7 values"):
            f.filter(op, numbers(7))
        with pytest.raises(ShapeError, match="one row per node"):
            f.filter(op, numbers(7, 2))
        with pytest.raises(DTypeError, match="float32"):
            f.filter(op, numbers(6, 2, dtype=torch.float32))
        with pytest.raises(DTypeError, match="Tensor"):
            f.filter(op, [[1.0]] * 6)  # type: ignore[call-overload]
        with pytest.raises(ArmagnnError, match=r"edge_index|build it first"):
            f.filter(torch.eye(6), numbers(6, 2))
        with pytest.raises(DTypeError, match="GraphOperator"):
            f.bind(torch.eye(6))  # type: ignore[arg-type]
        with pytest.raises(GraphError, match="no nodes"):
            f.filter(empty, numbers(0, 2))
        with pytest.raises(SymmetryError, match="symmetric"):
            f.filter(directed, numbers(3, 2))
        with pytest.raises(UnknownNameError, match="method"):
            f.filter(op, numbers(6, 2), "exactly")
        with pytest.raises(UnknownNameError, match="option"):
            f.filter(op, numbers(6, 2), "exact", tolerance=1e-3)
