from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
import torch

from armagnn.errors import ParameterError, UnknownNameError
from armagnn.filters.polynomial_bases import BASES, JACOBI, basis_terms
from oracles import assert_near, numbers

MU = np.linspace(-1, 1, 33)
TRUTH = {
    "polynomial": lambda k, _: (1 - MU) ** k,
    "gpr": lambda k, _: MU**k,
    "chebyshev": lambda k, _: scipy.special.eval_chebyt(k, MU),
    "bernstein": lambda k, degree: math.comb(degree, k) * (1 - MU) ** k * (1 + MU) ** (degree - k) / 2**degree,
    "jacobi": lambda k, _: scipy.special.eval_jacobi(k, *JACOBI, MU),
}


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("degree", [0, 1, 2, 7])
def test_each_term_is_its_formula(basis: str, degree: int) -> None:
    terms = basis_terms(basis, lambda x: MU * x, np.ones_like(MU), degree)
    assert len(terms) == degree + 1
    for k, term in enumerate(terms):
        np.testing.assert_allclose(term, TRUTH[basis](k, degree), atol=1e-12)


@pytest.mark.parametrize("jacobi", [(0.0, 0.0), (1.0, 2.0), (-0.5, 0.5)])
def test_other_jacobi_polynomials(jacobi: tuple[float, float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armagnn.filters.polynomial_bases.JACOBI", jacobi)
    for k, term in enumerate(basis_terms("jacobi", lambda x: MU * x, np.ones_like(MU), 5)):
        np.testing.assert_allclose(term, scipy.special.eval_jacobi(k, *jacobi, MU), atol=1e-12)


@pytest.mark.parametrize("basis", BASES)
def test_of_a_matrix(basis: str) -> None:
    m = numbers(6, 6)
    m = (m + m.T) / 8
    values, vectors = torch.linalg.eigh(m)
    x = numbers(6, 2, seed=1)
    alone = basis_terms(basis, lambda v: values * v, torch.ones_like(values), 4)
    for term, response in zip(basis_terms(basis, lambda v: m @ v, x, 4), alone, strict=True):
        assert_near(term, vectors @ (response[:, None] * (vectors.T @ x)))


def test_bad_arguments() -> None:
    with pytest.raises(UnknownNameError, match="bernstein"):
        basis_terms("bernstien", lambda x: x, 1.0, 2)
    with pytest.raises(ParameterError, match="degree"):
        basis_terms("gpr", lambda x: x, 1.0, -1)
