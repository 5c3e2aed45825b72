"""Deep networks on nodes: norms, residual connections and jumps, as trials, kept and opened again."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from armagnn.data import NodeDataset
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.operators import CSR
from armagnn.randomness import keys, source
from armagnn.tasks import NodeNet, NodeTask
from armagnn.tasks.contract import weights_of
from armagnn.training import NodesConfig, Run, train
from armagnn.training.outcome import Setting
from armagnn.training.trials import DRAWS, Trials
from oracles import assert_near, numbers, random_graph

N, FEATURES, CLASSES = 24, 6, 3
EDGES = random_graph(N, 60, seed=4).both_ways().edge_index
LATER = ("depth", "norm", "jk", "residual", "residual_scale")


def dataset() -> NodeDataset:
    ids = torch.arange(N)
    return NodeDataset(
        name="tiny", x=numbers(N, FEATURES), edge_index=EDGES, y=ids % CLASSES, num_classes=CLASSES, sha256="0" * 64,
        train_idx=ids[:12], val_idx=ids[12:18], test_idx=ids[18:],
    )  # fmt: skip


def node_net(method: str = "arma", **options: Any) -> NodeNet:
    return NodeNet(method, FEATURES, CLASSES, **{"hidden": 5, **options})


# -------------------------------------------------------------------------------------------------------------- network


def test_the_default_is_the_network_of_two_convolutions() -> None:
    net = node_net(options={"num_stacks": 2})
    assert {name.split(".")[0] for name in net.state_dict()} == {"conv1", "conv2"}
    assert (net.conv1.act, net.conv2.act) == ("relu", None)
    x, op = numbers(N, FEATURES).float(), net.conv1.operator(EDGES, N)
    assert torch.equal(net(x, op), net.conv2(net.conv1(x, op), op))


@pytest.mark.parametrize("norm", ["none", "layer"])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("jk", ["none", "last"])
def test_a_linear_map_is_added_before_norm_and_activation(norm: str, sparse: bool, jk: str) -> None:
    net = node_net("gcn", hidden=8, depth=3, norm=norm, jk=jk, linear_skip=True, act="elu").double()
    x, op = numbers(N, FEATURES), net.conv1.operator(EDGES, N, dtype=torch.float64)
    ours, last = net(CSR.from_dense(x) if sparse else x, op), x
    for conv, skip in zip((net.conv1, *net.middle, net.conv2), net.skips, strict=True):
        out = conv(last, op) + last @ skip.weight
        if norm == "layer":
            out = (out - out.mean(1, True)) / (out.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
        if jk == "none" and conv is net.conv2:  # the last layer is linear
            assert_near(ours, conv(last, op) + last @ skip.weight, 1e-10)
            return
        last = F.elu(out)
    assert_near(ours, net.lin(last), 1e-10)


@pytest.mark.parametrize("method", ["arma", "gcn", "gat", "rational", "mlp"])
@pytest.mark.parametrize("norm", ["none", "batch", "layer"])
@pytest.mark.parametrize("jk", ["none", "last", "cat", "max"])
@pytest.mark.parametrize("residual", [True, False])
def test_a_deep_network_is_its_formula(method: str, norm: str, jk: str, residual: bool) -> None:
    """Of its convolutions, which have tests of their own; statistics of the batch by their formula."""
    net = node_net(
        method, hidden=8, depth=4, norm=norm, jk=jk, residual=residual, residual_scale=0.5, act="elu"
    ).double()
    x, op = numbers(N, FEATURES), net.conv1.operator(EDGES, N, dtype=torch.float64)
    convs = [net.conv1, *net.middle, net.conv2]
    first, states = x, []
    for index, conv in enumerate(convs if jk != "none" else convs[:-1]):
        out = conv(x, op)
        assert conv.act == (None if norm != "none" else "elu")
        if norm == "batch":
            out = F.elu((out - out.mean(0)) / (out.var(0, correction=0) + 1e-5).sqrt())
        elif norm == "layer":
            out = F.elu((out - out.mean(1, True)) / (out.var(1, correction=0, keepdim=True) + 1e-5).sqrt())
        x = x + 0.5 * out if residual and index else out
        states.append(x)
    if jk == "none":
        truth: Tensor = net.conv2(x, op)
    else:
        given = {"last": x, "cat": torch.cat(states, 1), "max": torch.stack(states).max(0).values}[jk]
        truth = net.lin(given)
    assert_near(net(first, op), truth, 1e-9)


def test_arma_of_several_steps_has_its_activation_inside_as_well() -> None:
    net = node_net(depth=3, norm="batch", options={"num_layers": 2})
    assert [conv.act for conv in net.convs] == ["relu", "relu", None]


def test_rates_reach_all_layers() -> None:
    net = node_net(depth=4, skip_dropout=0.3)
    assert [conv.dropout for conv in net.convs] == [0.3] * 4


# --------------------------------------------------------------------------------------------------------------- trials


def alone(data: NodeDataset, options: dict[str, Any], setting: Setting, epochs: int) -> tuple[Any, list[float]]:
    """The same training, plainly: one network, torch's Adam, the same seeds of the masks."""
    torch.manual_seed(setting.seed)
    net = node_net(**options).double()
    task = NodeTask(data, net, torch.float64)
    net.set_rates(*setting.rates)
    optimiser = torch.optim.Adam(net.parameters(), lr=setting.lr)
    draws = max(DRAWS, 2 * len(list(net.modules())))
    seeds, losses = keys(torch.tensor([setting.seed]), range(epochs), draws)[:, 0], []
    for epoch in range(epochs):
        optimiser.zero_grad()
        with source(seeds[epoch]):
            loss = task.loss(net.train(), task.batch())
        penalty = sum(p.square().sum() for name, p in net.named_parameters() if p.dim() > 1 and "bias" not in name)
        (loss + setting.l2 * penalty).backward()
        optimiser.step()
        losses.append(task.metrics(net.eval(), "val")["loss"].item())
    return net, losses


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize("trials", [1, 3])
@pytest.mark.parametrize("deep", [{"depth": 3, "jk": "cat"}, {"depth": 40, "residual": True}])
def test_trials_are_plain_trainings(norm: str, trials: int, deep: dict[str, Any]) -> None:
    """Losses and weights, the running means among them, and masks beyond the usual number of them."""
    data, epochs = dataset(), 4
    options = {"norm": norm, **deep}
    settings = [Setting(seed, 0.01 * (1 + seed), 1e-3, (0.2, 0.1, 0.3)) for seed in range(trials)]
    task = NodeTask(data, node_net(**options), torch.float64)
    batch = Trials(lambda: node_net(**options), task, settings, epochs=epochs, patience=50, stop_on="loss",
                   other_rules=["last"], dtype=torch.float64)  # fmt: skip
    kept = batch.keepers[1]
    outcomes = sorted(batch.run(), key=lambda outcome: outcome.seed)
    assert kept.kept.keys() == dict(weights_of(node_net(**options))).keys()
    for setting, outcome in zip(settings, outcomes, strict=True):
        net, losses = alone(data, options, setting, epochs)
        torch.testing.assert_close(outcome.history["val_loss"], losses, rtol=1e-6, atol=1e-7)
        assert outcome.state.keys() == net.state_dict().keys()
        if outcome.best_epoch == epochs:
            for name, value in net.state_dict().items():
                torch.testing.assert_close(outcome.state[name], value, rtol=1e-5, atol=1e-6)


