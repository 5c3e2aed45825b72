"""An ARMA layer on a part runs as one operation, and equals that of one process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch.distributed as dist

from launching import torchrun

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="this build of torch has no gloo")

CHECKS = ("cases", "weights alone", "composition")


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_layers_of_one_operation_equal_one_process(ranks: int) -> None:
    output = torchrun(ranks, Path(__file__).parent / "part_layer_ranks.py")
    for rank in range(ranks):
        for check in CHECKS:
            assert f"rank {rank} of {ranks}: {check} hold" in output
