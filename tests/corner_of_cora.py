"""A corner of Cora, small enough for all its frequencies; and responses as far as they are heard there."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from armagnn.data import NodeDataset, load


def corner_of_cora() -> NodeDataset:
    """A corner of Cora: the 250 nodes nearest to node 0, their words and their edges."""
    whole = load("cora")
    reached = torch.zeros(whole.num_nodes, dtype=torch.bool)
    reached[0] = True
    while int(reached.sum()) < 250:
        source, target = whole.edge_index
        reached = reached.index_put((target[reached[source]],), torch.tensor(True))
    nodes = reached.nonzero().flatten()[:250]
    number = torch.full((whole.num_nodes,), -1)
    number[nodes] = torch.arange(250)
    inside = (number[whole.edge_index] >= 0).all(0)
    x = (whole.x.to_dense()[nodes] > 0).float()  # words, there or not
    none = nodes[:0]
    return replace(
        whole, x=x, edge_index=number[whole.edge_index[:, inside]], y=whole.y[nodes],
        train_idx=none, val_idx=none, test_idx=none,
    )  # fmt: skip


def same_where_heard(found: Tensor, wanted: Tensor) -> None:
    known = found.isfinite()
    assert known.double().mean() > 0.8
    torch.testing.assert_close(found[known], wanted[known], rtol=1e-5, atol=1e-8)
