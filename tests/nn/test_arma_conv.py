from __future__ import annotations

import copy
import itertools
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Batch, Data

from armagnn import CSR, GraphOperator
from armagnn.kernels import cpu, reference
from armagnn.nn import ARMAConv
from nn.arma_oracle import arma, make, normalized, problem, random_graph
from nn.layer_checks import WIDE, OwnLayerChecks
from oracles import assert_near

ACTS = {
    None: lambda x: x,
    "relu": torch.relu,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "softplus": F.softplus,
}


class TestARMA(OwnLayerChecks):
    layer = ARMAConv
    defaults: ClassVar = {"num_stacks": 2, "num_layers": 2}
    options: ClassVar = [
        {}, {"act": None, "bias": False}, {"init": "tied", "num_stacks": 1}, {"init": "zero", "act": "tanh"},
        {"num_layers": 3, "shared_weights": False},
    ]  # fmt: skip
    weight = "skip_weight"
    bad: ClassVar = [
        {"num_stacks": 0}, {"num_layers": 1.5}, {"bias": None}, {"init": "lin"}, {"cached": 1},
        {"shared_weights": "yes"}, {"fixed_point": 3},
    ]  # fmt: skip

    def expected(self, conv: ARMAConv, x: Tensor, adjacency: Tensor) -> Tensor:
        return arma(conv, x, normalized(adjacency), ACTS[conv.act]).mean(0)

    @pytest.mark.parametrize("sparse", [True, False])
    def test_dropout_while_training(self, sparse: bool) -> None:
        """It acts on the skip connections X V alone: where V is 0, nothing is dropped."""
        conv = self.make(*WIDE, dropout=0.4)
        dense, op, _ = self.problem(conv)
        x = CSR.from_dense(dense) if sparse else dense
        torch.manual_seed(5)
        trained, again = conv(x, op), conv(x, op)
        assert not torch.equal(trained, again)
        torch.manual_seed(5)
        assert_near(conv(x, op), trained, 0.0)
        assert_near(conv.eval()(x, op), self.make(*WIDE)(x, op), 0.0)
        torch.nn.init.zeros_(conv.train().skip_weight)
        assert_near(conv(x, op), conv.eval()(x, op))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("init", ["linear", "zero", "tied"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("k", "t"), [(1, 1), (3, 1), (1, 3), (2, 4)])
@pytest.mark.parametrize("wide", [True, False])
def test_every_option_against_the_dense_layer(
    directed: bool, init: str, shared: bool, k: int, t: int, wide: bool
) -> None:
    fin, fout = (12, 3) if wide else (3, 7)  # both sides of W0: the wide input is propagated after it
    x, op, dense = problem(fin=fin, seed=k + t, directed=directed)
    for bias, act in itertools.product((True, False), ("relu", "elu", None)):
        conv = make(fin, fout, k, t, init=init, shared_weights=shared, bias=bias, act=act)
        x1, x2 = x.clone().requires_grad_(), x.clone().requires_grad_()
        expected = arma(conv, x2, dense, ACTS[act])
        torch.testing.assert_close(conv.stacks(x1, op), expected, rtol=1e-12, atol=1e-12)
        out = conv(x1, op)
        torch.testing.assert_close(out, expected.mean(0), rtol=1e-12, atol=1e-12)
        weight = torch.randn_like(out)
        ours = torch.autograd.grad((out * weight).sum(), [x1, *conv.parameters()])
        theirs = torch.autograd.grad((expected.mean(0) * weight).sum(), [x2, *conv.parameters()])
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("act", [*ACTS, "module", "callable"])
def test_every_activation_values_and_gradcheck(act: str | None) -> None:
    x, op, dense = problem(nodes=5, fin=3)
    given_act = {"module": torch.nn.ELU(0.7), "callable": torch.sin}.get(str(act), act)
    function = given_act if callable(given_act) else ACTS[given_act]
    conv = make(3, 2, 2, 3, act=given_act)
    torch.testing.assert_close(conv.stacks(x, op), arma(conv, x, dense, function), rtol=1e-12, atol=1e-12)
    x.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, *_: conv(x, op), (x, *conv.parameters()))


