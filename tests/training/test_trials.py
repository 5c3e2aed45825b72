"""Trials as an axis: a trial of a batch is the trial alone, and both are a plain training loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from armagnn import CSR
from armagnn.data import NodeDataset
from armagnn.randomness import keys, seeded, source
from armagnn.tasks import NodeNet, NodeTask
from armagnn.tasks.node_task import accuracy, cross_entropy
from armagnn.training import Outcome, Setting, Trials
from armagnn.training.cuda_graphs import make_current
from armagnn.training.trials import DRAWS

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "arma-1": ("arma", {"num_stacks": 2, "num_layers": 1}),
    "arma-2": ("arma", {"num_stacks": 2, "num_layers": 2}),
    "gcn": ("gcn", {}),
    "gcn-2": ("gcn", {"num_layers": 2}),
    "chebyshev": ("chebyshev", {"order": 3}),
    "cayley": ("cayley", {"order": 1, "jacobi": 2}),
    "mlp": ("mlp", {}),
}
PEERS = ("gat", "sage", "gin")
SETTINGS = (
    Setting(3, lr=0.02, l2=5e-4, rates=(0.5, 0.3, 0.2)),
    Setting(0, lr=0.01, l2=0.0, rates=(0.0, 0.5, 0.6)),
    Setting(11, lr=0.05, l2=1e-2, rates=(0.75, 0.0, 0.0)),
)
Build = Callable[[], NodeNet]


def make_data(sparse: bool = True, multilabel: bool = False) -> NodeDataset:
    """A small graph in three communities, whose features tell a little about them."""
    nodes, features, classes = 45, 14, 3
    generator = torch.Generator().manual_seed(5)

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    y = torch.arange(nodes) % classes
    edges = ((draw(nodes, nodes) < torch.where(y[:, None] == y, 0.2, 0.03)).triu(1)).nonzero().t()
    x = draw(nodes, features) * (draw(nodes, features) < 0.15 + 0.4 * (torch.arange(features) % classes == y[:, None]))
    order = torch.randperm(nodes, generator=generator)
    return NodeDataset(
        "small",
        CSR.from_dense(x) if sparse else x,
        torch.cat([edges, edges.flip(0)], dim=1),
        torch.nn.functional.one_hot(y, classes).float() if multilabel else y,
        *order.split([15, 15, 15]),
        num_classes=classes,
        sha256="small",
    )


DATA = {True: make_data(), False: make_data(sparse=False)}


def builder(name: str, data: NodeDataset) -> Build:
    method, options = METHODS.get(name, (name, {}))
    hidden = 8 if method == "gat" else 4  # its 8 heads share the units
    return lambda: NodeNet(method, data.num_features, data.num_classes, hidden=hidden, options=options)


def make(
    name: str, settings: Sequence[Setting], sparse: bool = True, data: NodeDataset | None = None, **options: Any
) -> Trials:
    data = data or DATA[sparse]
    build = builder(name, data)
    options = {"epochs": 50, "patience": 1000, "stop_on": "loss"} | options
    task = NodeTask(data, build(), torch.float64)
    return Trials(build, task, settings, dtype=torch.float64, **options)


def run(*arguments: Any, **options: Any) -> dict[int, Outcome]:
    return {outcome.setting.seed: outcome for outcome in make(*arguments, **options).run()}


def assert_close(a: Outcome, b: Outcome, tolerance: float = 1e-8) -> None:
    assert (a.best_epoch, a.epochs) == (b.best_epoch, b.epochs)
    pairs = [(a.history[name], b.history[name]) for name in a.history]
    pairs += [([a.val[name], a.test[name]], [b.val[name], b.test[name]]) for name in a.val]
    for one, other in pairs:
        torch.testing.assert_close(torch.tensor(one), torch.tensor(other), rtol=tolerance, atol=tolerance)
    assert a.state.keys() == b.state.keys()
    for name in a.state:
        torch.testing.assert_close(a.state[name], b.state[name], rtol=tolerance, atol=tolerance)


def assert_same(a: Outcome, b: Outcome) -> None:
    assert (a.setting, a.best_epoch, a.epochs) == (b.setting, b.best_epoch, b.epochs)
    assert (a.history, a.val, a.test) == (b.history, b.val, b.test)
    assert all(torch.equal(a.state[name], b.state[name]) for name in a.state)


def plain_loop(
    name: str, setting: Setting, data: NodeDataset, epochs: int = 50, patience: int = 1000, stop_on: str = "loss"
) -> Outcome:
    """The same training with nothing of `Trials`: a module, torch's Adam, early stopping."""
    with seeded(setting.seed):
        net = builder(name, data)().double()
    net.set_rates(*torch.tensor(setting.rates, dtype=torch.float64))
    x, op = data.x.to(torch.float64), net.conv1.operator(data.edge_index, data.num_nodes, dtype=torch.float64)
    free = [p for key, p in net.named_parameters() if key.endswith("bias") or p.dim() < 2]
    kernels = [p for p in net.parameters() if all(p is not other for other in free)]
    groups = [{"params": kernels, "weight_decay": 2 * setting.l2}, {"params": free}]
    adam = torch.optim.Adam(groups, lr=setting.lr)
    best_score, best_epoch = (-math.inf, -math.inf), 0
    history: dict[str, list[float]] = {"train_loss": [], "val_loss": [], "val_accuracy": []}
    seeds = keys(torch.tensor([setting.seed]), range(epochs), DRAWS)[:, 0]
    best: dict[str, Tensor] = {}
    for epoch in range(1, epochs + 1):
        adam.zero_grad()
        with source(seeds[epoch - 1]):
            loss = cross_entropy(net.train()(x, op)[data.train_idx], data.y[data.train_idx])
        loss.backward()
        adam.step()
        found = evaluate(net, x, op, data, "val")
        for key, value in zip(history, (loss.item(), found["loss"], found["accuracy"]), strict=True):
            history[key].append(value)
        score = {"loss": (-found["loss"], 0.0), "accuracy": (found["accuracy"], -found["loss"])}[stop_on]
        if score > best_score:
            best_score, best_epoch = score, epoch
            best = {key: value.clone() for key, value in net.state_dict().items()}
        if epoch - best_epoch >= patience:
            break
    net.load_state_dict(best)
    val, test = (evaluate(net, x, op, data, split) for split in ("val", "test"))
    return Outcome(setting, best_epoch, epoch, val, test, 0.0, history, best)


