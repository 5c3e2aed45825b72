"""Signals on a graph as a training: what an experiment takes, and a row for every signal."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
import torch

from armagnn.data import NodeDataset, SignalsDataset, load
from armagnn.errors import DTypeError, ParameterError
from armagnn.training import SignalsConfig, SignalsPrediction
from armagnn.training.signal_training import SignalsExperiment
from tiny_signals import tiny

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


@pytest.fixture
def data() -> SignalsDataset:
    return SignalsDataset.of(EDGES, torch.rand(9, 3), torch.tensor([0, 1, 2] * 3), range(4), range(5, 7), range(7, 9))


def test_a_row_for_every_signal(data: SignalsDataset) -> None:
    experiment = SignalsConfig(conv="gcn", features="raw", batch=4).experiment(data)
    assert isinstance(experiment, SignalsExperiment)
    assert experiment.nodes_at_once == 12
    found = experiment.predict(experiment.network().eval())
    assert isinstance(found, SignalsPrediction)
    torch.testing.assert_close(found.probabilities.sum(1), torch.ones(9))
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [row["split"] for row in rows] == ["train"] * 4 + [""] + ["val"] * 2 + ["test"] * 2
    assert [int(row["label"]) for row in rows] == found.probabilities.argmax(1).tolist()
    assert [float(row["p_2"]) for row in rows] == pytest.approx(found.probabilities[:, 2].tolist(), rel=1e-8)


def test_data_of_another_kind_are_refused() -> None:
    with pytest.raises(DTypeError, match="data must be a SignalsDataset"):
        SignalsConfig().experiment(load("cora"))
    assert isinstance(load("cora"), NodeDataset)


@pytest.mark.parametrize("widths", ["", "32-", "0", "a", "999999", "-".join(["1"] * 101)])
def test_widths_that_are_none(widths: str) -> None:
    with pytest.raises(ParameterError, match="widths"):
        SignalsConfig(widths=widths)


def test_l2_acts_on_the_kernels_that_it_is_for(data: SignalsDataset) -> None:
    """With a penalty on the convolutions alone, the gradient of the head's kernels is that without any."""

    def trained(l2: float, on: str) -> dict[str, torch.Tensor]:
        config = SignalsConfig(features="raw", batch=32, epochs=1, l2=l2, l2_on=on, hidden_dropout=0.0, conv="gcn")
        (outcome,) = config.experiment(data).trials([config.setting(0)]).run()
        return outcome.state

    none, convolutions, every = trained(0.0, "all"), trained(10.0, "convolutions"), trained(10.0, "all")
    for name, weight in none.items():
        of_head = name.startswith("head.")
        assert torch.equal(weight, convolutions[name]) == (of_head or name.endswith("bias")), name
        assert torch.equal(convolutions[name], every[name]) == (not of_head or name.endswith("bias")), name


def test_a_choice_on_test_data_shows_what_it_would_claim_and_changes_nothing_else() -> None:
    data = tiny()
    config = SignalsConfig(features="raw", batch=4, epochs=12, lr=0.02, l2=0.0, conv="gcn", hidden_dropout=0.5)
    experiment = config.experiment(data)
    (honest,) = experiment.trials([config.setting(0)], other_rules=("last",)).run()
    (watched,) = experiment.trials([config.setting(0)], other_rules=("last", "leak")).run()
    assert (watched.val, watched.test, watched.best_epoch) == (honest.val, honest.test, honest.best_epoch)
    assert watched.other_rules["last"] == honest.other_rules["last"]
    swapped = experiment.__class__(config, replace(data, val_idx=data.test_idx))
    (chosen,) = swapped.trials([config.setting(0)]).run()
    assert watched.other_rules["leak"]["accuracy"] == chosen.test["accuracy"]
    assert watched.other_rules["leak"]["accuracy"] > honest.test["accuracy"] + 0.1, "what the choice would claim"
