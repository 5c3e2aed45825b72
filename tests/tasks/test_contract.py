"""The plan of an epoch."""

from __future__ import annotations

import pytest
import torch

from armagnn.tasks.contract import write_plan


@pytest.mark.parametrize("count", [1, 5, 6])
def test_ids_in_their_order_and_fillers_behind(count: int) -> None:
    plan, ids = torch.full((2, 3), -1), torch.arange(count).flip(0)
    write_plan(plan, ids, filler=7)
    assert plan.flatten().tolist() == ids.tolist() + [7] * (6 - count)


def test_more_ids_than_places_are_refused() -> None:
    with pytest.raises(RuntimeError):
        write_plan(torch.zeros(1, 2, dtype=torch.int64), torch.arange(3), filler=0)