def test_gradcheck_twice() -> None:
    x, op, _ = problem(nodes=5, fin=3)
    conv = make(3, 2, 2, 2, act="tanh")
    assert torch.autograd.gradgradcheck(lambda x, *_: conv(x, op), (x.requires_grad_(), *conv.parameters()))


def test_gradient_with_respect_to_edge_weights() -> None:
    index = random_graph(6, 8)
    weight = (torch.rand(index.shape[1], dtype=torch.float64) + 0.1).requires_grad_()
    x, conv = torch.randn(6, 3, dtype=torch.float64), make(3, 2, 2, 2, act="tanh")
    assert torch.autograd.gradcheck(lambda w: conv(x, index, w), (weight,))


# -------------------------------------------------------------------------------------------- the paper's identities


def test_one_stack_one_step_is_gcn_with_a_skip() -> None:
    x, op, dense = problem()
    conv = make(4, 3, 1, 1)
    expected = torch.relu(dense @ x @ conv.initial_weight[:, 0] + x @ conv.skip_weight[0, :, 0] + conv.bias[0, 0])
    torch.testing.assert_close(conv(x, op), expected)


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_t_steps_reach_exactly_t_hops(steps: int) -> None:
    nodes = 8  # a path: node i is i hops away from node 0
    path = torch.tensor([[i, i + 1] for i in range(nodes - 1)] + [[i + 1, i] for i in range(nodes - 1)]).T
    conv = make(2, 3, 2, steps, act="tanh")
    x = torch.randn(nodes, 2, dtype=torch.float64, requires_grad=True)
    reached = []
    for node in range(nodes):
        (gradient,) = torch.autograd.grad(conv(x, path)[node].sum(), x)
        reached.append(gradient[0].abs().sum() > 0)
    assert reached == [node <= steps for node in range(nodes)]


def test_linear_steps_are_the_recursion_of_eq_8() -> None:
    x, op, dense = problem(fin=1)
    a, b, steps = 0.8, 0.3, 6
    conv = make(1, 1, 1, steps, act=None, bias=False, init="zero")
    with torch.no_grad():
        conv.weight.fill_(a)
        conv.skip_weight.fill_(b)
    state = torch.zeros_like(x)
    for _ in range(steps):
        state = a * dense @ state + b * x
    torch.testing.assert_close(conv(x, op), state)


def test_skip_product_is_computed_once_per_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    x, op, _ = problem()
    conv, products = make(4, 3, 2, 5), []
    monkeypatch.setattr(cpu, "plan", reference.plan)
    original = cpu.affine
    monkeypatch.setattr(cpu, "affine", lambda *a: products.append(a[1].data_ptr()) or original(*a))
    conv(x, op)
    assert products.count(conv.skip_weight.data_ptr()) == 1
    assert products.count(conv.initial_weight.data_ptr()) == 1


