"""The ranks of a program: they begin and end together, agree, and hear of each other's errors."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from armagnn.errors import RankError

FAILED: Final = "armagnn: a rank raised"
PATIENCE: Final = 3.0
"""Seconds that a rank waits for the words of another one whose connection broke."""
LOST: Final = ("Connection closed by peer", "Connection reset", "Broken pipe", "Connection refused", "peer", "NCCL")
"""What the errors of a broken connection say."""

T = TypeVar("T")


@contextmanager
def ranks(device: torch.device | str = "cpu") -> Iterator[dist.ProcessGroup]:
    """The ranks that torchrun or Ray Train started, or this process alone; where there is a group already, its ranks.

    Example:
        >>> with ranks() as group:
        ...     dist.get_world_size(group)
        1
    """
    if dist.is_initialized():
        yield _world()
        return
    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.set_device(device.index if device.index is not None else int(os.environ.get("LOCAL_RANK", "0")))
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    if under_launcher():
        dist.init_process_group(backend, timeout=datetime.timedelta(minutes=30))
    else:
        alone = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=alone, rank=0, world_size=1)
    try:
        yield _world()
    finally:
        dist.destroy_process_group()


def _world() -> dist.ProcessGroup:
    world = dist.group.WORLD
    assert world is not None
    return world


def under_launcher() -> bool:
    """Did torchrun, or something like it, start this process as one of several ranks?"""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ and "MASTER_ADDR" in os.environ


def is_first() -> bool:
    """Is this the rank that speaks and writes? A process alone is."""
    if dist.is_initialized():
        return dist.get_rank() == 0
    return not under_launcher() or os.environ["RANK"] == "0"


@contextmanager
def agreed(group: dist.ProcessGroup) -> Iterator[None]:
    """Raise on all ranks where the work inside raises on one: the others raise a `RankError` with its words.

    The work inside must not wait for other ranks. It costs a sum of one number over the ranks.

    Example:
        >>> with ranks() as group, agreed(group):
        ...     print("all is well")
        all is well
    """
    error: Exception | None = None
    try:
        yield
    except Exception as found:
        error = found
    if not any_rank(error is not None, group):
        return
    said: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(said, None if error is None else f"{type(error).__name__}: {error}", group=group)
    if error is not None:
        raise error
    rank, words = next((rank, words) for rank, words in enumerate(said) if words is not None)
    raise RankError(f"rank {rank} raised {words}")


def any_rank(here: bool, group: dist.ProcessGroup) -> bool:
    """Return whether something holds on any rank."""
    flag = torch.tensor(int(here), device=meeting_place(group))
    dist.all_reduce(flag, dist.ReduceOp.MAX, group=group)
    return bool(flag)


def meeting_place(group: dist.ProcessGroup) -> torch.device:
    """Return the device on which the ranks of a group exchange small things."""
    gloo = "gloo" in str(dist.get_backend_config(group))
    return torch.device("cpu") if gloo else torch.device("cuda", torch.cuda.current_device())


def shared(value: T, group: dist.ProcessGroup) -> T:
    """Return what the first rank has."""
    box = [value]
    dist.broadcast_object_list(box, group=group, group_src=0)
    return box[0]


def gathered(rows: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the rows of all ranks, one rank after another; each may have another number of them."""
    count = torch.tensor([rows.shape[0]], device=rows.device)
    counts = [torch.empty_like(count) for _ in range(dist.get_world_size(group))]
    dist.all_gather(counts, count, group=group)
    sizes = [int(each) for each in counts]
    padded = rows.new_zeros(max(sizes), *rows.shape[1:])
    padded[: rows.shape[0]] = rows
    found = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(found, padded, group=group)
    return torch.cat([each[:size] for each, size in zip(found, sizes, strict=True)])


@contextmanager
def ends_together(group: dist.ProcessGroup, again: str = "Give the command again to go on.") -> Iterator[None]:
    """Let the error of one rank be the error of all, wherever the others are waiting.

    The rank that raises leaves its words in the store; it must then end, which closes its connections. The others see
    that at once, and raise a `RankError` with its words. A rank that was killed leaves none.
    """
    store = dist.distributed_c10d._get_default_store()  # the one place where ranks meet without a collective
    rank = dist.get_rank(group)
    try:
        yield
    except RankError:
        raise
    except RuntimeError as error:
        if dist.get_world_size(group) == 1 or not any(words in str(error) for words in LOST):
            _leave(store, rank, error)
            raise
        raise RankError(f"{_words(store)} {again}") from error
    except BaseException as error:
        _leave(store, rank, error)
        raise


def _leave(store: Any, rank: int, error: BaseException) -> None:
    with suppress(RuntimeError):  # who keeps the store may have ended
        store.set(FAILED, f"rank {rank} raised {type(error).__name__}: {error}")


def _words(store: Any) -> str:
    until = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < until:
            if store.check([FAILED]):
                return str(store.get(FAILED).decode(errors="replace"))
            time.sleep(0.1)
    except RuntimeError:
        pass
    return "another rank ended without a word: it was killed, or its machine is gone."
