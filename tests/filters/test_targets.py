from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from armagnn.errors import DTypeError, ParameterError, ShapeError, UnknownNameError
from armagnn.filters import targets

MU = torch.tensor([-1.0, -0.6, -0.5, -0.1, 0.0, 0.3, 0.5, 0.7, 1.0], dtype=torch.float64)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("low-pass", [0, 0, 0, 0, 1, 1, 1, 1, 1]),
        ("high-pass", [1, 1, 1, 1, 0, 0, 0, 0, 0]),
        ("band-pass", [0, 0, 1, 1, 1, 1, 1, 0, 0]),
        ("band-stop", [1, 1, 0, 0, 0, 0, 0, 1, 1]),
        ("comb", np.abs(np.sin(np.pi * MU.numpy()))),
        ("heat", np.exp(-5 * (1 - MU.numpy()))),
    ],
)
def test_named_targets(name: str, expected: Any) -> None:
    np.testing.assert_allclose(targets.resolve(name).function(MU), expected, atol=1e-15)
    target = targets.resolve(f"Ideal {name}")
    assert not target.sampled
    assert torch.equal(target.function(target.mu), target.value)
    assert float(target.mu.mean()) == pytest.approx(0.0, abs=1e-12)
    assert float(target.mu[0]) > -1
    assert float(target.mu[-1]) < 1


def test_every_name_is_tested() -> None:
    assert set(targets.NAMED) == {"low-pass", "high-pass", "band-pass", "band-stop", "comb", "heat"}


@pytest.mark.filterwarnings("error")
def test_functions_of_numpy_are_taken_without_a_warning() -> None:
    found = targets.resolve(lambda mu: np.exp(-5 * (1 - mu))).function(MU)
    np.testing.assert_allclose(found, np.exp(-5 * (1 - MU.numpy())), rtol=1e-15)


def test_parameters_of_the_targets() -> None:
    assert targets.low_pass(0.3)(MU).tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert targets.high_pass(-0.5)(MU).tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 0]
    assert targets.band_pass(-0.2, 0.1)(MU).tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 0]
    assert targets.band_stop(-0.2, 0.1)(MU).tolist() == [1, 1, 1, 0, 0, 1, 1, 1, 1]
    torch.testing.assert_close(targets.heat(2.0)(MU), torch.exp(-2 * (1 - MU)))
    torch.testing.assert_close(targets.comb(2)(MU), torch.sin(2 * torch.pi * MU).abs())


def test_samples_are_sorted_and_joined_by_lines() -> None:
    target = targets.resolve(([0.5, -0.5, 1.0], [2.0, 0.0, 3.0]))
    assert target.sampled
    assert target.mu.tolist() == [-0.5, 0.5, 1.0]
    assert target.value.tolist() == [0.0, 2.0, 3.0]
    x = torch.tensor([-0.7, 0.0, 0.75], dtype=torch.float64)
    assert target.function(x).tolist() == [0.0, 1.0, 2.5]


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("no such", UnknownNameError, "target response"),
        (3.0, DTypeError, "a target is"),
        ([1.0, 2.0, 3.0], DTypeError, "a target is"),
        (([0.0, 0.5], [1.0]), ShapeError, "one length"),
        (([0.0], [1.0]), ShapeError, "at least 2"),
        (([[0.0, 0.5]], [[1.0, 0.5]]), ShapeError, "one length"),
        (([0.0, 1.5], [1.0, 1.0]), ParameterError, "1 - lambda"),
        (([0.0, float("nan")], [1.0, 1.0]), ParameterError, r"mu in \[-1, 1\]"),
        (([0.0, 0.5], [1.0, float("nan")]), ParameterError, "not finite"),
        ((["a", "b"], [1.0, 2.0]), DTypeError, "real numbers"),
        (lambda mu: 1 / (mu - mu), ParameterError, "not finite"),
        (lambda mu: torch.where(mu > 0.3, torch.nan, mu), ParameterError, "e.g. at mu = 0.3"),
        (lambda mu: mu[:3], ShapeError, "one number per mu"),
        (lambda mu: "x", DTypeError, "real numbers"),
        (lambda mu: 1j * mu, DTypeError, "complex"),
    ],
)
def test_bad_targets_are_refused(target: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        targets.resolve(target)
