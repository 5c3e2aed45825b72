from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from armagnn.errors import ParameterError, UnknownNameError
from armagnn.filters import ARMAFilter
from armagnn.nn.pole_parameters import factors, numbers, response, start
from oracles import assert_near
from oracles import numbers as draw


def h(found: Any, mu: torch.Tensor, radius: float) -> torch.Tensor:
    """The response of a start."""
    a, b = factors(found.pole[None], found.pairs, radius), numbers(found.residue[None], found.pairs)
    return response(a, b, torch.tensor([found.constant], dtype=torch.float64), mu).squeeze(1)


def test_a_filter_comes_back() -> None:
    mu = torch.linspace(-1, 1, 21, dtype=torch.float64)
    given = ARMAFilter([0.5 + 0.7j, 0.5 - 0.7j, -0.6, 0.0], [0.3 + 1j, 0.3 - 1j, 2.0, 0.25])
    assert_near(h(start(given, 3, 0.99), mu, 0.99), given.response(mu), 1e-10)
    alone = ARMAFilter([0.9], [0.1])
    assert_near(h(start(alone, 1, 0.99), mu, 0.99), alone.response(mu), 1e-10)


def test_factors_and_their_gradients() -> None:
    u = draw(2, 5).requires_grad_()
    a = factors(u, 2, 0.9)
    assert a.shape == (3, 2, 2)
    for g in range(2):
        for k in range(3):
            own = torch.complex(u[g, 2 * k], u[g, 2 * k + 1]) if k < 2 else u[g, 4] + 0j
            w = 0.9 * own / (1 + own.abs() ** 2) ** 0.5
            assert_near(torch.view_as_real(2 * w / (1 + w * w)), a[k, :, g])
    assert gradcheck(lambda u: factors(u, 2, 0.9), u)


@pytest.mark.parametrize("order", [1, 2, 5, 8])
@pytest.mark.parametrize("radius", [0.5, 0.9, 0.99])
def test_every_start_lies_within_the_radius(order: int, radius: float) -> None:
    found = start("low-pass", order, radius)
    a = factors(found.pole[None], found.pairs, radius)[..., 0]
    p = 1 / torch.complex(a[:, 0], a[:, 1]).numpy()
    assert (np.abs(p + np.sqrt(p - 1) * np.sqrt(p + 1)) >= 1 / radius).all()
    assert found.pole.shape == found.residue.shape == (order,)


def test_what_is_no_start() -> None:
    for wrong in ([], [2.0, 3.0], np.array([[2.0]]), [0.3]):
        with pytest.raises((ParameterError, TypeError, ValueError)):
            start(wrong, 1, 0.99)
    with pytest.raises(UnknownNameError, match="low-pass"):
        start("lowpass", 1, 0.99)
    with pytest.raises(ParameterError, match="variable"):
        start(ARMAFilter([0.5], [1.0], variable="lambda"), 1, 0.99)
