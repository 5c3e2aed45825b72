"""Networks and tasks for whole graphs: against a loop over single graphs, and a plain training loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from armagnn import kernels
from armagnn.data import Fold, GraphsDataset
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.nn import ARMAConv
from armagnn.nn.layer_registry import LayerSequence
from armagnn.operators.batches import batches_of
from armagnn.randomness import source
from armagnn.tasks import GraphNet, GraphTask
from tasks.graph_setup import F64, FOLD, OPTIONS, make_net, make_task

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
