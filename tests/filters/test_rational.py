"""Eq. 6 to Eq. 13 and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from armagnn.errors import DTypeError, ParameterError, UnknownNameError
from armagnn.filters import ARMAFilter

LAMBDA = np.linspace(0, 2, 41)


def eq_6(p: Any, q: Any, point: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    value: np.ndarray = np.polyval(np.asarray(p)[::-1], point) / np.polyval([*np.asarray(q)[::-1], 1.0], point)  # type: ignore[type-arg]
    return value


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([1.0], [0.5]),
        ([1.0, -0.3], [0.2, 0.7]),
        ([0.3, 1.0, -0.2], [0.9, 0.4, 0.3]),
        ([2.0, 1.0], [0.0, 1.0]),
        ([1.0, 0.5], [0.5]),  # the degrees are the same: a constant besides
        ([3.0], [0.0]),  # a constant alone
        ([1.0, 0.0, 0.0], [0.5, 0.0]),  # coefficients that are zero
        ([0.0], [0.5]),
    ],
)
def test_the_parallel_form_has_the_rational_response(p: list[float], q: list[float]) -> None:
    f = ARMAFilter.from_rational(p, q)
    np.testing.assert_allclose(f.response(1 - LAMBDA), eq_6(p, q, LAMBDA), rtol=1e-10, atol=1e-12)
    g = ARMAFilter.from_rational(p, q, variable="mu")
    mu = np.linspace(-0.6, 0.6, 17)
    np.testing.assert_allclose(g.response(mu), eq_6(p, q, mu), rtol=1e-10, atol=1e-12)


@given(
    st.lists(st.tuples(st.floats(-0.9, 0.9), st.floats(-2, 2)), max_size=3),
    st.lists(st.tuples(st.floats(0.1, 2.0), st.floats(0.2, 2.9), st.floats(-2, 2), st.floats(-2, 2)), max_size=2),
)
def test_there_and_back(real: list[tuple[float, float]], pairs: list[tuple[float, float, float, float]]) -> None:
    a: list[complex] = [a for a, _ in real]
    b: list[complex] = [b for _, b in real]
    for size, angle, x, y in pairs:
        pole = size * np.exp(1j * angle)
        a += [pole, np.conj(pole)]
        b += [x + 1j * y, x - 1j * y]
    assume(a and min([1.0, *(abs(a[i] - a[j]) for i in range(len(a)) for j in range(i))]) > 0.2)
    assume(min(abs(v) for v in a) > 0.05 and min(abs(v) for v in b) > 0.05)
    f = ARMAFilter(a, b) if pairs else ARMAFilter([v.real for v in a], [v.real for v in b])
    for variable in ("lambda", "mu"):
        p, q = f.to_rational(variable)  # type: ignore[arg-type]
        assert len(p) == len(q) == f.order
        point = LAMBDA if variable == "lambda" else 1 - LAMBDA
        expected = f.response(1 - LAMBDA)
        np.testing.assert_allclose(eq_6(p, q, point), expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())
        back = ARMAFilter.from_rational(p, q, variable)  # type: ignore[arg-type]
        np.testing.assert_allclose(back.response(1 - LAMBDA), expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
        assert back.order == f.order


def test_a_lone_complex_pole_becomes_its_pair() -> None:
    f = ARMAFilter([0.5 + 0.5j, 0.3], [1.0 - 2j, 0.7])
    p, q = f.to_rational()
    assert len(p) == 3
    np.testing.assert_allclose(eq_6(p, q, LAMBDA), f.response(1 - LAMBDA), rtol=1e-10)


def test_pairs_come_out_conjugate_to_the_last_bit() -> None:
    f = ARMAFilter.from_rational([0.3, 1.0, -0.2], [0.9, 0.4, 0.3])
    assert f.a.is_complex()
    pairs = [(f.a[k], f.b[k]) for k in range(3) if f.a[k].imag != 0]
    assert len(pairs) == 2
    assert pairs[0][0] == pairs[1][0].conj()
    assert pairs[0][1] == pairs[1][1].conj()


@pytest.mark.parametrize(
    ("p", "q", "reason"),
    [
        ([1.0, 2.0, 3.0], [0.5], "improper"),
        ([1.0, 1.0], [0.0], "improper"),
        ([1.0], [1.0, 0.25], "repeated pole"),  # (1 + λ/2)²
        ([1.0], [0.0, 2.0, 0.0, 1.0], "repeated pole"),  # (1 + λ²)²
        ([1.0], [-1.0], "pole at mu = 0"),  # 1 / (1 - λ)
    ],
)
def test_what_is_no_sum_of_first_order_terms_is_refused_by_name(p: Any, q: Any, reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        ARMAFilter.from_rational(p, q)


def test_other_bad_input_is_refused() -> None:
    with pytest.raises(ParameterError, match="lambda = 0"):
        ARMAFilter([1.0], [1.0]).to_rational()
    with pytest.raises(DTypeError, match="q must be real"):
        ARMAFilter.from_rational([1.0], [1j])
    for call in (ARMAFilter([0.5], [1.0]).to_rational, lambda v: ARMAFilter.from_rational([1.0], [1.0], v)):
        with pytest.raises(UnknownNameError, match="variable"):
            call("nu")


@pytest.mark.parametrize("power", [2, 3, 4, 5, 6])
def test_poles_of_any_multiplicity_are_refused(power: int) -> None:
    bottom = np.polynomial.polynomial.polypow([1.0, 0.5], power)
    with pytest.raises(ParameterError, match="repeated pole"):
        ARMAFilter.from_rational([1.0], bottom[1:])


def test_poles_far_away_are_told_apart() -> None:
    f = ARMAFilter([1e-5, 5e-5], [1.0, 1.0])
    again = ARMAFilter.from_rational(*f.to_rational("mu"), variable="mu")
    np.testing.assert_allclose(again.response([-1.0, 0.3]), f.response([-1.0, 0.3]), rtol=1e-9)


def test_a_term_is_the_twin_of_one_other_only() -> None:
    z = 0.3 + 0.4j
    f = ARMAFilter([z, z, z.conjugate()], [1.0, 1.0, 1.0])
    p, q = f.to_rational("mu")
    mu = np.linspace(-1, 1, 7)
    top = np.polynomial.polynomial.polyval(mu, p.numpy())
    bottom = np.polynomial.polynomial.polyval(mu, np.concatenate([[1.0], q.numpy()]))
    np.testing.assert_allclose(top / bottom, f.response(mu), rtol=1e-9)
