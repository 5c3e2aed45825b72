"""The epoch that is timed is that of the paper's network on every molecule; nothing here asserts a time."""

from __future__ import annotations

import math

import pytest
import torch
from torch_geometric.nn import global_mean_pool

from armagnn.bench import molecule_batches as epochs
from armagnn.tasks import GraphTask

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


def test_both_sides_train_the_same_network() -> None:
    dataset, fold = epochs.random_molecules(50)
    assert sorted(torch.cat([fold.train, fold.val, fold.test]).tolist()) == list(range(dataset.num_graphs))
    net = epochs.network()
    task = GraphTask(dataset, net, fold, batch_size=16)
    task.start(0)
    assert task.room(0) == ()
    batch = task.batch(torch.tensor([0]), ())
    peer = epochs.MoleculeNet(net.convs[0].to_pyg(), global_mean_pool)  # type: ignore[operator]
    peer.head[0].load_state_dict(net.head[0].state_dict())
    peer.head[2].load_state_dict(net.head[1].state_dict())
    x = task.x[batch.nodes]
    rows = torch.repeat_interleave(torch.arange(batch.num_nodes), batch.op.rowptr.long().diff())
    edges = torch.stack([batch.op.col.long(), rows])
    torch.testing.assert_close(peer(x, edges, batch.graph), net(x, batch).squeeze(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.filterwarnings("error::RuntimeWarning")  # what is not recorded on a GPU is said by one
def test_an_epoch_in_small(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "WARMUP", 1)
    asked: list[float] = []
    epochs_step = epochs.pyg_step_seconds

    def fake_step(*arguments: object) -> float:
        asked.append(epochs_step(*arguments))  # type: ignore[arg-type]
        return 0.5

    monkeypatch.setattr(epochs, "pyg_step_seconds", fake_step)
    (row,) = epochs.compare_epochs(91, device, size=3)
    assert asked[0] > 0
    assert row.peer == 15.5  # 31 steps, the last of them on a single graph
    assert row.ours > 0
    assert (row.unit, row.limit, row.ratio) == ("s", 3.0, row.peer / row.ours)
    assert "91 molecules, batches of 3" in row.work


def test_without_pyg_there_is_no_ratio() -> None:
    (row,) = epochs.compare_epochs(91, "cpu", pyg=False, size=3)
    assert math.isnan(row.ratio)


def test_the_first_epoch_and_the_last_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 102.0, 103.0, 107.0, 1000.0])
    monkeypatch.setattr(epochs.time, "perf_counter", lambda: now[0])
    now = [0.0]

    class Fake:
        done = 0

        def run(self, look):  # type: ignore[no-untyped-def]
            for now[0] in clock:
                self.done += 1
                look(self)
            yield "outcome"

    assert epochs.epoch_seconds(Fake()) == 2.0  # type: ignore[arg-type]