def test_input_is_propagated_on_the_cheaper_side_of_w0(monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[int] = []
    monkeypatch.setattr(cpu, "plan", reference.plan)
    original = cpu.gcs
    monkeypatch.setattr(cpu, "gcs", lambda *a: widths.append(a[3].shape[1]) or original(*a))
    for fin, fout, expected in ((2, 8, 2), (32, 4, 8)):
        x, op, _ = problem(fin=fin)
        widths.clear()
        with torch.no_grad():
            make(fin, fout, 2, 1)(x, op)
        assert widths == [expected]


# ---------------------------------------------------------------------------------------------------- inputs and axes


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(0, 30), st.tuples(*[st.integers(1, 4)] * 4), st.integers(0, 99))
def test_permutation_equivariance(nodes: int, edges: int, sizes: tuple[int, int, int, int], seed: int) -> None:
    fin, fout, k, t = sizes
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, nodes, (2, edges), generator=generator)
    perm = torch.randperm(nodes, generator=generator)
    x = torch.randn(nodes, fin, dtype=torch.float64, generator=generator)
    conv = make(fin, fout, k, t)
    inverse = torch.empty_like(perm).scatter_(0, perm, torch.arange(nodes))
    moved = conv(x[perm], inverse[index])
    torch.testing.assert_close(moved, conv(x, index)[perm], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("init", ["linear", "zero", "tied"])
@pytest.mark.parametrize("fin", [2, 20])
def test_many_signals_equal_a_loop(init: str, fin: int) -> None:
    _, op, _ = problem()
    conv = make(fin, 3, 2, 3, init=init)
    x = torch.randn(2, 4, 9, fin, dtype=torch.float64)
    looped = torch.stack([torch.stack([conv(signal, op) for signal in row]) for row in x])
    torch.testing.assert_close(conv(x, op), looped, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(conv.stacks(x, op).mean(0), looped, rtol=1e-12, atol=1e-12)
    batched = torch.func.vmap(torch.func.vmap(lambda signal: conv(signal, op)))(x)
    torch.testing.assert_close(batched, looped, rtol=1e-12, atol=1e-12)


def test_vmap_over_weights_equals_loop() -> None:
    x, op, _ = problem()
    convs = [make(4, 3, 2, 2) for _ in range(3)]
    stacked, buffers = torch.func.stack_module_state(convs)

    def run(parameters: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(convs[0], (parameters, buffers), (x, op))

    torch.testing.assert_close(torch.func.vmap(run)(stacked), torch.stack([conv(x, op) for conv in convs]))


def test_per_sample_gradients() -> None:
    _, op, _ = problem()
    conv = make(4, 3, 2, 2)
    parameters = dict(conv.named_parameters())
    xs = torch.randn(3, 9, 4, dtype=torch.float64)

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(conv, parameters, (x, op)).square().sum()

    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, xs)
    for i, x in enumerate(xs):
        expected = torch.autograd.grad(loss(parameters, x), list(parameters.values()))
        for name, gradient in zip(parameters, expected, strict=True):
            torch.testing.assert_close(per_sample[name][i], gradient)


@pytest.mark.parametrize("layout", ["coo", "csr", "CSR"])
@pytest.mark.parametrize("t", [1, 3])
def test_sparse_features_equal_dense(layout: str, t: int) -> None:
    x, op, _ = problem(fin=11)
    x = x * (torch.rand_like(x) < 0.3)
    sparse = {"coo": x.to_sparse_coo, "csr": x.to_sparse_csr, "CSR": lambda: CSR.from_dense(x)}[layout]()
    for options in ({}, {"init": "tied"}, {"init": "zero"}, {"shared_weights": False}):
        conv = make(11, 3, 2, t, **options)
        torch.testing.assert_close(conv(sparse, op), conv(x, op), rtol=1e-12, atol=1e-12)
        ours = torch.autograd.grad(conv(sparse, op).square().sum(), list(conv.parameters()))
        theirs = torch.autograd.grad(conv(x, op).square().sum(), list(conv.parameters()))
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_sparse_features_are_never_densified(monkeypatch: pytest.MonkeyPatch) -> None:
    x = CSR.from_dense(torch.eye(9, 50))
    op = problem()[1].to(torch.float32)
    monkeypatch.setattr(CSR, "to_dense", lambda self: pytest.fail("densified"))
    ARMAConv(50, 3)(x, op).sum().backward()


def test_disjoint_batch_equals_separate_graphs() -> None:
    graphs = [problem(nodes=n, seed=n) for n in (3, 9, 1, 5)]
    conv = make(4, 3, 2, 3)
    separate = torch.cat([conv(x, op) for x, op, _ in graphs])
    joined = conv(torch.cat([x for x, _, _ in graphs]), GraphOperator.block_diagonal([op for _, op, _ in graphs]))
    torch.testing.assert_close(joined, separate)


def test_pyg_batch() -> None:
    items = [Data(x=torch.randn(n, 4), edge_index=random_graph(n, 2 * n, n)) for n in (3, 6, 5)]
    batch = Batch.from_data_list(items)
    conv = ARMAConv(4, 3, 2, 2)
    expected = torch.cat([conv(d.x, d.edge_index) for d in items])
    torch.testing.assert_close(conv(batch.x, batch.edge_index), expected)
    torch.testing.assert_close(conv(batch.x, GraphOperator.from_data(batch)), expected)


def test_every_form_of_a_graph_gives_the_same() -> None:
    x, op, _ = problem(directed=True)
    index = random_graph(9, 18, 0, directed=True)
    conv = make(4, 3, 2, 2)
    adjacency = torch.zeros(9, 9, dtype=torch.float64).index_put_(
        (index[1], index[0]), torch.ones(18, dtype=torch.float64), accumulate=True
    )
    expected = conv(x, op)
    for graph in (index, adjacency.to_sparse_coo(), adjacency.to_sparse_csr(), Data(edge_index=index, num_nodes=9)):
        torch.testing.assert_close(conv(x, graph), expected)


def test_empty_and_single_node_graphs() -> None:
    none = torch.empty(2, 0, dtype=torch.int64)
    for nodes in (0, 1, 3):
        for fin in (2, 9):
            conv = make(fin, 4, 2, 3)
            x = torch.randn(nodes, fin, dtype=torch.float64)
            out = conv(x, none)
            assert out.shape == (nodes, 4)
            dense = torch.zeros(nodes, nodes, dtype=torch.float64)
            torch.testing.assert_close(out, arma(conv, x, dense, torch.relu).mean(0))


def test_cached_keeps_the_first_graph_and_reset_forgets_it() -> None:
    x, _, _ = problem()
    first, second = random_graph(9, 18, 0), random_graph(9, 18, 5)
    conv = make(4, 3, 1, 2, cached=True)
    expected = conv(x, first)
    torch.testing.assert_close(conv(x, second), expected)
    torch.testing.assert_close(conv.float()(x.float(), second).double(), expected, rtol=1e-4, atol=1e-5)
    conv.double()
    state = {k: v.clone() for k, v in conv.state_dict().items()}
    conv.reset_parameters()
    conv.load_state_dict(state)
    assert not torch.allclose(conv(x, second), expected)
    with pytest.raises(ValueError, match="cached"):
        conv(torch.randn(5, 4, dtype=torch.float64), second)


# ------------------------------------------------------------------------------------------------------------ dropout


def test_dropout_is_drawn_per_stack_and_per_step() -> None:
    nodes, fin, fout, k, t, p = 60, 3, 40, 3, 2, 0.3
    op = GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64), nodes)  # no edges: only the skips act
    conv = ARMAConv(fin, fout, k, t, act=None, bias=False, dropout=p, init="zero")
    x = torch.ones(nodes, fin)
    with torch.no_grad():
        conv.skip_weight.fill_(1 / fin)
        conv.weight.zero_()
    torch.manual_seed(0)
    out = conv.stacks(x, op)  # the skips of the last step: (K, N, F)
    kept = out > 0
    torch.testing.assert_close(out[kept], torch.full_like(out[kept], 1 / (1 - p)))
    for stack in kept:
        assert abs(stack.float().mean().item() - (1 - p)) < 0.03
    for one, two in itertools.combinations(range(k), 2):  # independent: joint probability is the product
        assert abs((kept[one] & kept[two]).float().mean().item() - (1 - p) ** 2) < 0.04
    assert (kept.float().mean(1) - (1 - p)).abs().max() < 0.3  # no feature is dropped for all nodes
    torch.manual_seed(0)
    conv.num_layers = 1  # the same seed, one step earlier: another mask
    assert ((conv.stacks(x, op) > 0) != kept).float().mean() > 0.2


