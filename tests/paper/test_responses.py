"""The numbers behind Figures 2 and 3, and what a trained run shows of itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.data import NodeDataset, load
from armagnn.data.arrays import pack_arrays
from armagnn.data.data_folder import add
from armagnn.errors import GraphError, ParameterError
from armagnn.explore.learned import Subject, draw_learned, learned_responses, responses_of
from armagnn.nn import ARMAConv
from armagnn.spectral import spectrum
from armagnn.spectral.plot import check_format, new_figure, picture
from armagnn.tasks import NodeNet
from armagnn.training import GraphsConfig, NodesConfig, Run, train
from armagnn_paper import responses
from data.tiny import multilabel_arrays, node_arrays


@pytest.fixture(scope="module")
def cora() -> NodeDataset:
    """A corner of Cora: the 250 nodes nearest to node 0, their words and their edges."""
    whole = load("cora")
    reached = torch.zeros(whole.num_nodes, dtype=torch.bool)
    reached[0] = True
    while int(reached.sum()) < 250:
        source, target = whole.edge_index
        reached = reached.index_put((target[reached[source]],), torch.tensor(True))
    nodes = reached.nonzero().flatten()[:250]
    number = torch.full((whole.num_nodes,), -1)
    number[nodes] = torch.arange(250)
    inside = (number[whole.edge_index] >= 0).all(0)
    x = (whole.x.to_dense()[nodes] > 0).float()  # words, there or not
    none = nodes[:0]
    return replace(
        whole, x=x, edge_index=number[whole.edge_index[:, inside]], y=whole.y[nodes],
        train_idx=none, val_idx=none, test_idx=none,
    )  # fmt: skip


def test_figure_2_in_formulas(cora: NodeDataset) -> None:
    """The empirical response of T steps is b (1 + aμ + ... + (aμ)^T), of T GCN layers with γ = 0 it is μ^T."""
    figure = responses.figure2(cora)
    assert [sorted(panel.responses) for panel in figure.panels] == [[1, 2, 3]] * 3
    for (a, b), panel in zip(responses.STACKS, figure.panels, strict=False):
        for t, h in panel.responses.items():
            series = b * sum((a * figure.mu) ** i for i in range(t + 1))
            _same_where_heard(h, series)
    for t, h in figure.panels[2].responses.items():
        _same_where_heard(h, figure.mu**t)
        _same_where_heard(figure.panels[2].outputs[t], figure.mu**t * figure.inputs)


def _same_where_heard(found: Tensor, wanted: Tensor) -> None:
    known = found.isfinite()
    assert known.double().mean() > 0.8
    torch.testing.assert_close(found[known], wanted[known], rtol=1e-5, atol=1e-8)


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
    _same_where_heard(h / cora.num_features, 0.15 / (1 - 0.7 * mu))


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


# ------------------------------------------------------------------------------------------------------- figure learned


def subject(net: NodeNet, dataset: NodeDataset) -> Subject:
    return Subject([("conv1", net.conv1), ("conv2", net.conv2)], dataset.x, dataset.edge_index, dataset.num_nodes)


@pytest.mark.parametrize(
    ("method", "options", "names"),
    [
        (
            "arma",
            {"num_stacks": 2, "num_layers": 2},
            ["conv1 1", "conv1 2", "conv1 0", "conv2 1", "conv2 2", "conv2 0"],
        ),
        ("gcn", {"num_layers": 2}, ["conv1.1 0", "conv1.2 0", "conv2.1 0", "conv2.2 0"]),
        ("chebyshev", {"order": 3}, ["conv1 0", "conv2 0"]),
    ],
)
def test_every_stack_of_every_layer_is_shown(
    cora: NodeDataset, method: str, options: dict[str, int], names: list[str]
) -> None:
    mu, found = responses_of(subject(NodeNet(method, cora.num_features, cora.num_classes, options=options), cora))
    assert [f"{each.layer} {each.stack}" for each in found] == names
    assert all(each.response.shape == mu.shape for each in found)
    if method == "arma":  # the output is the mean of the stacks, and so are its components
        one, two, both = (each.response for each in found[:3])
        torch.testing.assert_close((one + two) / 2, both, rtol=1e-3, atol=1e-3, equal_nan=True)
    assert len(draw_learned(mu, found, method).axes) >= len(found)


def test_a_layer_s_response_is_that_of_its_own_input(cora: NodeDataset) -> None:
    """A second layer that passes everything on has the response 1."""
    net = NodeNet("arma", cora.num_features, 16, options={"init": "zero", "num_layers": 1, "bias": False})
    assert isinstance(net.conv2, ARMAConv)
    with torch.no_grad():
        net.conv2.skip_weight.copy_(torch.eye(16).view(1, 16, 1, 16))
    _, found = responses_of(subject(net, cora))
    _same_where_heard(found[-1].response, torch.ones(250, dtype=torch.float64))


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (NodesConfig(dataset="tiny", hidden=2, epochs=3, seeds=1), 6),
        (NodesConfig(dataset="many", conv="gcn", hidden=2, layers=2, epochs=3, seeds=1), 4),
        (GraphsConfig(data="mutag", hidden=2, depth=2, epochs=1, seeds=1), 6),
    ],
    ids=["nodes", "several-graphs", "graphs"],
)
def test_the_command_shows_a_run(
    config: NodesConfig | GraphsConfig, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K = 2 stacks and the output of two ARMA layers are 6 panels; four GCN layers are 4."""
    monkeypatch.setenv("ARMAGNN_DATA", str(tmp_path / "data"))
    if isinstance(config, NodesConfig):
        path = tmp_path / f"{config.dataset}.npz"
        path.write_bytes(pack_arrays(node_arrays() if config.dataset == "tiny" else multilabel_arrays()))
        config = replace(config, dataset=add(path)[0])
    train(config, tmp_path / "run")
    mu, found = learned_responses(Run.open(tmp_path / "run"))
    assert len(found) == count
    assert all(each.response.shape == mu.shape for each in found)
    result = CliRunner().invoke(app, ["figure", "learned", str(tmp_path / "run"), "--out", str(tmp_path / "p.svg")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "p.svg").read_bytes().startswith(b"<?xml")
    refused = CliRunner().invoke(app, ["figure", "learned", str(tmp_path / "run"), "--out", "p.bmp"])
    assert refused.exit_code == 2
    assert "png" in refused.output


def test_a_graph_with_too_many_frequencies_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(pack_arrays(node_arrays()))
    train(NodesConfig(dataset=str(path), hidden=2, epochs=2, seeds=1), tmp_path / "run")
    monkeypatch.setattr("armagnn.explore.learned.MAX_NODES", 5)
    with pytest.raises(GraphError, match="6 nodes"):
        learned_responses(Run.open(tmp_path / "run"))
