"""What the run view is given: the numbers of the layers, and what Theorem 1 says of them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from armagnn.explore.explorer_page import explorer_page
from armagnn.explore.learned import Subject, responses_of
from armagnn.explore.run_content import layer_contents, run_content
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
