"""A layer in several trials, and the ways to run them: by one operation under vmap, by the recursion, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from armagnn import CSR, GraphOperator
from armagnn.kernels import layer as fused
from armagnn.nn import ARMAConv
from armagnn.randomness import source
from nn.arma_oracle import random_graph

TRIALS, NODES = 3, 9
FUSED = (None, "relu", "leaky_relu", "elu", "tanh", "sigmoid")


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def operator(directed: bool = True) -> GraphOperator:
    return GraphOperator.from_edge_index(random_graph(NODES, 20, directed=directed), NODES, dtype=torch.float64)


def features(kind: str, fin: int) -> tuple[CSR | None, Tensor | None]:
    """Return a sparse pattern, or None, and the numbers of X: of its nonzeros, or of a dense X; by trial or for all."""
    sparse, batched = kind.split()
    shape = (TRIALS,) if batched == "own" else ()
    if sparse == "dense":
        return None, numbers(*shape, NODES, fin, seed=1)
    pattern = CSR.from_dense(numbers(NODES, fin, seed=2) * (numbers(NODES, fin, seed=3) > 0))
    return pattern, numbers(*shape, pattern.nnz, seed=4) if batched == "own" else None


class Problem:
    """A layer, its parameters in R trials, and the ways to run them."""

    def __init__(self, kind: str, rate: str, fin: int = 6, fout: int = 2, axis: str = "first", **options: Any) -> None:
        self.conv = ARMAConv(fin, fout, **options).double()
        self.op = operator()
        self.pattern, self.x = features(kind, fin)
        self.own = kind.endswith("own")
        if rate == "float":
            self.conv.dropout = 0.4
        rates = torch.tensor([0.3, 0.0, 0.6, 0.5, 0.2], dtype=torch.float64)
        self.rates = rates[:TRIALS] if rate == "tensor" else None
        self.seeds = torch.tensor([[5], [2**61 + 7], [9], [1], [2**40]])[:TRIALS]
        shapes = {name: parameter.shape for name, parameter in self.conv.named_parameters()}
        middle = axis == "after the features"
        self.dims = {
            name: 1 + list(shape).index(fin) if middle and fin in shape else 0 for name, shape in shapes.items()
        }
        self.params = {
            name: numbers(*shape[: self.dims[name]], TRIALS, *shape[self.dims[name] :], seed=5 + i).mul(0.5)
            for i, (name, shape) in enumerate(shapes.items())
        }
        self.leaves = [tensor.requires_grad_() for tensor in self.params.values()]
        if self.x is not None and self.pattern is None:
            self.leaves.append(self.x.requires_grad_())

    def single(self, params: dict[str, Tensor], x: Tensor | None, seed: Tensor, rate: Tensor | None) -> Tensor:
        if rate is not None:
            self.conv.dropout = rate
        given: Any = x
        if self.pattern is not None:
            given = self.pattern if x is None else self.pattern.with_value(x)
        with source(seed):
            out: Tensor = torch.func.functional_call(self.conv, params, (given, self.op))
        return out

    def mapped(self) -> Tensor:
        dims = (self.dims, 0 if self.own else None, 0, None if self.rates is None else 0)
        out: Tensor = torch.func.vmap(self.single, dims)(self.params, self.x, self.seeds, self.rates)
        return out

    def looped(self) -> Tensor:
        results = []
        for r in range(TRIALS):
            params = {name: param.select(self.dims[name], r) for name, param in self.params.items()}
            if self.rates is not None:
                self.conv.dropout = self.rates[r].item()
            x = self.x[r] if self.own and self.x is not None else self.x
            results.append(self.single(params, x, self.seeds[r], None))
        return torch.stack(results)

    def gradients(self, out: Tensor) -> tuple[Tensor | None, ...]:
        weight = numbers(*out.shape, seed=77)
        return torch.autograd.grad((out * weight).sum(), self.leaves)


@contextmanager
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Collect how many trials each fused layer inside had; 0 is a layer alone."""
    seen: list[int] = []
    real = fused.run
    with monkeypatch.context() as patch:
        patch.setattr(fused, "run", lambda layer, *rest: seen.append(layer.trials) or real(layer, *rest))
        yield seen


def check(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    with calls(monkeypatch) as seen:
        ours = problem.mapped()
    assert seen == [TRIALS]  # it did run as one
    with monkeypatch.context() as patch:
        patch.setattr(fused, "usable_by_trials", lambda *_: False)
        truth = problem.mapped()
    alone = problem.looped()
    close = {"rtol": 1e-10, "atol": 1e-10}
    torch.testing.assert_close(ours, truth, **close)
    torch.testing.assert_close(ours, alone, **close)
    of_truth, of_alone = problem.gradients(truth), problem.gradients(alone)
    for ours_, truth_, alone_ in zip(problem.gradients(ours), of_truth, of_alone, strict=True):
        assert truth_.abs().max() > 0
        torch.testing.assert_close(ours_, truth_, **close)
        torch.testing.assert_close(ours_, alone_, **close)
    with torch.no_grad(), calls(monkeypatch) as seen:
        torch.testing.assert_close(problem.mapped(), ours.detach(), **close)
    assert seen == [TRIALS]


KINDS = ("sparse shared", "sparse own", "dense shared", "dense own")
