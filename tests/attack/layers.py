"""Layers and ranks with valid arguments."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch

from armagnn import GraphOperator
from armagnn.nn import (
    ARMAConv,
    AvgPool,
    BernsteinConv,
    CayleyConv,
    ChebConv,
    GATConv,
    GCNConv,
    GINConv,
    GPRConv,
    GraclusPool,
    JacobiConv,
    MLPConv,
    NonExpansive,
    RationalConv,
    SAGEConv,
    SumPool,
    make_conv,
    register_layer,
)
from armagnn.operators import GraphBatches
from armagnn.solvers import FixedPoint
from attack.analysis import _closed
from attack.subjects import Call, edges, features, graph


def _made(op: GraphOperator, **arguments: Any) -> Any:
    return make_conv(**arguments)(torch.ones(6, 3), op)


def layers() -> Iterator[Call]:
    op, x, index = graph(), features(), edges()
    weight = torch.ones(index.shape[1])
    common = {"act": "relu", "dropout": 0.1, "bias": True}
    sizes = {"in_channels": 3, "out_channels": 2}
    made: dict[Any, dict[str, Any]] = {
        ARMAConv: {"num_stacks": 2, "num_layers": 2, "shared_weights": True, "init": "linear", "cached": False,
        "fixed_point": None},
        ChebConv: {"order": 2, "lambda_max": 2.0}, GCNConv: {"gamma": 1.0},
        CayleyConv: {"order": 1, "jacobi": 2, "zoom": 1.0, "train_zoom": True},
        RationalConv: {"order": 2, "init": "low-pass", "groups": 1, "learn_poles": True, "method": "exact", "tol": 1e-5,
        "max_iter": 100, "radius": 0.99},
        GATConv: {"heads": 2, "concat": True}, SAGEConv: {}, GINConv: {"hidden": 4}, MLPConv: {},
        GPRConv: {"order": 3}, BernsteinConv: {"order": 3}, JacobiConv: {"order": 3},
    }  # fmt: skip
    for cls, own in made.items():
        name, conv = f"nn.{cls.__name__}", cls(3, 2)
        call = {"x": x, "edge_index": index, "edge_weight": weight}

        def use(cls: Any = cls, **a: Any) -> Any:
            conv = cls(**a)
            out = conv(torch.ones(6, 3), index)
            out.sum().backward()
            return out, repr(conv)

        yield Call(name, use, sizes | own | common)
        yield Call(f"{name}.forward", lambda conv=conv, **a: conv(**a), call)
        yield Call(
            f"{name}.forward", lambda conv=conv, **a: conv(**a), {"x": x, "edge_index": graph(cls.kind or "arma")}
        )
        yield Call(
            f"{name}.operator", lambda conv=conv, **a: conv.operator(**a),
            {"graph": index, "num_nodes": 6, "edge_weight": weight, "dtype": torch.float32},
        )  # fmt: skip
    rational = RationalConv(3, 2, 2, method="exact")
    mu = torch.linspace(-1, 1, 5)
    for cls in (GPRConv, BernsteinConv, JacobiConv):
        yield Call(f"nn.{cls.__name__}.response", cls(3, 2, 3).response, {"mu": mu})
    yield Call("nn.RationalConv.filter", lambda group: rational.filter(group), {"group": 0})
    yield Call("nn.RationalConv.response", lambda mu: rational.response(mu), {"mu": mu})
    yield Call("nn.RationalConv.plot", lambda **a: _closed(rational.plot(**a)), {"ax": None, "mu": mu})
    yield Call("nn.RationalConv.spectral_degree", lambda op: rational.spectral_degree(op), {"op": op})
    arma = ARMAConv(3, 3, 2, 2)
    yield Call(
        "nn.register_layer",
        lambda **a: register_layer(**a)(GCNConv),
        {"name": "attacked", "stacks": None, "layers": None},
    )
    wide = ARMAConv(3, 2, 2, 2, act="tanh", fixed_point=FixedPoint())
    call = {"x": x, "edge_index": index, "edge_weight": weight}
    yield Call("nn.ARMAConv.stacks", lambda **a: wide.stacks(**a), call | {"initial": torch.rand(2, 6, 2)})
    yield Call("nn.ARMAConv.step", lambda **a: wide.step(**a), call | {"state": torch.rand(2, 6, 2)})
    yield Call(
        "nn.ARMAConv.sequence",
        lambda **a: arma.sequence(**a),
        {"xs": [x, x], "graphs": [index, index], "edge_weight": [weight, weight]},
    )
    yield Call(
        "nn.ARMAConv.from_pyg", lambda conv: ARMAConv.from_pyg(conv)(x, index), {"conv": ARMAConv(3, 2, 2, 2).to_pyg()}
    )
    yield Call("nn.CayleyConv.spectral_degree", lambda op: CayleyConv(3, 2).spectral_degree(op), {"op": op})
    batches = GraphBatches(GraphOperator.block_diagonal([op, op, op]), torch.tensor([0, 6, 12, 18]))
    batch = batches.take(torch.tensor([0, 2]))
    for pool in (AvgPool, SumPool):
        name = f"nn.{pool.__name__}"
        yield Call(f"{name}.forward", lambda pool=pool, **a: pool()(**a), {"x": torch.rand(12, 3), "batch": batch})
        yield Call(f"{name}.forward", lambda pool=pool, **a: pool()(**a), {"x": torch.rand(12, 3), "batch": batch.ptr})
    yield Call("nn.SumPool", lambda x: SumPool()(x, batch), {"x": torch.rand(12, 3)})
    yield Call("nn.AvgPool", lambda slots: AvgPool(slots)(torch.rand(12, 3), batch), {"slots": 8})
    real = torch.tensor([True] * 5 + [False])
    yield Call("nn.GraclusPool", lambda **a: GraclusPool(**a)(x, real), {"stride": 2, "mode": "max"})
    yield Call("nn.GraclusPool.forward", lambda **a: GraclusPool(2)(**a), {"x": x, "real": real})
    yield Call("nn.NonExpansive", lambda function: NonExpansive(function)(x), {"function": torch.tanh})
    yield Call("nn.NonExpansive.forward", lambda x: NonExpansive(torch.tanh)(x), {"x": x})
    for name, kind in (
        ("arma", "arma"),
        ("gat", "adjacency"),
        ("sage", "adjacency"),
        ("gin", "adjacency"),
        ("mlp", "arma"),
    ):
        yield Call(
            "nn.make_conv", functools.partial(_made, graph(kind)),
            {"name": name, "in_channels": 3, "out_channels": 2} | common,
        )  # fmt: skip
