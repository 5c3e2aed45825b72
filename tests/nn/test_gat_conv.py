from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from armagnn import kernels
from armagnn.nn import gat_conv as module
from armagnn.nn.gat_conv import GATConv
from nn.layer_checks import LayerChecks


class TestGAT(LayerChecks):
    layer = GATConv
    options: ClassVar = [{}, {"heads": 1, "act": None}, {"heads": 2, "bias": False, "act": "tanh"}]
    bad: ClassVar = [{"heads": 0}, {"heads": None}, {"heads": 2, "concat": True}]

    def truth(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        theirs = conv.conv
        z = (x @ theirs.lin.weight.T).unflatten(1, (theirs.heads, theirs.out_channels))
        score = (z * theirs.att_src).sum(-1)[None] + (z * theirs.att_dst).sum(-1)[:, None]  # [target, source, head]
        edges = (adjacency != 0) | torch.eye(len(adjacency), dtype=torch.bool)
        attention = F.leaky_relu(score, 0.2).masked_fill(~edges[:, :, None], -torch.inf).softmax(1)
        heads = torch.einsum("ijh,jhc->ihc", attention, z)
        return heads.flatten(1) if theirs.concat else heads.mean(1)

    def test_heads_side_by_side(self) -> None:
        conv = self.make(3, 6, heads=2, concat=True)
        x, op, adjacency = self.problem(conv)
        torch.testing.assert_close(conv(x, op), self.expected(conv, x, adjacency))

    @pytest.mark.parametrize("sizes", [(3, 6), (6, 3)], ids=str)
    def test_autocast_rounds_no_score(self, sizes: tuple[int, int]) -> None:
        conv = self.make(*sizes, act=None).float()
        x, op, _ = self.problem(conv)
        x, op = 100 * x.float(), op.to(torch.float32)
        expected = conv(x, op)
        with torch.autocast("cpu", torch.bfloat16):
            found = conv(x, op)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02 * float(expected.abs().max()))

    def test_eight_heads(self) -> None:
        assert GATConv(2, 3).conv.att_src.shape == (1, 8, 3)
        assert repr(GATConv(2, 8, concat=True)) == "GATConv(2, 8, heads=8, concat=True)"


class TestGATOnDenseGraphs(TestGAT):
    """The same checks where averaged heads attend x."""

    @pytest.fixture(autouse=True)
    def _narrow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "FEWEST", 0)

    def test_they_attend_x(self, monkeypatch: pytest.MonkeyPatch) -> None:
        widths: list[int] = []
        real = kernels.added_attention
        monkeypatch.setattr(kernels, "added_attention", lambda *given: widths.append(given[2].shape[2]) or real(*given))
        for sizes in ((3, 6), (6, 6), (7, 6)):  # not where x is wider than what is made of it
            conv = self.make(*sizes)
            conv(*self.problem(conv)[:2])
        assert widths == [3, 6]
        monkeypatch.setattr(module, "FEWEST", 1000)
        conv(*self.problem(conv)[:2])
        assert widths == [3, 6]
