"""What all experiments share: the outline of a network, the memory of a training, tables of predictions."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from armagnn.data import load
from armagnn.errors import ParameterError
from armagnn.training import NodesConfig, predict
from armagnn.training.experiment import check_memory, csv_text, outline, split_names


def test_an_outline_has_shapes_and_no_memory() -> None:
    net = outline(lambda: nn.Linear(10**6, 10**6))
    assert net.weight.device.type == "meta"
    assert net.weight.shape == (10**6, 10**6)


def test_a_training_that_no_machine_has_memory_for_is_refused_before_it() -> None:
    with pytest.raises(ParameterError, match=r"takes at least .* GiB of memory"):
        check_memory(outline(lambda: nn.Linear(10**6, 10**6)), NodesConfig(), 10)
    check_memory(nn.Linear(2, 2), NodesConfig(epochs=10), 10)


def test_numbers_of_a_table_are_all_of_a_float32() -> None:
    value = torch.tensor(1 / 3).item()
    line = csv_text(["id", "split", "p"], [[0, "train", value]]).splitlines()[1]
    assert line.startswith("0,train,0.33333")
    assert torch.tensor(float(line.split(",")[2])).item() == value


def test_every_node_has_the_split_that_it_is_in() -> None:
    cora = load("cora")
    names = split_names(cora.num_nodes, cora.idx)
    assert {name: names.count(name) for name in ("train", "val", "test", "")} == {
        "train": 140, "val": 500, "test": 1000, "": 1068,
    }  # fmt: skip


def test_a_run_is_open_when_it_is_asked(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"Run\.open\(path\)"):
        predict(tmp_path)  # type: ignore[arg-type]
