"""What is attacked: every public name with valid arguments, any of which may be replaced by something bad.

The name of a call is the public name it covers (``nn.ARMAConv.forward``); ``test_bad_inputs.py`` checks that none is
missing. A constructor's call uses the object, too: an absurd option that is accepted must not harm later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

import armagnn.kernels as kernels
from armagnn import CSR, GraphOperator
from armagnn.operators import (
    Coarsening,
    GraphBatches,
    NodeOrder,
    batches_of,
    coarsen,
    grid,
    knn_graph,
    ring,
    sensor,
)


@dataclass(frozen=True)
class Call:
    """A public callable with valid arguments: ``run(**args)`` works."""

    name: str
    run: Callable[..., Any]
    args: dict[str, Any]

    @property
    def room(self) -> str:
        return self.name.partition(".")[0]


def edges() -> Tensor:
    """Both directions of a ring with a chord."""
    pairs = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0], [1, 4]]).T
    return torch.cat([pairs, pairs.flip(0)], 1)


def graph(kind: str = "arma") -> GraphOperator:
    return GraphOperator.from_edge_index(edges(), 6, kind=kind)  # type: ignore[arg-type]


def matrix() -> CSR:
    return CSR.from_dense(torch.eye(6, 4) + 0.5)


def features(columns: int = 3) -> Tensor:
    return torch.rand(6, columns, generator=torch.Generator().manual_seed(0))


def dense() -> Tensor:
    return graph().to_dense()


def operators() -> Iterator[Call]:
    op, csr, x, index = graph(), matrix(), features(), edges()
    raw = {"rowptr": csr.rowptr, "col": csr.col, "value": csr.value, "shape": (6, 4)}
    coo = {"row": index[0], "col": index[1], "value": torch.ones(index.shape[1]), "shape": (6, 6)}
    options = {
        "kind": "arma",
        "dtype": torch.float32,
        "gamma": 1.0,
        "lambda_min": 0.0,
        "lambda_max": 2.0,
        "symmetrize": None,
    }

    def used(matrix: CSR) -> Any:
        small = matrix.shape[0] < 10**4 > matrix.shape[1]  # a dense copy of many nodes is too large for good reasons
        return repr(matrix), matrix.T, small and matrix @ torch.ones(matrix.shape[1], 2, dtype=matrix.dtype)

    yield Call("operators.CSR", lambda **a: used(CSR(**a)), raw | {"symmetric": False, "transposed": None})
    yield Call(
        "operators.GraphOperator", lambda **a: used(GraphOperator(**a)),
        {"rowptr": op.rowptr, "col": op.col, "value": op.value, "shape": (6, 6), "kind": "arma", "symmetric": False,
         "unit_diagonal": False, "transposed": None},
    )  # fmt: skip
    for cls in (CSR, GraphOperator):
        name, dtype = f"operators.{cls.__name__}", {"dtype": torch.float32}
        more = {} if cls is CSR else options
        square = dense()
        yield Call(f"{name}.from_coo", lambda cls=cls, **a: used(cls.from_coo(**a)), coo)
        yield Call(
            f"{name}.from_dense", lambda cls=cls, **a: used(cls.from_dense(**a)), {"matrix": square} | dtype | more
        )
        yield Call(
            f"{name}.from_scipy", lambda cls=cls, **a: used(cls.from_scipy(**a)),
            {"matrix": sp.csr_array(square.numpy())} | dtype | more,
        )  # fmt: skip
        yield Call(
            f"{name}.from_torch_sparse", lambda cls=cls, **a: used(cls.from_torch_sparse(**a)),
            {"matrix": square.to_sparse_csr()} | dtype | more,
        )  # fmt: skip
        one = csr if cls is CSR else op
        yield Call(
            f"{name}.check_operand",
            lambda one=one, **a: one.check_operand(**a),
            {"x": features()[: one.shape[1]]},
        )
        yield Call(f"{name}.with_value", lambda value, one=one: used(one.with_value(value)), {"value": one.value * 2})
        yield Call(f"{name}.to", lambda target, one=one: used(one.to(target)), {"target": torch.float64})
        yield Call(f"{name}.matmul", lambda x, one=one: one @ x, {"x": features()[: one.shape[1]]})
    for each in ("total", "most"):
        yield Call(f"operators.GraphOperator.{each}", lambda x, each=each: getattr(op, each)(x), {"x": x})
    yield Call(
        "operators.GraphOperator.from_edge_index", lambda **a: used(GraphOperator.from_edge_index(**a)),
        {"edge_index": index, "num_nodes": 6, "edge_weight": torch.ones(index.shape[1])} | options,
    )  # fmt: skip
    yield Call(
        "operators.GraphOperator.from_graph", lambda **a: used(GraphOperator.from_graph(**a)),
        {"graph": index, "num_nodes": 6, "edge_weight": torch.ones(index.shape[1])} | options,
    )  # fmt: skip
    from torch_geometric.data import Data

    data = Data(x=x, edge_index=index)
    yield Call(
        "operators.GraphOperator.from_data", lambda **a: used(GraphOperator.from_data(**a)), {"data": data} | options
    )
    yield Call(
        "operators.GraphOperator.from_networkx", lambda **a: used(GraphOperator.from_networkx(**a)),
        {"graph": nx.path_graph(4), "weight": "weight"} | options,
    )  # fmt: skip
    yield Call(
        "operators.GraphOperator.block_diagonal",
        lambda operators: used(GraphOperator.block_diagonal(operators)),
        {"operators": [op, op]},
    )
    yield Call(
        "operators.GraphOperator.require_symmetric", lambda purpose: op.require_symmetric(purpose), {"purpose": "x"}
    )
    yield Call(
        "operators.coarsen", lambda **a: coarsen(**a),
        {"graph": index, "levels": 2, "num_nodes": 6, "edge_weight": torch.ones(index.shape[1]), "restarts": 2,
         "seed": 0},
    )  # fmt: skip
    tree = coarsen(index, 2, num_nodes=6)
    signals = torch.rand(2, 6, 3)
    yield Call(
        "operators.Coarsening", lambda **a: Coarsening(**a).sizes, {"order": tree.order, "adjacency": tree.adjacency}
    )
    yield Call("operators.Coarsening.arrange", lambda x: tree.arrange(x), {"x": signals})
    yield Call("operators.Coarsening.restore", lambda x: tree.restore(x), {"x": tree.arrange(signals)})
    yield Call("operators.Coarsening.to", lambda device: tree.to(device), {"device": "cpu"})
    yield Call("operators.Coarsening.edges", lambda level: tree.edges(level), {"level": 1})
    yield Call("operators.Coarsening.places", lambda level: tree.places(level), {"level": 1})
    yield Call("operators.Coarsening.operator", lambda **a: used(tree.operator(**a)), {"level": 1} | options)
    many = GraphBatches(op, torch.tensor([0, 6]))
    two = GraphBatches(GraphOperator.block_diagonal([op, op, op]), torch.tensor([0, 6, 12, 18]))
    taken = two.take(torch.tensor([0, 2]))
    from armagnn.operators import GraphBatch

    yield Call(
        "operators.GraphBatch", lambda **a: GraphBatch(**a).num_nodes,
        {name: getattr(taken, name) for name in ("op", "ptr", "nodes", "graph", "ids", "longest")},
    )  # fmt: skip
    yield Call(
        "operators.GraphBatches",
        lambda **a: GraphBatches(**a).take([0]).op @ torch.ones(6, 2),
        {"op": op, "ptr": many.ptr},
    )
    yield Call("operators.GraphBatches.take", lambda ids: two.take(ids).op.to_dense(), {"ids": torch.tensor([2, 0])})
    yield Call("operators.GraphBatches.to", lambda device: two.to(device), {"device": "cpu"})
    yield Call("operators.GraphBatches.measure", lambda ids: two.measure(ids), {"ids": torch.tensor([2, 0])})
    yield Call(
        "operators.GraphBatches.epoch",
        lambda plan: list(two.epoch(plan)),
        {"plan": (torch.tensor([2, 0]), torch.tensor([1]))},
    )
    yield Call(
        "operators.GraphBatches.take_padded",
        lambda **a: two.take_padded(**a),
        {"ids": torch.tensor([2, 0]), "rows": 20, "nonzeros": 100},
    )
    yield Call(
        "operators.batches_of", lambda **a: batches_of(**a), {"ids": torch.arange(9), "size": 4, "seed": 0, "epoch": 0}
    )
    swapped = torch.tensor([5, 3, 1, 0, 2, 4])
    yield Call("operators.GraphOperator.reordered", lambda order: used(op.reordered(order)[0]), {"order": swapped})
    order = NodeOrder.of(swapped)
    yield Call("operators.NodeOrder.of", NodeOrder.of, {"old": swapped})
    yield Call("operators.NodeOrder", lambda **a: repr(NodeOrder(**a)), {"old": order.old, "new": order.new})
    for each in (order.permute, order.restore):
        yield Call(f"operators.NodeOrder.{each.__name__}", each, {"x": x, "dim": 0})
    for make, sizes in (
        (ring, {"num_nodes": 6}),
        (grid, {"rows": 2, "columns": 3}),
        (sensor, {"num_nodes": 9, "neighbours": 2, "seed": 0}),
    ):
        yield Call(f"operators.{make.__name__}", lambda make=make, **a: used(make(**a)[0]), sizes | {"kind": "arma"})
    points = np.random.default_rng(0).random((9, 2))
    yield Call(
        "operators.knn_graph",
        lambda **a: knn_graph(**a),
        {"points": points, "k": 2, "weights": "gaussian", "sigma": 1.0},
    )


def kernels_room() -> Iterator[Call]:
    op, x = graph(), features()
    yield Call("kernels.backend", lambda device: kernels.backend(device).__name__, {"device": "cpu"})
    yield Call("kernels.product", lambda **a: kernels.product(**a), {"a": torch.rand(4, 6), "b": x})
    yield Call(
        "kernels.stack_matmul",
        lambda h, w: kernels.stack_matmul(h, w),
        {"h": torch.rand(6, 2, 3), "w": torch.rand(2, 3, 4)},
    )
    yield Call("kernels.stack_mean", lambda h: kernels.stack_mean(h), {"h": torch.rand(6, 2, 3)})
    yield Call(
        "kernels.dropout", lambda **a: kernels.dropout(**a), {"x": x, "seed": torch.tensor([3]), "p": 0.5, "step": 1}
    )
    yield Call(
        "kernels.dropout_trials", lambda x, seed, p, step: kernels.dropout_trials(x, seed, p, step),
        {"x": torch.rand(6, 2, 3), "seed": torch.tensor([3, 4]), "p": torch.tensor([0.5, 0.2]).double(), "step": 1},
    )  # fmt: skip
    yield Call(
        "kernels.sort_coo",
        lambda row, col, m, n: kernels.sort_coo(row, col, m, n),
        {"row": edges()[0], "col": edges()[1], "m": 6, "n": 6},
    )
    yield Call(
        "kernels.transpose",
        lambda rowptr, col, n: kernels.transpose(rowptr, col, n),
        {"rowptr": op.rowptr, "col": op.col, "n": 6},
    )
    whole = {
        "rowptr": op.rowptr, "col": op.col, "value": op.value, "t_rowptr": op.rowptr, "t_col": op.col,
        "t_value": op.value, "perm": None, "inverse": None, "x": x,
    }  # fmt: skip
    yield Call("kernels.spmm", lambda **a: kernels.spmm(*a.values()), whole)
    rest = {"skip": None, "bias": None, "seed": None, "p": 0.0, "step": 0, "act": "relu", "slope": 0.0}
    yield Call("kernels.gcs", lambda **a: kernels.gcs(*a.values()), whole | rest)
    pattern = {name: whole[name] for name in ("rowptr", "col", "t_rowptr", "t_col")}
    yield Call(
        "kernels.sddmm",
        lambda **a: kernels.sddmm(*a.values()),
        pattern | {"perm": None, "inverse": None, "a": x, "b": x},
    )
    yield Call("kernels.neighbour_max", lambda **a: kernels.neighbour_max(**a), pattern | {"x": x})
    there = (op.rowptr, op.col)
    yield Call(
        "kernels.neighbour_attention", lambda **a: kernels.neighbour_attention(**a),
        {"there": there, "back": there, "z": torch.rand(6, 2, 3), "s": torch.rand(6, 2), "d": torch.rand(6, 2),
         "slope": 0.2},
    )  # fmt: skip
    yield Call(
        "kernels.added_attention", lambda **a: kernels.added_attention(**a),
        {"there": there, "back": there, "x": torch.rand(6, 1, 3), "weight": torch.rand(1, 2, 3, 4), "s": torch.rand(6,
         1, 2),
         "d": torch.rand(6, 1, 2), "slope": 0.2},
    )  # fmt: skip
    blocks = kernels.DenseBlocks(torch.rand(5), torch.tensor([1, 0]), torch.tensor([0, 2, 3]), longest=2)
    yield Call(
        "kernels.block_product",
        lambda **a: kernels.block_product(**a),
        {"blocks": blocks, "x": torch.rand(3, 2), "transposed": False},
    )
    yield Call(
        "kernels.DenseBlocks", lambda **a: kernels.block_product(kernels.DenseBlocks(**a), torch.rand(3, 2)),
        {"store": blocks.store, "first": blocks.first, "ptr": blocks.ptr, "longest": 2},
    )  # fmt: skip
