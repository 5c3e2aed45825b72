from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch_geometric.nn import BatchNorm

from armagnn.errors import ParameterError, UnsupportedError
from armagnn.nn.norms import NORMS, NodeBatchNorm, NodeLayerNorm
from oracles import assert_near, numbers

OPTIONS: list[dict[str, Any]] = [
    {}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}, {"eps": 0.1, "momentum": 0.5},
]  # fmt: skip


def pair(options: dict[str, Any]) -> tuple[NodeBatchNorm, nn.BatchNorm1d]:
    """Our norm and torch's, with the same drawn state."""
    ours, theirs = NodeBatchNorm(3, **options).double(), nn.BatchNorm1d(3, **options).double()
    for name, value in theirs.state_dict().items():
        if value.is_floating_point():
            value.copy_(numbers(3).square() + 0.5)
        ours.state_dict()[name].copy_(value)
    return ours, theirs


def stacked(norm: nn.Module, trials: int) -> dict[str, Tensor]:
    """The state of a norm for many trials, which differ."""
    state = {name: t.detach() for name, t in norm.state_dict().items()}
    return {
        name: torch.stack([t + (trial / 10 if t.is_floating_point() else 0) for trial in range(trials)])
        for name, t in state.items()
    }


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_values_gradients_and_running_means_are_torchs(options: dict[str, Any]) -> None:
    ours, theirs = pair(options)
    for _ in range(3):
        x = numbers(7, 3).requires_grad_()
        assert_near(ours(x), theirs(x))
        assert_near(*(torch.autograd.grad(norm(x).pow(3).sum(), x)[0] for norm in (ours, theirs)), 1e-9)
    for name, value in theirs.state_dict().items():
        assert_near(ours.state_dict()[name].double(), value.double())
    assert_near(ours.eval()(x), theirs.eval()(x))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_trials_are_what_each_is_alone(options: dict[str, Any], training: bool) -> None:
    ours, theirs = pair(options)
    x, state = numbers(4, 7, 3), stacked(ours, 4)
    alone = {name: t.clone() for name, t in state.items()}

    def single(state: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(ours, state, (x,))

    ours.train(training)
    found = vmap(single)(state, x) if state else vmap(lambda x: ours(x))(x)
    for trial in range(4):
        theirs.load_state_dict({name: t[trial] for name, t in alone.items()})
        theirs.train(training)
        assert_near(found[trial], theirs(x[trial]))
        for name, value in theirs.state_dict().items():
            assert_near(state[name][trial].double(), value.double())
    assert training == any(not torch.equal(state[name], alone[name]) for name in state if "running" in name) or (
        "running_mean" not in state
    )


def test_gradients_of_trials_are_right() -> None:
    norm, x = NodeBatchNorm(3).double(), numbers(2, 6, 3).requires_grad_()
    state = stacked(norm, 2)
    weight, bias = state["weight"].requires_grad_(), state["bias"].requires_grad_()

    def all_trials(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        given = {**{name: t.clone() for name, t in state.items()}, "weight": weight, "bias": bias}
        out: Tensor = vmap(lambda state, x: functional_call(norm, state, (x,)))(given, x)
        return out

    assert torch.autograd.gradcheck(all_trials, (x, weight, bias))


def test_many_signals_are_more_nodes() -> None:
    norm, x = NodeBatchNorm(3).double(), numbers(2, 4, 5, 3)
    assert_near(norm(x), nn.BatchNorm1d(3).double()(x.reshape(-1, 3)).reshape(x.shape))


def test_running_means_that_trials_would_share_are_refused() -> None:
    norm = NodeBatchNorm(3)
    with pytest.raises(UnsupportedError, match="buffers"):
        vmap(norm)(torch.randn(2, 5, 3))
    assert vmap(norm.eval())(torch.randn(2, 5, 3)).shape == (2, 5, 3)


def test_the_state_is_pygs() -> None:
    theirs = BatchNorm(3)
    assert NodeBatchNorm(3).state_dict().keys() == theirs.module.state_dict().keys()
    assert NodeBatchNorm(3, counted=False).state_dict().keys() == theirs.module.state_dict().keys() - {
        "num_batches_tracked"
    }


@pytest.mark.parametrize(("ours", "theirs"), [(True, False), (False, True), (False, False)])
def test_a_state_loads_with_the_counter_or_without(ours: bool, theirs: bool) -> None:
    saved, norm = NodeBatchNorm(3, counted=theirs), NodeBatchNorm(3, counted=ours)
    saved(torch.randn(5, 3))
    norm.load_state_dict(dict(saved.state_dict()))
    assert torch.equal(norm.running_var, saved.running_var)  # type: ignore[arg-type]


@pytest.mark.parametrize("counted", [True, False])
def test_reset(counted: bool) -> None:
    norm = NodeBatchNorm(3, counted=counted)
    fresh = {name: t.clone() for name, t in norm.state_dict().items()}
    norm(torch.randn(5, 3))
    norm.reset_parameters()
    assert all(torch.equal(fresh[name], t) for name, t in norm.state_dict().items())


def test_layer_norm_is_that_of_each_node() -> None:
    x, norm = numbers(2, 5, 3), NodeLayerNorm(3).double()
    assert_near(norm(x), (x - x.mean(-1, True)) / (x.var(-1, correction=0, keepdim=True) + norm.eps).sqrt())
    assert_near(vmap(norm)(x), norm(x))


def test_names() -> None:
    assert [type(NORMS[name](3)) for name in ("batch", "layer")] == [NodeBatchNorm, NodeLayerNorm]
    with pytest.raises(ParameterError, match="num_features"):
        NORMS["layer"](0)
    with pytest.raises(ParameterError, match="counted"):
        NodeBatchNorm(3, counted=1)  # type: ignore[arg-type]
