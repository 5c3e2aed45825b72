"""The one source of randomness: Philox-4x32-10, a function of (seed, purpose, step, index).

``bits(seed, purpose, step, index)`` is a 32-bit number that depends on nothing else: not on the device, the number
of threads, the order of the calls or what else is drawn. So a dropout mask is never stored (the backward pass
computes it again), and one draw among many equals the same draw alone.

The counter is ``(index // 4 low, index // 4 high, step, purpose)``, the key is the seed, and the number is word
``index % 4`` of the block (Salmon et al., *Parallel random numbers: as easy as 1, 2, 3*, 2011).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

import numpy as np
import torch
from torch import Tensor

from armagnn.errors import ParameterError

MASK: Final = 0xFFFFFFFF
MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
WEYL: Final = (0x9E3779B9, 0xBB67AE85)
ROUNDS: Final = 10

DROPOUT: Final = 1
"""Purpose of the masks of the skip connections; each use of randomness has its own number."""


KEYS: Final = 2
"""Purpose of the numbers from which the seeds of a trial's masks are made."""

Words = TypeVar("Words", Tensor, np.ndarray[Any, np.dtype[np.int64]])

_source: ContextVar[Iterator[Tensor] | None] = ContextVar("source", default=None)
"""The seeds of the training that runs in this thread; other threads draw their own."""


def keys(seed: Tensor, epochs: range, count: int) -> Tensor:
    """Return the seeds of the masks that trials draw in each epoch: shape (epochs, R, count), from seeds (R).

    Example:
        >>> import torch
        >>> alone, among = keys(torch.tensor([7]), range(5), 2), keys(torch.tensor([3, 7]), range(2, 5), 2)
        >>> torch.equal(alone[2:, 0], among[:, 1])
        True
    """
    step = torch.arange(epochs.start, epochs.stop, epochs.step, device=seed.device).view(-1, 1, 1)
    block = torch.arange(-(-count // 2), device=seed.device)  # each once: it has two seeds, of two words
    seed = seed.view(-1, 1)
    counter = (block, torch.zeros_like(block), step, torch.full_like(step, KEYS))
    words = torch.stack(philox(counter, (seed & MASK, (seed >> 32) & MASK)), dim=-1).flatten(-2)[..., : 2 * count]
    return (words[..., ::2] >> 1 << 31) | words[..., 1::2] >> 1


@contextmanager
def source(seeds: Tensor) -> Iterator[None]:
    """Let `draw_seed` give ``seeds[0]``, ``seeds[1]``, ... inside, instead of numbers of torch's generator.

    Only this thread sees them, and no code that torch.compile has compiled.
    """
    token = _source.set(iter(seeds.unbind(0)))
    try:
        yield
    finally:
        _source.reset(token)


def draw_seed(device: torch.device) -> Tensor:
    """Draw a seed, shape (1,), from torch's own generator, so that ``torch.manual_seed`` governs what follows.

    It is a tensor on the device, never a Python number: nothing synchronises, and a captured or compiled graph
    draws a fresh one each time it runs. Within `source` it is the next of the seeds given there.
    """
    seeds = _seeds()
    if seeds is not None:
        return _next_seed(seeds).reshape(1)
    return torch.randint(0, 2**62, (1,), dtype=torch.int64, device=device)


def pass_seed() -> None:
    """Leave out the next seed of a `source`, if there is one: those behind it stay what they are."""
    seeds = _seeds()
    if seeds is not None:
        _next_seed(seeds)


def _seeds() -> Iterator[Tensor] | None:
    """Return the seeds of this thread. Compiled code has none: torch.compile cannot look at a context variable."""
    return None if torch.compiler.is_compiling() else _source.get()


def _next_seed(seeds: Iterator[Tensor]) -> Tensor:
    seed = next(seeds, None)
    if seed is None:
        raise ParameterError("the network draws more dropout masks in one pass than there are seeds: fewer layers.")
    return seed


def threshold(p: float) -> int:
    """Return the smallest number that is kept: ``bits >= threshold(p)`` holds with probability ``1 - p``."""
    return min(round(p * 2**32), MASK)


def thresholds(p: Tensor) -> Tensor:
    """Return `threshold` of every rate, in int64."""
    return (p.double() * 2**32).round().clamp(max=MASK).long()


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[Words, Words]) -> tuple[Words, ...]:
    """Return the four words of each block, as int64 tensors (or numpy arrays) that hold 32-bit numbers.

    A product of two 32-bit numbers fits 64 bits, and int64 arithmetic wraps: its low half is exact, and its high
    half is what an arithmetic shift leaves after masking.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        p0, p1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = ((p1 >> 32) & MASK) ^ c1 ^ k0, p1 & MASK, ((p0 >> 32) & MASK) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return c0, c1, c2, c3


def bits(seed: Tensor, purpose: int, step: int | Tensor, index: Tensor) -> Tensor:
    """Return one 32-bit number (in int64) for every ``index`` and seed, which are broadcast against each other.

    Example:
        >>> import torch
        >>> bits(torch.tensor([7]), DROPOUT, 0, torch.arange(3)).tolist()
        [3601212787, 1911217778, 986277210]
    """
    seed, index = torch.broadcast_tensors(seed, index)  # type: ignore[no-untyped-call]
    block = index >> 2
    zero = torch.zeros_like(block)
    words = philox(
        (block & MASK, (block >> 32) & MASK, zero + step, zero + purpose), (seed & MASK, (seed >> 32) & MASK)
    )
    return torch.stack(words, dim=-1).gather(-1, (index & 3).unsqueeze(-1)).squeeze(-1)


def keep_mask(seed: Tensor, p: float, step: int, shape: torch.Size | tuple[int, ...]) -> Tensor:
    """Return the dropout mask of a tensor of this shape: true where an entry is kept."""
    count = 1
    for size in shape:
        count *= size
    index = torch.arange(count, device=seed.device)
    return (bits(seed, DROPOUT, step, index) >= threshold(p)).view(shape)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from `seed` inside, on the CPU; outside, torch's generators are as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would change those of GPUs, and takes longer
        yield