@torch.no_grad()
def evaluate(net: NodeNet, x: Any, op: Any, data: NodeDataset, split: str) -> dict[str, float]:
    idx = data.idx(split)
    logits, y = net.eval()(x, op)[idx], data.y[idx]
    return {"loss": cross_entropy(logits, y).item(), "accuracy": accuracy(logits, y).item()}


# ------------------------------------------------------------------------------------------- alone, among, plain loop


@pytest.mark.parametrize(
    ("name", "sparse"), [*((name, True) for name in METHODS), ("arma-2", False), ("chebyshev", False)]
)
def test_a_trial_of_a_batch_is_the_trial_alone_and_a_plain_loop(name: str, sparse: bool) -> None:
    together = run(name, SETTINGS, sparse)
    assert len(together) == len(SETTINGS)
    alone = SETTINGS[1]  # the one with a rate of 0
    assert_close(together[alone.seed], run(name, [alone], sparse)[alone.seed])
    for setting in SETTINGS:
        assert_close(together[setting.seed], plain_loop(name, setting, DATA[sparse]))


@pytest.mark.parametrize("name", ["arma-1", "arma-2"])
def test_more_trials_which_a_layer_may_take_one_by_one(name: str) -> None:
    settings = [*SETTINGS, *(Setting(seed, lr=0.01, l2=5e-4, rates=(0.75, 0.75, 0.75)) for seed in (1, 2))]
    together = run(name, settings)
    for setting in settings:
        assert_close(together[setting.seed], run(name, [setting])[setting.seed])
        assert_close(together[setting.seed], plain_loop(name, setting, DATA[True]))


