"""Networks and tasks for signals on one graph, and trainings with them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from armagnn import kernels, processors
from armagnn.data.signals import SignalsDataset
from armagnn.errors import ParameterError, ShapeError
from armagnn.operators import GraphOperator, batches_of, coarsen, knn_graph
from armagnn.randomness import source
from armagnn.tasks.signal_task import SignalNet, SignalTask, pooled_nodes
from armagnn.training.checkpoint import Checkpoint
from armagnn.training.outcome import Setting
from armagnn.training.trainer import run_trials
from armagnn.training.trials import Trials

METHODS = {
    "arma": {"num_stacks": 2, "num_layers": 2},
    "gcn": {"num_layers": 2},
    "chebyshev": {"order": 3},
    "cayley": {"order": 1, "jacobi": 2},
    "mlp": {},
}
EDGES, _ = knn_graph(torch.cartesian_prod(torch.arange(5.0), torch.arange(5.0)), 4)


def dataset(signals: int = 40, table: bool = False) -> SignalsDataset:
    """Two kinds of signals: high on the left, or high on the right."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(signals) % 2
    side = (torch.arange(25) // 5 >= 3) == y.bool()[:, None]
    x = (torch.rand(signals, 25, generator=generator) + side * 2).mul(10).to(torch.uint8)
    data = SignalsDataset.of(EDGES, x, y, range(21), range(21, 30), range(30, signals))
    extra: dict[str, Any] = {"scale": 10.0, "table": torch.randn(25, 6, generator=generator) if table else None}
    return SignalsDataset(**{**vars(data), **extra})


def net(method: str = "arma", strides: tuple[int, ...] = (4, 2), **options: Any) -> SignalNet:
    places = pooled_nodes(EDGES, 25, strides)
    sizes: dict[str, Any] = {"widths": (6, 8), "head": (9,)} if len(strides) == 2 else {"widths": (4,)}
    return SignalNet(method, 2, places, strides=strides, options=METHODS[method], **sizes, **options)


@pytest.mark.parametrize("method", list(METHODS))
def test_pooling_between_layers_is_a_maximum_over_clusters(method: str) -> None:
    model = net(method).double().eval()
    levels = model.levels(EDGES, 25, dtype=torch.float64)
    tree = coarsen(EDGES, 3)
    assert not tree.real[0].all()
    x = torch.randn(3, 25, 1, dtype=torch.float64)
    hidden = x
    for conv, level, coarser in zip(model.convs, (0, 2), (2, 3), strict=True):
        op: Any = conv.operator(tree.edges(level)[0], hidden.shape[1], tree.edges(level)[1])  # type: ignore[operator]
        hidden = conv(hidden, op)
        cluster = tree.places(level) >> (coarser - level)  # the place of each node's cluster
        hidden = torch.stack([hidden[:, cluster == place].amax(1) for place in tree.places(coarser).tolist()], 1)
    first, last = model.head
    expected = last(torch.relu(first(hidden.flatten(1))))
    torch.testing.assert_close(model(x, levels), expected)


@pytest.mark.parametrize("method", list(METHODS))
def test_a_batch_is_its_signals_one_by_one(method: str) -> None:
    model = net(method).double().eval()
    levels = model.levels(EDGES, 25, dtype=torch.float64)
    x = torch.randn(3, 25, 1, dtype=torch.float64)
    together = model(x, levels)
    alone = torch.cat([model(x[b : b + 1], levels) for b in range(3)])
    torch.testing.assert_close(together, alone)


def test_the_network_is_what_its_formula_says() -> None:
    model = net("gcn", (1,)).eval()
    (conv,), (last,) = model.convs, model.head
    op = GraphOperator.from_edge_index(EDGES, 25, kind="gcn")
    x = torch.randn(3, 25, 1)
    hidden = x
    for layer in conv.layers:  # type: ignore[union-attr]
        hidden = torch.relu(op @ (hidden @ layer.weight) + layer.bias)  # type: ignore[union-attr, operator]
    expected = hidden.reshape(3, -1) @ last.weight.t() + last.bias  # type: ignore[operator, union-attr]
    torch.testing.assert_close(model(x, model.levels(EDGES, 25)), expected)
    average = net("gcn", (1,), average=True).eval()
    average.convs.load_state_dict(model.convs.state_dict())
    torch.testing.assert_close(average(x, average.levels(EDGES, 25)), average.head[0](hidden.mean(1)))


@pytest.mark.parametrize("head", [(), (9,)])
def test_dropout_acts_on_what_the_last_layer_is_given(head: tuple[int, ...]) -> None:
    places = pooled_nodes(EDGES, 25, (1,))
    model = SignalNet("gcn", 2, places, widths=(4,), head=head, hidden_dropout=0.4, options={})
    levels, x, seeds = model.levels(EDGES, 25), torch.randn(3, 25, 1), torch.arange(5)
    hidden = model.convs[0](x, levels.ops[0]).flatten(1)
    *full, last = model.head
    for layer in full:
        hidden = torch.relu(layer(hidden))
    with source(seeds):
        torch.testing.assert_close(model(x, levels), last(kernels.dropout(hidden, seeds[:1], 0.4, 0)))
    assert torch.equal(model.eval()(x, levels), last(hidden))


def test_batches_are_those_of_the_plan_and_the_last_is_filled_up() -> None:
    data, model = dataset(), net()
    task = SignalTask(data, model, batch_size=8, order=3)
    assert task.steps == 3
    task.start(5)
    plan = batches_of(data.train_idx, 8, 3, 5)
    for step, expected in enumerate(plan):
        ids, counts = task.batch(torch.tensor([step]))
        assert torch.equal(ids[counts > 0], expected)
        assert len(ids) == 8
    predict = model.eval()
    loss = task.loss(predict, task.batch(torch.tensor([2])))
    expected_loss = F.cross_entropy(predict(task.inputs(plan[2]), task.levels), data.y[plan[2]])
    torch.testing.assert_close(loss, expected_loss)


def test_inputs_are_the_signals_divided_by_their_scale() -> None:
    data, model = dataset(), net()
    x = SignalTask(data, model, batch_size=8).inputs(torch.tensor([4, 1]))
    assert isinstance(x, Tensor)
    torch.testing.assert_close(x.squeeze(-1), data.x[[4, 1]] / 10)


def test_tfidf_is_that_of_scikit_learn() -> None:
    from sklearn.feature_extraction.text import TfidfTransformer

    data = dataset()
    data = SignalsDataset(**{**vars(data), "x": (data.x - 8).clamp(min=0, max=40)})
    task = SignalTask(data, net("gcn", (1,)), features="tfidf", batch_size=8)
    fitted = TfidfTransformer().fit(data.x[data.train_idx].numpy())
    expected = fitted.transform(data.x.numpy()).toarray()
    found = task.inputs(torch.arange(40))
    assert isinstance(found, Tensor)
    torch.testing.assert_close(found.squeeze(-1), torch.from_numpy(expected).float())


@pytest.mark.parametrize("method", ["arma", "gcn", "chebyshev", "cayley"])
def test_a_table_is_multiplied_without_the_features(method: str) -> None:
    data = dataset(table=True)
    options = METHODS[method] | ({"num_layers": 1} if method == "gcn" else {})
    model = SignalNet(method, 2, 25, widths=(4,), in_channels=6, average=True, options=options).eval()
    task = SignalTask(data, model, features="table", batch_size=8)
    ids = torch.tensor([3, 0, 7])
    assert data.table is not None
    features = (data.x[ids] / 10).unsqueeze(-1) * data.table
    expected = model.head[0](model.convs[0](features, task.levels.ops[0]).mean(1))
    torch.testing.assert_close(model(task.inputs(ids), task.levels), expected)


def test_metrics_are_means_over_the_split() -> None:
    data, model = dataset(), net().eval()
    task = SignalTask(data, model, batch_size=8)
    task._chunks["val"] = data.val_idx.split(4)
    found = task.metrics(model, "val")
    logits = model(task.inputs(data.val_idx), task.levels)
    torch.testing.assert_close(found["loss"].float(), F.cross_entropy(logits, data.y[data.val_idx]))
    assert found["accuracy"] == (logits.argmax(-1) == data.y[data.val_idx]).double().mean()


def trials_of(seeds: list[int], method: str = "arma", epochs: int = 3, p: float = 0.25) -> Trials:
    build = partial(net, method, hidden_dropout=p, skip_dropout=p if method == "arma" else 0.0)
    task = SignalTask(dataset(), build(), batch_size=8)
    settings = [Setting(seed, lr=0.01, l2=1e-4) for seed in seeds]
    return Trials(build, task, settings, epochs=epochs, patience=epochs, stop_on="accuracy", other_rules=("last",))


@pytest.mark.parametrize("method", ["arma", "gcn", "chebyshev", "cayley"])
def test_training_learns(method: str) -> None:
    (outcome,) = trials_of([1], method, epochs=20, p=0.0).run()
    assert outcome.test["accuracy"] == 1.0
    assert outcome.history["train_loss"][-1] < outcome.history["train_loss"][0] / 2


def test_a_trial_alone_is_the_one_among_others() -> None:
    (alone,) = trials_of([1]).run()
    among = {outcome.setting.seed: outcome for outcome in trials_of([0, 1, 2]).run()}[1]
    for name, value in alone.state.items():
        torch.testing.assert_close(among.state[name], value, rtol=1e-4, atol=1e-5)
    assert alone.history["val_loss"] == pytest.approx(among.history["val_loss"], rel=1e-4)


@pytest.mark.parametrize("way", ["run", "in turns", "saved"])
def test_memory_is_kept_while_trials_train_and_no_longer(tmp_path: Path, way: str) -> None:
    if processors._glibc() is None:
        pytest.skip("another C library, or the user's own settings")
    trials = trials_of([0])
    ways = {
        "run": trials.run,
        "in turns": trials.in_turns,
        "saved": lambda: run_trials(trials, Checkpoint(tmp_path, "key")),
    }
    training = ways[way]()
    next(training)
    assert processors._keeping == 1
    training.close()
    assert processors._keeping == 0


def test_a_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    (whole,) = trials_of([0]).run()

    class Killed(Exception):
        pass

    trials = trials_of([0])
    judge = trials._judge

    def kill() -> None:
        if trials.done == 2:
            raise Killed
        judge()

    trials._judge = kill  # type: ignore[method-assign]
    with pytest.raises(Killed):
        list(run_trials(trials, Checkpoint(tmp_path, "key"), every=0.0))
    assert Checkpoint(tmp_path, "key").load() is not None
    (outcome,) = (each for each in run_trials(trials_of([0]), Checkpoint(tmp_path, "key")) if each is not None)
    assert outcome.history == whole.history
    for name, value in whole.state.items():
        assert torch.equal(outcome.state[name], value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: net(strides=(4, 3)), "powers of 2"),
        (lambda: SignalNet("gcn", 2, 5, widths=(3, 4), strides=(2,)), "each convolution"),
        (lambda: SignalTask(dataset(), net(), features="words", batch_size=4), "one of raw"),
        (lambda: SignalTask(dataset(), net(), features="table", batch_size=4), "if and only if"),
        (lambda: SignalTask(dataset(), net(), batch_size=0), "batch_size"),
        (lambda: SignalsDataset.of(EDGES, torch.zeros(3, 25), torch.zeros(4), [0], [1], [2]), r"\(S, N\)"),
        (lambda: dataset().idx("dev"), "Known: test, train, val"),
        (lambda: SignalNet("gcn", 2, 5, strides=4), "strides must be a sequence"),  # type: ignore[arg-type]
        (lambda: pooled_nodes(EDGES, 25, (2.0,)), "strides must be a sequence, each an integer"),  # type: ignore[arg-type]
        (lambda: SignalTask(dataset(), SignalNet("gcn", 1, 25), batch_size=4), "with num_classes=2"),
    ],
    ids=["strides", "widths", "features", "table", "batch", "shapes", "split", "one", "real", "classes"],
)
def test_bad_input_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


def test_a_network_for_another_number_of_nodes_is_refused() -> None:
    left = pooled_nodes(EDGES, 25, (4,))
    with pytest.raises(ShapeError, match=f"num_nodes={left + 1}, but {left} are left"):
        SignalTask(dataset(), SignalNet("gcn", 3, left + 1, strides=(4,)), batch_size=4)
    with pytest.raises(ShapeError, match="num_nodes=24, but 25 are left"):
        SignalTask(dataset(), SignalNet("gcn", 3, 24), batch_size=4)
    SignalTask(dataset(), SignalNet("gcn", 3, 1, average=True), batch_size=4)  # to which the number is nothing
