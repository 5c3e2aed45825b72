"""What the run view is given: the numbers of the layers, and what Theorem 1 says of them."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.errors import ArmagnnError
from armagnn.explore.explorer_content import graph_contents, layer_contents, run_content
from armagnn.explore.explorer_page import explorer_page
from armagnn.explore.learned import Subject, responses_of
from armagnn.nn import ARMAConv, GCNConv, RationalConv
from armagnn.solvers import FixedPoint
from armagnn.training import NodesConfig, Run, train
from corner_of_cora import corner_of_cora

CORA = corner_of_cora()


def subject(*layers: Any) -> Subject:
    places = [(f"conv{number}", layer) for number, layer in enumerate(layers, 1)]
    return Subject(places, CORA.x, CORA.edge_index, CORA.num_nodes)


def same(listed: list[float | None], values: torch.Tensor) -> None:
    expected = [v if math.isfinite(v) else math.nan for v in values.tolist()]
    np.testing.assert_allclose([math.nan if v is None else v for v in listed], expected, rtol=1e-4, atol=1e-12)


def test_responses_are_those_of_the_figure() -> None:
    shown = subject(ARMAConv(CORA.num_features, 8, num_stacks=2, num_layers=2), GCNConv(8, 3))
    _, known = responses_of(shown)
    stacks = [stack for layer in layer_contents(shown) for stack in layer["stacks"]]
    assert [stack["title"] for stack in stacks] == ["stack 1", "stack 2", "output", "output"]
    for stack, truth in zip(stacks, known, strict=True):
        same(stack["response"], truth.bands[1])
        same(stack["lambda"], 1 - truth.bands[0])
    assert json.dumps(stacks, allow_nan=False)


def test_energies_are_shares() -> None:
    for layer in layer_contents(subject(ARMAConv(CORA.num_features, 8, num_stacks=2), GCNConv(8, 3))):
        for name in ("before", "after"):
            assert sum(layer["energy"][name]) == pytest.approx(1, abs=1e-3)


def test_norms_are_those_of_theorem_1() -> None:
    conv = ARMAConv(CORA.num_features, 8, num_stacks=3, num_layers=3, shared_weights=False)
    (layer,) = layer_contents(subject(conv))
    weight = conv.weight
    assert weight is not None
    same(layer["norms"], torch.linalg.matrix_norm(weight.detach(), 2).amax(0))
    assert "residuals" not in layer


def test_a_convergent_layer_shows_its_residuals() -> None:
    conv = ARMAConv(CORA.num_features, 4, num_stacks=2, fixed_point=FixedPoint(contraction=0.7))
    (layer,) = layer_contents(subject(conv))
    assert max(layer["norms"]) <= 0.7
    assert len(layer["residuals"]) == 2
    for trace in layer["residuals"]:
        assert trace[-1] < 1e-3 * trace[0]


def test_a_rational_layer_gives_its_filter() -> None:
    conv = RationalConv(CORA.num_features, 4, order=3)
    (layer,) = layer_contents(subject(conv))
    a, b = ([complex(*v) for v in layer["filter"][name]] for name in ("a", "b"))
    assert a == conv.filter().a.tolist()
    assert b == conv.filter().b.tolist()


def test_a_run_gets_its_view(tmp_path: Path) -> None:
    train(NodesConfig(hidden=2, stacks=1, epochs=2, seeds=1), tmp_path / "run")
    run = Run.open(tmp_path / "run")
    content = run_content(run)
    assert content["title"] == run.config.title
    assert [layer["name"] for layer in content["layers"]] == ["conv1", "conv2"]
    assert content["title"] in explorer_page(run=run)


# --------------------------------------------------------------------------------------------------------------- graphs


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
