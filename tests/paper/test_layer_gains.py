"""The gain of a layer is what it does to an eigenvector, and trained gains are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from armagnn import GraphOperator
from armagnn.nn import ARMAConv, GCNConv, RationalConv
from armagnn.nn.mlp_conv import MLPConv
from armagnn.spectral.plot import picture
from armagnn_paper import layer_gains
from armagnn_paper.claims import rows_of
from armagnn_paper.layer_gains import GainRow, draw, matrices, run


@pytest.mark.parametrize(
    "conv",
    [
        RationalConv(3, 2, order=4, act=None, bias=False),
        ARMAConv(3, 2, num_stacks=2, num_layers=1, act=None, bias=False),
        ARMAConv(3, 2, num_stacks=2, num_layers=3, act=None, bias=False),
        ARMAConv(3, 2, num_stacks=2, num_layers=3, shared_weights=False, act=None, bias=False),
    ],
    ids=str,
)
@pytest.mark.parametrize("skip", [None, MLPConv(3, 2, act=None, bias=False)], ids=["alone", "with x V"])
def test_the_matrix_of_a_layer_is_what_it_does_to_an_eigenvector(conv: Any, skip: Any) -> None:
    conv, skip = conv.double(), None if skip is None else skip.double()
    half = torch.randint(0, 12, (2, 30), generator=torch.Generator().manual_seed(3))
    op = GraphOperator.from_edge_index(torch.cat([half, half.flip(0)], 1), 12, dtype=torch.float64)
    mu, vectors = torch.linalg.eigh(op.to_dense())
    x = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    found = matrices(conv, skip, mu)
    for k in range(12):
        given = vectors[:, k, None] * x
        made = conv(given, op) + (0 if skip is None else skip(given))
        assert torch.allclose(made, vectors[:, k, None] * (x @ found[k]), atol=1e-10)


def test_other_layers_have_no_gain() -> None:
    with pytest.raises(TypeError, match="gains are of"):
        matrices(GCNConv(3, 2), None, torch.ones(1))


def test_gains_are_kept_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []

    def train(dataset: str, method: str, device: str, runs: int) -> list[GainRow]:
        trained.append((dataset, method))
        return [GainRow(dataset, method, 0, layer, mu, 2.0 + mu) for layer in (1, 2) for mu in (-1.0, 0.0, 1.0)]

    monkeypatch.setattr(layer_gains, "train", train)
    path = tmp_path / "gains.csv"
    assert list(run(path, ["texas"], ["arma"], "cpu")) == ["texas, arma: 6 numbers"]
    assert list(run(path, ["texas"], ["arma", "rational"], "cpu")) == ["texas, rational: 6 numbers"]
    assert trained == [("texas", "arma"), ("texas", "rational")]
    assert len(rows_of(path, GainRow)) == 12
    assert picture(draw(path))[:4] == b"\x89PNG"
