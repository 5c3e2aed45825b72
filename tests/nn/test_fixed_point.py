from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from armagnn import CSR, GraphOperator, kernels
from armagnn.errors import (
    ConvergenceError,
    ConvergenceWarning,
    ParameterError,
    ShapeError,
    UnsupportedError,
)
from armagnn.nn import ARMAConv
from armagnn.randomness import draw_seed
from armagnn.solvers import FixedPoint
from nn.fixed_point_oracle import ACTS, make, problem
from oracles import Graph, assert_near, numbers, random_graph
from strategies import undirected


def dense_step(conv: ARMAConv, op: Tensor, x: Tensor, state: Tensor) -> Tensor:
    """Eq. 14 for every stack, with W as Theorem 1 wants it, in dense matrices: states of shape (K, N, F)."""
    act = conv.act if callable(conv.act) else ACTS[conv.act]
    steps = []
    for k in range(conv.num_stacks):
        raw = conv.weight[0, k]
        w = conv.fixed_point.contraction * raw / torch.linalg.svdvals(raw)[0].clamp(min=1)
        z = op @ state[k] @ w + x @ conv.skip_weight[0, :, k]
        steps.append(act(z if conv.bias is None else z + conv.bias[0, k]))
    return torch.stack(steps)


def truth(conv: ARMAConv, op: GraphOperator, x: Tensor, steps: int = 130) -> Tensor:
    state = torch.zeros(conv.num_stacks, x.shape[0], conv.out_channels, dtype=x.dtype)
    for _ in range(steps):  # 0.8^130 is 1e-13
        state = dense_step(conv, op.to_dense(), x, state)
    return state


# ---------------------------------------------------------------------------------------------------- values, gradients


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(("bias", "stacks"), [(True, 2), (False, 1)])
def test_values_and_gradients_are_those_of_the_dense_iteration(act: Any, bias: bool, stacks: int) -> None:
    conv = make(act=act, bias=bias, stacks=stacks)
    x, op = problem()
    one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
    expected = truth(conv, op, two)
    assert_near(conv.stacks(one, op), expected, 1e-10)
    out = conv(one, op)
    assert_near(out, expected.mean(0), 1e-10)
    direction = numbers(*out.shape, seed=9)
    ours = torch.autograd.grad((out * direction).sum(), [one, *conv.parameters()])
    theirs = torch.autograd.grad((expected.mean(0) * direction).sum(), [two, *conv.parameters()])
    for a, b in zip(ours, theirs, strict=True):
        assert b.abs().max() > 0
        assert_near(a, b, 1e-9)


@pytest.mark.parametrize("backward", ["implicit", "unrolled"])
@pytest.mark.parametrize("solver", ["picard", "anderson"])
def test_gradcheck(backward: Any, solver: Any) -> None:
    x, op = problem(random_graph(4, 5).both_ways(), fin=2)
    for act in ("tanh", "softplus"):  # fused or not
        conv = make(2, 2, 2, FixedPoint(1e-13, 2000, 0.5, backward, solver), act=act)
        inputs = (x.clone().requires_grad_(), *conv.parameters())
        whole = backward == "implicit" and solver == "anderson"
        assert torch.autograd.gradcheck(lambda x, *_, conv=conv: conv(x, op), inputs, fast_mode=not whole)


def test_unrolled_and_implicit_agree_and_both_solvers() -> None:
    x, op = problem()
    results = []
    for backward, solver in (("implicit", "anderson"), ("implicit", "picard"), ("unrolled", "picard")):
        torch.manual_seed(0)
        conv = make(fixed_point=FixedPoint(1e-13, 2000, 0.9, backward, solver))  # type: ignore[arg-type]
        out = conv(x, op)
        results.append((out.detach(), *torch.autograd.grad(out.square().sum(), list(conv.parameters()))))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert_near(a, b, 1e-9)


def test_the_second_derivative_is_refused_unless_unrolled() -> None:
    x, op = problem(fin=2)
    conv = make(2, 2, act="tanh")
    with pytest.raises(ParameterError, match="unrolled"):
        torch.autograd.grad(conv(x.requires_grad_(), op).sum(), x, create_graph=True)
    small, op = problem(random_graph(3, 3).both_ways(), fin=1)
    conv = make(1, 1, 1, FixedPoint(1e-13, 500, 0.5, "unrolled"), act="tanh")
    inputs = (small.requires_grad_(), *conv.parameters())
    assert torch.autograd.gradgradcheck(lambda x, *_: conv(x, op), inputs)


