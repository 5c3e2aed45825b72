from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from armagnn.nn.sage_conv import SAGEConv
from nn.layer_checks import LayerChecks


class TestSAGE(LayerChecks):
    layer = SAGEConv
    options: ClassVar = [{}, {"act": None}, {"bias": False, "act": "tanh"}]

    def truth(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        rows = []
        for row in adjacency:
            neighbours = x[row != 0]
            rows.append(neighbours.max(0).values if len(neighbours) else torch.zeros_like(x[0]))
        return torch.stack(rows) @ conv.conv.lin_l.weight.T + x @ conv.conv.lin_r.weight.T
