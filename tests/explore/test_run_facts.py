from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from armagnn.cli import app, train
from armagnn.explore.run_facts import Judgement, calibration, confusion, least_sure, train_command
from armagnn.training import GraphsConfig, NodesConfig, SignalsConfig
from armagnn.training.config import Config


@pytest.mark.parametrize(
    "config",
    [
        NodesConfig(),
        NodesConfig(conv="gcn", hidden=7, lr=1e-4, dataset="pubmed", balance=True, seeds=2),
        NodesConfig.for_tables(nodes="/a b/n.csv", edges="/e.csv", target="y", folds=3, baselines=False, directed=True),
        NodesConfig.for_tables("gat", nodes="/n.csv", edges="/e.csv", id_column="the 'id'", unknown="drop", val=30.0),
        GraphsConfig(),
        GraphsConfig(data="/mine", conv="gin", fold=3, l2=0.0, one_target="t"),
        SignalsConfig(dataset="mnist", widths="32-64", average=True),
    ],
    ids=lambda config: config.title,
)
def test_the_command_makes_the_same_configuration(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is typed is read by the real command, up to the training."""
    command = train_command(config, "runs/x")
    assert command is not None
    seen: list[Any] = []

    def stop(kind: Any, typed: dict[str, Any], out: Path, **options: Any) -> None:
        seen.append((kind.begun(typed), out))

    monkeypatch.setattr(train, "_train", stop)
    done = CliRunner().invoke(app, shlex.split(command)[1:])
    assert done.exit_code == 0, done.output
    assert seen == [(config, Path("runs/x"))]


def test_data_in_memory_have_no_command() -> None:
    assert train_command(replace(NodesConfig(), dataset="in memory: mine")) is None


def test_confusion_and_least_sure() -> None:
    values = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.55, 0.45], [0.5, 0.5]])
    judged = Judgement("classes", "ab", range(4), ["test", "test", "train", ""], values, torch.tensor([0, 0, 1, -1]))
    assert confusion(judged).tolist() == [[1, 1], [0, 0]]
    assert least_sure(judged, 9) == [3, 1, 0]  # nodes of training are left out
    numbers = Judgement("numbers", "t", range(3), [""] * 3, torch.tensor([[1.0], [2.0], [4.0]]), torch.zeros(3, 1))
    assert least_sure(numbers, 9) == []
    assert least_sure(replace(numbers, spread=torch.tensor([[0.1], [0.9], [0.5]])), 2) == [1, 2]


def test_perfect_confidence_is_calibrated() -> None:
    values = torch.eye(2)[torch.tensor([0, 1, 1])]
    judged = Judgement("classes", "ab", range(3), ["test"] * 3, values, torch.tensor([0, 1, 1]))
    bins, error = calibration(judged)
    assert ([each.count for each in bins], error) == ([3], 0.0)
    labels = replace(judged, task="labels", truth=1 - values)
    assert calibration(labels)[1] == 1.0
