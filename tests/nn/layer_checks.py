"""What every layer must do. A subject says how it is built and what it is in dense matrices; it inherits the rest."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from armagnn import CSR, GraphOperator
from armagnn.errors import ArmagnnError, DTypeError, GraphError, ParameterError, ShapeError
from armagnn.nn.conv import drop
from oracles import Graph, assert_near, numbers, random_graph
from strategies import graphs

NARROW, WIDE = (3, 5), (7, 3)
"""F_in and F_out: filtered before and after the product with the weights."""


class LayerChecks:
    """Checks of any layer."""

    layer: ClassVar[Any]
    defaults: ClassVar[dict[str, Any]] = {}
    """Arguments of the layer that all checks make, unless they say otherwise."""
    weight: ClassVar[str] = "weight"
    """The parameter, among those of Glorot's limits, that X is multiplied with."""
    options: ClassVar[list[dict[str, Any]]] = [{}]
    """Arguments of the layer, each set of which is checked against the dense truth."""
    differentiable: ClassVar[dict[str, Any]] = {}
    """Arguments for the checks of gradients."""
    bad: ClassVar[list[dict[str, Any]]] = []
    """Arguments that the layer refuses."""

    def truth(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        """What the layer does before bias and activation, from the dense adjacency; autograd follows it."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------------------- helpers

    def make(self, fin: int, fout: int, **options: Any) -> Any:
        """A layer in float64 with nothing left at zero."""
        torch.manual_seed(fin + 10 * fout)
        conv = self.layer(fin, fout, **self.defaults | options).double()
        for parameter in conv.parameters():
            if not parameter.any():
                nn.init.normal_(parameter)
        return conv

    def expected(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        z = self.truth(conv, x, adjacency)
        z = z if conv.bias is None else z + conv.bias
        return z if conv.act is None else getattr(torch, conv.act)(z)

    def problem(self, conv: Any, graph: Graph | None = None) -> tuple[Tensor, GraphOperator | None, Tensor]:
        """Features, the layer's operator and the dense adjacency, of a graph with loops and lone nodes by default."""
        graph = random_graph(9, 20, seed=3) if graph is None else graph
        x = numbers(graph.num_nodes, conv.in_channels, seed=4)
        op = conv.operator(graph.edge_index, graph.num_nodes, graph.edge_weight())
        return x, op, torch.from_numpy(graph.dense())

    # ------------------------------------------------------------------------------------------------ values, gradients

    @pytest.mark.parametrize("sizes", [NARROW, WIDE])
    @pytest.mark.parametrize("undirected", [True, False])
    def test_values_and_gradients_are_those_of_the_dense_layer(self, sizes: tuple[int, int], undirected: bool) -> None:
        graph = random_graph(9, 20, seed=1)
        for options in self.options:
            conv = self.make(*sizes, **options)
            x, op, adjacency = self.problem(conv, graph.both_ways() if undirected else graph)
            one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
            ours, truth = conv(one, op), self.expected(conv, two, adjacency)
            assert truth.abs().max() > 0.1  # not all cut off by the activation
            assert_near(ours, truth)
            direction = numbers(*ours.shape, seed=9)
            for a, b in zip(
                torch.autograd.grad((ours * direction).sum(), [one, *conv.parameters()]),
                torch.autograd.grad((truth * direction).sum(), [two, *conv.parameters()]),
                strict=True,
            ):
                assert b.abs().max() > 0
                assert_near(a, b)

    def test_gradcheck(self) -> None:
        for sizes in ((2, 3), (3, 2)):
            conv = self.make(*sizes, act="tanh", **self.differentiable)
            x, op, _ = self.problem(conv, random_graph(4, 6))
            inputs = (x.requires_grad_(), *conv.parameters())
            assert torch.autograd.gradcheck(lambda x, *_, conv=conv, op=op: conv(x, op), inputs)

    # ----------------------------------------------------------------------------------------------------------- graphs

    def test_a_renumbered_graph_gives_renumbered_rows(self) -> None:
        conv = self.make(2, 3)

        @settings(max_examples=8)
        @given(graphs(), st.integers(0, 99))
        def check(graph: Graph, seed: int) -> None:
            x, op, _ = self.problem(conv, graph)
            perm = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
            _, moved, _ = self.problem(conv, graph.permuted(perm.numpy()))
            assert_near(conv(torch.empty_like(x).index_copy(0, perm, x), moved)[perm], conv(x, op))

        check()

    @pytest.mark.parametrize("nodes", [0, 1, 3])
    @pytest.mark.parametrize("sizes", [NARROW, WIDE])
    def test_a_graph_without_edges(self, nodes: int, sizes: tuple[int, int]) -> None:
        conv = self.make(*sizes)
        empty = numbers(0).numpy()
        x, op, adjacency = self.problem(conv, Graph(nodes, empty.astype(int), empty.astype(int), empty))
        assert conv(x, op).shape == (nodes, sizes[1])
        assert_near(conv(x, op), self.expected(conv, x, adjacency) if nodes else torch.empty(0, sizes[1]))

    def test_a_graph_of_loops_alone(self) -> None:
        conv = self.make(*WIDE)
        loops = torch.tensor([0, 2]).numpy()
        x, op, adjacency = self.problem(conv, Graph(3, loops, loops, numbers(2).square().numpy() + 0.5))
        assert_near(conv(x, op), self.expected(conv, x, adjacency))

    def test_edges_are_as_good_as_an_operator(self) -> None:
        graph, conv = random_graph(6, 9), self.make(2, 3)
        x, op, adjacency = self.problem(conv, graph)
        expected = conv(x, op)
        assert_near(conv(x, graph.edge_index, graph.edge_weight()), expected)
        assert_near(conv(x, adjacency.to_sparse_csr()), expected)

    def test_disjoint_graphs_in_one_operator(self) -> None:
        conv = self.make(2, 3)
        parts = [self.problem(conv, random_graph(n, 2 * n, seed=n)) for n in (3, 5)]
        joined = GraphOperator.block_diagonal([op for _, op, _ in parts if op is not None]) if conv.kind else None
        together = conv(torch.cat([x for x, _, _ in parts]), joined)
        assert_near(together, torch.cat([conv(x, op) for x, op, _ in parts]))

    def test_another_kind_of_operator_is_refused_with_advice(self) -> None:
        conv = self.make(2, 3)
        graph = random_graph(6, 9)
        for kind in {"arma", "gcn", "laplacian", "adjacency"} - {conv.kind}:
            op = GraphOperator.from_edge_index(graph.edge_index, 6, graph.edge_weight(), kind)
            with pytest.raises(GraphError, match=f"kind={conv.kind!r}"):
                conv(numbers(6, 2), op)
            with pytest.raises(GraphError, match=f"kind={conv.kind!r}"):
                conv.operator(op)

    # -------------------------------------------------------------------------------------------------------- features

    @pytest.mark.parametrize("sizes", [NARROW, WIDE])
    def test_many_signals_equal_a_loop(self, sizes: tuple[int, int]) -> None:
        conv = self.make(*sizes, **self.options[-1])
        _, op, _ = self.problem(conv)
        x = numbers(2, 3, 9, sizes[0])
        looped = torch.stack([torch.stack([conv(signal, op) for signal in row]) for row in x])
        assert_near(conv(x, op), looped)
        assert conv(x[:0], op).shape == (0, 3, 9, sizes[1])

    @pytest.mark.parametrize("sizes", [NARROW, WIDE])
    def test_sparse_features_equal_dense(self, sizes: tuple[int, int]) -> None:
        conv = self.make(*sizes, **self.options[-1])
        x, op, _ = self.problem(conv)
        x = x * (numbers(*x.shape, seed=7) > 0.3)
        expected = conv(x, op)
        gradients = torch.autograd.grad(expected.square().sum(), list(conv.parameters()))
        for sparse in (CSR.from_dense(x), x.to_sparse_csr(), x.to_sparse_coo()):
            ours = conv(sparse, op)
            assert_near(ours, expected)
            for a, b in zip(torch.autograd.grad(ours.square().sum(), list(conv.parameters())), gradients, strict=True):
                assert_near(a, b)

    @pytest.mark.parametrize("sparse", [True, False])
    def test_dropout_while_training(self, sparse: bool) -> None:
        conv = self.make(*WIDE, dropout=0.4)
        dense, op, _ = self.problem(conv)
        x = CSR.from_dense(dense) if sparse else dense
        torch.manual_seed(5)
        trained = conv(x, op)
        torch.manual_seed(5)
        dropped = drop(x, 0.4, True)
        values = dropped.value if isinstance(dropped, CSR) else dropped
        assert 0 < (values == 0).double().mean() < 1
        conv.eval()
        assert_near(trained, conv(dropped, op), 0.0)
        torch.manual_seed(5)
        assert_near(conv(x, op), self.make(*WIDE)(x, op), 0.0)

    def test_bad_features(self) -> None:
        conv = self.make(2, 3)
        x, op, _ = self.problem(conv)
        for shape in ((9,), (9, 3), ()):
            with pytest.raises(ShapeError, match="x "):
                conv(numbers(*shape), op)
        for wrong in (x.float(), x.half(), x.long(), None, [[1.0]]):
            with pytest.raises(DTypeError, match="x "):
                conv(wrong, op)
        if conv.kind is not None:
            for rows in (x[:5], CSR.from_dense(x[:5])):
                with pytest.raises(ShapeError, match=r"9"):
                    conv(rows, op)
            with pytest.raises(ParameterError, match="edge_weight"):
                conv(x, op, torch.ones(20))
            with pytest.raises(ArmagnnError, match="graph"):
                conv(x, None)

    # ------------------------------------------------------------------------------------------------------ parameters

    def test_bad_arguments(self) -> None:
        common: list[dict[str, Any]] = [
            {"in_channels": 0}, {"in_channels": -2}, {"out_channels": 2.5}, {"out_channels": True}, {"dropout": 1.0},
            {"dropout": -0.1}, {"dropout": None}, {"act": "rel"},
        ]  # fmt: skip
        common += [] if self.layer.lazy else [{"in_channels": -1}]
        for wrong in common + self.bad:
            (name,) = [key for key in wrong if key != "concat"]
            with pytest.raises(ParameterError, match={"act": "activation"}.get(name, name)):
                self.layer(**{"in_channels": 2, "out_channels": 3} | wrong)

    def test_every_parameter_is_drawn_anew_and_biases_are_zero(self) -> None:
        conv = self.layer(40, 30)
        before = copy.deepcopy(conv.state_dict())
        conv.reset_parameters()
        for name, parameter in conv.named_parameters():
            if "bias" in name:
                assert parameter.abs().max() == 0
            elif parameter.dim() >= 2:
                assert not torch.equal(parameter, before[name])
        assert conv.bias is not None
        assert self.layer(40, 30, bias=False).bias is None

    def test_repr_is_one_line(self) -> None:
        plain = self.layer(2, 3, dropout=0.5, act=None)
        assert repr(plain).startswith(f"{self.layer.__name__}(2, 3")
        assert repr(plain).endswith("act=None, dropout=0.5)")
        assert "\n" not in repr(self.layer(2, 3, act=nn.PReLU()))

    @pytest.mark.parametrize("sizes", [NARROW, WIDE])
    @pytest.mark.parametrize("given", ["shared", "sparse", "batched"])
    def test_vmap_over_three_trials_equals_a_loop(self, sizes: tuple[int, int], given: str) -> None:
        options = self.options[-1]
        convs = [self.make(*sizes, **options) for _ in range(3)]
        for seed, conv in enumerate(convs):
            for parameter in conv.parameters():
                parameter.data += 0.1 * numbers(*parameter.shape, seed=seed)
        x, op, _ = self.problem(convs[0])
        xs: list[Any] = {
            "shared": [x] * 3,
            "sparse": [CSR.from_dense(x)] * 3,
            "batched": [x + k for k in range(3)],
        }[given]
        stacked = torch.func.stack_module_state(convs)[0]
        leaves = {name: p.detach().requires_grad_() for name, p in stacked.items()}

        def run(parameters: dict[str, Tensor], x: Any) -> Tensor:
            return torch.func.functional_call(convs[0], parameters, (x, op))

        if given == "batched":
            out = torch.func.vmap(run)(leaves, torch.stack(xs))
        else:
            out = torch.func.vmap(lambda p: run(p, xs[0]), randomness="different")(leaves)
        looped = torch.stack([conv(x, op) for conv, x in zip(convs, xs, strict=True)])
        assert_near(out, looped)
        assert (looped[0] - looped[1]).abs().max() > 0.01
        ours = torch.autograd.grad(out.square().sum(), list(leaves.values()))
        for index, conv in enumerate(convs):
            theirs = torch.autograd.grad(looped[index].square().sum(), list(conv.parameters()), retain_graph=True)
            names = [name for name, _ in conv.named_parameters()]
            for name, truth in zip(names, theirs, strict=True):
                assert_near(ours[list(leaves).index(name)][index], truth)

    def test_per_signal_gradients(self) -> None:
        conv = self.make(*WIDE, act="tanh")
        _, op, _ = self.problem(conv)
        parameters, xs = dict(conv.named_parameters()), numbers(3, 9, WIDE[0])

        def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
            return torch.func.functional_call(conv, parameters, (x, op)).square().sum()

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, xs)
        for index, x in enumerate(xs):
            for name, truth in zip(
                parameters, torch.autograd.grad(loss(parameters, x), list(parameters.values())), strict=True
            ):
                assert_near(each[name][index], truth)


