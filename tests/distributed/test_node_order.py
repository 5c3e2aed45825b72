"""Orders are permutations, and parts have nearly equal loads."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

from armagnn.distributed.edge_stream import EdgeStream, Integers
from armagnn.distributed.node_order import ORDERS, neighbours, order_nodes, require_order
from armagnn.errors import UnknownNameError, UnsupportedError


def shuffled_grid(side: int) -> tuple[EdgeStream, Integers]:
    """A square grid whose nodes have random numbers, and its nonzeros a row."""
    number = np.random.default_rng(1).permutation(side * side).reshape(side, side)
    ends = np.concatenate(
        [
            np.stack([number[:-1].ravel(), number[1:].ravel()]),
            np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()]),
        ],
        axis=1,
    )
    return EdgeStream.of_arrays(ends, None, "grid"), np.bincount(ends.ravel(), minlength=side * side)


def cut(edges: EdgeStream, order: Integers, starts: tuple[int, ...]) -> int:
    """How many edges join different parts."""
    place = np.empty(order.size, dtype=int)
    place[order] = np.arange(order.size)
    part = np.searchsorted(np.array(starts[1:-1]), place, side="right")
    return int(sum((part[source] != part[target]).sum() for source, target, _ in edges))


def test_orders_are_permutations_in_even_parts_and_better_than_chance() -> None:
    edges, loads = shuffled_grid(20)
    cuts = {}
    for how in ORDERS:
        if how == "metis":
            pytest.importorskip("pymetis", reason="pip install 'armagnn[metis]'")
        order, starts = order_nodes(how, edges, loads, 4)
        assert np.array_equal(np.sort(order), np.arange(400))
        assert starts[0] == 0
        assert starts[-1] == 400
        of_parts = [loads[order[a:b]].sum() for a, b in itertools.pairwise(starts)]
        assert max(of_parts) < 1.1 * loads.sum() / 4
        cuts[how] = cut(edges, order, starts)
    assert cuts["rcm"] < 0.25 * cuts["blocks"]


def test_a_hub_has_a_part_for_itself() -> None:
    star = EdgeStream.of_arrays(np.stack([np.zeros(50, dtype=int), np.arange(1, 51)]), None, "star")
    for how in ("blocks", "rcm"):
        loads = np.array([50] + [1] * 50)
        order, starts = order_nodes(how, star, loads, 2)
        of_parts = [loads[order[a:b]].sum() for a, b in itertools.pairwise(starts)]
        assert max(of_parts) <= 76  # the hub goes with half of the others at most


def test_neighbours_are_each_pair_once_without_loops() -> None:
    edges = EdgeStream.of_arrays(np.array([[0, 0, 1, 2, 2] + [0] * 300, [1, 1, 0, 2, 1] + [1] * 300]), None, "edges")
    assert np.array_equal(neighbours(edges, 4).toarray() > 0, [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize("how", ["blocks", "rcm"])
def test_graphs_without_nodes_or_edges(how: str) -> None:
    none = EdgeStream.of_arrays(np.empty((2, 0), dtype=int), None, "none")
    assert order_nodes(how, none, np.zeros(0, dtype=int), 3)[1] == (0, 0, 0, 0)
    order, starts = order_nodes(how, none, np.zeros(6, dtype=int), 3)
    assert np.array_equal(np.sort(order), np.arange(6))
    assert starts == (0, 2, 4, 6)


def test_orders_that_there_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownNameError, match="order of nodes"):
        require_order("best")
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'armagnn\[metis\]'"):
        require_order("metis")
