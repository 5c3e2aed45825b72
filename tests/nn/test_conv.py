"""Odd sizes, options and features: every layer answers with one typed error, and none ends the process;
and what dropout of the features drops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from armagnn import CSR, GraphOperator, kernels
from armagnn.errors import ArmagnnError, DTypeError, GraphError, ParameterError
from armagnn.nn import ARMAConv, AvgPool, CayleyConv, GraclusPool, NonExpansive, SumPool, make_conv
from armagnn.nn.conv import Zero, drop
from armagnn.randomness import draw_seed, source

REPEATED = ["gcn", "gat", "sage", "gin", "mlp"]
LAYERS = ["arma", "rational", "chebyshev", "cayley", *REPEATED]
INDEX = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])

ODD: list[Any] = [
    None, "3", True, 2.5, math.nan, math.inf, -1, 0, 10**12, 10**400, [3], np.array([3, 4]), np.ones((0, 3)),
    np.ones(2), np.array([(1, 2.0)], dtype="i4,f8"), torch.tensor([3, 4]), torch.ones(0, 3), torch.ones(2).to_sparse(),
    torch.ones((), device="meta"), torch.nn.UninitializedParameter(), object(), int, np.ma.masked_array([3, 4]),
]  # fmt: skip
SIZES = {
    "arma": ("num_stacks", "num_layers"),
    "rational": ("order", "groups", "max_iter"),
    "chebyshev": ("order",),
    "cayley": ("order", "jacobi"),
    "gat": ("heads", "num_layers"),
    "gin": ("hidden", "num_layers"),
    "gcn": ("num_layers",),
}
FLAGS = {
    "arma": ("bias", "shared_weights", "cached"),
    "cayley": ("bias", "train_zoom"),
    "rational": ("bias", "learn_poles"),
    "gat": ("bias", "concat"),
}
REALS = {"arma": ("dropout",), "chebyshev": ("dropout", "lambda_max"), "cayley": ("zoom",), "gcn": ("dropout", "gamma")}


def refused(call: Callable[[], object], *names: str) -> None:
    with pytest.raises(ParameterError) as caught:
        call()
    message = str(caught.value)
    assert any(name in message for name in names), message
    assert len(message) < 400


@pytest.mark.parametrize("layer", LAYERS)
def test_sizes(layer: str) -> None:
    for name in ("in_channels", "out_channels", *SIZES.get(layer, ())):
        for value in ODD:
            lazy = layer == "arma" and name == "in_channels"
            if (name == "hidden" and value is None) or (lazy and isinstance(value, int) and value == -1):
                continue
            sizes: dict[str, Any] = {"in_channels": 3, "out_channels": 4} | {name: value}
            refused(lambda sizes=sizes: make_conv(layer, **sizes), name)  # type: ignore[misc]


@pytest.mark.parametrize("layer", LAYERS)
def test_flags_and_reals(layer: str) -> None:
    for name in FLAGS.get(layer, ("bias",)):
        for value in ODD:
            if value is not True:
                refused(lambda name=name, value=value: make_conv(layer, 3, 4, **{name: value}), name)  # type: ignore[misc]
    for name in REALS.get(layer, ("dropout",)):
        for value in ODD:
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(min(value, 1e308)):
                refused(lambda name=name, value=value: make_conv(layer, 3, 4, **{name: value}), name)  # type: ignore[misc]


def test_numbers_of_numpy_and_torch_are_numbers() -> None:
    conv: Any = make_conv("arma", np.int64(3), torch.tensor(4), num_stacks=np.uint8(2), dropout=np.float32(0.5))
    assert repr(conv) == "ARMAConv(3, 4, num_stacks=2, num_layers=1, dropout=0.5)"
    assert [type(size) for size in (conv.in_channels, conv.out_channels, conv.num_stacks)] == [int] * 3
    assert make_conv("chebyshev", 3, 4, lambda_max=np.float64(1.5)).lambda_max == 1.5
    assert make_conv("arma", 3, 4, bias=np.False_).bias is None


@pytest.mark.parametrize("layer", LAYERS)
def test_absurd_sizes_allocate_nothing(layer: str) -> None:
    big = 2**31 - 1
    for sizes in ((big, big), (big, 3), (3, big)):  # a bias of 2^31 numbers would be 8 GiB
        if max(sizes) * min(sizes) > 2**31:
            refused(lambda sizes=sizes: make_conv(layer, *sizes), "choose smaller sizes")  # type: ignore[misc]
    more = {"arma": "num_stacks", "chebyshev": "order", "gat": "heads", "gin": "hidden"}.get(layer)
    if more:
        refused(lambda: make_conv(layer, 3, 4, **{more: big}), "choose smaller sizes", f"{more} must be")
    for layer in REPEATED:
        refused(lambda layer=layer: make_conv(layer, 3, 4, num_layers=10**6), "num_layers")  # type: ignore[misc]


def test_more_of_arma_and_cayley() -> None:
    lazy = ARMAConv(-1, 2**15, 2**15)
    refused(lambda: lazy(torch.ones(3, 5), INDEX), "choose smaller sizes")
    refused(lambda: ARMAConv(3, 2**15, 2, 10**6, shared_weights=False), "choose smaller sizes")
    refused(lambda: CayleyConv(3, 4, order=51), "order")
    refused(lambda: CayleyConv(3, 4, order=2, jacobi=10**6), "degree")
    conv = CayleyConv(3, 4)
    for op in (None, 3, torch.ones(3, 3), INDEX):
        with pytest.raises(DTypeError, match="op must be a GraphOperator"):
            conv.spectral_degree(op)  # type: ignore[arg-type]
    deep: list[Any] = []
    for _ in range(10**5):
        deep = [deep]
    refused(lambda: ARMAConv(3, 4, fixed_point=deep), "fixed_point")  # type: ignore[arg-type]
    refused(lambda: NonExpansive(deep), "callable")  # type: ignore[arg-type]
    refused(lambda: ARMAConv(3, 4, act=deep), "act")  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="x must be a dense"):
        NonExpansive(torch.tanh)(np.ones(3))  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------- features


def odd_features() -> dict[str, Any]:
    rows = [torch.ones(3, 3), torch.ones(2, 3)]
    mask = torch.ones(3, 3) > 0
    return {
        "none": None, "text": "x", "list": [[1.0] * 3] * 3, "array": np.ones((3, 3)), "date": np.zeros(3, "M8[s]"),
        "meta": torch.ones(3, 3, device="meta"),
        "half": torch.ones(3, 3).half(), "complex": torch.ones(3, 3) + 0j, "bool": mask, "int": mask.long(),
        "lazy": torch.nn.UninitializedParameter(),
        "nested": torch.nested.nested_tensor(rows),
        "jagged": torch.nested.nested_tensor(rows, layout=torch.jagged),
        "masked": torch.masked.masked_tensor(torch.ones(3, 3), mask),
        "masked_coo": torch.masked.masked_tensor(torch.ones(3, 3).to_sparse(), mask.to_sparse()),
        "quantised": torch.quantize_per_tensor(torch.ones(3, 3), 0.1, 0, torch.qint8),
        "mkldnn": torch.ones(3, 3).to_mkldnn(),
        "sparse_complex": (torch.ones(3, 3) + 0j).to_sparse_csr(),
        "hybrid": torch.ones(3, 3, 1).to_sparse(2),
        "scalar": torch.tensor(1.0), "vector": torch.ones(3), "narrow": torch.ones(3, 2), "short": torch.ones(2, 3),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layer", [*LAYERS, "stack", "lazy", "sequence"])
def test_features(layer: str) -> None:
    conv: Any = {"lazy": lambda: ARMAConv(-1, 4), "sequence": lambda: ARMAConv(3, 4, 1, 2)}.get(
        layer, lambda: make_conv("gcn", 3, 4, num_layers=2) if layer == "stack" else make_conv(layer, 3, 4)
    )()
    op = conv.operator(INDEX, 3)
    for name, x in odd_features().items():
        if (layer, name) in (("lazy", "narrow"), ("mlp", "short")):
            continue
        if isinstance(x, list) and isinstance(conv, ARMAConv):  # a sequence
            continue
        with pytest.raises(ArmagnnError, match=r"\bx\b|sparse|matrix") as caught:
            conv([torch.ones(3, 3), x] if layer == "sequence" else x, op)
        assert len(str(caught.value)) < 400, name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pool", [SumPool(), AvgPool(), AvgPool(slots=3), GraclusPool(3)])
def test_pools(pool: Any) -> None:
    second = torch.ones(3, dtype=torch.bool) if isinstance(pool, GraclusPool) else torch.tensor([0, 3])
    assert pool(torch.ones(3, 2), second).shape == (1, 2)
    for name, odd in odd_features().items():
        if not (isinstance(odd, Tensor) and odd.layout is torch.strided and name in ("narrow", "short")):
            with pytest.raises(ArmagnnError, match=r"\bx\b"):
                pool(odd, second)
        if name != "none" or not isinstance(pool, GraclusPool):
            with pytest.raises(ArmagnnError, match=r"\bptr\b|\bbatch\b|\breal\b"):
                pool(torch.ones(3, 2), odd)
    if not isinstance(pool, GraclusPool):
        with pytest.raises(ParameterError, match="choose smaller sizes"):
            pool(torch.ones(3, 2), torch.zeros(1, dtype=torch.long).expand(2**40))
    for value in ODD:
        if value is not None:
            refused(lambda value=value: AvgPool(value), "slots")  # type: ignore[misc]
        refused(lambda value=value: GraclusPool(value), "stride")  # type: ignore[misc]
        refused(lambda value=value: GraclusPool(2, value), "way to pool")  # type: ignore[misc]


def test_an_operator_of_another_layer_stays_what_it_is() -> None:
    op = GraphOperator.from_edge_index(INDEX, 3)
    assert ARMAConv(3, 4)(torch.ones(3, 3), op).shape == (3, 4)


# -------------------------------------------------------------------------------------------- graphs that are met again

WITH_OPERATOR = [layer for layer in LAYERS if layer != "mlp"]


def made(layer: str) -> Any:
    torch.manual_seed(0)
    return make_conv(layer, 3, 4)


@pytest.mark.parametrize("layer", WITH_OPERATOR)
def test_edges_that_were_changed_in_place_are_seen(layer: str) -> None:
    conv, x, edges = made(layer).eval(), torch.randn(4, 3), INDEX.clone()
    before = conv(x, edges)
    assert torch.equal(conv(x, edges), before)
    edges.add_(1)  # the path 1 - 2 - 3, and node 0 alone
    after = conv(x, edges)
    assert torch.equal(after, conv(x, edges.clone()))
    assert not torch.equal(after, before)


@pytest.mark.parametrize("layer", ["arma", "gcn", "chebyshev", "cayley", "rational"])
def test_weights_that_were_changed_in_place_are_seen(layer: str) -> None:
    conv, x, weight = made(layer).eval(), torch.randn(3, 3), torch.ones(4)
    before = conv(x, INDEX, weight)
    assert torch.equal(conv(x, INDEX, weight), before)
    weight[:2] = 0.1
    after = conv(x, INDEX, weight)
    assert torch.equal(after, conv(x, INDEX, weight.clone()))
    assert not torch.equal(after, before)


def test_the_operator_of_a_tensor_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[object] = []
    real = GraphOperator.from_graph
    monkeypatch.setattr(GraphOperator, "from_graph", lambda *args, **more: built.append(args) or real(*args, **more))
    edges, weight, x = INDEX.clone(), torch.ones(4), torch.randn(3, 3)
    conv, other, gcn = made("arma"), made("arma"), made("gcn")
    for _ in range(3):
        conv(x, edges).sum().backward()
        other(x, edges)
    assert len(built) == 1
    gcn(x, edges)
    conv(x, edges, weight)
    conv(torch.randn(5, 3), edges)
    assert len(built) == 4
    sparse = torch.sparse_coo_tensor(edges, weight, (3, 3))
    for _ in range(2):
        conv(x, sparse)
    assert len(built) == 5


def test_learned_weights_get_a_gradient_at_every_call() -> None:
    conv, x, edges = made("arma"), torch.randn(3, 3), INDEX.clone()
    weight = torch.ones(4, requires_grad=True)
    conv(x, edges, weight.detach())  # fixed first
    for _ in range(2):
        weight.grad = None
        conv(x, edges, weight).sum().backward()
        assert weight.grad is not None
        assert weight.grad.any()


def test_sparse_features_are_read_once_and_their_changes_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    real = CSR.from_torch_sparse
    monkeypatch.setattr(CSR, "from_torch_sparse", lambda *args: read.append(args) or real(*args))
    conv, dense = made("arma"), torch.tensor([[1.0, 0, 2], [0, 3, 0], [0, 0, 4]])
    x = dense.to_sparse()
    for _ in range(3):
        torch.testing.assert_close(conv(x, INDEX), conv(dense, INDEX))
    assert len(read) == 1
    x._values().mul_(2)
    torch.testing.assert_close(conv(x, INDEX), conv(2 * dense, INDEX))
    assert len(read) == 2
    learned = dense.to_sparse().requires_grad_()
    for _ in range(2):
        conv(learned, INDEX).sum().backward()
    assert len(read) == 4
    assert learned.grad is not None


def test_wrong_edges_raise_at_every_call() -> None:
    conv, x, edges = made("arma"), torch.randn(2, 3), INDEX.clone()
    for _ in range(2):
        with pytest.raises(GraphError, match="names node 2"):
            conv(x, edges)


# -------------------------------------------------------------------------------------------------------------- dropout


@pytest.mark.parametrize("sparse", [True, False])
def test_entries_are_dropped_or_scaled(sparse: bool) -> None:
    x = torch.ones(200, 50)
    dropped: Any = drop(CSR.from_dense(x) if sparse else x, 0.3, True)
    values = dropped.value if sparse else dropped
    kept = values != 0
    torch.testing.assert_close(values[kept], torch.full_like(values[kept], 1 / 0.7))
    assert abs(kept.float().mean().item() - 0.7) < 0.02
    assert isinstance(dropped, CSR) == sparse


def test_nothing_happens_outside_training_or_at_zero() -> None:
    for x in (torch.ones(3, 2), CSR.from_dense(torch.ones(3, 2))):
        state = torch.get_rng_state()
        assert drop(x, 0.5, False) is x
        assert drop(x, 0.0, True) is x
        assert drop(x, torch.tensor(0.5), False) is x
        assert torch.equal(torch.get_rng_state(), state)  # and no randomness is used up


def test_a_probability_that_is_a_tensor_is_handed_on_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(kernels, "dropout", lambda x, seed, p, step: seen.append(p) or x)
    p = torch.empty((), device="meta")  # has no value to read
    x: Tensor = torch.ones(3, 2)
    drop(x, p, True)
    drop(CSR.from_dense(x), p, True)
    assert [one is p for one in seen] == [True, True]


def test_a_zero_takes_its_seed_and_drops_nothing() -> None:
    x, seeds = torch.ones(3, 2), torch.tensor([7, 8, 9])
    conv = ARMAConv(2, 2, dropout=0.5)
    edges = torch.tensor([[0, 1], [1, 0]])
    for p, left in ((Zero(), 9), (0.0, 7), (torch.tensor(0.0), 9)):
        conv.dropout = p
        with source(seeds):
            drop(x, p, True)
            conv(x, edges)
            assert draw_seed(x.device).item() == left
        with source(seeds):
            drop(x, p, False)
            conv.eval()(x, edges)
            conv.train()
            assert draw_seed(x.device).item() == 7
    assert drop(x, Zero(), True) is x
    state = torch.get_rng_state()
    drop(x, Zero(), True)  # where seeds come from torch's generator, none is drawn
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", LAYERS)
def test_a_notebook_shows_sizes_options_and_parameters(name: str) -> None:
    layer = make_conv(name, 3, 4)
    shown = layer._repr_html_()  # type: ignore[operator]
    assert type(layer).__name__ in shown
    assert "3 → 4" in shown
    assert f">{sum(p.numel() for p in layer.parameters()):,}<" in shown
    assert "-1 → 4" in ARMAConv(-1, 4)._repr_html_()  # its weights have no size yet
