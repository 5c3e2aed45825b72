from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn import GraphOperator
from armagnn.errors import ArmagnnError, ConvergenceWarning, DataError, ParameterError, SymmetryError
from armagnn.filters import ARMAFilter, FilterBank
from armagnn.solvers.shifted_systems import shifted_systems
from oracles import random_graph

PAIR = ARMAFilter([0.4 + 0.5j, 0.4 - 0.5j], [0.3 + 0.1j, 0.3 - 0.1j])
HALF = ARMAFilter([0.3 - 0.9j], [0.7 + 0.2j])
LAMBDA = ARMAFilter([0.5, 0.0], [1.0, -3.0], variable="lambda")


def operator(seed: int, **options: Any) -> GraphOperator:
    graph = random_graph(9, 14, seed=seed).both_ways()
    return GraphOperator.from_edge_index(graph.edge_index, 9, dtype=torch.float64, **options)


def dense(f: ARMAFilter, op: GraphOperator) -> torch.Tensor:
    """h(M) by eigenvectors, whatever the filter is made of."""
    mu, vectors = torch.linalg.eigh(op.to_dense())
    return (vectors * f.bind(op).response(mu)) @ vectors.T


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**20),
    st.lists(st.floats(-0.95, 0.95), max_size=4),
    st.lists(st.complex_numbers(max_magnitude=2, allow_nan=False).filter(lambda a: abs(a.imag) > 0.1), max_size=3),
)
def test_every_filter_of_a_bank_is_its_dense_self(seed: int, reals: list[float], others: list[complex]) -> None:
    """Filters share poles, have them twice, with their conjugates, or none."""
    rng = np.random.default_rng(seed)
    filters = [ARMAFilter([a], [rng.normal()]) for a in reals] + [PAIR, ARMAFilter([0.0], [2.0]), LAMBDA]
    if others:
        filters.append(ARMAFilter(others, rng.normal(size=len(others)) + 1j * rng.normal(size=len(others))))
        filters.append(ARMAFilter([others[0].conjugate(), 0.4], [1j, 0.5]))
    op, bank = operator(seed), FilterBank.of(filters)
    x = torch.from_numpy(rng.normal(size=(9, 3)))
    found = bank.filter(op, x)
    for f, each in zip(filters, found, strict=True):
        torch.testing.assert_close(each, dense(f, op) @ x, rtol=1e-8, atol=1e-9)


def test_a_shifted_operator_and_both_variables() -> None:
    op, x = operator(3, lambda_max=1.6), torch.eye(9, dtype=torch.float64)
    filters = [ARMAFilter([0.5, 0.0], [1.0, -3.0]), LAMBDA, PAIR]
    for f, each in zip(filters, FilterBank.of(filters).filter(op, x), strict=True):
        torch.testing.assert_close(each, dense(f, op), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(each, f.filter(op, x), rtol=1e-9, atol=1e-9)


def test_poles_are_solved_for_once() -> None:
    bank = FilterBank.of([PAIR, ARMAFilter([0.4 + 0.5j], [2.0]), 0.5, ARMAFilter([0.5, 0.0], [1.0, 1.0])])
    assert bank.num_poles == 2
    calls = []

    def product(self: Any, x: Any) -> Any:
        calls.append(x.shape)
        return plain(self, x)

    plain = GraphOperator.__matmul__
    op, x, log = operator(1), torch.ones(9, 2, dtype=torch.float64), list[Any]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphOperator, "__matmul__", product)
        bank.filter(op, x, statistics=log)
    assert len(log) == 1
    assert len(calls) <= log[0].iterations + 3  # one more for the true residual of each real part


def test_products_with_the_operator_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """M Z would take 2 P numbers of each node and column that `numbers_at_peak` does not count."""
    kept: list[int] = []

    def solve(*args: Any, **options: Any) -> Any:
        found, image, how = shifted_systems(*args, **options)
        kept.append(image.numel())
        whole, products, _ = shifted_systems(*args)
        assert torch.equal(found, whole)
        assert products.shape == whole.shape
        return found, image, how

    monkeypatch.setattr("armagnn.filters.filter_bank.shifted_systems", solve)
    FilterBank.of([0.5, PAIR, -0.7]).filter(operator(1), torch.eye(9, dtype=torch.float64))
    assert kept == [0]


def test_float32_and_options() -> None:
    op, x = operator(2).to(torch.float32), torch.eye(9)
    bank = FilterBank.of([0.9, "high-pass", 0.9])
    assert bank.names == ("a=0.9", "high-pass", "a=0.9 (2)")
    found = bank.filter(op, x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found[0], found[2])
    for f, each in zip(bank.filters, found, strict=True):
        torch.testing.assert_close(each.double(), dense(f, op.to(torch.float64)), rtol=1e-4, atol=1e-5)
    with pytest.warns(ConvergenceWarning):
        bank.filter(op, x, max_iter=1)


def test_json_gives_the_same_bank() -> None:
    bank = FilterBank.of([0.9, PAIR, LAMBDA, "low-pass"])
    again = FilterBank.from_json(json.loads(json.dumps(bank.to_json())))
    assert again.names == bank.names
    assert again.to_json() == bank.to_json()
    x = torch.eye(9, dtype=torch.float64)
    assert torch.equal(again.filter(operator(5), x), bank.filter(operator(5), x))


@pytest.mark.parametrize(
    "bad", ["low-pass", [], [1.0], ["x"], [None], 0.5, [[0.5]], [ARMAFilter([1.5], [1.0])]], ids=str
)
def test_bad_banks(bad: Any) -> None:
    with pytest.raises(ArmagnnError):
        FilterBank.of(bad).filter(operator(0), torch.eye(9, dtype=torch.float64))


@pytest.mark.parametrize(
    "bad",
    [{}, [], [1], [{"a": [0.5]}], [{"a": [0.5], "b": []}], [{"a": [[1, 2, 3]], "b": [1]}], [{"a": ["x"], "b": [1]}],
     [{"a": [0.5], "b": [1], "c": 1}], [{"a": [0.5], "b": [float("nan")]}], [{"a": [0.5], "b": [1, 2]}]],
    ids=str,
)  # fmt: skip
def test_bad_json(bad: Any) -> None:
    with pytest.raises(ArmagnnError):
        FilterBank.from_json(bad)


def test_refusals() -> None:
    bank = FilterBank.of([0.5])
    with pytest.raises(ParameterError, match="name"):
        FilterBank((PAIR, HALF), ("same", "same"))
    with pytest.raises(SymmetryError):
        bank.filter(GraphOperator.from_edge_index(torch.tensor([[0], [1]])), torch.eye(2))
    with pytest.raises(ArmagnnError):
        bank.filter(operator(0), torch.ones(9, dtype=torch.float64))
    with pytest.raises(DataError, match=r"mine\.json, filter 0"):
        FilterBank.from_json([{}], "mine.json")
