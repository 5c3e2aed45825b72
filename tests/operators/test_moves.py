"""What is moved, taken and padded is asked for by names of devices, types, and ids that there are."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from armagnn import GraphOperator
from armagnn.errors import ArmagnnError, DeviceError
from armagnn.operators import GraphBatches, coarsen

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
OP = GraphOperator.from_edge_index(EDGES)


@pytest.mark.parametrize("target", [(), "nowhere", "cuda:99", object(), [1], 2**70])
def test_a_device_that_is_not_here_is_refused(target: Any) -> None:
    with pytest.raises(DeviceError, match="device"):
        OP.to(target)
    with pytest.raises(ArmagnnError, match="device"):
        coarsen(EDGES, 1).to(target)


def test_what_is_padded_is_checked() -> None:
    batches = GraphBatches(GraphOperator.block_diagonal([OP, OP]), torch.tensor([0, 3, 6]))
    assert batches.take_padded(torch.tensor([1, 2]), 5, 9).num_graphs == 3
    for ids, rows, nonzeros in (
        ([1], 5, 9), (torch.tensor([[1]]), 5, 9), (torch.tensor([1.5]), 5, 9), (torch.tensor([3]), 5, 9),
        (torch.tensor([-1]), 5, 9), (torch.tensor([1]), "5", 9), (torch.tensor([1]), 5, [9]),
    ):  # fmt: skip
        with pytest.raises(ArmagnnError, match=r"ids|rows|nonzeros"):
            batches.take_padded(ids, rows, nonzeros)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rows", "nonzeros"), [(2, 9), (4, 3)])
def test_a_batch_that_does_not_fit_into_its_room_is_refused(rows: int, nonzeros: int) -> None:
    """It was written beyond the room, and ended the process."""
    batches = GraphBatches(GraphOperator.block_diagonal([OP, OP]), torch.tensor([0, 3, 6]))
    assert batches.take_padded(torch.tensor([1]), 4, 4).num_nodes == 4
    with pytest.raises(ArmagnnError, match="too few"):
        batches.take_padded(torch.tensor([1]), rows, nonzeros)
