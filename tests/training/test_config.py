"""The configuration of a run: the paper's defaults, ranges, JSON, differences."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn.errors import ArmagnnError, DeviceError, ParameterError, RunError, UnknownNameError
from armagnn.training import NodesConfig


def test_the_defaults_are_the_papers_for_cora() -> None:
    config = NodesConfig()
    assert (config.dataset, config.conv, config.hidden, config.stacks, config.layers) == ("cora", "arma", 16, 2, 1)
    assert (config.input_dropout, config.hidden_dropout, config.skip_dropout) == (0.75, 0.75, 0.75)
    assert (config.last_stacks, config.l2, config.lr) == (0, 5e-4, 0.01)
    assert (config.epochs, config.stop_on, config.patience, config.seeds) == (2000, "loss", 100, 10)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"epochs": 0}, ParameterError),
        ({"seeds": 0}, ParameterError),
        ({"patience": 0}, ParameterError),
        ({"lr": 0.0}, ParameterError),
        ({"lr": float("nan")}, ParameterError),
        ({"lr": float("inf")}, ParameterError),
        ({"lr": 10**400}, ParameterError),
        ({"l2": -1e-9}, ParameterError),
        ({"l2": float("nan")}, ParameterError),
        ({"last_stacks": -1}, ParameterError),
        ({"seed": -1}, ParameterError),
        ({"seed": 2**63}, ParameterError),
        ({"epochs": 1.5}, ParameterError),
        ({"hidden": True}, ParameterError),
        ({"hidden": 0}, ParameterError),
        ({"stacks": 0}, ParameterError),
        ({"dataset": 3}, ParameterError),
        ({"stop_on": "los"}, UnknownNameError),
    ],
)
def test_out_of_range(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options)).split("_")[0]):
        NodesConfig(**options)


@pytest.mark.parametrize("device", ["gpu", "cpu:x", "mps", "meta", ""])
def test_unknown_devices(device: str) -> None:
    with pytest.raises(ParameterError, match="device"):
        NodesConfig(device=device).torch_device()


def test_a_gpu_that_is_not_there() -> None:
    missing = f"cuda:{torch.cuda.device_count()}"
    with pytest.raises(DeviceError, match="Use 'cpu'"):
        NodesConfig(device=missing).torch_device()


@pytest.mark.parametrize(
    ("options", "title"),
    [
        ({}, "ARMA (K=2, T=1) on cora"),
        ({"stacks": 3, "last_stacks": 1}, "ARMA (K=3 then 1, T=1) on cora"),
        ({"conv": "cayley", "layers": 5}, "cayley (K=2, T=5) on cora"),
        ({"conv": "chebyshev"}, "chebyshev (K=2) on cora"),
        ({"conv": "sage", "layers": 2, "dataset": "ppi"}, "sage (L=2) on ppi"),
    ],
)
def test_the_title_names_what_the_layers_have(options: dict[str, Any], title: str) -> None:
    assert NodesConfig(**options).title == title


def test_json_round_trip() -> None:
    config = NodesConfig(lr=1, seed=7, seeds=3, dataset="mine.npz", stop_on="accuracy")
    assert config.lr == 1.0
    assert NodesConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {},
        {**NodesConfig().to_json(), "new_option": 1},
        {name: value for name, value in NodesConfig().to_json().items() if name != "lr"},
        {**NodesConfig().to_json(), "lr": "fast"},
        {**NodesConfig().to_json(), "epochs": -3},
    ],
)
def test_json_that_is_no_configuration(content: object) -> None:
    with pytest.raises(RunError):
        NodesConfig.from_json(content)


json_values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers())


@given(name=st.sampled_from(sorted(NodesConfig().to_json())), value=json_values)
def test_any_value_is_a_configuration_or_a_typed_error(name: str, value: object) -> None:
    try:
        config = NodesConfig(**{name: value})  # type: ignore[arg-type]
    except ArmagnnError:
        return
    assert NodesConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_differences_name_the_option_and_both_values() -> None:
    config = NodesConfig()
    assert config.differences(config) == []
    assert config.differences(replace(config, lr=0.1, seeds=3)) == ["lr: 0.01 -> 0.1", "seeds: 10 -> 3"]
