"""The process group of one rank."""

from __future__ import annotations

import functools
from typing import Any

WORLD = "the group of all ranks"


@functools.cache
def world(process: int) -> Any:
    """The group of one rank. A child has no threads of its parent's group, so each process makes its own."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return dist.group.WORLD
