from __future__ import annotations

import numpy as np

from armagnn.bench.grid_filters import reduce_loss
from armagnn.bench.grid_rational import MaskedFit
from armagnn.filters.polynomial_bases import basis_terms
from bench.test_grid_filters import small_grid

DATA = small_grid()


def test_columns_of_a_pole_and_their_derivatives() -> None:
    terms = np.concatenate(basis_terms("chebyshev", lambda x: DATA.matrix @ x, DATA.images[:, :1], 89), 1)
    loss = reduce_loss(terms[DATA.mask], DATA.targets["low"][DATA.mask][:, :1])
    problem, w = MaskedFit(loss.r, loss.q[:, 0], 1, 1), np.array([0.4 + 0.3j, -0.6])
    mu, vectors = np.linalg.eigh(DATA.matrix.toarray())
    a = 2 * w / (1 + w * w)
    truth = vectors @ ((vectors.T @ DATA.images[:, :1]) / (1 - mu[:, None] * a))
    found = problem.terms(w)
    np.testing.assert_allclose(found.conj().T @ found, truth[DATA.mask].conj().T @ truth[DATA.mask], rtol=1e-8)
    step = 1e-6
    np.testing.assert_allclose(
        problem.slopes(w), (problem.terms(w + step) - problem.terms(w - step)) / (2 * step), atol=1e-6
    )
