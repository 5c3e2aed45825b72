"""Lanczos iterations never find a vector that their start is orthogonal to."""

from __future__ import annotations

import numpy as np
import pytest

from armagnn.operators.extremes import random_start


@pytest.mark.parametrize("n", [600, 1024, 5001])
def test_the_start_has_no_structure(n: int) -> None:
    """It repeats, and has about as much of any simple vector as a random one: neither all of it nor nothing."""
    start = random_start(n)
    assert np.array_equal(start, random_start(n))
    count = np.arange(n)
    simple = {
        "constant": np.ones(n),
        "alternating": (-1.0) ** count,
        "a slope": count - count.mean(),
        "a wave": np.sin(2 * np.pi * (count + 0.5) / n),
        "one half": np.where(count < n // 2, 1.0, 0.0),
        "a node": (count == 0) * 1.0,
        "the last node": (count == n - 1) * 1.0,
    }
    for name, vector in simple.items():
        cosine = abs(start @ vector) / np.linalg.norm(start) / np.linalg.norm(vector)
        assert 1e-3 / n**0.5 < cosine < 5 / n**0.5, name
    swaps = {
        "reversed": start[::-1],
        "shifted": np.roll(start, 1),
        "halves swapped": np.roll(start, n // 2),
        "pairs swapped": start[: n // 2 * 2].reshape(-1, 2)[:, ::-1].ravel(),
    }
    for name, image in swaps.items():  # an automorphism of a graph would keep the steps in a part of the space
        assert abs(start[: len(image)] @ image) / (start @ start) < 8 / n**0.5, name
    assert len(np.unique(np.abs(start))) == n
