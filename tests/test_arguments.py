from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.errors import ArmagnnError, DTypeError, ParameterError


class Shape(Protocol):
    def area(self) -> float: ...


class Square:
    def area(self) -> float:
        return 1.0


@checked
def take(
    count: int = 1,
    share: float = 0.5,
    flag: bool = True,
    name: str | None = None,
    x: Tensor | None = None,
    ids: Sequence[int] = (),
    table: Mapping[str, float] | None = None,
    path: str | Path = ".",
    way: Literal["up", "down"] = "up",
    function: Callable[..., Any] | None = None,
    shape: Shape | None = None,
    array: npt.NDArray[np.float64] | None = None,
    *rest: Any,
    **more: Any,
) -> dict[str, Any]:
    return {name: value for name, value in locals().items() if name not in ("rest", "more")}


GOOD: dict[str, list[Any]] = {
    "count": [3, np.int64(3), torch.tensor(3), np.array(3), -1, 2**62],
    "share": [0.5, 1, np.float32(0.5), torch.tensor(0.5), float("nan"), float("inf")],
    "flag": [True, np.True_],
    "name": ["a", None],
    "x": [torch.ones(2), None, torch.ones(2).bfloat16(), torch.nn.Parameter(torch.ones(2))],
    "ids": [[1, 2], (1, 2), range(10**9), np.array([1, 2]), [np.int32(1)]],
    "table": [{"a": 1.0}, {}, None],
    "path": ["here", Path("here")],
    "way": ["up", "sideways"],  # which names are known is for the function to say
    "function": [print, torch.nn.ReLU(), None],
    "shape": [Square(), None],
    "array": [np.ones(2), np.ones(2, dtype=int), None],
}
BAD: dict[str, list[Any]] = {
    "count": [1.5, "3", None, True, [3], torch.ones(2), np.ones(2), 2**63, 1j, torch.tensor(3, device="meta")],
    "share": ["0.5", None, True, 1j, [0.5], torch.ones(2), 10**400, np.datetime64("2020")],
    "flag": [1, "yes", None, torch.tensor(True), np.array([True])],
    "name": [b"a", 1, ["a"]],
    "x": [[1.0], np.ones(2), torch.ones(2, 2).to_sparse(), torch.ones(2, device="meta"), "x",
          torch.nested.nested_tensor([torch.ones(2)])],
    "ids": ["12", [1.5], [None], {1, 2}, 3, [[1]], np.ones((2, 2)), [10**30]],
    "table": [[("a", 1.0)], {"a": "b"}, {1: 1.0}, "a"],
    "path": [3, b"here", Path("a\0b"), None],
    "way": [3, None],
    "function": ["print", 3],
    "shape": [3, Square, "x"],
    "array": [[1.0], np.array(["a"]), np.array([{}])],
}  # fmt: skip


@pytest.mark.parametrize("name", list(GOOD))
def test_what_the_annotation_allows_comes_through(name: str) -> None:
    for value in GOOD[name]:
        found = take(**{name: value})[name]
        if isinstance(value, range | Tensor | np.ndarray) or value != value:
            continue
        assert found == value


@pytest.mark.parametrize("name", list(BAD))
def test_what_it_does_not_allow_is_refused_by_name(name: str) -> None:
    for value in BAD[name]:
        with pytest.raises(ArmagnnError, match=rf"^{name} must be (a |an |True |'up' )"):
            take(**{name: value})


def test_places_and_names_are_alike() -> None:
    with pytest.raises(ParameterError, match=r"share must be a real number, got 'x'\."):
        take(1, "x")  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match=r"x must be a dense tensor or None, got a tensor of layout sparse_coo\."):
        take(x=torch.eye(2).to_sparse())
    assert take(1, 0.5, True, None, None, (), None, ".", "up", None, None, None, "rest", other="more")["count"] == 1


def test_numbers_come_as_plain_ones() -> None:
    found = take(np.int32(3), torch.tensor(0.5))  # type: ignore[arg-type]
    assert (type(found["count"]), type(found["share"])) == (int, float)
    assert take(ids=np.array([1, 2]))["ids"] == [1, 2]  # type: ignore[arg-type]


def test_a_deep_list_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(10**5):
        deep = [deep]
    with pytest.raises(ArmagnnError, match="ids must be"):
        take(ids=deep)


def test_a_dataclass_is_checked_when_it_is_made() -> None:
    @checked
    @dataclass(frozen=True)
    class Point:
        x: float
        tags: tuple[str, ...] = ()

    assert Point(np.float64(1.5), ("a",)).tags == ("a",)
    with pytest.raises(ParameterError, match="x must be a real number"):
        Point("1")  # type: ignore[arg-type]
    with pytest.raises(ArmagnnError, match="tags must be"):
        Point(1.0, (1,))  # type: ignore[arg-type]


def test_what_cannot_be_looked_up_is_not_checked() -> None:
    @checked
    def use(thing: Missing, count: int) -> Any:  # type: ignore[name-defined]  # noqa: F821
        return thing, count

    assert use(3, 4) == (3, 4)
    with pytest.raises(ParameterError, match="count"):
        use(3, "4")


def test_compiled_code_and_vmap_go_through() -> None:
    @checked
    def scaled(x: Tensor, by: float = 2.0) -> Tensor:
        return x * by

    assert torch.equal(torch.vmap(scaled)(torch.ones(2, 3)), torch.full((2, 3), 2.0))
    assert torch.equal(torch.compile(scaled, backend="eager", fullgraph=True)(torch.ones(2)), torch.full((2,), 2.0))


def test_a_tensor_keeps_its_gradient_where_a_number_would_do() -> None:
    @checked
    def use(rate: float | Tensor) -> Any:
        return rate

    learned = torch.tensor(0.5, requires_grad=True)
    assert use(learned) is learned


def test_a_pair_has_two_elements() -> None:
    @checked
    def use(pair: tuple[int, str], rest: tuple[int, ...] = ()) -> Any:
        return pair, rest

    assert use((1, "a"), (1, 2, 3)) == ((1, "a"), (1, 2, 3))
    for pair in ((), (1,), (1, "a", 2), ("a", 1)):
        with pytest.raises(ParameterError, match="pair must be"):
            use(pair)


def test_its_signature_stays() -> None:
    import inspect

    assert list(inspect.signature(take).parameters)[:3] == ["count", "share", "flag"]
