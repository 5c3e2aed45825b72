"""The configuration of a run on graphs: ranges, JSON, titles."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armagnn.errors import ArmagnnError, ParameterError, RunError, UnknownNameError
from armagnn.training import GraphsConfig, NodesConfig
from armagnn.training.config import data_name


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"epochs": 0}, ParameterError),
        ({"seeds": 0}, ParameterError),
        ({"lr": -1.0}, ParameterError),
        ({"l2": float("nan")}, ParameterError),
        ({"seed": -1}, ParameterError),
        ({"patience": 0}, ParameterError),
        ({"head": -1}, ParameterError),
        ({"batch": 0}, ParameterError),
        ({"fold": 10}, ParameterError),
        ({"fold": -1}, ParameterError),
        ({"split_seed": -1}, ParameterError),
        ({"split_seed": 2**63}, ParameterError),
        ({"data": None}, ParameterError),
        ({"depth": 1.0}, ParameterError),
        ({"depth": 0}, ParameterError),
        ({"layers": 0}, ParameterError),
        ({"hidden": 12, "conv": "gat"}, ParameterError),
        ({"pooling": "max"}, UnknownNameError),
        ({"target": "none"}, UnknownNameError),
        ({"stop_on": "mse"}, UnknownNameError),
    ],
    ids=str,
)
def test_out_of_range(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options)).split("_")[0]):
        GraphsConfig(**options)


def test_titles() -> None:
    assert GraphsConfig(data="a/mine/").title == "ARMA (K=2, T=2) on mine"
    assert GraphsConfig(data="mine.npz", conv="sage", layers=3).title == "sage (L=3) on mine"
    assert data_name(".")


def test_json_is_of_its_kind() -> None:
    config = GraphsConfig(lr=1, data="x", fold=3)
    assert GraphsConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    with pytest.raises(RunError, match="options"):
        GraphsConfig.from_json(NodesConfig().to_json())
    with pytest.raises(RunError, match="options"):
        NodesConfig.from_json(config.to_json())
    assert config.differences(NodesConfig()) == ["a run on graphs -> a run on nodes"]
    assert config.differences(GraphsConfig(lr=1, data="x")) == ["fold: 3 -> 0"]


json_values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers())


@given(name=st.sampled_from(sorted(GraphsConfig().to_json())), value=json_values)
def test_any_value_is_a_configuration_or_a_typed_error(name: str, value: object) -> None:
    try:
        config = GraphsConfig(**{name: value})  # type: ignore[arg-type]
    except ArmagnnError:
        return
    assert config.title
    assert GraphsConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
