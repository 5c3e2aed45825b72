from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch_geometric.data import Data
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn.models.basic_gnn import BasicGNN

import oracles
from armagnn import CSR, GraphOperator
from armagnn.errors import (
    GraphError,
    MissingAttributeError,
    ParameterError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from armagnn.nn.models import ARMA, Rational
from armagnn.nn.norms import NodeBatchNorm
from oracles import assert_near, numbers, random_graph

GRAPH = random_graph(9, 20, seed=3).both_ways()
EDGES, WEIGHT = GRAPH.edge_index, GRAPH.edge_weight()
NODES, F, H, C = 9, 4, 5, 3
JUMPS = (None, "last", "cat", "max", "lstm")


def drawn(net: Any) -> Any:
    """The network in float64, with biases and running means that are not zero."""
    for name, value in net.double().state_dict().items():
        if (value.is_floating_point() and not name.startswith("convs")) or name.endswith("convs.bias"):
            value.copy_(numbers(*value.shape).square() + 0.2)
    return net


class Theirs(BasicGNN):
    """PyG's network, with PyG's own ARMA layers of the same weights."""

    supports_edge_weight, supports_edge_attr = True, False  # type: ignore[misc]

    def init_conv(self, in_channels: Any, out_channels: int, **kwargs: Any) -> Any:
        return nn.Identity()

    @classmethod
    def of(cls, net: ARMA, **options: Any) -> Theirs:
        made = cls(F, H, net.num_layers, C, **options).double()
        for index, conv in enumerate(net.convs):
            made.convs[index] = conv.to_pyg()
        rest = {name: value for name, value in net.state_dict().items() if not name.startswith("convs")}
        assert not made.load_state_dict(rest, strict=False).unexpected_keys
        return made.train(net.training)


@pytest.mark.parametrize("jk", JUMPS)
@pytest.mark.parametrize("norm", [None, "batch", "layer", "graph", "pair"])
@pytest.mark.parametrize("training", [True, False])
def test_the_network_is_pygs_with_pygs_layers(jk: str | None, norm: str | None, training: bool) -> None:
    """One step, so that the activation stands where PyG has it, after the norm; values, gradients and state."""
    options: dict[str, Any] = {"norm": norm, "jk": jk, "act": "elu"}
    net = drawn(ARMA(F, H, 3, C, num_stacks=1, **options)).train(training)
    theirs = Theirs.of(net, **options | ({"act": None} if norm is None else {}))
    x = numbers(NODES, F).requires_grad_()
    for _ in range(2):
        ours, truth = net(x, EDGES, WEIGHT), theirs(x, EDGES, WEIGHT)
        assert_near(ours, truth, 1e-9)
    assert_near(*(torch.autograd.grad(out.pow(3).sum(), x)[0] for out in (ours, truth)), 1e-8)
    for name, value in theirs.norms.state_dict().items():
        assert_near(net.norms.state_dict()[name].double(), value.double())


def dense_stack(conv: Any, x: Tensor, matrix: Tensor, act: Any) -> Tensor:
    """Eqs. 14 and 16 by dense products."""
    total = torch.zeros(())
    for k in range(conv.num_stacks):
        state = x @ conv.initial_weight[:, k]
        for step in range(conv.num_layers):
            w = torch.eye(conv.out_channels, dtype=x.dtype) if step == 0 else conv.weight[0, k]
            state = act(matrix @ state @ w + x @ conv.skip_weight[0, :, k] + conv.bias[0, k])
        total = total + state / conv.num_stacks
    return total


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("norm", [None, "batch"])
@pytest.mark.parametrize("act_first", [True, False])
@pytest.mark.parametrize("steps", [1, 3])
def test_arma_is_its_formula(residual: bool, norm: str | None, act_first: bool, steps: int) -> None:
    net = drawn(ARMA(F, H, 4, C, num_stacks=2, num_steps=steps, act="tanh", norm=norm, residual=residual,
                     act_first=act_first))  # fmt: skip
    matrix = oracles.torch_operator(EDGES, WEIGHT, NODES, "arma")
    first = x = numbers(NODES, F)
    for layer, conv in enumerate(net.convs[:-1]):
        inside = torch.tanh if norm is None or act_first or steps > 1 else lambda z: z
        out = dense_stack(conv, x, matrix, inside)
        if norm is not None:
            mean, var = out.mean(0), out.var(0, correction=0)
            module = net.norms[layer].module
            out = (out - mean) / (var + 1e-5).sqrt() * module.weight + module.bias
            out = out if act_first else torch.tanh(out)
        x = x + out if residual and layer else out
    truth = dense_stack(net.convs[-1], x, matrix, lambda z: z)
    assert_near(net(first, EDGES, WEIGHT), truth, 1e-9)


@pytest.mark.parametrize("residual", [True, False])
def test_rational_is_its_layers(residual: bool) -> None:
    net = drawn(Rational(F, H, 4, C, order=3, norm="batch", residual=residual, residual_scale=0.25, method="exact"))
    op = net.operator(EDGES, NODES, WEIGHT, torch.float64)
    first = x = numbers(NODES, F)
    for layer, conv in enumerate(net.convs[:-1]):
        out = torch.relu(copy.deepcopy(net.norms[layer]).eval()(conv(x, op)))
        x = x + 0.25 * out if residual and layer else out
    assert all(conv.act is None for conv in net.convs)
    assert_near(net.eval()(first, op), net.convs[-1](x, op), 1e-9)


@pytest.mark.parametrize("net", [ARMA(F, H, 3, C, num_steps=2, act="tanh", norm="batch", residual=True, jk="cat"),
                                 Rational(F, H, 2, C, order=2, act="tanh", norm="layer", method="exact")],
                         ids=["arma", "rational"])  # fmt: skip
def test_gradients(net: Any) -> None:
    net = drawn(net)
    op, x = net.operator(EDGES, NODES, WEIGHT, torch.float64), numbers(NODES, F).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, *_: net(x, op), (x, *net.parameters()), atol=1e-5)


