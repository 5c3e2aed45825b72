from __future__ import annotations

import numpy as np
import pytest
import torch

from armagnn.kernels import StateUpdate, cpu, reference
from armagnn.kernels.backends import Backend
from oracles import assert_near, numbers

SHAPES = [(0, 3), (1, 1), (1023, 5), (3000, 3), (40, 300)]


@pytest.fixture(params=[cpu, reference], ids=["numba", "torch"])
def kernels(request: pytest.FixtureRequest) -> Backend:
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inner_products_of_columns(kernels: Backend, shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, y = numbers(*shape).to(dtype), numbers(*shape, seed=1).to(dtype)
    assert_near(kernels.column_dots(x, y), (x.double() * y.double()).sum(0), 1e-12)
    assert kernels.blank(x, 2, 3).dtype == dtype


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_next_vector(kernels: Backend, shape: tuple[int, int], dtype: torch.dtype) -> None:
    u, v, before = (numbers(*shape, seed=k).to(dtype) for k in range(3))
    factors = numbers(3, shape[1], seed=3)
    expected = factors[0] * u + factors[1] * v + factors[2] * before
    square = kernels.lanczos_vector(u, v, before, factors.numpy())
    assert_near(u, expected, 1e-5 if dtype == torch.float32 else 1e-12)
    assert_near(square, u.double().square().sum(0), 1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 4, 7])
def test_states_are_sums_of_old_ones_and_of_vectors(
    kernels: Backend, shape: tuple[int, int], dtype: torch.dtype, count: int
) -> None:
    columns = shape[1]
    states, vectors = numbers(4, *shape).to(dtype), numbers(8, *shape, seed=1).to(dtype)
    places = [5, 6, 7, 0, 1, 2, 3][:count]
    old, new = numbers(2, 2, columns, seed=2).numpy(), numbers(2, count, columns, seed=3).numpy()
    more, made = numbers(1, 3, columns, seed=4).numpy(), numbers(1, count, columns, seed=5).numpy()
    # the first reads what the second and the third replace, whose two states read each other
    updates = [StateUpdate(0, [0, 2, 3], more, made), StateUpdate(2, [2, 3], old, new)]
    updates.append(StateUpdate(1, [], np.zeros((1, 0, columns)), made))
    before, chosen = states.double().clone(), vectors.double()[places]
    kernels.combine_states(states, vectors, places, updates)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    kept, added = torch.from_numpy(more[0]), torch.from_numpy(made[0])
    sums = (chosen * added.unsqueeze(1)).sum(0)
    assert_near(states[0], (before[[0, 2, 3]] * kept.unsqueeze(1)).sum(0) + sums, tolerance)
    assert_near(states[1], sums, tolerance)
    for k in range(2):
        kept, added = torch.from_numpy(old[k]), torch.from_numpy(new[k])
        expected = (before[2:] * kept.unsqueeze(1)).sum(0) + (chosen * added.unsqueeze(1)).sum(0)
        assert_near(states[2 + k], expected, tolerance)
