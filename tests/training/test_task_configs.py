"""The three configurations: back from the results store and from JSON as they were, and what they refuse."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from armagnn.errors import ParameterError, UnknownNameError
from armagnn.training import GraphsConfig, NodesConfig, SignalsConfig
from armagnn.training.config import Config, config_of

CONFIGS = [
    NodesConfig(dataset="ppi", conv="chebyshev", stacks=3, hidden=64, lr=0.02, act="elu"),
    NodesConfig(stacks=3, last_stacks=1, init="tied"),
    GraphsConfig(data="enzymes", conv="gat", hidden=64, depth=2, layers=3),
    GraphsConfig(data="qm9", one_target="mu", pooling="padded", slots=29, edges="bond orders"),
    SignalsConfig(dataset="mnist", features="raw", widths="32-64", stride=4, head=512),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_what_the_store_keeps_comes_back(config: Config) -> None:
    found = type(config).from_stored(config.stored())
    assert found.stored() == config.stored()
    assert config_of(config.kind) is type(config)
    assert type(config).from_json(config.to_json()) == config


def test_a_single_target_is_part_of_the_name() -> None:
    config = CONFIGS[3]
    assert config.stored()["dataset"] == "qm9/mu"
    assert config.shape() == replace(config, one_target="cv").shape()
    assert config.shape() != replace(config, depth=2).shape()


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (NodesConfig, {"features": "row"}, "Unknown features 'row'. Did you mean 'rows'"),
        (GraphsConfig, {"pooling": "men"}, "Did you mean 'mean'"),
        (GraphsConfig, {"edges": "plan"}, "Did you mean 'plain'"),
        (SignalsConfig, {"features": "tf-idf"}, "Did you mean 'tfidf'"),
    ],
)
def test_choices_get_the_nearest(kind: type[Config], options: dict[str, Any], said: str) -> None:
    with pytest.raises(UnknownNameError, match=said):
        kind(**options)


def test_a_network_of_too_many_layers() -> None:
    with pytest.raises(ParameterError, match="a network of 2000 layers"):
        GraphsConfig(conv="gcn", depth=50, layers=40)


@pytest.mark.parametrize("kind", [NodesConfig, GraphsConfig, SignalsConfig])
def test_a_field_of_the_store_is_a_field(kind: type[Config]) -> None:
    names = {each.name for each in fields(kind)}
    assert {*kind.STORED, *kind.LATER, *kind.RATES, *kind.CHOICES, *kind.OF_DATA} <= names
