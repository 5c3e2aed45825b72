"""What a training starts from: options that the configuration has, for every known dataset and for any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from armagnn.training import GraphsConfig, NodesConfig, SignalsConfig
from armagnn.training.config import Config
from armagnn.training.hyperparameters import GRAPHS, NODES, SIGNALS, graph_defaults, node_defaults, signal_defaults
from armagnn.training.shared_options import LAYERS

CASES = [
    (NodesConfig, node_defaults, "dataset", [*NODES, "mine.npz"]),
    (GraphsConfig, graph_defaults, "data", [*GRAPHS, "my/graphs"]),
    (SignalsConfig, signal_defaults, "dataset", [*SIGNALS, "mine"]),
]


@pytest.mark.parametrize(("kind", "start", "place", "names"), CASES)
@pytest.mark.parametrize("conv", LAYERS)
def test_they_make_a_configuration(
    kind: type[Config], start: Callable[[str, str], dict[str, Any]], place: str, names: list[str], conv: str
) -> None:
    for name in names:
        chosen = start(name, conv)
        assert kind.defaults(name, conv) == chosen
        config = kind(**{place: name, "conv": conv, **chosen})
        assert {option: getattr(config, option) for option in chosen} == chosen


def test_other_data_start_from_cora_and_from_enzymes_without_dropout() -> None:
    assert node_defaults("mine.npz", "arma") | {"act": "elu"} == node_defaults("cora", "arma")
    assert graph_defaults("my/graphs", "arma") == graph_defaults("enzymes", "arma") | {"skip_dropout": 0.0}
    assert signal_defaults("mine", "arma") == signal_defaults("20news", "arma")


def test_arma_has_elu_on_the_citation_networks_and_nowhere_else() -> None:
    known = [*NODES, "mine.npz", "texas"]
    assert [name for name in known if node_defaults(name, "arma").get("act") == "elu"] == ["cora", "citeseer", "pubmed"]
    assert not [name for name in known for conv in ("gcn", "chebyshev", "gat") if "act" in node_defaults(name, conv)]
    assert NodesConfig.begun({"dataset": "cora"}).act == "elu"
    assert NodesConfig.begun({"dataset": "cora", "act": "relu"}).act == "relu"