def test_dropout_acts_on_xv_and_spares_the_bias_and_evaluation() -> None:
    x, op, dense = problem(fin=5)
    conv = make(5, 4, 2, 3, dropout=0.999999)
    torch.manual_seed(1)
    dropped = conv.stacks(x, op)
    bare = copy.deepcopy(conv)
    with torch.no_grad():
        bare.skip_weight.zero_()
    bare.dropout = 0.0
    torch.testing.assert_close(dropped, bare.stacks(x, op))  # all skips gone, biases there
    conv.eval()
    torch.testing.assert_close(conv.stacks(x, op), arma(conv, x, dense, torch.relu), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("fin", [3, 40])
def test_dropout_is_governed_by_manual_seed_and_has_the_right_gradient(fin: int) -> None:
    x, op, _ = problem(fin=fin)
    conv = make(fin, 4, 2, 3, dropout=0.4, act="tanh")

    def run(x: Tensor, *_: Tensor) -> Tensor:
        torch.manual_seed(5)
        return conv(x, op)

    torch.testing.assert_close(run(x), run(x), rtol=0, atol=0)
    torch.manual_seed(6)
    assert not torch.equal(conv(x, op), run(x))
    assert torch.autograd.gradcheck(run, (x.requires_grad_(), *conv.parameters()))
