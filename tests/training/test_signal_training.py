"""Signals on a graph as a training: what an experiment takes, and a row for every signal."""

from __future__ import annotations

import csv
import io

import pytest
import torch

from armagnn.data import NodeDataset, SignalsDataset, load
from armagnn.errors import DTypeError, ParameterError
from armagnn.training import SignalsConfig, SignalsPrediction
from armagnn.training.signal_training import SignalsExperiment

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