@pytest.mark.parametrize("name", PEERS)
def test_layers_of_pyg_train_through_the_same_interface(name: str) -> None:
    together = run(name, SETTINGS)
    for setting in SETTINGS:
        outcome = together[setting.seed]
        assert_close(outcome, run(name, [setting])[setting.seed])
        assert_close(outcome, plain_loop(name, setting, DATA[True]))
        assert outcome.history["train_loss"][-1] < outcome.history["train_loss"][0]


def test_many_labels_per_node() -> None:
    data = make_data(multilabel=True)
    together = run("arma-1", SETTINGS, data=data)
    for setting in SETTINGS:
        alone = run("arma-1", [setting], data=data)[setting.seed]
        assert_close(together[setting.seed], alone)
        assert sorted(alone.test) == ["accuracy", "loss", "micro_f1"]
        assert 0 < alone.test["micro_f1"] <= 1


def test_the_order_and_the_company_do_not_matter() -> None:
    forward, backward = run("arma-2", SETTINGS), run("arma-2", SETTINGS[::-1])
    for seed in forward:
        assert_close(forward[seed], backward[seed])


def test_what_no_trial_drops_is_not_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    from armagnn import kernels

    def refuse(*_: Any) -> Tensor:
        raise AssertionError

    free = [replace(setting, rates=(0.0, 0.0, 0.0)) for setting in SETTINGS]
    whole = run("gcn", free, epochs=5)
    monkeypatch.setattr(kernels, "dropout", refuse)
    again = run("gcn", free, epochs=5)
    for seed in whole:
        assert_same(whole[seed], again[seed])
    with pytest.raises(AssertionError):
        run("gcn", [*free, replace(SETTINGS[0], rates=(0.0, 0.1, 0.0))], epochs=2)


def test_the_callers_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    trials = make("gcn", SETTINGS, epochs=3)
    after_build = torch.get_rng_state()
    list(trials.run())
    assert torch.equal(torch.get_rng_state(), after_build)


# ----------------------------------------------------------------------------------------------------- early stopping

HASTY = [Setting(seed, lr=lr, l2=0.0, rates=(0.2, 0.2, 0.2)) for seed, lr in enumerate((0.3, 0.01, 0.1, 0.03))]


@pytest.mark.parametrize("stop_on", ["loss", "accuracy"])
def test_each_trial_stops_by_itself(stop_on: str) -> None:
    together = run("arma-1", HASTY, epochs=100, patience=8, stop_on=stop_on)
    assert len({outcome.epochs for outcome in together.values()}) > 1  # so that the batch gets smaller on the way
    for setting in HASTY:
        outcome = together[setting.seed]
        assert_close(outcome, plain_loop("arma-1", setting, DATA[True], 100, 8, stop_on))
        assert outcome.epochs == min(100, outcome.best_epoch + 8)
        assert all(len(values) == outcome.epochs for values in outcome.history.values())
        at = outcome.best_epoch - 1
        assert outcome.val["loss"] == pytest.approx(outcome.history["val_loss"][at], rel=1e-12)
        assert outcome.val["accuracy"] == outcome.history["val_accuracy"][at]


def test_the_best_state_of_a_stopped_trial_does_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armagnn.training.trials.LOOK", {"cpu": 1000})  # no trial leaves before the end of all
    late = run("arma-1", HASTY, epochs=100, patience=8)
    monkeypatch.setattr("armagnn.training.trials.LOOK", {"cpu": 1})  # each leaves at once
    prompt = run("arma-1", HASTY, epochs=100, patience=8)
    assert any(outcome.epochs < 80 for outcome in late.values())
    for seed in late:
        assert_close(late[seed], prompt[seed])


