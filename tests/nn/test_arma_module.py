"""`ARMAConv` as a module of torch: parameters, lazy sizes, state, copies, compilers, types of numbers."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from safetensors.torch import load_file, save_file

from armagnn.nn import ARMAConv
from nn.arma_oracle import make, problem, random_graph


def test_no_parameter_without_gradient() -> None:
    x, op, _ = problem()
    for init, shared, k, t in itertools.product(("linear", "zero", "tied"), (True, False), (1, 2), (1, 2, 3)):
        conv = make(4, 3, k, t, init=init, shared_weights=shared, act="tanh")
        assert (conv.weight is None) == (t == 1)
        assert (conv.initial_weight is None) == (init != "linear")
        conv(x, op).sum().backward()
        for name, parameter in conv.named_parameters():
            assert parameter.grad is not None, (name, conv)
            assert parameter.grad.abs().sum() > 0, (name, conv)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("init", ["linear", "zero", "tied"])
def test_lazy_equals_eager(shared: bool, init: str) -> None:
    x, op, _ = problem()
    lazy, eager = ARMAConv(-1, 3, 2, 3, shared, init=init).double(), make(4, 3, 2, 3, shared_weights=shared, init=init)
    optimizer = torch.optim.SGD(lazy.parameters(), lr=0.1)
    lazy(x, op).sum().backward()
    optimizer.step()  # the parameters that the optimiser holds are those that were given a shape
    assert {k: v.shape for k, v in lazy.state_dict().items()} == {k: v.shape for k, v in eager.state_dict().items()}
    assert repr(lazy) == repr(eager)
    lazy.load_state_dict(eager.state_dict())
    torch.testing.assert_close(lazy(x, op), eager(x, op))
    unseen = ARMAConv(-1, 3, 2, 3, shared, init=init).double()
    unseen.load_state_dict(eager.state_dict())  # a checkpoint tells a lazy layer its size
    torch.testing.assert_close(unseen(x, op), eager(x, op))


def test_deepcopy_and_safetensors(tmp_path: object) -> None:
    x, op, _ = problem()
    conv = make(4, 3, 2, 3)
    conv(x, random_graph(9, 18, 0))
    torch.testing.assert_close(copy.deepcopy(conv)(x, op), conv(x, op))
    path = f"{tmp_path}/weights.safetensors"
    save_file(conv.state_dict(), path)
    other = make(4, 3, 2, 3)
    other.load_state_dict(load_file(path))
    torch.testing.assert_close(other(x, op), conv(x, op), rtol=0, atol=0)


def test_reset_parameters_is_glorot() -> None:
    torch.manual_seed(0)
    conv = ARMAConv(50, 30, 4, 3)
    for weight, fan_in in ((conv.initial_weight, 50), (conv.weight, 30), (conv.skip_weight, 50)):
        limit = (6 / (fan_in + 30)) ** 0.5
        assert 0.98 * limit < weight.abs().max() <= limit
        assert abs(weight.mean()) < limit / 10
    assert conv.bias.abs().max() == 0
    before = conv.weight.clone()
    conv.reset_parameters()
    assert not torch.equal(before, conv.weight)


def test_learned_activation_is_registered_once_and_trained() -> None:
    x, op, _ = problem()
    conv = make(4, 3, 2, 2, act=torch.nn.PReLU().double())
    assert [n for n, _ in conv.named_parameters() if "act" in n] == ["act.weight"]
    conv(x, op).sum().backward()
    assert conv.act.weight.grad.abs().sum() > 0


def test_repr_is_one_line() -> None:
    assert repr(ARMAConv(8, 16, 2, 3)) == "ARMAConv(8, 16, num_stacks=2, num_layers=3)"
    assert "\n" not in repr(ARMAConv(-1, 16, act=torch.nn.PReLU(), init="tied", shared_weights=False))


# ---------------------------------------------------------------------------------------------------------- compilers


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("fin", [3, 30])
def test_compile_equals_eager(backend: str, fin: int) -> None:
    x, op, _ = problem(fin=fin)
    torch._dynamo.reset()
    conv = make(fin, 4, 2, 3)
    compiled = torch.compile(conv, fullgraph=True, backend=backend)
    for graph in (op, random_graph(9, 18, 0)):
        ours, theirs = compiled(x, graph), conv(x, graph)
        torch.testing.assert_close(ours, theirs)
        for a, b in zip(
            torch.autograd.grad(ours.square().sum(), list(conv.parameters())),
            torch.autograd.grad(theirs.square().sum(), list(conv.parameters())),
            strict=True,
        ):
            torch.testing.assert_close(a, b)


def test_compiled_dropout_draws_a_new_mask_each_time() -> None:
    x, op, _ = problem()
    torch._dynamo.reset()
    compiled = torch.compile(make(4, 4, 2, 2, dropout=0.5), fullgraph=True, backend="aot_eager")
    assert not torch.equal(compiled(x, op), compiled(x, op))


def test_export() -> None:
    x, op, _ = problem()
    conv = make(4, 3, 2, 2).eval()
    program = torch.export.export(conv, (x, op))
    torch.testing.assert_close(program.module()(x, op), conv(x, op))


def test_autocast_and_bfloat16() -> None:
    x, op, _ = problem()
    conv = make(4, 3, 2, 3)
    expected = conv(x, op)
    low = copy.deepcopy(conv).to(torch.bfloat16)(x.bfloat16(), op.to(torch.bfloat16))
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.double(), expected, rtol=0.05, atol=0.05)
    single = copy.deepcopy(conv).float()
    with torch.autocast("cpu", torch.bfloat16):
        mixed = single(x.float(), op.to(torch.float32))
        mixed.float().sum().backward()
    assert mixed.dtype == torch.bfloat16
    torch.testing.assert_close(mixed.double(), expected, rtol=0.05, atol=0.05)
    assert single.bias.grad.dtype == torch.float32
