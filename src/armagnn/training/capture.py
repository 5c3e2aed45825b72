"""A training step as one CUDA graph: what makes steps on small graphs cheap on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch


@cache
def _side_stream(device: int) -> torch.cuda.Stream:
    # one for all: cuBLAS keeps a workspace of 32 MiB for every stream it has seen
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def capture(step: Callable[[], object], warmup: int = 3, pool: Any = None) -> Callable[[], None]:
    """Record ``step`` and return a function that runs it again in one launch.

    A step on a small graph is a hundred launches of a few microseconds each, and the processor that sends them is the
    slower side. Recorded, they are one. The step must do the same work on the same tensors every time: zero gradients
    in place (``zero_grad(set_to_none=False)``), no ``.item()``, an optimiser made with ``capturable=True``. Dropout
    masks are drawn anew at every run: their seed comes from torch's generator, which a graph advances. Recordings that
    never run at the same time, and keep nothing for one another, may share the memory of one ``pool``
    (``torch.cuda.graph_pool_handle()``).

    Example:
        >>> replay = capture(lambda: train_one_epoch())  # doctest: +SKIP
        >>> replay()  # doctest: +SKIP
    """
    side = _side_stream(torch.cuda.current_device())
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # compiles kernels and fills the allocator's pool, which recording cannot
        for _ in range(warmup):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph, pool=pool, stream=side):
            step()
    finally:  # torch stays on the side stream if recording fails
        torch.cuda.set_stream(before)
    return graph.replay