class OwnLayerChecks(LayerChecks):
    """Checks of our own layers: Glorot's limits, transforms of torch, learned operators, sparse features."""

    @pytest.mark.parametrize("sparse", [True, False])
    def test_trials_draw_their_own_masks(self, sparse: bool) -> None:
        conv = self.make(*WIDE, dropout=0.5, act=None)
        x, op, _ = self.problem(conv)
        features: Any = CSR.from_dense(x) if sparse else x
        leaves = {n: torch.stack([p.detach()] * 3).requires_grad_() for n, p in conv.named_parameters()}
        run = torch.func.vmap(
            lambda p: torch.func.functional_call(conv, p, (features, op)), randomness="different"
        )  # fmt: skip
        one, two, three = run(leaves)
        assert not torch.equal(one, two)
        assert not torch.equal(two, three)
        (gradient,) = torch.autograd.grad(one.sum(), leaves[self.weight])
        assert gradient[0].abs().max() > 0
        assert gradient[1:].abs().max() == 0  # a trial's loss is its own

    def test_sparse_features_are_never_made_dense(self, monkeypatch: pytest.MonkeyPatch) -> None:
        conv = self.make(*NARROW)
        x, op, _ = self.problem(conv)
        sparse = CSR.from_dense(x)
        monkeypatch.setattr(CSR, "to_dense", lambda self: pytest.fail("densified"))
        conv(sparse, op).sum().backward()
        assert conv.get_parameter(self.weight).grad.abs().max() > 0

    def test_gradient_with_respect_to_edge_weights(self) -> None:
        conv = self.make(2, 3, act="tanh", **self.differentiable)
        graph = random_graph(4, 6)
        x, weight = numbers(4, 2), graph.edge_weight().requires_grad_()
        if conv.kind is not None:
            assert torch.autograd.gradcheck(lambda w: conv(x, graph.edge_index, w), (weight,))

    @pytest.mark.parametrize("sizes", [NARROW, WIDE])
    def test_compiles_without_a_break(self, sizes: tuple[int, int]) -> None:
        conv = self.make(*sizes)
        x, op, _ = self.problem(conv)
        torch._dynamo.reset()
        compiled = torch.compile(conv, fullgraph=True, backend="aot_eager")
        ours, eager = compiled(x, op), conv(x, op)
        assert_near(ours, eager)
        for a, b in zip(
            torch.autograd.grad(ours.square().sum(), list(conv.parameters())),
            torch.autograd.grad(eager.square().sum(), list(conv.parameters())),
            strict=True,
        ):
            assert_near(a, b)

    def test_autocast(self) -> None:
        conv = self.make(*WIDE)
        x, op, _ = self.problem(conv)
        expected = conv(x, op)
        conv, op = conv.float(), None if op is None else op.to(torch.float32)
        for features in (x.float(), CSR.from_dense(x.float())):
            with torch.autocast("cpu", torch.bfloat16):
                mixed = conv(features, op)
                mixed.float().sum().backward(retain_graph=True)
            mixed.float().sum().backward()  # as torch advises it
            torch.testing.assert_close(mixed.double(), expected, rtol=0.1, atol=0.1)
            assert conv.get_parameter(self.weight).grad.dtype == torch.float32

    def test_weights_are_glorots(self) -> None:
        weight = self.layer(50, 30).get_parameter(self.weight)
        limit = (6 / 80) ** 0.5
        assert 0.98 * limit < weight.abs().max() <= limit
        assert weight.mean().abs() < limit / 10
