"""Networks and tasks of graphs, small enough to be tested."""

from __future__ import annotations

from typing import Any

import torch

from armagnn.data import Fold, GraphsDataset
from armagnn.tasks import GraphNet, GraphTask

OPTIONS: dict[str, dict[str, Any]] = {
    "arma": {"num_stacks": 2, "num_layers": 2},
    "gcn": {"num_layers": 2},
    "chebyshev": {"order": 2},
    "cayley": {"order": 1, "jacobi": 2},
    "mlp": {"num_layers": 2},
    "gat": {"num_layers": 2},
    "sage": {},
    "gin": {},
}
BATCHED = ("arma", "gcn", "chebyshev", "cayley", "mlp")
F64 = torch.float64


FOLD = Fold(torch.arange(4, 40), torch.tensor([0, 2]), torch.tensor([1, 3]))


def make_net(method: str, outputs: int = 2, features: int = 8, **changes: Any) -> GraphNet:
    return GraphNet(method, features, outputs, hidden=8, options=OPTIONS[method], **changes)


def make_task(data: GraphsDataset, net: GraphNet, fold: Fold | None = None, **options: Any) -> GraphTask:
    return GraphTask(data, net, fold or FOLD, **{"batch_size": 8, "dtype": F64} | options)
