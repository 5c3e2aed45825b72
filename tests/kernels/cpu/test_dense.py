"""Products of small matrices against numpy's, of every shape that meets another edge of a tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from armagnn.kernels.cpu.dense import ACTIVATED, ELU, ELU_GATED, GATED, PLAIN
from kernels.cpu.called import multiply

Array = npt.NDArray[Any]
WAYS = {"plain": PLAIN, "activated": ACTIVATED, "gated": GATED, "elu": ELU, "gated elu": ELU_GATED}


def expected(z: Array, way: int, gate: Array, slope: float) -> Array:
    less = np.zeros_like(z) if slope == 0 else z * slope
    return {
        PLAIN: z,
        ACTIVATED: np.where(z < 0, less, z),
        GATED: np.where(gate <= 0, less, z),
        ELU: np.where(z < 0, slope * np.expm1(z), z),
        ELU_GATED: np.where(gate <= 0, (gate + slope) * z, z),
    }[way]


def draw(seed: int, *shapes: tuple[int, int], dtype: Any = np.float64) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 27), st.integers(0, 40), st.integers(1, 70), st.sampled_from(sorted(WAYS)),
    st.sampled_from([0.0, 0.2, 1.0]), st.booleans(), st.booleans(), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_every_shape(
    rows: int, depth: int, width: int, how: str, slope: float, one: bool, turned: bool, seed: int
) -> None:
    start, a, b, gate = draw(seed, (1 if one else rows, width), (rows, depth), (depth, width), (rows, width))
    z = start + a @ b
    given_a = np.ascontiguousarray(a.T).T if turned else a
    frame = np.full((rows + 2, width), 7.0)  # nothing but the product is written
    out = frame[1:-1]
    multiply(out, start, given_a, b, WAYS[how], gate, slope)
    np.testing.assert_allclose(out, expected(z, WAYS[how], gate, slope), rtol=1e-12, atol=1e-12)
    assert (frame[[0, -1]] == 7).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "width"), [(8, 32), (6, 16), (7, 33), (17, 50), (1, 1)])
def test_a_sum_goes_on_in_its_place(rows: int, width: int, dtype: Any) -> None:
    total, a, b = draw(0, (rows, width), (rows, 9), (9, width), dtype=dtype)
    truth = total.astype(np.float64) + 2 * a.astype(np.float64) @ b
    for _ in range(2):
        multiply(total, total, a, b, PLAIN, total, dtype(1))
    np.testing.assert_allclose(total, truth, rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-5)


def test_parts_of_larger_matrices() -> None:
    a, b, out = draw(1, (20, 12), (12, 40), (20, 40))
    whole = out.copy()
    multiply(out[4:9], whole[4:9], a[4:9, 2:7], b[2:7], PLAIN, out[4:9], 1.0)
    np.testing.assert_allclose(out[4:9], whole[4:9] + a[4:9, 2:7] @ b[2:7], rtol=1e-12)
    np.testing.assert_array_equal(np.delete(out, range(4, 9), 0), np.delete(whole, range(4, 9), 0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_nearly_to_the_last_bit(dtype: Any) -> None:
    z = -np.concatenate([np.logspace(-30, 2.2, 4000), np.linspace(0, 100, 4001)]).astype(dtype).reshape(1, -1)
    out, nothing = np.empty_like(z), (np.zeros((1, 0), dtype), np.zeros((0, z.shape[1]), dtype))
    multiply(out, z, *nothing, ELU, z, dtype(1))
    np.testing.assert_allclose(out, np.expm1(z.astype(np.longdouble)), rtol=1.5 * float(np.finfo(dtype).eps), atol=0)


def test_what_is_not_finite() -> None:
    start = np.array([[np.nan, -np.inf, np.inf, -1.0, 1.0]])
    nothing, gate, out = np.zeros((1, 0)), np.array([[1.0, 0.0, 0.0, 1.0, np.nan]]), np.empty((1, 5))
    multiply(out, start, nothing, np.zeros((0, 5)), ACTIVATED, gate, 0.0)
    np.testing.assert_array_equal(out, [[np.nan, 0, np.inf, 0, 1]])
    multiply(out, start, nothing, np.zeros((0, 5)), GATED, gate, 0.0)
    np.testing.assert_array_equal(out, [[np.nan, 0, 0, -1, 1]])
    multiply(out, start, nothing, np.zeros((0, 5)), ELU, gate, 2.0)
    np.testing.assert_allclose(out, [[np.nan, -2, np.inf, 2 * np.expm1(-1), 1]])
