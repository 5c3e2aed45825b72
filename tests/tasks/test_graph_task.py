"""Networks and tasks for whole graphs: against a loop over single graphs, and a plain training loop."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from armagnn import kernels
from armagnn.data import Fold, GraphsDataset, folds, load_graphs
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.kernels.random import keys, seeded, source
from armagnn.nn import ARMAConv
from armagnn.nn.layer_registry import PEERS
from armagnn.nn.layer_sequence import LayerSequence
from armagnn.operators.batches import GraphBatches, batches_of
from armagnn.tasks import GraphNet, GraphTask
from armagnn.tasks.graph_task import _spectra
from armagnn.training import Setting, Trials
from armagnn.training.trials import DRAWS

OPTIONS: dict[str, dict[str, Any]] = {
    "arma": {"num_stacks": 2, "num_layers": 2},
    "gcn": {"num_layers": 2},
    "chebyshev": {"order": 2},
    "cayley": {"order": 1, "jacobi": 2},
    "mlp": {"num_layers": 2},
    "gat": {"num_layers": 2},
    "sage": {},
    "gin": {},
}
BATCHED = ("arma", "gcn", "chebyshev", "cayley", "mlp")
F64 = torch.float64


@pytest.fixture(scope="module")
def mutag() -> GraphsDataset:
    return load_graphs("mutag").select(range(40))


@pytest.fixture(scope="module")
def numbers(mutag: GraphsDataset) -> GraphsDataset:
    """The same graphs with two numbers to learn, of very different size: the nodes, and a multiple of the edges."""
    nodes = mutag.ptr.diff()
    edges = torch.bincount(mutag.graph[mutag.edge_index[0]], minlength=40)
    y = torch.stack([nodes, 1000 * edges], 1).float()
    return replace(mutag, y=y, num_classes=0, targets=("nodes", "edges"))


FOLD = Fold(torch.arange(4, 40), torch.tensor([0, 2]), torch.tensor([1, 3]))


def make_net(method: str, outputs: int = 2, features: int = 8, **changes: Any) -> GraphNet:
    return GraphNet(method, features, outputs, hidden=8, options=OPTIONS[method], **changes)


def make_task(data: GraphsDataset, net: GraphNet, fold: Fold | None = None, **options: Any) -> GraphTask:
    return GraphTask(data, net, fold or FOLD, **{"batch_size": 8, "dtype": F64} | options)


# ------------------------------------------------------------------------------------------------------------- network


@pytest.mark.parametrize("method", OPTIONS)
def test_a_batch_gives_what_each_graph_gives_alone(method: str, mutag: GraphsDataset) -> None:
    net = make_net(method, head=(5,)).double().eval()
    task = make_task(mutag, net)
    ids = torch.tensor([7, 3, 7, 20])
    batch = task.graphs.take(ids)
    together = net(task.x[batch.nodes], batch)
    for row, number in zip(together, ids.tolist(), strict=True):
        one = task.graphs.take([number])
        torch.testing.assert_close(net(task.x[one.nodes], one)[0], row)


@pytest.mark.parametrize("method", OPTIONS)
def test_it_is_convolutions_then_the_mean_then_full_layers(method: str, mutag: GraphsDataset) -> None:
    net = make_net(method, head=(5,), depth=2).double().eval()
    task = make_task(mutag, net)
    batch = task.graphs.take([5])
    x = task.x[batch.nodes]
    for conv in net.convs:
        x = conv(x, batch.op)
    first, second = net.head
    torch.testing.assert_close(net(task.x[batch.nodes], batch), second(first(x.mean(0, keepdim=True)).relu()))


def test_dropout_acts_on_all_but_the_features_of_the_nodes(mutag: GraphsDataset) -> None:
    net = make_net("arma", head=(5,), depth=3, hidden_dropout=0.4).double()
    task = make_task(mutag, net)
    batch = task.graphs.take([5])
    x, (first, second), seeds = task.x[batch.nodes], net.head, torch.arange(9)

    def dropped(x: Tensor, seed: int) -> Tensor:
        return kernels.dropout(x, seeds[seed : seed + 1], 0.4, 0)

    hidden = net.convs[0](x, batch.op)
    for index in (0, 1):
        hidden = net.convs[index + 1](dropped(hidden, index), batch.op)
    full = first(dropped(hidden.mean(0, keepdim=True), 2)).relu()
    with source(seeds):
        torch.testing.assert_close(net(x, batch), second(dropped(full, 3)))


def test_every_place_of_a_stacked_method_has_its_layers() -> None:
    net = GraphNet("gcn", 9, 2, options={"num_layers": 4})
    assert [len(conv) if isinstance(conv, LayerSequence) else 1 for conv in net.convs] == [4, 4, 4]
    assert (len(net.head), net.convs[0].out_channels) == (1, 32)


def test_the_mlp_sees_no_edge(mutag: GraphsDataset) -> None:
    net = make_net("mlp").double().eval()
    lonely = replace(mutag, edge_index=mutag.edge_index[:, :0])
    features = make_task(mutag, net).features
    batches = [make_task(data, net, features=features) for data in (mutag, lonely)]
    one, other = (net(task.x[:30], task.graphs.take([0, 1])) for task in batches)
    assert torch.equal(one, other)


def test_dropout_acts_between_the_layers_and_on_skips(mutag: GraphsDataset) -> None:
    net = make_net("arma").double()
    task = make_task(mutag, net)
    batch = task.graphs.take([0, 1])

    def outputs(*rates: float) -> list[Tensor]:
        net.set_rates(*rates)
        return [net(task.x[batch.nodes], batch) for _ in range(2)]

    assert torch.equal(*outputs(0.0, 0.0))
    assert not torch.equal(*outputs(0.5, 0.0))
    assert not torch.equal(*outputs(0.0, 0.5))
    assert all(conv.dropout == 0.5 for conv in net.convs if isinstance(conv, ARMAConv))
    net.eval()
    assert torch.equal(*outputs(0.5, 0.5))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"method": "armma"}, UnknownNameError),
        ({"hidden": 0}, ParameterError),
        ({"depth": 0}, ParameterError),
        ({"outputs": 0}, ParameterError),
        ({"head": (0,)}, ParameterError),
        ({"skip_dropout": 1.0}, ParameterError),
        ({"slots": 0}, ParameterError),
    ],
    ids=str,
)
def test_bad_networks(change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        GraphNet(**{"method": "arma", "in_channels": 3, "outputs": 2} | change)


# ---------------------------------------------------------------------------------------------------------------- task


def test_scaling_knows_only_the_training_graphs(mutag: GraphsDataset, numbers: GraphsDataset) -> None:
    net = make_net("gcn", 1)
    task = make_task(numbers, net)
    train = torch.isin(numbers.graph, FOLD.train)
    assert task.x[train, 0].mean().abs() < 1e-6
    assert torch.equal(task.x[:, 2:], task.features.x[:, 2:].double())  # labels are as they were
    assert task.y[FOLD.train].mean(0).abs().max() < 1e-6
    torch.testing.assert_close(task.y[FOLD.train].std(0, correction=0), torch.ones(2, dtype=F64))
    test = torch.isin(numbers.graph, FOLD.test)
    features = replace(task.features, x=torch.where(test[:, None], 1e6, task.features.x))
    other = make_task(replace(numbers, y=numbers.y.index_fill(0, FOLD.test, 1e9)), net, features=features)
    assert torch.equal(other.x[train], task.x[train])
    assert torch.equal(other.y[FOLD.train], task.y[FOLD.train])


@pytest.mark.parametrize("padded", [False, True])
def test_an_epoch_sees_every_training_graph_once(mutag: GraphsDataset, padded: bool) -> None:
    task = make_task(mutag, make_net("arma"), padded=padded)
    for epoch in range(2):
        task.start(epoch)
        ids = torch.cat([task.batch(torch.tensor([step]), task.room(step)).ids for step in range(task.steps)])
        assert sorted(ids[ids < 40].tolist()) == FOLD.train.tolist()
        assert ids[ids < 40].tolist() == torch.cat(batches_of(FOLD.train, 8, 0, epoch)).tolist()


def test_batches_are_padded_to_a_few_sizes_that_waste_little(mutag: GraphsDataset) -> None:
    task = make_task(mutag, make_net("arma"), padded=True, batch_size=8)
    rooms, filled, padded = set(), 0, 0
    for epoch in range(30):
        task.start(epoch)
        for step, ids in enumerate(batches_of(FOLD.train, 8, 0, epoch)):
            room = task.room(step)
            rooms.add(room)
            rows, nonzeros = task.graphs.measure(ids)
            assert rows < room[0]
            assert nonzeros <= room[1]
            batch = task.batch(torch.tensor([step]), room)
            assert (batch.num_nodes, batch.op.nnz) == room
            filled, padded = filled + rows, padded + room[0]
    assert 1 < len(rooms) < 6
    assert padded < 1.5 * filled  # sizes are multiples of 64, and a batch has about 140 nodes
    plain = make_task(mutag, make_net("arma"), padded=False)
    plain.start(0)
    assert plain.room(0) == ()


def test_the_room_of_a_batch_does_not_depend_on_what_was_done_before(mutag: GraphsDataset) -> None:
    def rooms(task: GraphTask, *epochs: int) -> list[list[tuple[int, ...]]]:
        found = []
        for epoch in epochs:
            task.start(epoch)
            found.append([task.room(step) for step in range(task.steps)])
        return found

    def fresh() -> GraphTask:
        return make_task(mutag, make_net("arma"), padded=True)

    whole = rooms(fresh(), *range(12))
    assert len({room for of_epoch in whole for room in of_epoch}) > 1  # or there is nothing to get wrong
    assert rooms(fresh(), 11, 0, 0, 5) == [whole[11], whole[0], whole[0], whole[5]]


@pytest.mark.parametrize("edges", [True, False])
def test_there_is_room_for_the_largest_graphs_and_for_graphs_without_edges(mutag: GraphsDataset, edges: bool) -> None:
    many = mutag if edges else replace(mutag, edge_index=mutag.edge_index[:, :0])
    few = Fold(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))
    for fold in (few, FOLD):
        task = make_task(many, make_net("gcn"), fold=fold, padded=True)
        task.start(0)
        batch = task.batch(torch.tensor([0]), task.room(0))
        assert batch.num_nodes % 64 == 0
        assert batch.ids[-1] == 40
    task = make_task(many, make_net("gcn"), padded=True, batch_size=10_000)  # all in one
    task.start(0)
    assert task.room(0)[0] < 1.1 * task.graphs.measure(FOLD.train)[0] + 64


def test_metrics_are_those_of_the_graphs_one_by_one(
    mutag: GraphsDataset, numbers: GraphsDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armagnn.tasks.graph_task.CHUNK", 20)  # more than one piece
    fold = Fold(FOLD.train[:20], FOLD.train[20:], FOLD.test)
    net = make_net("arma").double().eval()
    task = GraphTask(mutag, net, fold, batch_size=4, dtype=F64)
    alone = torch.cat([net(task.x[b.nodes], b) for b in (task.graphs.take([i]) for i in fold.val.tolist())])
    found = task.metrics(net, "val")
    assert found["accuracy"] == (alone.argmax(1) == mutag.y[fold.val]).double().mean()
    torch.testing.assert_close(found["loss"], F.cross_entropy(alone, mutag.y[fold.val]))

    net = make_net("arma", 1).double().eval()
    task = GraphTask(numbers, net, fold, batch_size=4, dtype=F64)
    alone = torch.cat([net(task.x[b.nodes], b) for b in (task.graphs.take([i]) for i in fold.val.tolist())])
    for target in range(2):
        found = task.metrics(net, "val", torch.tensor(target))
        truth = (alone[:, 0] - task.y[fold.val, target]).square().mean()
        torch.testing.assert_close(found["mse"], truth)
        assert found["loss"] == found["mse"]


def test_an_empty_part_is_refused(mutag: GraphsDataset) -> None:
    with pytest.raises(ParameterError, match="val part"):
        GraphTask(mutag, make_net("gcn"), Fold(FOLD.train, FOLD.val[:0], FOLD.test), batch_size=4)
    with pytest.raises(ParameterError, match="batch_size"):
        GraphTask(mutag, make_net("gcn"), FOLD, batch_size=0)


# -------------------------------------------------------------------------------------------------------------- trials

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
        options = {"epochs": 8, "patience": 3, "stop_on": "accuracy", "beside": ("loss", "last", "first")}
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
        assert (outcome.test, outcome.beside) == (whole[setting].test, whole[setting].beside)
        assert set(outcome.beside) == {"loss", "last", "first"}
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
