from __future__ import annotations

from typing import Any

import pytest
import torch

from armagnn import CSR, GraphOperator
from armagnn.errors import GraphError, ParameterError, UnknownNameError
from armagnn.nn import ARMAConv, CayleyConv, ChebConv, GCNConv, make_conv
from armagnn.nn.gat_conv import GATConv
from armagnn.nn.gin_conv import GINConv
from armagnn.nn.layer_sequence import LayerSequence
from armagnn.nn.mlp_conv import MLPConv
from armagnn.nn.sage_conv import SAGEConv
from armagnn.solvers import FixedPoint

NAMES: dict[str, tuple[Any, str | None, dict[str, Any]]] = {
    "arma": (ARMAConv, "arma", {"num_stacks": 2, "num_layers": 3, "init": "tied"}),
    "gcn": (GCNConv, "gcn", {"gamma": 0.5}),
    "chebyshev": (ChebConv, "laplacian", {"order": 3, "lambda_max": 1.5}),
    "cayley": (CayleyConv, "laplacian", {"order": 2, "jacobi": 3, "zoom": 0.5, "train_zoom": False}),
    "gat": (GATConv, "adjacency", {"heads": 2, "concat": True}),
    "sage": (SAGEConv, "adjacency", {"bias": False}),
    "gin": (GINConv, "adjacency", {"act": "tanh"}),
    "mlp": (MLPConv, None, {"dropout": 0.5}),
}
VALUES: dict[str, Any] = {
    "act": None, "dropout": 0.1, "bias": False, "num_layers": 2, "num_stacks": 2, "shared_weights": False,
    "init": "zero", "cached": True, "gamma": 2.0, "order": 3, "lambda_max": 1.5, "jacobi": 2, "zoom": 0.5,
    "train_zoom": False, "heads": 2, "hidden": 6, "concat": False, "fixed_point": FixedPoint(),
}  # fmt: skip
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


@pytest.mark.parametrize("name", NAMES)
def test_every_name_makes_its_layer(name: str) -> None:
    layer, kind, options = NAMES[name]
    torch.manual_seed(0)
    conv = make_conv(name, 3, 4, **options)
    torch.manual_seed(0)
    direct = layer(3, 4, **options)
    assert type(conv) is layer
    assert repr(conv) == repr(direct)
    assert conv.kind == kind
    x, op = torch.randn(5, 3), conv.operator(EDGES, 5)
    assert (op is None) == (kind is None)
    torch.testing.assert_close(conv.eval()(x, op), direct.eval()(x, EDGES))
    torch.testing.assert_close(conv(CSR.from_dense(x), op), conv(x, op))
    assert conv(x.expand(2, 5, 3), op).shape == (2, 5, 4)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "mlp"])
def test_an_operator_of_another_kind_says_what_to_build(name: str) -> None:
    conv = make_conv(name, 3, 4)
    wrong = GraphOperator.from_edge_index(EDGES, 5, kind="gcn" if name != "gcn" else "arma")
    with pytest.raises(GraphError, match=f"kind={NAMES[name][1]!r}"):
        conv(torch.randn(5, 3), wrong)


def test_operators_carry_the_layers_settings() -> None:
    for gamma in (0.5, 2.0):
        for conv in (make_conv("gcn", 3, 4, gamma=gamma), make_conv("gcn", 3, 4, gamma=gamma, num_layers=2)):
            expected = GraphOperator.from_edge_index(EDGES, 5, kind="gcn", gamma=gamma)
            torch.testing.assert_close(conv.operator(EDGES, 5).to_dense(), expected.to_dense())  # type: ignore[union-attr]


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'chebyshev'") as error:
        make_conv("chebychev", 3, 4)
    assert all(name in str(error.value) for name in NAMES)
    for thing in (None, 3, ["gcn"], "GCN"):
        with pytest.raises(UnknownNameError, match="layer"):
            make_conv(thing, 3, 4)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_unknown_hyperparameters_name_the_allowed(name: str) -> None:
    with pytest.raises(ParameterError, match="no hyperparameter depth, ordr") as error:
        make_conv(name, 3, 4, depth=2, ordr=1, act=None)
    allowed = str(error.value).split("it takes ")[1].rstrip(".").split(", ")
    assert {"act", "dropout", "bias", *NAMES[name][2]} <= set(allowed)
    assert not {"self", "in_channels", "out_channels"} & set(allowed)
    assert ("num_layers" in allowed) == (name not in ("chebyshev", "cayley"))
    for option in allowed:  # and all of them are really taken
        make_conv(name, 3, 4, **{option: VALUES[option]})


def test_num_layers_is_a_stack_except_for_arma() -> None:
    assert isinstance(make_conv("gcn", 3, 4, num_layers=2), LayerSequence)
    assert isinstance(make_conv("gcn", 3, 4, num_layers=1), GCNConv)
    assert make_conv("arma", 3, 4, num_layers=2).num_layers == 2
    for name in ("chebyshev", "cayley"):
        with pytest.raises(ParameterError, match="num_layers"):
            make_conv(name, 3, 4, num_layers=2)
