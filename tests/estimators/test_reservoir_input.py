"""Odd input of a reservoir: typed errors, which are also the errors that scikit-learn expects."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from armagnn.errors import ArmagnnError, DataError, DTypeError, ParameterError, UnknownNameError
from armagnn.estimators.reservoir import ReservoirARMA, pool_states

X = np.arange(12.0).reshape(4, 3)
ODD: list[Any] = [
    None, "3", True, math.nan, math.inf, -1, 10**12, 10**400, [3], np.ones(2), np.array([(1, 2.0)], dtype="i4,f8"),
    torch.ones(2), torch.ones((), device="meta"), object(), int,
]  # fmt: skip


def small(**options: Any) -> ReservoirARMA:
    return ReservoirARMA(**{"units": 4, "num_stacks": 2, "random_state": 0} | options)


@pytest.mark.parametrize(
    "name", ["units", "num_stacks", "contraction", "spread", "input_scale", "tol", "max_iter", "act"]
)
def test_parameters(name: str) -> None:
    for value in ODD:
        large = isinstance(value, int) and value == 10**12 and name in ("input_scale", "tol")
        if large or (value is None and name == "act"):
            continue
        with pytest.raises(ParameterError, match={"act": r"act|activation"}.get(name, name)) as caught:
            small(**{name: value}).fit(X)
        assert len(str(caught.value)) < 300


def test_numbers_of_other_types_are_numbers() -> None:
    reservoir = small(units=torch.tensor(4), spread=Fraction(1, 2), tol=np.float32(1e-4), max_iter=np.int32(500))
    np.testing.assert_allclose(
        reservoir.fit_transform(X), small(spread=0.5, tol=float(np.float32(1e-4))).fit_transform(X)
    )


def test_seeds_of_no_kind() -> None:
    for value in ([0], "3", -1, 10**12, 1.5, object(), np.ones((2, 2))):
        with pytest.raises(ParameterError, match="random_state"):
            small(random_state=value).fit(X)


def test_absurd_widths_allocate_nothing() -> None:
    for wrong in ({"units": 2**16 + 1}, {"num_stacks": 10**6}, {"units": 2**10, "num_stacks": 2**10}):
        with pytest.raises(ParameterError, match=r"units|num_stacks"):
            small(**wrong).fit(X)
    with pytest.raises(ParameterError, match="choose smaller sizes"):
        small(units=2**16, num_stacks=1).fit(X)


def test_features_of_no_kind() -> None:
    odd: list[Any] = [
        "arma", ["a", "b"], [["a"]], 3, object(), X[0], X[:0], X[:, :0], X * np.nan, X + 1j,X[None],
        torch.float32, None, 10**400, torch.ones(4, 3, device="meta"), torch.ones(4, 3).to_sparse(),
        torch.nn.UninitializedParameter(),
    ]  # fmt: skip
    fitted = small().fit(X)
    parameter = torch.nn.Parameter(torch.from_numpy(X))
    np.testing.assert_array_equal(fitted.transform(parameter), fitted.transform(X))
    for value in odd:
        for call in (small().fit, small().fit_transform, fitted.transform):
            with pytest.raises((DataError, DTypeError)):
                call(value)
    with pytest.raises(ValueError, match="NaN"):  # as scikit-learn's own
        small().fit(X * np.nan)
    with pytest.raises(DataError, match="features"):
        fitted.transform(X[:, :2])


def test_features_that_no_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise MemoryError("Unable to allocate 8.00 TiB")

    monkeypatch.setattr("armagnn.estimators.node_rows.validate_data", full)  # a sparse matrix of 2^40 rows
    with pytest.raises(DataError, match="Unable to allocate"):
        small().fit(X)


def test_graphs_and_pools_of_no_kind() -> None:
    for graph in ("cora", 3, object(), np.array([["a"]]), np.array([(1, 2.0)], dtype="i4,f8"), np.ones((2, 2), object)):
        with pytest.raises(ArmagnnError, match=r"graph|edge_index"):
            small(graph=graph).fit(X)
    for states in ("x", None, [["a"]], object(), torch.ones(4, 2, device="meta"), X.astype(np.complex64), X[0]):
        with pytest.raises(ArmagnnError, match=r"states|\bx\b"):
            pool_states(states, [0, 4])  # type: ignore[arg-type]
    for ptr in ("x", None, [["a"]], object(), [0.0, 4.0], torch.ones(2, device="meta").long(), [[0, 4]], 3):
        with pytest.raises(ArmagnnError, match="ptr"):
            pool_states(X, ptr)
    for pool in (None, 3, ["mean"], np.array(["mean", "sum"]), "max"):
        with pytest.raises(UnknownNameError, match="pool"):
            pool_states(X, [0, 4], pool)  # type: ignore[arg-type]
