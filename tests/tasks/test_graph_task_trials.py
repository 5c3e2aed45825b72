"""Trials of graphs: a batch of them against each alone, and against a plain training loop; all targets together."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from armagnn.data import GraphsDataset, folds, load_graphs
from armagnn.errors import ParameterError
from armagnn.nn.layer_registry import PEERS
from armagnn.operators.batches import GraphBatches, batches_of
from armagnn.randomness import keys, seeded, source
from armagnn.tasks import GraphTask
from armagnn.tasks.graph_task import _spectra
from armagnn.training import Setting, Trials
from armagnn.training.trials import DRAWS
from tasks.graph_setup import BATCHED, F64, FOLD, make_net, make_task

SETTINGS = (
    Setting(3, lr=0.01, l2=1e-3, rates=(0.3, 0.2), target=1),
    Setting(0, lr=0.02, l2=0.0, rates=(0.0, 0.0), target=0),
    Setting(3, lr=0.01, l2=1e-3, rates=(0.3, 0.2), target=0),
)


def run(data: GraphsDataset, method: str, settings: Sequence[Setting], **options: Any) -> list[Any]:
    outputs = 1 if data.regression else 2
    net = make_net(method, outputs)
    task = make_task(data, net, padded=options.pop("padded", False))
    trials = Trials(
        lambda: make_net(method, outputs), task, settings, epochs=5, patience=9, stop_on="loss", dtype=F64, **options
    )
    found = {outcome.setting: outcome for outcome in trials.run()}
    return [found[setting] for setting in settings]


def assert_close(one: Any, other: Any) -> None:
    assert (one.best_epoch, one.epochs) == (other.best_epoch, other.epochs)
    for name, value in one.state.items():
        torch.testing.assert_close(value, other.state[name], rtol=1e-8, atol=1e-8)
    assert one.test == pytest.approx(other.test, abs=1e-8)
    assert one.history["train_loss"] == pytest.approx(other.history["train_loss"], abs=1e-8)


@pytest.mark.parametrize("method", BATCHED)
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_a_trial_of_a_batch_is_the_trial_alone(
    method: str, kind: str, mutag: GraphsDataset, numbers: GraphsDataset
) -> None:
    data = mutag if kind == "classes" else numbers
    for setting, outcome in zip(SETTINGS, run(data, method, SETTINGS), strict=True):
        assert_close(outcome, run(data, method, [setting])[0])


@pytest.mark.parametrize("method", BATCHED)
def test_padding_changes_no_training(method: str, mutag: GraphsDataset) -> None:
    for one, other in zip(run(mutag, method, SETTINGS), run(mutag, method, SETTINGS, padded=True), strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("method", PEERS)
def test_methods_of_pyg_are_batched_and_padded_as_ours(method: str, mutag: GraphsDataset) -> None:
    together, padded = run(mutag, method, SETTINGS), run(mutag, method, SETTINGS, padded=True)
    for setting, one, other in zip(SETTINGS, together, padded, strict=True):
        assert_close(one, other)
        assert_close(one, *run(mutag, method, [setting]))


def test_it_is_a_plain_training_loop(numbers: GraphsDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armagnn.training.trials.AHEAD", 7)  # seeds are drawn again within an epoch
    setting = SETTINGS[0]
    (outcome,) = run(numbers, "arma", [setting])
    with seeded(setting.seed):
        net = make_net("arma", 1).double()
    net.set_rates(*torch.tensor(setting.rates, dtype=F64))
    task = make_task(numbers, net)
    free = [p for key, p in net.named_parameters() if key.endswith("bias")]
    kernels = [p for key, p in net.named_parameters() if not key.endswith("bias")]
    adam = torch.optim.Adam([{"params": kernels, "weight_decay": 2e-3}, {"params": free}], lr=setting.lr)
    seeds, history, states = keys(torch.tensor([setting.seed]), range(100), DRAWS)[:, 0], [], []
    for epoch in range(5):
        losses = []
        for number, ids in enumerate(batches_of(FOLD.train, 8, 0, epoch)):
            batch = task.graphs.take(ids)
            adam.zero_grad()
            with source(seeds[epoch * 5 + number]):
                out = net(task.x[batch.nodes], batch)
            loss = F.mse_loss(out[:, 0], task.y[ids, 1])
            loss.backward()
            adam.step()
            losses.append(loss.item())
        history.append(sum(losses) / 5)
        states.append(deepcopy(net.state_dict()))
    assert outcome.history["train_loss"] == pytest.approx(history, abs=1e-8)
    for name, value in outcome.state.items():
        torch.testing.assert_close(value, states[outcome.best_epoch - 1][name], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("padded", [False, True])
def test_trials_go_on_from_within(mutag: GraphsDataset, padded: bool) -> None:
    def make() -> Trials:
        task = make_task(mutag, make_net("arma"), padded=padded)
        options = {"epochs": 8, "patience": 3, "stop_on": "accuracy", "other_rules": ("loss", "last", "first")}
        return Trials(lambda: make_net("arma"), task, SETTINGS[:2], dtype=F64, **options)  # type: ignore[arg-type]

    states: list[dict[str, Any]] = []
    whole = {
        o.setting: o for o in make().run(lambda trials: states.append(deepcopy(trials.state())) if not states else None)
    }
    again = make()
    assert again.restore(states[0], list(SETTINGS[:2]))
    assert again.done > 0
    rest = {o.setting: o for o in again.run()}
    for setting, outcome in rest.items():
        assert (outcome.test, outcome.other_rules) == (whole[setting].test, whole[setting].other_rules)
        assert set(outcome.other_rules) == {"loss", "last", "first"}
        assert all(torch.equal(value, whole[setting].state[name]) for name, value in outcome.state.items())


def test_the_folds_of_the_package_serve() -> None:
    mutag = load_graphs("mutag")
    net = make_net("arma", features=9)
    task = GraphTask(mutag, net, folds(mutag)[3], batch_size=32)
    settings = [Setting(0, 0.01, 0.0, (0.0, 0.0))]
    trials = Trials(lambda: make_net("arma", features=9), task, settings, epochs=30, patience=50, stop_on="loss")
    (outcome,) = trials.run()
    assert outcome.test["accuracy"] > 0.7  # of two classes, one has two thirds


# ------------------------------------------------------------------------------------------------- all targets together


def test_all_targets_are_learnt_where_there_is_an_output_for_each(numbers: GraphsDataset) -> None:
    net = make_net("arma", 2).double().eval()
    task = make_task(numbers, net)
    batch = task.graphs.take([4, 9, 30])
    out = net(task.x[batch.nodes], batch)
    torch.testing.assert_close(task.loss(net, batch), F.mse_loss(out, task.y[[4, 9, 30]]))
    found = task.metrics(net, "val")
    alone = torch.cat([net(task.x[b.nodes], b) for b in (task.graphs.take([i]) for i in FOLD.val.tolist())])
    torch.testing.assert_close(found["mse"], F.mse_loss(alone, task.y[FOLD.val]))
    assert found["loss"] == found["mse"]
    assert task.target_scaler is not None
    errors = (task.target_scaler.inverse(alone) - numbers.y[FOLD.val]).abs().mean(0)
    torch.testing.assert_close(torch.stack([found["mae nodes"], found["mae edges"]]), errors, rtol=1e-5, atol=1e-5)


def test_the_single_target_of_a_set_has_both_names(numbers: GraphsDataset) -> None:
    single = replace(numbers, y=numbers.y[:, 1:], targets=())
    net = make_net("gcn", 1).double().eval()
    both, one = make_task(single, net), make_task(numbers, net)
    assert both.metrics(net, "val")["mse"] == one.metrics(net, "val", torch.tensor(1))["mse"]
    assert sorted(both.metrics(net, "val")) == ["loss", "mae target 0", "mse"]
    assert sorted(one.metrics(net, "val", torch.tensor(1))) == ["loss", "mse"]  # of one of two, as for QM9


def test_trials_that_learn_all_targets(numbers: GraphsDataset) -> None:
    def outcomes(settings: Sequence[Setting], padded: bool) -> dict[Setting, Any]:
        task = make_task(numbers, make_net("arma", 2), padded=padded)
        options: dict[str, Any] = {"epochs": 4, "patience": 9, "stop_on": "loss", "dtype": F64}
        return {o.setting: o for o in Trials(lambda: make_net("arma", 2), task, settings, **options).run()}

    together = outcomes(SETTINGS[1:], padded=True)
    for setting in SETTINGS[1:]:
        assert_close(together[setting], outcomes([setting], padded=False)[setting])


def test_outputs_that_fit_no_targets(numbers: GraphsDataset) -> None:
    with pytest.raises(ParameterError, match="outputs is 3; for 2 targets it must be 2, or 1"):
        make_task(numbers, make_net("gcn", 3))


def test_frequencies_change_no_training(mutag: GraphsDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [Setting(seed, lr=0.01, l2=1e-4, rates=(0.2, 0.0)) for seed in range(2)]
    with_vectors = run(mutag, "cayley", settings)
    task = make_task(mutag, make_net("cayley"))
    assert task.graphs.spectra is make_task(mutag, make_net("cayley")).graphs.spectra is not None  # found once
    assert make_task(mutag, make_net("chebyshev")).graphs.spectra is None
    other = replace(mutag, edge_index=mutag.edge_index.clone())  # the same checksum says nothing
    assert make_task(other, make_net("cayley")).graphs.spectra is not task.graphs.spectra
    monkeypatch.setattr("armagnn.tasks.graph_task.vectors_pay", lambda op, ptr, degree: False)
    assert make_task(mutag, make_net("cayley")).graphs.spectra is None
    for one, other in zip(with_vectors, run(mutag, "cayley", settings), strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("method", ["arma", "gcn", "chebyshev", "cayley"])
def test_weights_of_edges_are_seen(method: str, mutag: GraphsDataset) -> None:
    """A batch of weighted graphs gives what each gives alone, from its own operator, and not what plain edges give."""
    low, high = mutag.edge_index.sort(0).values
    weighted = replace(mutag, edge_weight=1.0 + (low * 7 + high * 3) % 5 / 2)
    net = make_net(method).double().eval()
    ids = torch.tensor([3, 0, 17])
    outputs = []
    for data in (mutag, weighted):
        task = make_task(data, net)
        batch = task.graphs.take(ids)
        outputs.append(net(task.x[batch.nodes], batch))
        for row, number in zip(outputs[-1], ids.tolist(), strict=True):
            conv: Any = net.convs[0]
            one = data.select([number])
            op = conv.operator(one.edge_index, one.num_nodes, one.edge_weight, F64)
            alone = GraphBatches(op, one.ptr).take([0])  # and no frequencies
            x = task.x[mutag.ptr[number] : mutag.ptr[number + 1]]
            torch.testing.assert_close(net(x, alone)[0], row, rtol=1e-10, atol=1e-10)
    assert (outputs[0] - outputs[1]).abs().max() > 1e-5


def test_methods_without_weights_refuse_them(mutag: GraphsDataset) -> None:
    weighted = replace(mutag, edge_weight=torch.ones(mutag.edge_index.shape[1]))
    for method in PEERS:
        with pytest.raises(ParameterError, match="knows no edge weights"):
            make_task(weighted, make_net(method))


def test_frequencies_are_those_of_edges_and_weights(mutag: GraphsDataset) -> None:
    """Sets of graphs that share their edges, or their weights, but not both, have spectra of their own."""
    weights = 1.0 + torch.arange(mutag.edge_index.shape[1]) * 0.0
    graph = mutag.graph[mutag.edge_index]
    turned = mutag.ptr[graph] + mutag.ptr[graph + 1] - 1 - mutag.edge_index
    cases = [mutag, replace(mutag, edge_weight=weights), replace(mutag, edge_weight=weights, edge_index=turned)]
    net = make_net("cayley")
    batches = [GraphBatches(net.operator(data, F64), data.ptr) for data in cases]
    found = [_spectra(data, batch) for data, batch in zip(cases, batches, strict=True)]
    assert len({id(one) for one in found}) == 3
    assert _spectra(cases[1], batches[1]) is found[1]