@pytest.mark.parametrize("jk", JUMPS)
def test_state_round_trip_through_a_file_without_pickle(jk: str | None) -> None:
    made = [ARMA(F, H, 3, C, norm="batch", jk=jk), Rational(F, H, 3, C, norm="batch", jk=jk)]
    for net in made:
        net(torch.randn(NODES, F), EDGES)  # running means
        file = io.BytesIO()
        torch.save(net.state_dict(), file)
        file.seek(0)
        other = type(net)(F, H, 3, C, norm="batch", jk=jk)
        other.load_state_dict(torch.load(file, weights_only=True))
        x = torch.randn(NODES, F)
        assert torch.equal(other.eval()(x, EDGES), net.eval()(x, EDGES))
        names = {name.split(".")[0] for name in net.state_dict()}
        assert names == {"convs", "norms"} | ({"lin"} if jk else set()) | ({"jk"} if jk == "lstm" else set())


def test_a_batch_norm_that_is_given_keeps_its_state() -> None:
    from torch_geometric.nn import BatchNorm

    given = BatchNorm(H, eps=0.1)
    given.module.weight.data.fill_(2.0)
    net = ARMA(F, H, 3, C, norm=given)
    for norm in net.norms[:-1]:
        assert isinstance(norm.module, NodeBatchNorm)
        assert (norm.module.eps, norm.module.weight[0].item()) == (0.1, 2.0)


def test_reset_draws_anew() -> None:
    net = ARMA(F, H, 3, C, norm="batch", jk="lstm")
    torch.manual_seed(3)
    net.reset_parameters()
    before = copy.deepcopy(net.state_dict())
    net(torch.randn(NODES, F), EDGES)
    torch.manual_seed(3)
    net.reset_parameters()
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


# ---------------------------------------------------------------------------------------------------------------- calls


def test_the_operator_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    original = GraphOperator.from_graph
    monkeypatch.setattr(GraphOperator, "from_graph", lambda *a, **k: built.append(1) or original(*a, **k))
    weight = WEIGHT.clone().requires_grad_()  # whose operator nobody remembers
    out = ARMA(F, H, 5, C).double()(numbers(NODES, F), EDGES, weight)
    assert len(built) == 1
    assert torch.autograd.grad(out.sum(), weight)[0].abs().sum() > 0


def test_all_forms_of_a_graph_and_of_features() -> None:
    net, x = ARMA(F, H, 3, C, residual=True).double(), numbers(NODES, F)
    truth = net(x, net.operator(EDGES, NODES, WEIGHT, torch.float64))
    assert_near(net(x, EDGES, WEIGHT), truth)
    assert_near(net(CSR.from_torch_sparse(x.to_sparse_csr()), EDGES, WEIGHT), truth)
    signals = torch.stack([x, 2 * x])
    assert_near(net(signals, EDGES, WEIGHT)[0], truth)
    assert_near(ARMA(-1, H, 3, C).double()(x, EDGES).sum() * 0, torch.zeros((), dtype=torch.float64))


@pytest.mark.parametrize("jk", JUMPS)
def test_many_signals_are_each_its_own(jk: str | None) -> None:
    net, x = ARMA(F, H, 3, C, jk=jk).double(), numbers(2, NODES, F)
    assert_near(net(x, EDGES), torch.stack([net(x[0], EDGES), net(x[1], EDGES)]))


@pytest.mark.parametrize("jk", [None, "cat", "max", "last"])
@pytest.mark.parametrize("training", [True, False])
def test_trials_under_vmap(jk: str | None, training: bool) -> None:
    nets = [drawn(ARMA(F, H, 3, C, norm="batch", residual=True, jk=jk, num_steps=2)).train(training) for _ in range(3)]
    op, x = nets[0].operator(EDGES, NODES, WEIGHT, torch.float64), numbers(NODES, F)
    state = {name: torch.stack([net.state_dict()[name] for net in nets]) for name in nets[0].state_dict()}
    found = vmap(lambda state: functional_call(nets[0], state, (x, op)))(state)
    for trial, net in enumerate(nets):
        assert_near(found[trial], net(x, op), 1e-9)
        for name, value in net.state_dict().items():
            assert_near(state[name][trial].double(), value.double(), 1e-9)


