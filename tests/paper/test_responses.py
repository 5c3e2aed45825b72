"""The numbers behind Figures 2 and 3."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from armagnn.data import NodeDataset
from armagnn.errors import ParameterError
from armagnn.spectral import spectrum
from armagnn.spectral.plot import check_format, new_figure, picture
from armagnn_paper import responses
from corner_of_cora import corner_of_cora, same_where_heard


@pytest.fixture(scope="module")
def cora() -> NodeDataset:
    return corner_of_cora()


def test_figure_2_in_formulas(cora: NodeDataset) -> None:
    """The empirical response of T steps is b (1 + aμ + ... + (aμ)^T), of T GCN layers with γ = 0 it is μ^T."""
    figure = responses.figure2(cora)
    assert [sorted(panel.responses) for panel in figure.panels] == [[1, 2, 3]] * 3
    for (a, b), panel in zip(responses.STACKS, figure.panels, strict=False):
        for t, h in panel.responses.items():
            series = b * sum((a * figure.mu) ** i for i in range(t + 1))
            same_where_heard(h, series)
    for t, h in figure.panels[2].responses.items():
        same_where_heard(h, figure.mu**t)
        same_where_heard(figure.panels[2].outputs[t], figure.mu**t * figure.inputs)


def test_the_empirical_response_tends_to_the_analytic_one(cora: NodeDataset) -> None:
    figure = responses.figure2(cora, steps=(1, 2, 3, 8, 32, 128))
    for (a, b), panel in zip(responses.STACKS, figure.panels, strict=False):
        assert panel.analytic is not None
        torch.testing.assert_close(panel.analytic, b / (1 - a * figure.mu))
        errors = [(h - panel.analytic).square().nanmean().sqrt().item() for h in panel.responses.values()]
        assert errors == sorted(errors, reverse=True)
        assert errors[-1] < (1e-8 if a < 0.9 else 0.35 * errors[0])


def test_the_paper_s_v_gives_f_in_times_the_analytic_response(cora: NodeDataset) -> None:
    """V = b 1, as the paper has it, is off by the number of features; hence V = b 1 / F_in."""
    from armagnn.spectral import layer_response

    mu, U = spectrum(cora.operator(dtype=torch.float64))
    conv = responses.gcs_stack(cora.num_features, 0.7, 0.15, 60)
    with torch.no_grad():
        conv.skip_weight.mul_(cora.num_features)
        conv.initial_weight.mul_(cora.num_features)
    h = layer_response(conv, responses.words(cora), cora.edge_index, U)[0]
    same_where_heard(h / cora.num_features, 0.15 / (1 - 0.7 * mu))


def test_gcn_without_self_loops_amplifies_both_ends(cora: NodeDataset) -> None:
    panel = responses.figure2(cora).panels[2]
    mu, _ = spectrum(cora.operator(dtype=torch.float64))
    for t in (1, 2, 3):
        size = panel.responses[t].abs()
        low, middle, high = (size[part].nanmean() for part in (mu > 0.8, mu.abs() < 0.2, mu < -0.8))
        assert low > 0.5
        assert high > 0.5
        assert middle < 0.2
    assert panel.responses[3][mu < -0.8].nanmean() < 0 < panel.responses[2][mu < -0.8].nanmean()


def test_gamma_turns_gcn_low_pass(cora: NodeDataset) -> None:
    sweep = responses.gamma_sweep(cora)
    gammas = list(responses.GAMMAS)
    lowest = [sweep.lowest[gamma] for gamma in gammas]
    assert lowest[0] == pytest.approx(-1.0, abs=0.05)
    assert lowest == sorted(lowest)  # the spectrum shrinks from its high end
    assert sweep.high_to_low[0.0] > 0.5 > sweep.high_to_low[0.5] > sweep.high_to_low[1.0]
    assert sweep.high_to_low[10.0] > sweep.high_to_low[1.0]  # beyond that it turns into the identity
    top = sweep.responses[1.0][sweep.mu < -0.8].nanmean()
    assert top < 0.5 * sweep.responses[0.0][sweep.mu < -0.8].nanmean()


@pytest.mark.parametrize("name", ["high-pass", "band-pass"])
def test_a_trained_non_linear_layer_is_the_filter_it_was_asked_to_be(cora: NodeDataset, name: str) -> None:
    """Figure 3 in small, with fewer steps; the layer is not linear, and no stack alone is the filter."""
    seen, unseen = responses.signals(cora)
    op = cora.operator(dtype=torch.float64)
    start = responses.train_filter(name, op, seen, unseen, steps=1)
    trained = responses.train_filter(name, op, seen, unseen, steps=200)
    assert trained.error["seen"] < 0.25
    assert trained.error["seen"] < 0.5 * start.error["seen"]
    assert trained.error["unseen"] < 0.3
    mu, h = trained.bands[:2]
    middle, low = h[mu.abs() < 0.2].nanmean(), h[(mu > 0.5) & (mu < 0.9)].nanmean()
    assert middle > low + 0.2
    x = seen - 1.0
    with torch.no_grad():
        gap = trained.conv(-x, op) + trained.conv(x, op) - 2 * trained.conv(0 * x, op)
    assert gap.abs().max() > 0.05  # zero for a linear (affine) layer
    content = responses.parameters([trained])[name]
    assert len(content["stacks"]) == 3
    assert len(content["stacks"][0]["W"]) == responses.WIDTH
    json.dumps(content)


def test_pictures_are_drawn(cora: NodeDataset) -> None:
    seen, unseen = responses.signals(cora)
    op = cora.operator(dtype=torch.float64)
    trained = [responses.train_filter(n, op, seen, unseen, steps=1) for n in responses.TARGETS]
    for figure, panels in (
        (responses.draw_figure2(responses.figure2(cora)), 6),
        (responses.draw_sweep(responses.gamma_sweep(cora, (0.0, 1.0))), 2),
        (responses.draw_figure3(trained), 4),
        (responses.draw_design(), 1),
    ):
        assert len(figure.axes) == panels
        assert picture(figure, dpi=30).startswith(b"\x89PNG")


def test_pictures_have_the_format_that_their_name_asks_for() -> None:
    for name, head in (("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")):
        figure, axes = new_figure(2, 2)
        axes[0, 0].plot([0, 1])
        assert picture(figure, check_format(Path(name))).startswith(head)
    with pytest.raises(ParameterError, match="png"):
        check_format(Path("a.bmp"))
