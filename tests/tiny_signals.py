"""Signals on a small grid, with a table of features, in place of MNIST and of 20news."""

from __future__ import annotations

from dataclasses import replace

import torch

from armagnn.data.signals import SignalsDataset
from armagnn.operators import knn_graph


def tiny() -> SignalsDataset:
    """Thirty signals of three classes."""
    generator = torch.Generator().manual_seed(0)
    points = torch.cartesian_prod(torch.arange(6.0), torch.arange(6.0))
    y = torch.arange(30) % 3
    x = (torch.rand(30, 36, generator=generator) * 50 * (1 + y[:, None])).to(torch.uint8)
    data = SignalsDataset.of(knn_graph(points, 8)[0], x, y, range(16), range(16, 23), range(23, 30))
    return replace(data, name="tiny", sha256="0" * 64, table=torch.randn(36, 4, generator=generator))
