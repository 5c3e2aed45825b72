"""Smoothness and likeness of what is known, and small measurements of depth and norms."""

from __future__ import annotations

import pytest
import torch

from armagnn import GraphOperator
from armagnn.spectral.plot import picture
from armagnn_paper import claims_layers
from armagnn_paper.claims import line_of

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])


def test_smoothness_of_what_is_known() -> None:
    laplacian = GraphOperator.from_edge_index(EDGES, kind="laplacian", dtype=torch.float64)
    values, vectors = torch.linalg.eigh(laplacian.to_dense())
    for value, vector in zip(values, vectors.T, strict=True):
        assert claims_layers.dirichlet_energy(laplacian, vector[:, None]) == pytest.approx(value.item(), abs=1e-12)
    zero = torch.zeros(5, 2)
    assert claims_layers.dirichlet_energy(laplacian, zero.double()) != claims_layers.dirichlet_energy(
        laplacian, zero.double()
    )
    h = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    pairs = [1 - torch.cosine_similarity(h[i], h[j], dim=0).item() for i in range(5) for j in range(i)]
    assert claims_layers.mean_distance(h) == pytest.approx(sum(pairs) / 10, abs=1e-6)
    assert claims_layers.mean_distance(torch.ones(4, 2)) == pytest.approx(0.0, abs=1e-12)


def test_stacks_that_are_the_same_and_stacks_that_are_not() -> None:
    op = GraphOperator.from_edge_index(EDGES, dtype=torch.float64)
    mu, U = torch.linalg.eigh(op.to_dense())
    one = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    same = claims_layers.compare_stacks(torch.stack([one, 2 * one]), mu, U)
    assert same == {"cosine": pytest.approx(1.0), "cka": pytest.approx(1.0), "response": pytest.approx(0.0, abs=1e-12)}
    turned = one @ torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
    rotated = claims_layers.compare_stacks(torch.stack([one, turned]), mu, U)
    assert rotated["cosine"] < 0.99
    assert rotated["cka"] == pytest.approx(1.0)
    smooth, rough = U[:, [-1]] @ torch.ones(1, 3).double(), U[:, [0]] @ torch.ones(1, 3).double()
    assert claims_layers.compare_stacks(torch.stack([smooth, rough]), mu, U)["response"] > 1


def test_small_measurements_of_depth_and_norms() -> None:
    """Two runs of a few epochs: rows for every level, run and metric, and a picture."""
    depth = [row for m in ("arma", "gcn") for t in (1, 3) for row in claims_layers.measure_depth(m, t, 2, epochs=2)]
    assert {(row.method, row.level, row.run, row.metric) for row in depth} == {
        (m, t, run, metric)
        for m in ("arma", "gcn") for t in ("1", "3") for run in (0, 1) for metric in claims_layers.METRICS
    }  # fmt: skip
    norms = claims_layers.measure_norms(2, epochs=20)
    levels, mean, _ = line_of(norms, "largest norm", "arma", "layer 1, L2 0.0005")
    assert levels == ["10"]  # the last look comes after the end
    assert mean[0] > 1  # Glorot's W starts with a norm of nearly 2, and decays slowly
    for draw, rows in ((claims_layers.draw_depth, depth), (claims_layers.draw_norms, norms)):
        assert picture(draw(rows)).startswith(b"\x89PNG")
