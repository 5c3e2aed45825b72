from __future__ import annotations

import numpy as np
import torch

from armagnn import GraphOperator
from armagnn.bench.grid_filters import reduce_loss
from armagnn.bench.grid_poles import MaskedFit, relu_stacks
from armagnn.filters.polynomial_bases import basis_terms
from armagnn.nn import ARMAConv
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


# ----------------------------------------------------------------------------------------------------------------- ARMA


DATA = small_grid()


def test_stacks_are_those_of_the_layer() -> None:
    edges = torch.from_numpy(np.concatenate([DATA.edges, DATA.edges[:, ::-1]]).T.copy())
    op = GraphOperator.from_edge_index(edges, 144)
    w, v, out = (torch.rand(1, 3, generator=torch.Generator().manual_seed(k)) for k in range(3))
    x = torch.from_numpy(DATA.images.T[:1]).float()
    conv = ARMAConv(1, 1, num_stacks=3, num_layers=10, init="tied", bias=False)
    with torch.no_grad():
        conv.weight.copy_(w.view_as(conv.weight))
        conv.skip_weight.copy_(v.view_as(conv.skip_weight))
        stacks = conv.stacks(x.T, op)  # (K, N, 1)
    torch.testing.assert_close(relu_stacks(op, x, w, v, out)[0], (out.view(3, 1, 1) * stacks).sum(0).squeeze(1))
