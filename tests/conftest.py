"""What every test shares: a fixed seed, torch's global settings put back, and how hypothesis searches."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

# The same examples every time, so that a red run is red again; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# the arrays are small, and pytest-xdist uses the cores; tests of threads set their own number
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # of the commands that tests start


@pytest.fixture(autouse=True)
def _fresh_torch() -> Iterator[None]:
    """Seed torch, and put its number of threads and its default dtype back afterwards."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(dtype)
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