def test_the_running_means_differ_between_trials_and_are_kept() -> None:
    data, options = dataset(), {"norm": "batch"}
    settings = [Setting(seed, 0.01, 0.0, (0.0, 0.0, 0.0)) for seed in range(2)]
    task = NodeTask(data, node_net(**options))
    batch = Trials(lambda: node_net(**options), task, settings, epochs=2, patience=9, stop_on="loss")
    one, two = (outcome.state["norms.0.running_mean"] for outcome in batch.run())
    assert one.abs().sum() > 0
    assert not torch.equal(one, two)


# ------------------------------------------------------------------------------------------------------------------ run


DEEP: dict[str, Any] = {"depth": 4, "norm": "batch", "jk": "max", "residual": True}


def test_a_run_is_kept_opened_and_asked(tmp_path: Path) -> None:
    data = dataset()
    train(NodesConfig(epochs=3, seeds=2, hidden=8, **DEEP), tmp_path / "run", data=data)
    opened = Run.open(tmp_path / "run")
    assert {name: getattr(opened.config, name) for name in DEEP} == DEEP
    experiment = opened.config.experiment(data)
    net = experiment.trained(opened)
    metrics = opened.metrics()
    best = next(trial for trial in metrics["trials"] if trial["seed"] == metrics["best_seed"])
    loss = NodeTask(data, net).metrics(net, "val")["loss"].item()
    assert loss == pytest.approx(best["val"]["loss"], rel=1e-5)


def test_an_interrupted_run_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    """The state of a checkpoint has the running means."""
    data = dataset()
    config = NodesConfig(epochs=6, seeds=2, hidden=8, **DEEP)

    def made() -> Trials:
        experiment = config.experiment(data)
        return experiment.trials([config.setting(seed) for seed in range(2)])

    whole = {outcome.seed: outcome.state for outcome in made().run()}
    states: list[Any] = []
    list(made().run(lambda trials: states.append(copy.deepcopy(trials.state())) if not states else None))
    state = states[0]
    assert any("running_var" in name for name in state["params"])
    again = made()
    assert again.restore(state, [config.setting(seed) for seed in range(2)])
    for outcome in again.run():
        assert all(torch.equal(outcome.state[name], value) for name, value in whole[outcome.seed].items())


# --------------------------------------------------------------------------------------------------------------- config


def test_old_keys_and_old_run_folders_stay() -> None:
    config = NodesConfig()
    assert not set(LATER) & config.stored().keys()
    old = {name: value for name, value in config.to_json().items() if name not in LATER}
    assert NodesConfig.from_json(json.loads(json.dumps(old))) == config


def test_new_options_are_part_of_the_key() -> None:
    config = NodesConfig(**DEEP)
    assert {name: config.stored()[name] for name in DEEP} == DEEP
    assert NodesConfig.from_stored(config.stored()) == NodesConfig(last_stacks=config.stacks, **DEEP)
    assert config.shape() != NodesConfig().shape()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"depth": 1}, ParameterError),
        ({"depth": 1001}, ParameterError),
        ({"depth": 501, "layers": 2, "conv": "gcn"}, ParameterError),
        ({"norm": "bach"}, UnknownNameError),
        ({"jk": "lstm"}, UnknownNameError),
        ({"residual": 1}, ParameterError),
        ({"residual_scale": 0.0}, ParameterError),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        NodesConfig(**options)
    if "conv" not in options:
        with pytest.raises(error):
            node_net(**options)
