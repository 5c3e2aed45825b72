"""What a training starts from: options that the configuration has, for every known dataset and for any other."""

from __future__ import annotations

import pytest

from armagnn.training import GraphsConfig, NodesConfig, SignalsConfig
from armagnn.training.config import Config
from armagnn.training.hyperparameters import GRAPHS, NODES, SIGNALS
from armagnn.training.shared_options import LAYERS

CASES = [
    (NodesConfig, "dataset", [*NODES, "mine.npz"]),
    (GraphsConfig, "data", [*GRAPHS, "my/graphs"]),
    (SignalsConfig, "dataset", [*SIGNALS, "mine"]),
]


@pytest.mark.parametrize(("kind", "place", "names"), CASES)
@pytest.mark.parametrize("conv", LAYERS)
def test_they_make_a_configuration(kind: type[Config], place: str, names: list[str], conv: str) -> None:
    for name in names:
        chosen = kind.defaults(name, conv)
        config = kind(**{place: name, "conv": conv, **chosen})
        assert {option: getattr(config, option) for option in chosen} == chosen


def test_other_data_start_from_cora_and_from_enzymes_without_dropout() -> None:
    assert NodesConfig.defaults("mine.npz", "arma") | {"act": "elu"} == NodesConfig.defaults("cora", "arma")
    enzymes = GraphsConfig.defaults("enzymes", "arma")
    assert GraphsConfig.defaults("my/graphs", "arma") == enzymes | {"skip_dropout": 0.0}
    assert SignalsConfig.defaults("mine", "arma") == SignalsConfig.defaults("20news", "arma")


def test_arma_has_elu_on_the_citation_networks_and_nowhere_else() -> None:
    known = [*NODES, "mine.npz", "texas"]
    start = NodesConfig.defaults
    assert [name for name in known if start(name, "arma").get("act") == "elu"] == ["cora", "citeseer", "pubmed"]
    assert not [name for name in known for conv in ("gcn", "chebyshev", "gat") if "act" in start(name, conv)]
    assert NodesConfig.begun({"dataset": "cora"}).act == "elu"
    assert NodesConfig.begun({"dataset": "cora", "act": "relu"}).act == "relu"