def saved_bytes(conv: ARMAConv, x: Tensor, op: GraphOperator) -> int:
    """The memory of what is kept for the backward pass."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        conv(x, op).sum()
    return sum(kept.values())


def test_memory_does_not_depend_on_the_number_of_steps_unless_unrolled() -> None:
    x, op = problem(random_graph(60, 200).both_ways())
    size: dict[str, list[int]] = {"implicit": [], "unrolled": []}
    for backward, sizes in size.items():
        steps = []
        for tol in (1e-2, 1e-12):
            torch.manual_seed(0)
            conv = make(fixed_point=FixedPoint(tol, 500, 0.95, backward, "picard"), act="tanh")  # type: ignore[arg-type]
            sizes.append(saved_bytes(conv, x, op))
            steps.append(max(conv.statistics.steps))
        assert steps[1] > 3 * steps[0]
    assert size["implicit"][0] == size["implicit"][1]
    assert size["unrolled"][1] > 2.5 * size["unrolled"][0]


def test_values_are_the_same_with_and_without_gradients() -> None:
    x, op = problem()
    conv = make(fixed_point=FixedPoint(tol=1e-3))
    with torch.no_grad():
        plain = conv(x, op)
    assert_near(conv(x, op), plain, 1e-13)  # not a step further, which would be 1e-4 away


# ----------------------------------------------------------------------------------------------------------- Theorem 1


@settings(max_examples=40)
@given(undirected(), st.integers(1, 4), st.floats(0.05, 0.99), st.sampled_from(list(ACTS)), st.integers(0, 99))
def test_the_observed_contraction_is_never_above_the_bound(
    graph: Graph, width: int, bound: float, act: Any, seed: int
) -> None:
    torch.manual_seed(seed)
    conv = make(2, width, 2, FixedPoint(contraction=bound), act=act)
    nn.init.normal_(conv.weight, std=3.0)  # far above the bound before it is applied
    x, op = problem(graph, fin=2)
    one, two = (3 * numbers(2, graph.num_nodes, width, seed=seed + s) for s in (1, 2))
    with torch.no_grad():
        after = conv.step(one, x, op) - conv.step(two, x, op)
    for k in range(2):  # Eq. 15, in Frobenius norm
        assert after[k].norm() <= bound * (one[k] - two[k]).norm() * (1 + 1e-12)


def test_the_bound_on_the_contraction_is_sharp() -> None:
    conv = make(1, 3, 1, FixedPoint(contraction=0.9), act=None)
    nn.init.normal_(conv.weight, std=3.0)
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), dtype=torch.float64)
    left = torch.linalg.svd(conv.bounded_weight[0].T)[2][0]  # the direction that W stretches most
    one, x = left.expand(1, 2, 3), torch.zeros(2, 1, dtype=torch.float64)
    grown = conv.step(one, x, op) - conv.step(torch.zeros_like(one), x, op)
    assert_near(grown.norm() / one.norm(), torch.tensor(0.9).double(), 1e-7)


@settings(max_examples=15)
@given(undirected(), st.integers(0, 99))
def test_the_result_does_not_depend_on_the_initial_state(graph: Graph, seed: int) -> None:
    torch.manual_seed(seed)
    conv = make(act="relu")
    x, op = problem(graph)
    expected = conv.stacks(x, op)
    start = 100 * numbers(*expected.shape, seed=seed)
    assert_near(conv.stacks(x, op, initial=start), expected, 1e-8)
    assert conv.stacks(x, op, initial=expected) is not None
    assert max(conv.statistics.steps) == 1  # it is there already


# ------------------------------------------------------------------------------------------------------------- layer


def test_each_stack_has_its_own_number_of_steps_and_gives_what_it_gives_alone() -> None:
    x, op = problem(random_graph(30, 60).both_ways())
    conv = make(3, 4, 3, FixedPoint(1e-9, contraction=0.95), act="tanh")
    with torch.no_grad():
        conv.weight[0, 1] *= 0.05 / torch.linalg.matrix_norm(conv.weight[0, 1], 2)
    out = conv.stacks(x, op)
    statistics = conv.statistics
    assert statistics.steps[1] < min(statistics.steps[0], statistics.steps[2])
    assert [len(trace) for trace in statistics.residuals] == statistics.steps
    assert all(trace[-1] < 1e-9 <= trace[-2] for trace in statistics.residuals)
    assert all(statistics.converged)
    out.sum().backward()
    assert len(statistics.adjoint.steps) == 3
    for k in range(3):
        alone = make(3, 4, 1, conv.fixed_point, act="tanh")
        with torch.no_grad():
            alone.weight.copy_(conv.weight[:, k : k + 1])
            alone.skip_weight.copy_(conv.skip_weight[:, :, k : k + 1])
            alone.bias.copy_(conv.bias[:, k : k + 1])
        assert_near(alone.stacks(x, op)[0], out[k], 1e-9)
        assert alone.statistics.steps == statistics.steps[k : k + 1]


def test_a_solve_that_fails_raises_or_warns() -> None:
    x, op = problem()
    conv = make(fixed_point=FixedPoint(1e-12, max_iter=3))
    with pytest.raises(ConvergenceError, match="max_iter"):
        conv(x, op)
    conv = make(fixed_point=FixedPoint(1e-12, max_iter=3, on_failure="warn"))
    with pytest.warns(ConvergenceWarning, match="did not reach"):
        conv(x, op)
    assert conv.statistics.converged == [False, False]
    with pytest.raises(ConvergenceError, match="not finite"):
        make()(x * torch.nan, op)


def test_one_dropout_mask_serves_the_whole_solve() -> None:
    x, op = problem()
    conv = make(3, 4, 2, act="tanh", dropout=0.4)
    torch.manual_seed(5)
    out = conv.stacks(x, op)
    torch.manual_seed(5)
    skip = x @ conv.skip_weight[0].flatten(1)
    dropped = kernels.dropout(skip, draw_seed(x.device), 0.4, 0)
    assert 0 < (dropped == 0).double().mean() < 1
    skips = dropped.view(9, 2, 4).transpose(0, 1) + conv.bias[0].unsqueeze(1)
    image = torch.tanh(op @ torch.bmm(out, conv.bounded_weight) + skips)
    assert_near(image, out, 1e-10)  # a fixed point, which another mask at each step would not have
    assert not torch.equal(conv.stacks(x, op), out)
    conv.eval()
    assert_near(conv.stacks(x, op), truth(conv, op, x), 1e-10)

    def run(x: Tensor, *_: Tensor) -> Tensor:
        torch.manual_seed(5)
        return conv(x, op)

    conv.train()
    assert torch.autograd.gradcheck(run, (x.clone().requires_grad_(), *conv.parameters()), fast_mode=True)


def test_there_is_no_w0_and_every_parameter_has_a_gradient() -> None:
    x, op = problem()
    for options in ({}, {"init": "linear", "num_layers": 3}, {"init": "tied", "num_layers": 1}):
        conv = make(act="tanh", **options)
        assert sorted(conv.state_dict()) == ["bias", "skip_weight", "weight"]
        conv(x, op).sum().backward()
        assert all(parameter.grad.abs().sum() > 0 for parameter in conv.parameters())


def test_many_signals_equal_a_loop() -> None:
    _, op = problem()
    conv, x = make(), numbers(2, 3, 9, 3)
    looped = torch.stack([torch.stack([conv(signal, op) for signal in row]) for row in x])
    assert_near(conv(x, op), looped, 1e-10)
    states = conv.stacks(x, op)
    assert states.shape == (2, 2, 3, 9, 4)
    conv.stacks(x, op, initial=states)
    assert max(conv.statistics.steps) == 1
    assert conv(x[:0], op).shape == (0, 3, 9, 4)


def test_sparse_features_equal_dense() -> None:
    x, op = problem(fin=6)
    x = x * (numbers(*x.shape, seed=7) > 0.3)
    conv = make(6)
    expected = conv(x, op)
    gradients = torch.autograd.grad(expected.square().sum(), list(conv.parameters()))
    for sparse in (CSR.from_dense(x), x.to_sparse_csr(), x.to_sparse_coo()):
        ours = conv(sparse, op)
        assert_near(ours, expected, 1e-10)
        for a, b in zip(torch.autograd.grad(ours.square().sum(), list(conv.parameters())), gradients, strict=True):
            assert_near(a, b, 1e-9)


@settings(max_examples=10)
@given(undirected(), st.integers(0, 99))
def test_a_renumbered_graph_gives_renumbered_rows(graph: Graph, seed: int) -> None:
    torch.manual_seed(seed)
    conv = make()
    x, op = problem(graph)
    perm = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
    _, moved = problem(graph.permuted(perm.numpy()))
    assert_near(conv(torch.empty_like(x).index_copy(0, perm, x), moved)[perm], conv(x, op), 1e-10)


@pytest.mark.parametrize("nodes", [0, 1, 3])
def test_a_graph_without_edges_is_done_after_two_steps(nodes: int) -> None:
    conv, x = make(), numbers(nodes, 3)
    out = conv.stacks(x, torch.empty(2, 0, dtype=torch.int64))
    assert out.shape == (2, nodes, 4)
    assert max(conv.statistics.steps) <= 2
    for k in range(2):
        assert_near(out[k], torch.relu(x @ conv.skip_weight[0, :, k] + conv.bias[0, k]))


def test_disjoint_graphs_in_one_operator() -> None:
    parts = [problem(random_graph(n, 2 * n, seed=n).both_ways()) for n in (3, 5)]
    conv = make()
    together = conv(torch.cat([x for x, _ in parts]), GraphOperator.block_diagonal([op for _, op in parts]))
    assert_near(together, torch.cat([conv(x, op) for x, op in parts]), 1e-10)


def test_gradients_with_respect_to_edge_weights_and_edge_masks() -> None:
    half = torch.tensor([[0, 1, 2, 0, 3], [1, 2, 3, 2, 1]])
    index = torch.cat([half, half.flip(0)], dim=1)
    weight = (numbers(5).square() + 0.1).requires_grad_()
    x, conv = numbers(4, 3), make(3, 2, act="tanh", fixed_point=FixedPoint(1e-13, contraction=0.7))
    assert torch.autograd.gradcheck(lambda w: conv(x, index, torch.cat([w, w])), (weight,))
    mask = nn.Parameter(numbers(10))
    conv.explain, conv._edge_mask, conv._loop_mask, conv._apply_sigmoid = True, mask, None, True
    conv(x, index).sum().backward()
    assert mask.grad.abs().min() > 0


def test_state_dict_deepcopy_lazy_and_repr(tmp_path: Any) -> None:
    x, op = problem()
    conv = make()
    expected = conv(x, op)
    assert_near(copy.deepcopy(conv)(x, op), expected, 0.0)
    save_file(conv.state_dict(), f"{tmp_path}/weights.safetensors")
    other = make()
    other.load_state_dict(load_file(f"{tmp_path}/weights.safetensors"))
    assert_near(other(x, op), expected, 0.0)
    lazy = make(-1)
    lazy.load_state_dict(conv.state_dict())
    assert_near(lazy(x, op), expected, 0.0)
    assert repr(conv).startswith("ARMAConv(3, 4, num_stacks=2, fixed_point=FixedPoint(tol=1e-12, ")
    assert "num_layers" not in repr(conv)
    assert "init" not in repr(conv)
    conv.reset_parameters()
    assert conv.statistics is None


def test_compiled_code_breaks_its_graph_there_and_transforms_are_refused() -> None:
    x, op = problem()
    torch._dynamo.reset()
    conv = make()
    model = nn.Sequential(nn.Identity(), nn.Linear(4, 2).double())
    compiled = torch.compile(lambda x: model(conv(x, op)), backend="eager")
    assert_near(compiled(x), model(conv(x, op)), 1e-12)
    with pytest.raises(UnsupportedError, match=r"torch\.func"):
        torch.func.vmap(lambda x: conv(x, op))(x.expand(2, 9, 3))


def test_autocast_iterates_in_full_precision() -> None:
    x, op = problem()
    conv = make().float()
    expected = conv(x.float(), op.to(torch.float32))
    with torch.autocast("cpu", torch.bfloat16):
        mixed = conv(x.float(), op.to(torch.float32))
        mixed.sum().backward()
    assert mixed.dtype == torch.float32
    assert torch.equal(mixed, expected)


def test_bad_input() -> None:
    x, op = problem()
    for wrong in (0.9, {"tol": 1e-3}, "picard", FixedPoint):
        with pytest.raises(ParameterError, match="fixed_point"):
            make(fixed_point=wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="shared_weights"):
        make(shared_weights=False)
    with pytest.raises(ParameterError, match="fixed_point"):
        ARMAConv(3, 4).double().stacks(x, op, initial=numbers(1, 9, 4))
    with pytest.raises(ParameterError, match="fixed_point"):
        _ = ARMAConv(3, 4).bounded_weight
    for initial in (numbers(1, 9, 4), numbers(2, 9, 3), numbers(9, 4), 0.0):
        with pytest.raises(ShapeError, match=r"initial must .*\(2, 9, 4\)"):
            make().stacks(x, op, initial=initial)
    with pytest.raises(ParameterError, match="float32"):
        make().stacks(x, op, initial=numbers(2, 9, 4).float())
    with pytest.raises(ParameterError, match="PyG"):
        make().to_pyg()


def test_numbers_of_numpy_are_numbers() -> None:
    found = FixedPoint(np.float32(1e-3), np.int64(7), np.float64(0.5))
    assert (found.max_iter, found.contraction) == (7, 0.5)
