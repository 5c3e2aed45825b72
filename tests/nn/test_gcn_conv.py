from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv as PyGConv

import oracles
from armagnn.nn import GCNConv
from nn.layer_checks import OwnLayerChecks


class TestGCN(OwnLayerChecks):
    layer = GCNConv
    options: ClassVar = [{}, {"gamma": 0.0, "act": None}, {"gamma": 2.5, "bias": False, "act": "tanh"}]
    bad: ClassVar = [{"gamma": value} for value in (-1.0, float("nan"), float("inf"), True, "1", None)]

    def truth(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        hat = torch.from_numpy(oracles.operator(adjacency.numpy(), "gcn", conv.gamma))
        return hat @ x @ conv.weight

    def test_the_operator_holds_the_layers_gamma(self) -> None:
        index = torch.tensor([[0, 1], [1, 0]])
        dense = GCNConv(2, 3, gamma=3.0).operator(index, 2).to_dense()
        torch.testing.assert_close(dense, torch.tensor([[0.75, 0.25], [0.25, 0.75]]))

    def test_equals_pyg(self) -> None:
        ours, theirs = GCNConv(4, 3, act=None), PyGConv(4, 3)
        with torch.no_grad():
            theirs.lin.weight.copy_(ours.weight.T)
        index = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]])  # directed: degrees are in-degrees in both
        x = torch.randn(4, 4)
        torch.testing.assert_close(ours(x, index), theirs(x, index))

    @pytest.mark.parametrize(("fin", "fout", "width"), [(2, 8, 2), (8, 2, 2)])
    def test_the_narrower_side_is_propagated(
        self, fin: int, fout: int, width: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from armagnn import GraphOperator

        widths: list[int] = []
        product = GraphOperator.__matmul__
        monkeypatch.setattr(GraphOperator, "__matmul__", lambda op, x: widths.append(x.shape[1]) or product(op, x))
        GCNConv(fin, fout)(torch.randn(3, fin), torch.tensor([[0, 1], [1, 0]]))
        assert widths == [width]

    def test_repr(self) -> None:
        assert repr(GCNConv(2, 3)) == "GCNConv(2, 3)"
        assert repr(GCNConv(2, 3, 0.5, "tanh")) == "GCNConv(2, 3, gamma=0.5, act='tanh')"
