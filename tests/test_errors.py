"""Errors are short whatever value they show, name the nearest known word, and survive a pickle."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn import errors
from armagnn.errors import ArmagnnError, UnknownNameError, shown

BUILT_IN = (ValueError, TypeError, KeyError, RuntimeError, NotImplementedError, AttributeError)
KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ArmagnnError) and kind is not ArmagnnError
]


class Silent:
    def __repr__(self) -> str:
        raise KeyError("no text")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        ("relu", "'relu'"),
        ([0] * 10**6, "[0, 0, 0, 0, 0, 0, ...]"),
        (np.ones((2, 3)), "ndarray of shape (2, 3)"),
        (torch.ones(4), "Tensor of shape (4,)"),
        (torch.tensor(2.0), "tensor(2.)"),
        ("a\n  b", r"'a\n b'"),
        (Silent(), None),
        (torch.nested.nested_tensor([torch.ones(1, 2), torch.ones(2, 2)]), None),
    ],
)
def test_a_value_is_shown_in_one_short_line(value: Any, text: str | None) -> None:
    assert "\n" not in shown(value)
    assert len(shown(value)) < 120
    assert shown(value) == (text or shown(value))


def test_an_integer_without_a_text() -> None:
    assert shown(10**5000) == "an object of type int"


@given(st.recursive(st.one_of(st.text(), st.integers(), st.floats()), st.lists, max_leaves=50))
def test_anything_is_shown_in_one_short_line(value: Any) -> None:
    assert "\n" not in shown(value)
    assert len(shown(value)) < 2000


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_a_built_in_one_too(kind: type[ArmagnnError]) -> None:
    assert issubclass(kind, BUILT_IN)
    assert kind.__doc__


def test_an_unknown_name_is_told_the_nearest() -> None:
    error = UnknownNameError("activation", "Rleu", ("tanh", "relu"))
    assert str(error) == "Unknown activation 'Rleu'. Did you mean 'relu'? Known: relu, tanh."
    assert "Did you mean" not in str(UnknownNameError("activation", "?", ("tanh", "relu")))
    assert "Did you mean" not in str(UnknownNameError("activation", 3, ("tanh", "relu")))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is UnknownNameError
    assert str(again) == str(error)
