"""The one place of checks: every odd value gets the one typed error, every good one comes back as a plain number."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn import checks
from armagnn.errors import DTypeError, GraphError, ParameterError, ShapeError, UnknownNameError


class Rude:
    """A value whose every question ends in an error."""

    def __index__(self) -> int:
        raise KeyError("no")

    def __repr__(self) -> str:
        raise KeyError("no")


NO_NUMBERS: list[Any] = [
    True, np.True_, torch.tensor(True), None, "3", b"3", 3j, [3], (3,), {}, Rude(), Decimal(3), math.nan, math.inf,
    np.nan, np.ones(1, int), np.ones(2), np.array(["3"]), torch.ones(1, dtype=torch.long), torch.ones(2, 2),
    torch.empty((), dtype=torch.long, device="meta"), torch.tensor(2j), int, object(),
    torch.nn.UninitializedParameter(),
]  # fmt: skip
NAMES = [type(value).__name__ + str(number) for number, value in enumerate(NO_NUMBERS)]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=NAMES)
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^size must be an integer"):
        checks.integer("size", value)
    with pytest.raises(ParameterError, match=r"^rate must be a finite number, got"):
        checks.real("rate", value)


@pytest.mark.parametrize("kind", [int, np.int8, np.uint64, np.array, torch.tensor, lambda n: torch.tensor(n).int()])
def test_integers_of_all_types_come_back_as_python_s(kind: Any) -> None:
    found = checks.integer("size", kind(7), 1)
    assert type(found) is int
    assert found == 7


@pytest.mark.parametrize("kind", [int, float, np.float16, np.float32, np.int64, Fraction, np.array, torch.tensor])
def test_reals_of_all_types_come_back_as_python_s(kind: Any) -> None:
    found = checks.real("rate", kind(2), above=0)
    assert type(found) is float
    assert found == 2.0
    assert checks.real("rate", torch.tensor(0.5, requires_grad=True)) == 0.5


@given(st.integers(), st.integers(-5, 5), st.integers(5, 9))
def test_an_integer_lies_in_its_range(value: int, least: int, most: int) -> None:
    if least <= value <= most:
        assert checks.integer("size", value, least, most) == value
    else:
        with pytest.raises(ParameterError, match=f"an integer from {least} to {most}"):
            checks.integer("size", value, least, most)


def test_no_size_is_beyond_2_to_the_31_unless_a_limit_says_so() -> None:
    assert checks.integer("size", 2**31 - 1, 1) == 2**31 - 1
    with pytest.raises(ParameterError, match=r"an integer from 1 to 2147483647, got 2147483648"):
        checks.integer("size", 2**31, 1)
    assert checks.integer("seed", 2**40, 0, None) == 2**40
    with pytest.raises(ParameterError, match=r"an integer of at least 1 \(or None\), got 0\."):
        checks.integer("size", 0, 1, extra=" (or None)")
    with pytest.raises(ParameterError, match="got an object of type int"):  # Python has no text for it
        checks.integer("size", 10**5000, 1)
    with pytest.raises(ParameterError, match=r"got \[0, 0, 0, 0, 0, 0, \.\.\.\]"):
        checks.integer("size", [0] * 10**6, 1)


@pytest.mark.parametrize(
    ("limits", "inside", "outside", "words"),
    [
        ({"least": 0, "below": 1}, [0, 0.5], [-1e-9, 1], r"in \[0, 1\)"),
        ({"above": 0, "most": 1}, [1e-9, 1], [0, 1.1], r"in \(0, 1\]"),
        ({"least": 0}, [0, 1e308], [-1, 10**400], "of at least 0"),
        ({"above": 0}, [1e-308], [0, -1], "above 0"),
        ({"most": 2}, [-1e308, 2], [2.1], "of at most 2"),
        ({"below": 2}, [1.9], [2], "below 2"),
    ],
)
def test_the_ends_of_a_range(limits: dict[str, float], inside: list[Any], outside: list[Any], words: str) -> None:
    for value in inside:
        assert checks.real("rate", value, **limits) == value
    for value in outside:
        with pytest.raises(ParameterError, match=f"rate must be a finite number {words}"):
            checks.real("rate", value, **limits)


def test_a_probability_and_a_choice() -> None:
    assert checks.probability("dropout", np.float32(0.5)) == 0.5
    with pytest.raises(ParameterError, match=r"dropout must be a probability in \[0, 1\), got 1\.0\."):
        checks.probability("dropout", 1.0)
    assert checks.choice("colour", "red", {"red": 1, "green": 2}) == "red"
    for name in ("rad", "", "x" * 10**6, None, 3, ["red"], np.array(["red", "red"]), Rude(), torch.ones(3)):
        with pytest.raises(UnknownNameError, match=r"^Unknown colour .{,120}Known: green, red\.$"):
            checks.choice("colour", name, ("red", "green"))


class TestArrays:
    odd: ClassVar[list[Any]] = [
        "x", None, [[1.0, 2.0]], np.ones((2, 3)), torch.ones(2, 3).to_sparse(), torch.ones(2, 3).to_sparse_csr(),
        torch.ones(2, 3, device="meta"), torch.nn.UninitializedParameter(),
    ]  # fmt: skip

    @pytest.mark.filterwarnings("ignore")
    def test_no_tensor_without_plain_memory_passes(self) -> None:
        rows = [torch.ones(2, 3), torch.ones(1, 3)]
        odd = [
            *self.odd,
            torch.nested.nested_tensor(rows),
            torch.nested.nested_tensor(rows, layout=torch.jagged),
            torch.masked.masked_tensor(torch.ones(2, 3), torch.ones(2, 3) > 0),
            torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8),
            torch.ones(2, 3).to_mkldnn(),
        ]
        for value in odd:
            with pytest.raises(
                DTypeError, match=r"^x must be a dense torch.Tensor of shape \(\.\.\., N, F\), got [a-zA-Z]"
            ):
                checks.real_tensor("x", value, "(..., N, F)")

    @pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float16, torch.complex64])
    def test_only_types_that_the_kernels_know(self, dtype: torch.dtype) -> None:
        with pytest.raises(DTypeError, match=rf"^x must be float32, float64 or bfloat16, got {dtype}: \w+"):
            checks.real_tensor("x", torch.ones(2, 3, dtype=dtype), "(N, F)")
        assert checks.dense("x", torch.ones(2, 3, dtype=dtype), "(N, F)").dtype == dtype

    def test_the_number_of_axes(self) -> None:
        for shape, good, bad in (
            ("(E,)", 1, (0, 2)),
            ("(2, E)", 2, (1, 3)),
            ("(..., N, F)", 4, (0, 1)),
            ("()", 0, (1,)),
        ):
            assert checks.real_tensor("x", torch.ones([2] * good), shape).dim() == good
            for axes in bad:
                with pytest.raises(ShapeError, match=r"^x must have shape \(.*\), got \("):
                    checks.real_tensor("x", torch.ones([2] * axes), shape)

    def test_dtypes_and_finite_values(self) -> None:
        assert checks.dtype_option(None) == torch.get_default_dtype()
        assert checks.dtype_option(torch.bfloat16) == torch.bfloat16
        for dtype in (torch.float16, torch.int64, float, "float32", np.ones(2), np.float32):
            with pytest.raises(DTypeError, match=r"^dtype must be torch\.float32"):
                checks.dtype_option(dtype)
        checks.finite("x", torch.ones(3))
        with pytest.raises(GraphError, match=r"^x holds 2 NaN or infinite value\(s\): mend them\.$"):
            checks.finite("x", torch.tensor([1.0, math.nan, math.inf]), GraphError, "mend them")
