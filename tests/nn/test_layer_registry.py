from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from armagnn import CSR, GraphOperator
from armagnn.errors import GraphError, ParameterError, UnknownNameError
from armagnn.nn import (
    ARMAConv,
    CayleyConv,
    ChebConv,
    Conv,
    GCNConv,
    RationalConv,
    layer_registry,
    make_conv,
    register_layer,
)
from armagnn.nn.conv import propagate, times
from armagnn.nn.gat_conv import GATConv
from armagnn.nn.gin_conv import GINConv
from armagnn.nn.layer_registry import LayerSequence, find_layer, layer_names
from armagnn.nn.mlp_conv import MLPConv
from armagnn.nn.sage_conv import SAGEConv
from armagnn.solvers import FixedPoint
from armagnn.tasks import GraphNet, conv_options
from armagnn.training import NodesConfig, train
from oracles import assert_near, numbers, random_graph

NAMES: dict[str, tuple[Any, str | None, dict[str, Any]]] = {
    "arma": (ARMAConv, "arma", {"num_stacks": 2, "num_layers": 3, "init": "tied"}),
    "rational": (RationalConv, "arma", {"order": 2, "init": "heat", "radius": 0.9}),
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
    "train_zoom": False, "heads": 2, "hidden": 6, "concat": False, "groups": 2, "learn_poles": False,
    "method": "exact", "tol": 1e-3, "max_iter": 9,
    "radius": 0.5, "fixed_point": FixedPoint(), "checkpoint": True,
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
    assert ("num_layers" in allowed) == (name not in ("chebyshev", "cayley", "rational"))
    for option in allowed:  # and all of them are really taken
        value = "heat" if (name, option) == ("rational", "init") else VALUES[option]
        make_conv(name, 3, 4, **{option: value})


def test_num_layers_is_a_stack_except_for_arma() -> None:
    assert isinstance(make_conv("gcn", 3, 4, num_layers=2), LayerSequence)
    assert isinstance(make_conv("gcn", 3, 4, num_layers=1), GCNConv)
    assert make_conv("arma", 3, 4, num_layers=2).num_layers == 2
    for name in ("chebyshev", "cayley", "rational"):
        with pytest.raises(ParameterError, match="num_layers"):
            make_conv(name, 3, 4, num_layers=2)


# ------------------------------------------------------------------------------------------------- layers from outside


class ToyConv(Conv):
    """Powers of the operator, added up: K of them."""

    kind = "gcn"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        reach: int = 1,
        act: Any = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, act, dropout, bias)
        self.reach = reach
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        self.reset_parameters()

    def _filter(self, x: Any, op: GraphOperator) -> Tensor:
        out = times(x, self.weight)
        for _ in range(self.reach):
            out = out + propagate(op, out)
        return out

    def _shown(self) -> dict[str, Any]:
        return {"reach": self.reach}


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten."""
    monkeypatch.setattr(layer_registry, "_entries", dict(layer_registry._entries))


@pytest.mark.usefixtures("fresh")
def test_a_layer_from_outside_is_made_and_trained_by_its_name(tmp_path: Path) -> None:
    assert register_layer("toy", stacks="reach")(ToyConv) is ToyConv
    assert "toy" in layer_names()
    assert repr(make_conv("toy", 3, 4, reach=2)) == "ToyConv(3, 4, reach=2)"
    assert conv_options("toy", 5, 7) == {"reach": 5}
    with pytest.raises(ParameterError, match="num_layers"):
        make_conv("toy", 3, 4, num_layers=2)
    config = NodesConfig(conv="toy", stacks=2, epochs=2, seeds=2, layers=0)
    assert config.title == "toy (K=2) on cora"
    run = train(config, tmp_path / "run")
    assert [trial.epochs for trial in run.trials()] == [2, 2]
    experiment = run.config.experiment()
    assert experiment.trained(run).conv1.reach == 2
    graphs = GraphNet("toy", 3, 2, hidden=4, options={"reach": 3})
    assert [conv.reach for conv in graphs.convs] == [3, 3, 3]


@pytest.mark.usefixtures("fresh")
def test_a_layer_of_one_hop_is_repeated() -> None:
    register_layer("toy")(ToyConv)
    assert conv_options("toy", 5, 7) == {"num_layers": 7}
    assert NodesConfig(conv="toy", layers=3).title == "toy (L=3) on cora"
    conv = make_conv("toy", 3, 4, num_layers=2)
    assert isinstance(conv, LayerSequence)
    assert [layer.in_channels for layer in conv] == [3, 4]
    register_layer("steps", layers="reach")(ToyConv)
    assert conv_options("steps", 5, 7) == {"reach": 7}
    assert NodesConfig(conv="steps", stacks=0, layers=3).title == "steps (T=3) on cora"


@pytest.mark.usefixtures("fresh")
def test_what_cannot_be_registered() -> None:
    for name in ("", None, 3):
        with pytest.raises(ParameterError, match="name of a layer"):
            register_layer(name)  # type: ignore[arg-type]
    for layer in (nn.Linear, 3, None, ToyConv(2, 3)):
        with pytest.raises(ParameterError, match=r"subclass of armagnn\.nn\.Conv"):
            register_layer("toy")(layer)  # type: ignore[type-var]
    with pytest.raises(ParameterError, match="takes no order"):
        register_layer("toy", stacks="order")(ToyConv)
    with pytest.raises(ParameterError, match="'gcn' is GCNConv already"):
        register_layer("gcn")(ToyConv)
    register_layer("gcn")(GCNConv)  # as when a module is loaded again
    assert "toy" not in layer_names()


def installed(folder: Path, module: str, entries: str) -> None:
    """Install a distribution of one module into a folder."""
    (folder / "their_layers.py").write_text(module)
    info = folder / "their_layers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-layers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[armagnn.layers]\n{entries}\n")


def test_a_package_that_is_installed_adds_its_layers(tmp_path: Path) -> None:
    module = (
        "import sys\nassert 'torch' in sys.modules\nfrom armagnn.nn import GCNConv, register_layer\n"
        "@register_layer('theirs')\nclass TheirConv(GCNConv):\n    pass\n"
    )
    installed(tmp_path, module, "theirs = their_layers\nlost = their_layers")
    code = (
        "import sys\nfrom armagnn.cli import main\n"
        "sys.argv[1:] = 'train --dataset cora --conv theirs --epochs 2 --seeds 1 --out run'.split()\n"
        "try:\n    main()\nexcept SystemExit as left:\n    assert not left.code\n"
        "from armagnn.nn import make_conv\nprint(make_conv('theirs', 2, 3))\n"
        "try:\n    make_conv('lost', 2, 3)\nexcept ValueError as error:\n    print(error)\n"
        "try:\n    make_conv('their', 2, 3)\nexcept ValueError as error:\n    print(error)\n"
    )
    surroundings = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert "theirs (L=1) on cora" in done.stdout + done.stderr
    assert "TheirConv(2, 3)" in done.stdout
    assert "does not register it" in done.stdout
    assert "Did you mean 'theirs'" in done.stdout
    assert (tmp_path / "run").is_dir()


def test_no_package_is_loaded_for_a_name_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_registry, "entry_points", lambda **_: pytest.fail("looked for other packages"))
    assert all(find_layer(name) is not None for name in NAMES)


# ------------------------------------------------------------------------------------------------------ layers in a row

REPEATED = {"gcn": GCNConv, "gat": GATConv, "sage": SAGEConv, "gin": GINConv, "mlp": MLPConv}


@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_as_many_layers_as_asked_for(name: str, count: int) -> None:
    conv = make_conv(name, 3, 5, num_layers=count)
    layers: list[Any] = [module for module in conv.modules() if isinstance(module, REPEATED[name])]
    assert len(layers) == count
    assert [(layer.in_channels, layer.out_channels) for layer in layers] == [(3, 5), *[(5, 5)] * (count - 1)]
    assert conv.kind == REPEATED[name].kind


@pytest.mark.parametrize("layer", REPEATED.values())
def test_a_stack_is_its_layers_one_after_another(layer: Any) -> None:
    stack = LayerSequence(layer, 3, 5, 3, act="tanh").double()
    graph = random_graph(7, 12)
    op, x = stack.operator(graph.edge_index, 7, graph.edge_weight()), numbers(7, 3)
    expected = x
    for one in stack.layers:
        expected = one(expected, op)
    assert_near(stack(x, op), expected, 0.0)
    assert_near(stack(x, graph.edge_index, graph.edge_weight()), expected)
    assert_near(stack(CSR.from_dense(x), op), expected)
    assert_near(stack(torch.stack([x, x]), op)[1], expected)


def test_a_stack_of_gcn_reaches_as_many_hops() -> None:
    steps = torch.arange(5)
    path = torch.stack([torch.cat([steps, steps + 1]), torch.cat([steps + 1, steps])])
    x = numbers(6, 2).requires_grad_()
    out = LayerSequence(GCNConv, 2, 3, 3, act="tanh").double()(x, path)
    reached = [torch.autograd.grad(row.sum(), x, retain_graph=True)[0][0].abs().max() > 0 for row in out]
    assert reached == [True] * 3 + [reached[3]] + [False] * 2
    assert reached[3]


def test_every_layer_has_an_activation_and_the_last_one_the_given() -> None:
    def acts(act: Any) -> list[Any]:
        return [layer.act for layer in LayerSequence(GCNConv, 2, 3, 3, act=act)]

    assert acts(None) == ["relu", "relu", None]
    assert acts("tanh") == ["tanh"] * 3
    learned = nn.PReLU()
    assert acts(learned)[2] is learned
    assert len({id(act) for act in acts(learned)}) == 3


def test_options_go_to_every_layer_and_the_graph_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = LayerSequence(GCNConv, 2, 3, 3, gamma=2.0, dropout=0.25, bias=False)
    assert [(layer.gamma, layer.dropout, layer.bias) for layer in stack] == [(2.0, 0.25, None)] * 3
    built: list[Any] = []
    original = GraphOperator.from_edge_index.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(
        GraphOperator, "from_edge_index", classmethod(lambda cls, *a, **k: built.append(k) or original(cls, *a, **k))
    )
    stack(torch.randn(4, 2), torch.tensor([[0, 1], [1, 0]]))
    assert [options["gamma"] for options in built] == [2.0]


def test_vmap_over_three_stacks_equals_a_loop() -> None:
    stacks = [LayerSequence(GCNConv, 3, 2, 2, act=None).double() for _ in range(3)]
    op, x = stacks[0].operator(random_graph(7, 12).edge_index, 7, dtype=torch.float64), numbers(7, 3)
    parameters = torch.func.stack_module_state(stacks)[0]
    out = torch.func.vmap(lambda p: torch.func.functional_call(stacks[0], p, (x, op)))(parameters)
    assert_near(out, torch.stack([stack(x, op) for stack in stacks]))


def test_reset_length_repr_and_bad_counts() -> None:
    stack = LayerSequence(GCNConv, 2, 3, 2)
    before = [layer.weight.clone() for layer in stack]
    stack.reset_parameters()
    assert not any(torch.equal(a, layer.weight) for a, layer in zip(before, stack, strict=True))
    assert len(stack) == 2
    assert repr(stack) == "LayerSequence(GCNConv(2, 3), GCNConv(3, 3))"
    for count in (0, -1, 1.5, None, "2"):
        with pytest.raises(ParameterError, match="num_layers"):
            make_conv("gcn", 2, 3, num_layers=count)