def test_dropout_is_off_in_evaluation_and_governed_by_the_seed() -> None:
    net, x = ARMA(F, H, 3, C, dropout=0.5, skip_dropout=0.3), torch.randn(NODES, F)
    torch.manual_seed(1)
    first = net(x, EDGES)
    torch.manual_seed(1)
    assert torch.equal(net(x, EDGES), first)
    assert not torch.equal(net(x, EDGES), first)
    assert net.convs[0].dropout == 0.3
    assert torch.equal(net.eval()(x, EDGES), net(x, EDGES))


@pytest.mark.parametrize("jk", JUMPS)
def test_inference_is_the_forward_pass_on_the_whole_graph(jk: str | None) -> None:
    net = ARMA(F, H, 3, C, norm="batch", jk=jk, residual=True, num_steps=2).eval()
    data = Data(x=torch.randn(NODES, F), edge_index=EDGES)
    truth = net(data.x, EDGES)
    assert not net.inference(data).requires_grad
    assert torch.equal(net.inference(data), truth)
    with pytest.raises(ParameterError, match="eval"):
        net.train().inference(data)
    with pytest.raises(MissingAttributeError, match="features"):
        net.eval().inference(EDGES)


def test_inference_takes_the_data_of_a_loader() -> None:
    data = Data(x=torch.randn(NODES, F), edge_index=EDGES)
    try:
        loader = NeighborLoader(data, num_neighbors=[-1], batch_size=2)
    except ImportError:
        pytest.skip("PyG's sampling needs another package")
    net = ARMA(F, H, 2, C).eval()
    assert torch.equal(net.inference(loader), net(data.x, EDGES))


def test_an_explainer_masks_the_edges_of_every_layer() -> None:
    torch.manual_seed(0)
    net = ARMA(F, H, 2, C, norm="batch").eval()
    explainer = Explainer(
        net, GNNExplainer(epochs=5), explanation_type="model", edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )  # fmt: skip
    mask = explainer(torch.randn(NODES, F), EDGES, index=4).edge_mask
    assert mask.shape == (EDGES.shape[1],)
    assert mask.max() > 0


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize("model", [ARMA, Rational])
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_layers": 0}, ParameterError),
        ({"num_layers": 2.5}, ParameterError),
        ({"num_layers": 10**6}, ParameterError),
        ({"in_channels": 0}, ParameterError),
        ({"in_channels": (3, 3)}, ParameterError),
        ({"hidden_channels": 0}, ParameterError),
        ({"out_channels": 0}, ParameterError),
        ({"dropout": 1.0}, ParameterError),
        ({"dropout": "much"}, ParameterError),
        ({"act": "relo"}, ParameterError),
        ({"norm": "bach"}, ParameterError),
        ({"jk": "sum"}, UnknownNameError),
        ({"residual": 1}, ParameterError),
        ({"act_first": "yes"}, ParameterError),
    ],
)
def test_bad_options(model: Any, options: dict[str, Any], error: Any) -> None:
    with pytest.raises(error):
        model(**{"in_channels": F, "hidden_channels": H, "num_layers": 2, "out_channels": C, **options})


def test_bad_options_of_arma() -> None:
    with pytest.raises(ParameterError, match="skip_dropout"):
        ARMA(F, H, 2, C, skip_dropout=2.0)
    with pytest.raises(ParameterError, match="cached"):
        ARMA(F, H, 2, C, cached=True)
    with pytest.raises(ParameterError, match="num_stacks"):
        ARMA(F, H, 2, C, num_stacks=0)


def test_bad_calls() -> None:
    net, x = ARMA(F, H, 2, C), torch.randn(NODES, F)
    with pytest.raises(ShapeError, match="in_channels"):
        net(x[:, 1:], EDGES)
    with pytest.raises(GraphError, match="arma"):
        net(x, GraphOperator.from_edge_index(EDGES, NODES, kind="gcn"))
    with pytest.raises(UnsupportedError, match="num_sampled_nodes_per_hop"):
        net(x, EDGES, num_sampled_nodes_per_hop=[1])
    with pytest.raises(UnsupportedError, match="inference"):
        net.inference_per_layer(0, x, EDGES, 1)


def test_signal_survives_64_layers() -> None:
    """With norm and residual, features at two ends of a path stay apart, and every weight has a gradient."""
    n = 40
    path = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    edges = torch.cat([path, path.flip(0)], 1)
    net, x = ARMA(F, H, 64, C, norm="batch", residual=True).double(), numbers(n, F)
    out = net(x, edges)
    out.pow(2).sum().backward()
    assert out.std(0).min() > 1e-2
    assert all(conv.skip_weight.grad.abs().max() > 1e-6 for conv in net.convs)
