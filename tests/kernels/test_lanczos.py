from __future__ import annotations

import pytest
import torch

from armagnn.kernels import lanczos
from armagnn.kernels.cpu import lanczos_rows
from armagnn.kernels.lanczos import column_dots, lanczos_step
from oracles import assert_near, numbers


@pytest.mark.parametrize("rows", [0, 1, 1023, 1025, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inner_products_of_columns(rows: int, dtype: torch.dtype) -> None:
    x, y = numbers(rows, 3).to(dtype), numbers(rows, 3, seed=1).to(dtype)
    assert_near(column_dots(x, y), (x.double() * y.double()).sum(0), 1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_step_is_its_formula(dtype: torch.dtype, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanczos, "_compiled", lambda x: lanczos_rows if compiled else None)
    rows, columns = 2100, 5
    u, v, before = (numbers(rows, columns, seed=k).to(dtype) for k in range(3))
    factors, along, step = numbers(4, columns, seed=3), numbers(3, 2, columns, seed=4), numbers(3, 2, columns, seed=5)
    d, z = (numbers(3, 2, rows, columns, seed=k).to(dtype) for k in (6, 7))
    running, real = [0, 2], [True, False, False]
    along[0, 1] = step[0, 1] = 0.0
    wide_d, wide_z = (torch.complex(t[:, 0].double(), t[:, 1].double()) for t in (d, z))
    kept = d.clone(), z.clone()
    new = factors[0] * u + factors[1] * v + factors[2] * before
    square = lanczos_step(u, v, before, factors, running, real, along, step, d, z)
    assert_near(u, new)
    assert_near(square, new.square().sum(0), 1e-5)
    for k in running:
        expected = factors[3] * v + torch.complex(along[k, 0], along[k, 1]) * wide_d[k]
        answer = wide_z[k] + torch.complex(step[k, 0], step[k, 1]) * expected
        assert_near(d[k, 0], expected.real)
        assert_near(z[k, 0], answer.real)
        if not real[k]:
            assert_near(d[k, 1], expected.imag)
            assert_near(z[k, 1], answer.imag)
    assert torch.equal(d[1], kept[0][1])  # which does not run
    assert torch.equal(z[1], kept[1][1])
    assert torch.equal(z[0, 1], kept[1][0, 1])
