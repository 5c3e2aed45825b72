from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from armagnn.solvers import krylov_sums as module
from armagnn.solvers.krylov_sums import Array, krylov_sums
from oracles import assert_near, numbers

POLES = (0.3 + 0.6j, -1.2, 1.02, 0.1 - 0.05j)


def problem(nodes: int = 80, columns: int = 3) -> tuple[Tensor, Tensor, Array]:
    q = torch.linalg.qr(numbers(nodes, nodes))[0]
    m = q @ torch.diag(torch.linspace(-1, 1, nodes, dtype=torch.float64)) @ q.T
    a = np.array([[1 / p] for p in POLES]) * (1 - 0.05 * np.arange(columns))
    return m, numbers(nodes, columns, seed=1), a


def answers(m: Tensor, y: Tensor, a: Array) -> Tensor:
    eye = torch.eye(len(m), dtype=torch.complex128)
    columns = [
        [torch.linalg.solve(eye - complex(number) * m, y[:, c].to(eye.dtype)) for c, number in enumerate(row)]
        for row in a
    ]
    return torch.stack([torch.stack(row, 1) for row in columns])


@pytest.mark.parametrize("window", [2, 3, 8, 16])
def test_sums_products_and_slopes_are_those_of_dense_inverses(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    made: list[int] = []
    states = module._States
    monkeypatch.setattr(module, "WINDOW", window)
    monkeypatch.setattr(module, "_States", lambda *given: made.append(given[-1]) or states(*given))
    m, y, a = problem()
    other, c = numbers(80, 3, seed=2), numbers(2, 4, 3, seed=3) + 1j * numbers(2, 4, 3, seed=4)
    weights = [dict(enumerate(c[0].numpy())), {1: c[1, 1].numpy(), 3: c[1, 3].numpy()}]
    found = krylov_sums(lambda x, out: m @ x, y, a, weights, 1e-12, 500, other, slopes=True)
    assert made == [window]
    monkeypatch.setattr(module, "LARGE", 1)  # vectors are long then, and windows short
    short = krylov_sums(lambda x, out: m @ x, y, a, weights, 1e-12, 500, other, slopes=True)
    assert made == [window, module.LARGE_WINDOW]
    assert_near(short.values, found.values, 1e-10)
    truth = answers(m, y, a)
    assert_near(found.values[0], (c[0].unsqueeze(1) * truth).sum(0).real, 1e-9)
    assert_near(found.values[1], (c[1].unsqueeze(1) * truth)[[1, 3]].sum(0).real, 1e-9)
    assert_near(torch.from_numpy(found.products), (truth * other).sum(1), 1e-9)
    wide = m.to(truth.dtype)
    twice = torch.stack([answers(wide, wide @ own, row[None])[0] for own, row in zip(truth, a, strict=True)])
    assert_near(torch.from_numpy(found.slopes), (twice * other).sum(1), 1e-8)
    lengths = torch.from_numpy(found.lengths(a, y.norm(dim=0).numpy()))
    assert_near(lengths, torch.linalg.vector_norm(truth, dim=1), 1e-8)
    assert found.statistics.failed == []


def test_a_product_may_write_to_its_place_or_not() -> None:
    m, y, a = problem()
    one = [{k: np.ones(3) for k in range(4)}]
    made = [
        krylov_sums(product, y, a, one, 1e-10, 100).values
        for product in (lambda x, out: m @ x, lambda x, out: torch.mm(m, x, out=out))
    ]
    assert torch.equal(*made)


def test_steps_go_on_until_slopes_are_exact_too() -> None:
    m, y, a = problem()
    one = [{0: np.ones(3)}]
    without, with_slopes = (
        krylov_sums(lambda x, out: m @ x, y, a[:1], one, 1e-6, 100, y, slopes).statistics.steps
        for slopes in (False, True)
    )
    assert without < with_slopes


def test_too_few_steps() -> None:
    m, y, a = problem()
    found = krylov_sums(lambda x, out: m @ x, y, a, [{0: np.ones(3)}], 1e-12, 5)
    assert found.statistics.failed == [0, 1, 2, 3]
    assert found.statistics.steps == [5] * 4