class Scripted:
    """A task with validation results written down, to see what is made of them."""

    def __init__(self, results: Sequence[tuple[float, float]]) -> None:
        self.results, self.epoch, self.steps = results, -1, 1

    def start(self, epoch: int) -> None:
        self.epoch = epoch

    def room(self, step: int) -> tuple[int, ...]:
        return ()

    def batch(self, step: Tensor, room: tuple[int, ...]) -> None: ...

    def loss(self, predict: Any, batch: None, target: Tensor) -> Tensor:
        data = DATA[True]
        return cross_entropy(predict(data.x.to(torch.float64), None), data.y)

    def metrics(self, predict: Any, split: str, target: Tensor) -> dict[str, Tensor]:
        loss, value = self.results[self.epoch]
        return {"loss": torch.tensor(loss, dtype=torch.float64), "accuracy": torch.tensor(value, dtype=torch.float64)}


@pytest.mark.parametrize(
    ("stop_on", "results", "best"),
    [
        ("loss", [(2, 0.1), (1, 0.2), (1, 0.9), (3, 1.0)], 2),  # of equals the first
        ("accuracy", [(2, 0.5), (1, 0.5), (1, 0.5), (0.5, 0.4)], 2),  # the lower loss decides a tie
        ("accuracy", [(2, 0.5), (3, 0.5), (9, 0.6), (1, 0.5)], 3),
        ("accuracy", [(float("nan"), 0.9), (3, 0.5), (float("inf"), 0.8), (4, 0.5)], 2),  # no state to go home with
        ("loss", [(float("nan"), 0.9)] * 4, 0),
        ("accuracy", [(float("nan"), 0.9)] * 4, 0),
    ],
)
def test_ties_and_losses_that_are_no_numbers(stop_on: str, results: list[tuple[float, float]], best: int) -> None:
    trials = Trials(builder("mlp", DATA[True]), Scripted(results), SETTINGS[:1], epochs=4, patience=9, stop_on=stop_on,
                    dtype=torch.float64)  # fmt: skip
    (outcome,) = trials.run()
    assert (outcome.best_epoch, outcome.epochs) == (best, 4)


# ------------------------------------------------------------------------------------------------------ going on later


@pytest.mark.parametrize(("name", "when"), [("arma-2", 5), ("arma-2", 30), ("gcn", 30)])
def test_a_restored_batch_goes_on_bit_by_bit(name: str, when: int) -> None:
    options: dict[str, Any] = {"epochs": 60, "patience": 20}
    whole = run(name, HASTY, **options)
    saved: list[dict[str, Any]] = []

    def look(trials: Trials) -> None:
        if trials.done == when and trials.settings:
            saved.append({key: copied(value) for key, value in trials.state().items()})

    before = make(name, HASTY, **options)
    early = {outcome.setting.seed for outcome in before.run(look) if not saved}
    again = make(name, HASTY, **options)
    assert again.restore(saved[0], [setting for setting in HASTY if setting.seed not in early])
    late = {outcome.setting.seed: outcome for outcome in again.run()}
    assert early | late.keys() == whole.keys()
    for seed, outcome in late.items():
        assert_same(outcome, whole[seed])


def copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return {name: copied(item) for name, item in value.items()} if isinstance(value, dict) else value


def test_a_state_of_other_settings_is_not_taken() -> None:
    state = make("gcn", SETTINGS).state()
    assert not make("gcn", HASTY).restore(state, HASTY)


def test_between_epochs_somebody_may_look() -> None:
    seen: list[tuple[int, int]] = []
    list(make("gcn", SETTINGS, epochs=12).run(lambda trials: seen.append((trials.done, len(trials.settings)))))
    assert seen == [(5, 3), (10, 3), (12, 0)]


def test_a_gpu_without_a_number_is_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(torch._C, "_cuda_setDevice", chosen.append, raising=False)
    for name in ("cpu", "cuda", "cuda:1"):
        make_current(torch.device(name))
    assert chosen == [1]
