"""Node classification: the network of two convolutions, its rates, the loss and the metrics of the splits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn import CSR, GraphOperator
from armagnn.data import NodeDataset
from armagnn.data.arrays import pack_arrays
from armagnn.data.sets.ppi import parse_multilabel_file
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.nn.layer_registry import PEERS, LayerSequence
from armagnn.tasks import NodeNet, NodeTask
from armagnn.tasks.node_task import accuracy, cross_entropy, micro_f1
from data.tiny import multilabel_arrays

N, F, C = 30, 12, 4
METHODS = ("arma", "gcn", "chebyshev", "cayley", "gat", "sage", "gin", "mlp")


@pytest.fixture
def edges() -> torch.Tensor:
    edges = torch.randint(0, N, (2, 60), generator=torch.Generator().manual_seed(0))
    return torch.cat([edges, edges.flip(0)], dim=1)


@pytest.fixture
def op(edges: torch.Tensor) -> GraphOperator:
    return GraphOperator.from_edge_index(edges, num_nodes=N, kind="arma")


@pytest.fixture
def dense() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(N, F, generator=generator) * (torch.rand(N, F, generator=generator) < 0.4)


def net(method: str = "arma", **options: Any) -> NodeNet:
    torch.manual_seed(2)
    return NodeNet(method, F, C, **{"hidden": 5, **options})


def test_the_network_is_what_the_paper_says(op: GraphOperator, dense: torch.Tensor) -> None:
    # K = 2 stacks, T = 1 step, written out: mean_k sigma(L X W0_k + X V_k + b_k), the second layer linear.
    model = net(options={"num_stacks": 2, "num_layers": 1})
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


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_called_alike(method: str, edges: torch.Tensor, dense: torch.Tensor) -> None:
    model = net(method, hidden=8)
    op = model.conv1.operator(edges, N)
    assert (op is None) == (method == "mlp")
    assert model(dense, op).shape == (N, C)
    torch.testing.assert_close(model(CSR.from_dense(dense), op), model(dense, op), rtol=1e-4, atol=1e-5)


def test_options_reach_both_layers() -> None:
    options = {"num_stacks": 3, "num_layers": 2, "init": "zero"}
    model = net(skip_dropout=0.3, act="elu", options=options, last={"num_stacks": 1})
    for conv, channels, stacks in ((model.conv1, (F, 5), 3), (model.conv2, (5, C), 1)):
        assert (conv.in_channels, conv.out_channels) == channels
        assert (conv.num_stacks, conv.num_layers, conv.dropout, conv.init) == (stacks, 2, 0.3, "zero")
    assert (model.conv1.act, model.conv2.act) == ("elu", None)


def test_between_the_layers_of_a_stack_hidden_units_are_dropped() -> None:
    model = net("gcn", input_dropout=0.1, hidden_dropout=0.4, options={"num_layers": 3})
    for conv in (model.conv1, model.conv2):
        assert isinstance(conv, LayerSequence)
        assert [layer.dropout for layer in conv] == [0.0, 0.4, 0.4]  # the first one's input is dropped by the network


def test_evaluation_drops_nothing(op: GraphOperator, dense: torch.Tensor) -> None:
    model = net(input_dropout=0.9, hidden_dropout=0.9, skip_dropout=0.9).eval()
    assert torch.equal(model(dense, op), net()(dense, op))


@pytest.mark.parametrize("sparse", [True, False])
def test_input_dropout_acts_on_the_features(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    size, rate = 200, 0.75
    x = torch.ones(size, size)
    features = CSR.from_dense(x) if sparse else x
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=size, kind="arma")
    model = NodeNet("arma", size, 2, input_dropout=rate)
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
    model = net(hidden_dropout=0.5, hidden=50)
    seen = []
    forward = model.conv2.forward
    monkeypatch.setattr(model.conv2, "forward", lambda x, op: seen.append(x) or forward(x, op))
    monkeypatch.setattr(model.conv1, "forward", lambda x, op: torch.ones(N, 50))
    model(dense, op)
    assert set(seen[0].unique().tolist()) == {0.0, 2.0}
    assert 0.4 < float((seen[0] > 0).float().mean()) < 0.6


def test_the_trials_follow_the_axis_of_the_features() -> None:
    model = net("arma")
    for name, parameter in model.named_parameters():
        axis = model.trial_axis(name)
        first = name.startswith("conv1") and F in parameter.shape[:-1]
        assert axis == (list(parameter.shape).index(F) + 1 if first else 0), name
    assert any(model.trial_axis(name) for name, _ in model.named_parameters())
    assert set(PEERS) < set(METHODS)


# --------------------------------------------------------------------------------------------------- loss and metrics


def dataset(edges: torch.Tensor, x: torch.Tensor) -> NodeDataset:
    y = torch.arange(N) % C
    y[25:] = -1
    parts = torch.arange(25).split([10, 8, 7])
    return NodeDataset("small", x, edges, y, *parts, num_classes=C, sha256="small")


def test_the_loss_and_its_gradient_know_only_the_training_nodes(edges: torch.Tensor, dense: torch.Tensor) -> None:
    data = dataset(edges, dense)
    logits = torch.randn(N, C, requires_grad=True)
    task = NodeTask(data, net())
    loss = task.loss(lambda x, op: logits, task.batch())
    by_hand = -sum(torch.log_softmax(logits[i], dim=0)[data.y[i]] for i in range(10)) / 10
    torch.testing.assert_close(loss, by_hand)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert gradient[10:].abs().sum() == 0
    assert (gradient[:10].abs().sum(dim=1) > 0).all()


def test_metrics_count_only_the_nodes_of_their_split(edges: torch.Tensor, dense: torch.Tensor) -> None:
    data = dataset(edges, dense)
    logits = torch.nn.functional.one_hot(data.y.clamp(min=0), C).float()
    logits[10:14] = logits[10:14].roll(1, dims=1)  # 4 of the 8 nodes of validation are wrong
    task = NodeTask(data, net())
    assert task.metrics(lambda x, op: logits, "val")["accuracy"] == 0.5
    assert task.metrics(lambda x, op: logits, "test")["accuracy"] == 1.0
    assert sorted(task.metrics(lambda x, op: logits, "test")) == ["accuracy", "loss"]


def test_of_several_graphs_each_split_sees_only_its_own() -> None:
    data = parse_multilabel_file(pack_arrays(multilabel_arrays()), name="tiny", source="tiny")
    model = NodeNet("arma", data.num_features, data.num_classes, hidden=4).eval()
    task = NodeTask(data, model)
    whole = model(data.x, model.conv1.operator(data.edge_index, data.num_nodes))
    for split, nodes in (("train", 3), ("val", 2), ("test", 2)):
        seen: list[int] = []
        found = task.metrics(lambda x, op, seen=seen: seen.append(x.shape[0]) or model(x, op), split)
        assert seen == [nodes]
        assert sorted(found) == ["accuracy", "loss", "micro_f1"]
        logits, y = whole[data.idx(split)], data.y[data.idx(split)]
        expected = {"loss": cross_entropy, "accuracy": accuracy, "micro_f1": micro_f1}
        for name, metric in expected.items():
            assert found[name].item() == pytest.approx(metric(logits, y).item(), rel=1e-5)


def test_micro_f1_of_many_labels() -> None:
    y = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    logits = torch.tensor([[2.0, 1.0, -1.0], [-1.0, 3.0, -2.0]])  # 2 hits, 1 false, 1 missed
    assert micro_f1(logits, y).item() == pytest.approx(4 / 6)
    assert micro_f1(-torch.ones(2, 3), torch.zeros(2, 3)).item() == 0.0
    assert accuracy(logits, y).item() == pytest.approx(4 / 6)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"hidden": 0}, ParameterError, "hidden"),
        ({"input_dropout": 1.0}, ParameterError, "input_dropout"),
        ({"hidden_dropout": -0.1}, ParameterError, "hidden_dropout"),
        ({"input_dropout": float("nan")}, ParameterError, "input_dropout"),
        ({"skip_dropout": 1.0}, ParameterError, "skip_dropout"),
        ({"options": {"num_stacks": 0}}, ParameterError, "num_stacks"),
        ({"options": {"num_layers": 0}}, ParameterError, "num_layers"),
        ({"options": {"order": 2}}, ParameterError, "no hyperparameter order"),
        ({"act": "rleu"}, UnknownNameError, "relu"),
        ({"options": {"init": "liner"}}, UnknownNameError, "linear"),
        ({"method": "gnc"}, UnknownNameError, "Unknown layer"),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        net(**options)


def test_the_heads_of_a_gat_stand_side_by_side_and_then_are_averaged() -> None:
    net = NodeNet("gat", F, C, hidden=16)
    assert (net.conv1.conv.heads, net.conv1.conv.concat, net.conv1.conv.out_channels) == (8, True, 2)
    assert (net.conv2.conv.heads, net.conv2.conv.concat, net.conv2.conv.out_channels) == (8, False, C)
    with pytest.raises(ParameterError, match="divisible by heads=8"):
        NodeNet("gat", F, C, hidden=12)


def test_the_mlps_of_gin_are_as_wide_as_the_hidden_layer() -> None:
    net = NodeNet("gin", 5, 3, hidden=16)
    widths = [
        [layer.out_features for layer in conv.conv.nn if isinstance(layer, torch.nn.Linear)]
        for conv in (net.conv1, net.conv2)
    ]
    assert widths == [[16, 16, 16], [16, 16, 3]]


def test_the_loss_of_each_trial_is_that_of_the_trial_alone() -> None:
    logits, y = (
        torch.randn(3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
        torch.arange(5) % 4,
    )
    logits.requires_grad_()
    together = torch.func.vmap(cross_entropy, (0, None))(logits, y)
    alone = torch.stack([cross_entropy(of_trial, y) for of_trial in logits])
    torch.testing.assert_close(together, alone)
    gradients = [torch.autograd.grad(losses.sum(), logits)[0] for losses in (together, alone)]
    torch.testing.assert_close(*gradients)


def test_labels_that_do_not_fit_the_trials_are_refused() -> None:
    logits = torch.randn(3, 5, 4)
    for y in (torch.tensor([0, 1, 2]), torch.tensor([0, 1, 2, 3, 4]), torch.tensor([0, 1, 2, 3, -1])):
        with pytest.raises((ValueError, RuntimeError, IndexError)):
            torch.func.vmap(cross_entropy, (0, None))(logits, y)


def test_a_label_is_more_probable_than_not_from_a_logit_of_0_on() -> None:
    """sigmoid(0.1) > 1/2: a threshold of 0.5 belongs to probabilities, not to logits."""
    logits = torch.tensor([[0.1, 0.4], [-0.1, -0.4], [0.3, -0.2]])
    labels = torch.tensor([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    assert accuracy(logits, labels).item() == pytest.approx(5 / 6)
    assert micro_f1(logits, labels).item() == pytest.approx(2 * 3 / (2 * 3 + 0 + 1))


entries = st.lists(st.tuples(st.floats(-1, 1, width=32), st.booleans()), min_size=1, max_size=12)


@given(entries)
def test_metrics_of_many_labels_are_counts_of_probable_ones(entries: list[tuple[float, bool]]) -> None:
    logits = torch.tensor([[logit] for logit, _ in entries])
    labels = torch.tensor([[float(there)] for _, there in entries])
    found = [logit > 0 for logit, _ in entries]  # what torch.sigmoid(logit) > 0.5 says, but for rounding
    right = sum(a == b for a, (_, b) in zip(found, entries, strict=True))
    hits = sum(a and b for a, (_, b) in zip(found, entries, strict=True))
    total = sum(found) + sum(there for _, there in entries)
    assert accuracy(logits, labels).item() == pytest.approx(right / len(entries))
    assert micro_f1(logits, labels).item() == pytest.approx(2 * hits / max(total, 1))
