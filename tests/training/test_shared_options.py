"""What the help says without the layers and the tasks is what they are."""

from __future__ import annotations

from dataclasses import fields

import pytest

from armagnn.data.scaling import FEATURES
from armagnn.data.splits import FOLDS
from armagnn.nn.layer_registry import layer_names as made
from armagnn.tasks import signal_task
from armagnn.training import GraphsConfig, NodesConfig, SignalsConfig
from armagnn.training.config import Config
from armagnn.training.shared_options import SHARED, layer_names


def test_the_layers_of_the_help_are_those_that_can_be_made() -> None:
    known = set(made()) - {"attacked"}  # which a test of attacks may have registered in this process
    assert sorted(layer_names()) == sorted(known)


def test_choices_and_limits_are_those_of_the_data_and_the_tasks() -> None:
    assert NodesConfig.CHOICES["features"] == FEATURES
    assert SignalsConfig.CHOICES["features"] == signal_task.FEATURES
    assert all(name in SignalsConfig.__dataclass_fields__["features"].metadata["help"] for name in signal_task.FEATURES)
    assert GraphsConfig.LIMITS["fold"] == (0, FOLDS - 1)


@pytest.mark.parametrize("kind", [NodesConfig, GraphsConfig, SignalsConfig])
def test_every_option_has_a_help_and_a_panel(kind: type[Config]) -> None:
    assert all(each.metadata["help"] and each.metadata["panel"] for each in fields(kind))
    assert {each.name for each in fields(kind)} >= SHARED.keys() - {"head"}
