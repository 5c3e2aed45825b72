"""The empirical response against what filters are known to do, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from armagnn import GraphOperator
from armagnn.errors import DTypeError, ParameterError, ShapeError
from armagnn.nn import ARMAConv, ChebConv, GCNConv
from armagnn.operators import CSR
from armagnn.spectral import (
    band_response,
    components,
    empirical_gain,
    empirical_response,
    layer_response,
    spectrum,
    stack_outputs,
)
from oracles import Graph
from strategies import undirected


def ring(nodes: int = 12) -> GraphOperator:
    """A ring with one chord: no symmetry that silences a frequency of a random signal."""
    here = torch.arange(nodes)
    edges = torch.stack([here, (here + 1) % nodes])
    edges = torch.cat([edges, torch.tensor([[0], [5]])], 1)
    return GraphOperator.from_edge_index(torch.cat([edges, edges.flip(0)], 1), nodes, dtype=torch.float64)


def signal(nodes: int, features: int, seed: int = 0) -> Tensor:
    return torch.randn(nodes, features, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def filtered(U: Tensor, h: Tensor, x: Tensor) -> Tensor:
    """Eq. 1, densely."""
    return U @ (h[:, None] * (U.T @ x))


@given(undirected(), st.integers(1, 4), st.integers(0, 10))
def test_the_response_of_a_linear_filter_is_its_response(graph: Graph, features: int, seed: int) -> None:
    op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight())
    mu, U = spectrum(op)
    x = signal(graph.num_nodes, features, seed)
    h = 0.3 + mu - 0.5 * mu**2
    y = filtered(U, h, x)
    for found, wanted in ((empirical_response(U, x, y), h), (empirical_gain(U, x, y), h.abs())):
        known = found.isfinite()
        torch.testing.assert_close(found[known], wanted[known], rtol=1e-6, atol=1e-6)
    assert empirical_response(U, x, y).isfinite().any()


def test_the_number_of_features_cancels() -> None:
    mu, U = spectrum(ring())
    x = signal(12, 1)
    wide = x.expand(-1, 7)
    torch.testing.assert_close(empirical_response(U, wide, 2 * x), torch.full_like(mu, 2.0))
    torch.testing.assert_close(empirical_response(U, x, 2 * wide), torch.full_like(mu, 2.0))


def test_silent_frequencies_are_masked_not_divided() -> None:
    mu, U = spectrum(ring())
    x = U[:, [3]] + 2 * U[:, [7]]
    y = x + 0.5 * U[:, [5]]
    h, g = empirical_response(U, x, y), empirical_gain(U, x, y)
    heard = torch.zeros(12, dtype=torch.bool)
    heard[[3, 7]] = True
    assert torch.equal(h.isfinite(), heard)
    assert torch.equal(g.isfinite(), heard)
    assert not h.isinf().any()
    torch.testing.assert_close(h[heard], torch.ones(2, dtype=torch.float64))
    assert empirical_response(U, x, y, silent=0.7).isfinite().nonzero().flatten().tolist() == [7]
    _, bands = band_response(mu, U, x, y, bands=12)
    assert bands.isnan().any()
    assert not bands.isinf().any()


def test_a_signal_of_zeros_is_silent_everywhere() -> None:
    _, U = spectrum(ring())
    zero = torch.zeros(12, 2, dtype=torch.float64)
    assert empirical_response(U, zero, signal(12, 1)).isnan().all()
    assert empirical_gain(U, zero, signal(12, 1)).isnan().all()


def test_sparse_features_and_single_precision() -> None:
    _, U = spectrum(ring())
    x = signal(12, 5).clamp_min(0.2) - 0.2
    sparse = CSR.from_dense(x)
    y = signal(12, 3, 1)
    torch.testing.assert_close(components(U, sparse), components(U, x))
    torch.testing.assert_close(empirical_response(U, sparse, y), empirical_response(U, x, y))
    torch.testing.assert_close(empirical_gain(U, sparse, y), empirical_gain(U, x, y))
    found = empirical_response(U, x.float(), y.float())
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, empirical_response(U, x, y), rtol=1e-4, atol=1e-4)


def test_bands_weigh_by_energy() -> None:
    mu, U = torch.tensor([-0.5, 0.2, 0.4]), torch.eye(3)
    x, y = torch.tensor([[1.0], [1.0], [3.0]]), torch.tensor([[2.0], [0.0], [3.0]])
    middles, h = band_response(mu, U, x, y, bands=2)
    torch.testing.assert_close(middles, torch.tensor([-0.5, 0.5]))
    torch.testing.assert_close(h, torch.tensor([2.0, 0.9]))  # (1 * 0 + 3 * 3) / (1 + 9)


def test_every_stack_of_a_layer() -> None:
    """W = a, V = b, linear: the stacks are geometric sums, one for each a."""
    op = ring()
    mu, U = spectrum(op)
    conv = ARMAConv(1, 1, num_stacks=2, num_layers=3, init="zero", act=None, bias=False).double()
    a = torch.tensor([0.9, -0.4], dtype=torch.float64)
    with torch.no_grad():
        conv.weight.copy_(a.view(1, 2, 1, 1))
        conv.skip_weight.fill_(0.5)
    found = layer_response(conv, signal(12, 1), op, U)
    wanted = 0.5 * sum((a[:, None] * mu) ** t for t in range(3))
    torch.testing.assert_close(found, wanted)


def test_other_layers_are_one_stack_and_keep_their_mode() -> None:
    op = ring()
    _, U = spectrum(op)
    x = signal(12, 4)
    edges = op.to_dense().nonzero().T
    for layer, options in ((GCNConv, {}), (ChebConv, {"order": 3}), (ARMAConv, {"num_stacks": 2, "dropout": 0.9})):
        conv = layer(4, 2, **options).double().train()
        out = stack_outputs(conv, x, edges)
        assert conv.training
        assert not out.requires_grad
        torch.testing.assert_close(out.mean(0), conv.eval()(x, edges))
        assert layer_response(conv, x, edges, U).shape == (options.get("num_stacks", 1), 12)


@pytest.mark.parametrize(
    ("U", "x", "y", "error", "words"),
    [
        (torch.eye(3)[:, :2], torch.ones(3, 1), torch.ones(3, 1), ShapeError, "all N eigenvectors"),
        (torch.eye(3), torch.ones(3), torch.ones(3, 1), ShapeError, "x has shape"),
        (torch.eye(3), torch.ones(2, 1), torch.ones(3, 1), ShapeError, "x has shape"),
        (torch.eye(3), torch.ones(3, 1), torch.ones(4, 1), ShapeError, "y has shape"),
        (torch.eye(3), torch.ones(3, 0), torch.ones(3, 1), ShapeError, "F > 0"),
        (torch.eye(3).long(), torch.ones(3, 1), torch.ones(3, 1), DTypeError, "U is"),
        (torch.eye(3), torch.ones(3, 1).long(), torch.ones(3, 1), DTypeError, "x is"),
    ],
    ids=["U", "x-vector", "x-nodes", "y-nodes", "x-empty", "U-int", "x-int"],
)
def test_what_does_not_fit_is_refused(U: Tensor, x: Tensor, y: Tensor, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        empirical_response(U, x, y)
    with pytest.raises(error, match=words):
        empirical_gain(U, x, y)


def test_bands_refuse_what_does_not_fit() -> None:
    x = torch.ones(3, 1)
    with pytest.raises(ParameterError, match="bands"):
        band_response(torch.zeros(3), torch.eye(3), x, x, bands=0)
    with pytest.raises(ShapeError, match="mu has shape"):
        band_response(torch.zeros(2), torch.eye(3), x, x)


def test_features_that_cancel_are_silence_not_rounding() -> None:
    generator = torch.Generator().manual_seed(0)
    U = torch.linalg.qr(torch.randn(30, 30, dtype=torch.float64, generator=generator)).Q
    x = torch.randn(30, 5, dtype=torch.float64, generator=generator)
    x -= x.mean(-1, keepdim=True)  # the mean of the features is nothing but rounding
    assert empirical_response(U, x, 2 * x).isnan().all()
    assert band_response(torch.linspace(-1, 1, 30, dtype=torch.float64), U, x, 2 * x, bands=4)[1].isnan().all()


def test_bands_are_of_mu_within_its_range() -> None:
    U = torch.eye(2)
    with pytest.raises(ParameterError, match=r"mu must lie in \[-1, 1\]"):
        band_response(torch.tensor([0.0, 2.0]), U, torch.ones(2, 1), torch.ones(2, 1), 2)
    with pytest.raises(ParameterError, match="bands must be an integer"):
        band_response(torch.tensor([-0.5, 0.5]), U, torch.ones(2, 1), torch.ones(2, 1), 2**62)
    small = 1e-30 * torch.ones(2, 1)  # its square is no number in float32
    _, h = band_response(torch.tensor([-0.5, 0.5]), U, small, 3 * small, 2)
    assert h.tolist() == pytest.approx([3.0, 3.0])
