from __future__ import annotations

import functools
import itertools
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from armagnn.errors import ParameterError
from armagnn.randomness import (
    DROPOUT,
    KEYS,
    MASK,
    bits,
    draw_seed,
    keep_mask,
    keys,
    pass_seed,
    philox,
    source,
    threshold,
    thresholds,
)

KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((MASK,) * 4, (MASK,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
"""The known answers of philox4x32-10 in Random123."""

Words = tuple[int, ...]


def oracle(counter: Words, key: Words) -> Words:
    """Philox-4x32-10 in Python's integers, after the paper."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


word = st.integers(0, MASK)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(counter: Words, key: Words, answer: Words) -> None:
    assert oracle(counter, key) == answer
    words = philox(*(tuple(torch.tensor([w]) for w in part) for part in (counter, key)))  # type: ignore[arg-type]
    assert tuple(int(w) for w in words) == answer


@given(st.tuples(word, word, word, word), st.tuples(word, word))
def test_philox(counter: Words, key: Words) -> None:
    words = philox(*(tuple(torch.tensor([w]) for w in part) for part in (counter, key)))  # type: ignore[arg-type]
    assert tuple(int(w) for w in words) == oracle(counter, key)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 9), word, st.lists(st.integers(0, 2**63 - 1), min_size=1))
def test_bits(seed: int, purpose: int, step: int, index: list[int]) -> None:
    """A function of (seed, purpose, step, index), also where the index outgrows 32 bits."""
    expected = [
        oracle((i // 4 & MASK, i // 4 >> 32, step, purpose), (seed & MASK, seed >> 32 & MASK))[i % 4] for i in index
    ]
    assert bits(torch.tensor([seed]), purpose, step, torch.tensor(index)).tolist() == expected


def test_one_number_does_not_depend_on_its_company() -> None:
    seed = torch.tensor([42])
    many = bits(seed, DROPOUT, 5, torch.arange(1000))
    assert [int(bits(seed, DROPOUT, 5, torch.tensor([i]))) for i in (0, 1, 517, 999)] == many[[0, 1, 517, 999]].tolist()
    short, long = keep_mask(seed, 0.5, 5, (7,)), keep_mask(seed, 0.5, 5, (100, 10))
    assert torch.equal(short, long.view(-1)[:7])


# ----------------------------------------------------------------------------------------------------------- statistics

COUNT = 1 << 18


@functools.cache
def mask(seed: int, p: float, step: int = 0) -> torch.Tensor:
    return keep_mask(torch.tensor([seed]), p, step, (COUNT,)).double()


@pytest.mark.parametrize("p", [0.0, 0.01, 0.3, 0.5, 0.9])
def test_keep_probability(p: float) -> None:
    deviation = math.sqrt(p * (1 - p) / COUNT)
    for seed in (0, 1, 2**40):
        assert abs(float(mask(seed, p).mean()) - (1 - p)) <= 4.5 * deviation


def test_keep_probability_of_each_lane() -> None:
    rate = mask(3, 0.25).view(-1, 4).mean(0)
    assert (rate - 0.75).abs().max() <= 4.5 * math.sqrt(0.25 * 0.75 / (COUNT / 4))


@pytest.mark.parametrize("p", [0.2, 0.5, 0.8])
@pytest.mark.parametrize(
    ("one", "other"),
    [((1, 0), (1, 1)), ((1, 0), (2, 0)), ((1, 0), (1 + 2**32, 0)), ((1, 0), (0, 1)), ((1, 7), (2, 7))],
    ids=["steps", "seeds", "high words", "step and seed", "seeds at a step"],
)
def test_masks_are_independent(p: float, one: tuple[int, int], other: tuple[int, int]) -> None:
    a, b = (mask(seed, p, step) - (1 - p) for seed, step in (one, other))
    correlation = float((a * b).mean()) / (p * (1 - p))
    assert abs(correlation) <= 4.5 / math.sqrt(COUNT)


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 5, 64])
def test_neighbours_are_independent(lag: int) -> None:
    a = mask(1, 0.5) - 0.5
    assert abs(float((a[lag:] * a[:-lag]).mean()) / 0.25) <= 4.5 / math.sqrt(COUNT - lag)


def test_threshold() -> None:
    assert threshold(0.0) == 0
    assert threshold(0.5) == 2**31
    assert threshold(1 - 2.0**-50) == MASK  # never 2^32, which no number would reach
    assert bool(keep_mask(torch.tensor([0]), 0.0, 0, (1000,)).all())


def test_draw_seed_follows_torch() -> None:
    cpu_device = torch.device("cpu")
    torch.manual_seed(5)
    first, second = draw_seed(cpu_device), draw_seed(cpu_device)
    torch.manual_seed(5)
    assert torch.equal(draw_seed(cpu_device), first)
    assert not torch.equal(first, second)
    assert first.shape == (1,)
    assert first.dtype == torch.int64
    many = torch.cat([draw_seed(cpu_device) for _ in range(64)])
    assert int(many.min()) >= 0
    assert int(many.max()) > 2**60  # the whole range, not 32 bits of it


def test_thresholds_are_those_of_the_single_rates() -> None:
    rates = [0.0, 0.1, 0.5, 0.75, 1 - 2.0**-50]
    assert thresholds(torch.tensor(rates, dtype=torch.float64)).tolist() == [threshold(p) for p in rates]


# --------------------------------------------------------------------------------------------------------------- trials


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=4), st.integers(0, 5), st.integers(1, 5))
def test_keys_of_a_trial_do_not_depend_on_the_batch(seeds: list[int], start: int, count: int) -> None:
    """Nor on the epochs asked for, nor on how many are drawn: a function of the seed, the epoch and the draw."""
    together = keys(torch.tensor(seeds), range(start, start + 3), count)
    assert together.shape == (3, len(seeds), count)
    assert int(together.min()) >= 0
    for r, seed in enumerate(seeds):
        alone = keys(torch.tensor([seed]), range(start + 4), count + 2)
        assert torch.equal(together[:, r], alone[start : start + 3, 0, :count])
    words = bits(torch.tensor(seeds[:1]), KEYS, start, torch.arange(2))
    assert int(together[0, 0, 0]) == (int(words[0]) >> 1 << 31 | int(words[1]) >> 1)


def test_keys_of_every_other_step() -> None:
    seeds = torch.tensor([3, 4])
    assert torch.equal(keys(seeds, range(1, 7, 2), 3), keys(seeds, range(1, 7), 3)[::2])


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_keys_are_made_of_the_words_of_their_trial(count: int) -> None:
    seeds, steps = torch.tensor([3, 2**61 + 5]), range(7, 9)
    for r, step in itertools.product(range(2), range(2)):
        words = bits(seeds[r : r + 1], KEYS, steps[step], torch.arange(2 * count))
        truth = (words[::2] >> 1 << 31) | words[1::2] >> 1
        assert torch.equal(keys(seeds, steps, count)[step, r], truth)


def test_keys_differ() -> None:
    """Of draws, epochs and seeds: the masks of no two are the same."""
    found = keys(torch.tensor([0, 1, 2**32, 2**40]), range(50), 8)
    assert found.unique().numel() == found.numel() == 50 * 4 * 8
    assert int(found.max()) > 2**61  # 62 bits, not 32


def test_source_gives_its_seeds_in_order_and_then_torch_draws_again() -> None:
    device = torch.device("cpu")
    torch.manual_seed(3)
    expected = draw_seed(device)
    torch.manual_seed(3)
    with source(torch.tensor([4, 5])):
        assert draw_seed(device).tolist() == [4]
        with source(torch.tensor([9])):  # the inner one first, and the outer one goes on where it was
            assert draw_seed(device).tolist() == [9]
        assert draw_seed(device).tolist() == [5]
        with pytest.raises(ParameterError, match="more dropout masks"):
            draw_seed(device)
    assert torch.equal(draw_seed(device), expected)  # nothing was drawn from the generator meanwhile


def test_source_ends_with_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), source(torch.tensor([1])):
        raise ZeroDivisionError
    torch.manual_seed(0)
    first = draw_seed(torch.device("cpu"))
    assert first.tolist() != [1]


def test_another_thread_does_not_take_the_seeds_of_a_training() -> None:
    seeds, device = torch.arange(4), torch.device("cpu")

    def draw_elsewhere() -> list[Tensor]:
        pass_seed()
        return [draw_seed(device) for _ in range(9)]  # more than there are: each would raise, or take the training's

    def train(start: int) -> list[int]:
        with source(seeds + start):
            drawn = []
            for _ in seeds:
                drawn.append(int(draw_seed(device)))
                barrier.wait(10)
            return drawn

    with ThreadPoolExecutor(2) as pool:
        with source(seeds):
            assert int(draw_seed(device)) == 0
            assert len(pool.submit(draw_elsewhere).result()) == 9
            with source(seeds + 7):  # one within the other
                assert int(draw_seed(device)) == 7
            assert int(draw_seed(device)) == 1
        barrier = threading.Barrier(2)
        both = [pool.submit(train, start) for start in (0, 100)]
        assert [future.result() for future in both] == [[0, 1, 2, 3], [100, 101, 102, 103]]
