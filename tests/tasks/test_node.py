"""The 2-layer network, the loss and the accuracy of node classification."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from armagnn import CSR, GraphOperator
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.tasks import ARMANet, accuracy, cross_entropy

N, F, C = 30, 12, 4


@pytest.fixture
def op() -> GraphOperator:
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, N, (2, 60), generator=generator)
    return GraphOperator.from_edge_index(torch.cat([edges, edges.flip(0)], dim=1), num_nodes=N, kind="arma")


@pytest.fixture
def dense() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(N, F, generator=generator) * (torch.rand(N, F, generator=generator) < 0.4)


def net(**options: Any) -> ARMANet:
    torch.manual_seed(2)
    return ARMANet(F, C, **{"hidden": 5, "dropout": 0.0, "skip_dropout": 0.0, **options})


def test_the_network_is_what_the_paper_says(op: GraphOperator, dense: torch.Tensor) -> None:
    # K = 2 stacks, T = 1 step, written out: mean_k sigma(L X W0_k + X V_k + b_k), the second layer linear.
    model = net(num_stacks=2, num_layers=1)
    with torch.no_grad():
        for layer in (model.conv1, model.conv2):
            layer.bias.normal_()
    operator = op.to_dense()

    def layer(conv: Any, x: torch.Tensor) -> torch.Tensor:
        w0, v = conv.initial_weight.transpose(0, 1), conv.skip_weight[0].transpose(0, 1)
        return operator @ x @ w0 + x @ v + conv.bias.reshape(2, 1, -1)

    hidden = torch.relu(layer(model.conv1, dense)).mean(0)
    expected = layer(model.conv2, hidden).mean(0)
    assert (expected < 0).any()  # else a ReLU at the end would go unseen
    torch.testing.assert_close(model(dense, op), expected, rtol=1e-5, atol=1e-5)


def test_options_reach_both_layers() -> None:
    model = net(num_stacks=3, num_layers=2, skip_dropout=0.3, act="elu", init="zero")
    for conv, channels in ((model.conv1, (F, 5)), (model.conv2, (5, C))):
        assert (conv.in_channels, conv.out_channels) == channels
        assert (conv.num_stacks, conv.num_layers, conv.dropout, conv.init) == (3, 2, 0.3, "zero")
    assert (model.conv1.act, model.conv2.act) == ("elu", None)


def test_sparse_features_give_the_same(op: GraphOperator, dense: torch.Tensor) -> None:
    model = net()
    torch.testing.assert_close(model(CSR.from_dense(dense), op), model(dense, op), rtol=1e-5, atol=1e-6)


def test_evaluation_drops_nothing(op: GraphOperator, dense: torch.Tensor) -> None:
    model = net(dropout=0.9, skip_dropout=0.9).eval()
    assert torch.equal(model(dense, op), net()(dense, op))


@pytest.mark.parametrize("sparse", [True, False])
def test_input_dropout_acts_on_the_features(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    size, rate = 200, 0.75
    x = torch.ones(size, size)
    features = CSR.from_dense(x) if sparse else x
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=size, kind="arma")
    model = ARMANet(size, 2, dropout=rate, skip_dropout=0.0)
    seen = []
    forward = model.conv1.forward
    monkeypatch.setattr(model.conv1, "forward", lambda x, op: seen.append(x) or forward(x, op))
    torch.manual_seed(3)
    model(features, op)
    model(features, op)
    values = [x.value if sparse else x.flatten() for x in seen]
    assert all(isinstance(x, CSR) == sparse for x in seen)  # never densified
    for value in values:
        assert set(value.unique().tolist()) == {0.0, 1 / (1 - rate)}
        # 40,000 draws: the standard deviation of the kept share is 0.0022
        assert abs(float((value > 0).float().mean()) - (1 - rate)) < 0.01
    assert not torch.equal(*values)  # a new mask at each step


def test_hidden_dropout_acts_on_the_hidden_units(
    op: GraphOperator, dense: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = net(dropout=0.5, hidden=50)
    seen = []
    forward = model.conv2.forward
    monkeypatch.setattr(model.conv2, "forward", lambda x, op: seen.append(x) or forward(x, op))
    monkeypatch.setattr(model.conv1, "forward", lambda x, op: torch.ones(N, 50))
    model(dense, op)
    assert set(seen[0].unique().tolist()) == {0.0, 2.0}
    assert 0.4 < float((seen[0] > 0).float().mean()) < 0.6


def test_loss_and_its_gradient_know_only_their_nodes() -> None:
    logits = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    y, idx = torch.tensor([0, 1, 2, -1, 1, 0]), torch.tensor([1, 4, 0])
    loss = cross_entropy(logits, y, idx)
    by_hand = -sum(torch.log_softmax(logits[i], dim=0)[y[i]] for i in idx.tolist()) / 3
    torch.testing.assert_close(loss, by_hand)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert gradient[[2, 3, 5]].abs().sum() == 0
    assert (gradient[idx].abs().sum(dim=1) > 0).all()


def test_accuracy_counts_only_its_nodes() -> None:
    logits = torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 0.0], [0.0, 5.0]])
    y = torch.tensor([0, 0, 0, -1])
    assert accuracy(logits, y, torch.tensor([0, 1, 2])) == 2 / 3
    assert accuracy(logits, y, torch.tensor([1])) == 0.0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"hidden": 0}, ParameterError, "hidden"),
        ({"dropout": 1.0}, ParameterError, "dropout"),
        ({"dropout": -0.1}, ParameterError, "dropout"),
        ({"dropout": float("nan")}, ParameterError, "dropout"),
        ({"skip_dropout": 1.0}, ParameterError, "skip_dropout"),
        ({"num_stacks": 0}, ParameterError, "num_stacks"),
        ({"num_layers": 0}, ParameterError, "num_layers"),
        ({"act": "rleu"}, UnknownNameError, "relu"),
        ({"init": "liner"}, UnknownNameError, "linear"),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        net(**options)
