from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

import oracles
from armagnn import CSR, GraphOperator
from armagnn.errors import SymmetryError
from armagnn.nn import ChebConv, cheb_conv
from armagnn.operators import GraphBatches
from nn.layer_checks import NARROW, WIDE, OwnLayerChecks
from oracles import assert_near, numbers, random_graph


class TestChebyshev(OwnLayerChecks):
    layer = ChebConv
    options: ClassVar = [
        {"order": 1}, {"order": 2}, {"order": 3, "act": None}, {"lambda_max": 1.5, "order": 4, "bias": False},
        {"order": 6, "act": "tanh"},
    ]  # fmt: skip
    differentiable: ClassVar = {"order": 4}
    bad: ClassVar = [{"order": value} for value in (0, 2.0, None)] + [
        {"lambda_max": value} for value in (0.0, -1, float("inf"), float("nan"), None, True, "compute")
    ]

    def truth(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        laplacian = torch.from_numpy(oracles.operator(adjacency.numpy(), "laplacian"))
        eye = torch.eye(len(laplacian), dtype=torch.float64)
        scaled = 2 * laplacian / conv.lambda_max - eye
        polynomials = [eye, scaled]  # the matrices T_k themselves
        while len(polynomials) < conv.order:
            polynomials.append(2 * scaled @ polynomials[-1] - polynomials[-2])
        return sum(polynomials[k] @ x @ conv.weight[:, k] for k in range(conv.order))  # type: ignore[return-value]

    @pytest.mark.parametrize("order", [1, 2, 3, 5])
    def test_k_terms_reach_k_minus_one_hops(self, order: int) -> None:
        steps = torch.arange(7)
        path = torch.stack([torch.cat([steps, steps + 1]), torch.cat([steps + 1, steps])])
        for sizes in (NARROW, WIDE):
            conv = self.make(*sizes, order=order, act=None)
            x = numbers(8, sizes[0]).requires_grad_()
            out = conv(x, path)
            reached = [torch.autograd.grad(row.sum(), x, retain_graph=True)[0][0].abs().max() > 1e-12 for row in out]
            assert reached == [hops <= order - 1 for hops in range(8)]

    def test_two_terms_with_opposite_weights_are_what_gcn_starts_from(self) -> None:
        conv = self.make(*WIDE, order=2, act=None, bias=False)
        x, op, adjacency = self.problem(conv)
        with torch.no_grad():
            conv.weight[:, 1] = -conv.weight[:, 0]
        normal = torch.from_numpy(oracles.operator(adjacency.numpy(), "arma"))
        assert_near(conv(x, op), (x + normal @ x) @ conv.weight[:, 0])

    @pytest.mark.parametrize("sizes", [NARROW, WIDE])
    def test_fifty_terms_are_exact_to_rounding(self, sizes: tuple[int, int]) -> None:
        conv = self.make(*sizes, order=50, act=None)
        graph = random_graph(30, 80, seed=2).both_ways()
        x, op, adjacency = self.problem(conv, graph)
        eigenvalues, vectors = np.linalg.eigh(oracles.operator(adjacency.numpy(), "laplacian"))
        angles = np.arccos(np.clip(eigenvalues - 1, -1, 1))
        spectrum = torch.from_numpy(vectors.T) @ x
        truth = conv.bias + sum(
            torch.from_numpy(vectors * np.cos(k * angles)) @ spectrum @ conv.weight[:, k] for k in range(50)
        )  # fmt: skip
        assert_near(conv(x, op), truth, 1e-12)
        assert_near(conv(CSR.from_dense(x), op), truth, 1e-12)
        assert op is not None
        assert_near(conv.float()(x.float(), op.to(torch.float32)), truth, 1e-5)

    # ----------------------------------------------------------------------------------------------------- lambda_max

    def test_computed_lambda_max_is_the_largest_eigenvalue(self) -> None:
        for seed in range(3):
            conv = self.make(*NARROW, order=4, lambda_max="computed")
            x, op, adjacency = self.problem(conv, random_graph(9, 20, seed, lone=0).both_ways())
            laplacian = oracles.operator(adjacency.numpy(), "laplacian")
            largest = float(np.linalg.eigvalsh(laplacian)[-1])
            assert largest < 1.9
            computed = conv(x, op)
            conv.lambda_max = largest
            assert_near(computed, conv(x, op))
            conv.lambda_max = 2.0
            assert not torch.allclose(computed, conv(x, op), atol=1e-3)

    def test_lambda_max_is_computed_once_per_operator(self, monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[int] = []
        original = cheb_conv.extremal_eigenvalues
        monkeypatch.setattr(cheb_conv, "extremal_eigenvalues", lambda m: calls.append(1) or original(m))
        conv = self.make(*NARROW, lambda_max="computed")
        one, other = (self.problem(conv, random_graph(9, 20, seed).both_ways()) for seed in (0, 1))
        for _ in range(3):
            conv(*one[:2])
        assert len(calls) == 1
        conv(*other[:2])
        assert len(calls) == 2
        stacked = {name: torch.stack([p, p]) for name, p in conv.named_parameters()}
        out = torch.func.vmap(lambda p: torch.func.functional_call(conv, p, one[:2]))(stacked)
        assert_near(out[1], conv(*one[:2]))
        assert len(calls) == 2

    @pytest.mark.parametrize("edges", [torch.empty(2, 0, dtype=torch.int64), torch.tensor([[0, 1], [0, 1]])])
    def test_computed_where_the_spectrum_is_a_point(self, edges: Tensor) -> None:
        conv = self.make(*NARROW, lambda_max="computed", order=3, act=None, bias=False)
        x = numbers(2, 3)
        # L = I has λmax = 1 and L~ = I; L = 0 has no scale and L~ = -I: T_k is 1, or 1, -1, 1
        sign = torch.tensor([1.0, 1.0 if edges.numel() == 0 else -1.0, 1.0], dtype=torch.float64)
        assert_near(conv(x, edges), torch.einsum("nf,k,fkg->ng", x, sign, conv.weight))

    def test_computed_refuses_a_directed_graph(self) -> None:
        with pytest.raises(SymmetryError, match="lambda_max"):
            ChebConv(2, 3, lambda_max="computed")(torch.randn(3, 2), torch.tensor([[0, 1], [1, 2]]))

    def test_repr(self) -> None:
        assert repr(ChebConv(2, 3, 4, "computed")) == "ChebConv(2, 3, order=4, lambda_max='computed')"

    def test_an_operator_is_built_for_any_lambda_max(self) -> None:
        op = ChebConv(2, 3, lambda_max="computed").operator(torch.tensor([[0, 1], [1, 0]]), 3)
        assert isinstance(op, GraphOperator)
        assert op.kind == "laplacian"


@pytest.mark.parametrize("lambda_max", [1.5, 2.0, "computed"])
def test_padding_stays_small(lambda_max: Any) -> None:
    torch.manual_seed(0)
    conv = ChebConv(2, 3, order=12, lambda_max=lambda_max).double()
    triangle = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    op = conv.operator(triangle, 3, dtype=torch.float64)
    graphs = GraphBatches(GraphOperator.block_diagonal([op, op]), torch.tensor([0, 3, 6]))
    batch = graphs.take_padded(torch.tensor([0, 1]), 7, op.nnz * 2 + 100)  # one node with a hundred stored zeros
    x = numbers(7, 2)
    out = conv(x, batch.op)
    assert_near(out[:3], conv(x[:3], op), 1e-10)
    assert out[6].abs().max() < 100
