"""Dropout on the processor has the bits of the reference, whatever the threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from armagnn.kernels import cpu, reference
from armagnn.kernels.cpu.compile import MIN_PRODUCTS
from armagnn.kernels.cpu.masks import limits
from armagnn.randomness import thresholds
from kernels.checks import P, dtypes
from oracles import numbers


@dtypes
@pytest.mark.parametrize(("p", "seed"), list(zip(P, [2**31, 0, 2**62 - 1, -1, -(2**63)], strict=True)))
def test_dropout_has_the_bits_of_the_reference(dtype: torch.dtype, p: float, seed: int) -> None:
    key = torch.tensor([seed])
    for size in (0, 1, 2, 3, 4, 5, 7, 8, 1023, 1024, 1025, 2051):  # four numbers come from one block
        x = numbers(size, seed=size, dtype=dtype)
        assert torch.equal(cpu.dropout(x, key, p, 2), reference.dropout(x, key, p, 2))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rest", [0, 1, 2, 3])
def test_dropout_of_many_chunks_has_the_bits_of_the_reference(threads: int, rest: int) -> None:
    torch.set_num_threads(threads)
    x = numbers(MIN_PRODUCTS + rest, dtype=torch.float32)
    seed = torch.tensor([9])
    assert torch.equal(cpu.dropout(x, seed, 0.3, 1), reference.dropout(x, seed, 0.3, 1))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(1, 3, 60_001), (5000, 3, 14), (2, 2, 40_003)])
def test_dropout_of_many_trials_has_the_bits_of_the_reference(threads: int, shape: tuple[int, int, int]) -> None:
    torch.set_num_threads(threads)
    x, trials = numbers(*shape, dtype=torch.float32), shape[1]
    fixed = (torch.arange(trials) + 2**40, torch.tensor([0.3, 0.0, 0.9], dtype=torch.float64)[:trials], 1)
    assert torch.equal(cpu.dropout_trials(x, *fixed), reference.dropout_trials(x, *fixed))


@pytest.mark.parametrize("work", [torch.float32, torch.float64])
def test_limits_of_float64_rates_are_those_that_torch_finds(work: torch.dtype) -> None:
    rates = torch.cat([torch.rand(2000, dtype=torch.float64), torch.tensor([0.0, 0.5, 0.25, 1 - 2**-33, 2**-33])])
    limit, scale = limits(rates, work)
    assert np.array_equal(limit, thresholds(rates).numpy())
    assert np.array_equal(scale, (1.0 / (1.0 - rates)).to(work).numpy())
    assert scale.dtype == (np.float64 if work == torch.float64 else np.float32)
