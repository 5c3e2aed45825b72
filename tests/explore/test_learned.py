"""What a trained run shows of its layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.data import NodeDataset
from armagnn.data.arrays import pack_arrays
from armagnn.data.data_folder import add
from armagnn.errors import GraphError
from armagnn.explore.learned import Subject, draw_learned, learned_responses, responses_of
from armagnn.nn import ARMAConv
from armagnn.tasks import NodeNet
from armagnn.training import GraphsConfig, NodesConfig, Run, train
from corner_of_cora import corner_of_cora, same_where_heard
from data.tiny import multilabel_arrays, node_arrays


@pytest.fixture(scope="module")
def cora() -> NodeDataset:
    return corner_of_cora()


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
    figure = draw_learned(mu, found, method)
    assert len(figure.axes) >= len(found)
    layers = len({each.layer for each in found})
    assert [axes.get_ylabel() for axes in figure.axes].count("response h̃, and gain") == layers


def test_a_layer_s_response_is_that_of_its_own_input(cora: NodeDataset) -> None:
    """A second layer that passes everything on has the response 1."""
    net = NodeNet("arma", cora.num_features, 16, options={"init": "zero", "num_layers": 1, "bias": False})
    assert isinstance(net.conv2, ARMAConv)
    with torch.no_grad():
        net.conv2.skip_weight.copy_(torch.eye(16).view(1, 16, 1, 16))
    _, found = responses_of(subject(net, cora))
    same_where_heard(found[-1].response, torch.ones(250, dtype=torch.float64))


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
