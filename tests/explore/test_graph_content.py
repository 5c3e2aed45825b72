"""Graphs of the user's own in the explorer: what is taken, and what is refused."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.errors import ArmagnnError
from armagnn.explore.graph_content import graph_contents

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
OP = GraphOperator.from_edge_index(EDGES, dtype=torch.float64)
X, PLACES = [1.0, 0.0, 2.0], [[0.0, 0.0], [2.0, 1.0], [4.0, 0.0]]


def numbers(content: dict[str, Any], name: str, dtype: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(content[name]), dtype)


def test_the_operator_is_whole() -> None:
    op = GraphOperator.from_edge_index(EDGES, dtype=torch.float64, lambda_max=1.5, lambda_min=0.0)
    (content,) = graph_contents({"path": (op, X, PLACES)})
    rows, columns = (numbers(content, name, "<u2") for name in ("rows", "columns"))
    values = numbers(content, "values", "<f8")
    dense = np.zeros((3, 3))
    dense[rows, columns] = dense[columns, rows] = values
    np.testing.assert_array_equal(dense, op.to_dense().numpy())
    np.testing.assert_array_equal(numbers(content, "x", "<f4"), X)
    # the drawing keeps its shape, with y from the top
    places = numbers(content, "pos", "<u2").reshape(3, 2) / 65535
    np.testing.assert_allclose(places, [[0, 0.25], [0.5, 0], [1, 0.25]], atol=1e-4)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ((OP, X), "operator, signal, places"),
        ((EDGES, X, PLACES), "GraphOperator"),
        ((OP, [1.0, 2.0], PLACES), "3 nodes"),
        ((OP, X, [[0.0, 0.0]] * 2), "3 nodes"),
        ((OP, [1.0, float("nan"), 0.0], PLACES), "finite"),
        ((GraphOperator.from_edge_index(EDGES, kind="laplacian"), X, PLACES), "kind 'laplacian'"),
        ((GraphOperator.from_edge_index(EDGES[:, :1], num_nodes=3), X, PLACES), "symmetric"),
        ((GraphOperator.from_edge_index(EDGES, num_nodes=5001), X, PLACES), "5001 nodes"),
    ],
)
def test_what_cannot_be_shown_is_refused(parts: Any, said: str) -> None:
    with pytest.raises(ArmagnnError, match=said):
        graph_contents({"mine": parts})
