"""The matrices that inherit every check of `test_csr`: each is how to build it and its dense float64 truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import torch

from armagnn import CSR, GraphOperator
from oracles import Array, operator, random_graph

DIRECTED = random_graph(9, 25, seed=1)
UNDIRECTED = random_graph(9, 10, seed=2).both_ways()
RECTANGLE = np.where(np.random.default_rng(3).random((6, 4)) < 0.5, np.random.default_rng(4).normal(size=(6, 4)), 0.0)


@dataclass(frozen=True)
class Subject:
    name: str
    build: Callable[[torch.dtype], CSR]
    truth: Array
    symmetric: bool


def of_kind(kind: str, directed: bool, **options: Any) -> Subject:
    graph = DIRECTED if directed else UNDIRECTED
    words = (kind, *(f"{k}={v}" for k, v in options.items()), "directed" if directed else "undirected")
    return Subject(
        "-".join(words),
        lambda dtype: GraphOperator.from_edge_index(graph.edge_index, 9, graph.edge_weight(dtype), kind, **options),
        operator(graph.dense(), kind, **options),
        not directed,
    )


def batch(dtype: torch.dtype) -> GraphOperator:
    parts = [of_kind("arma", False), of_kind("arma", True), of_kind("arma", False)]
    return GraphOperator.block_diagonal([part.build(dtype) for part in parts])  # type: ignore[misc]


KINDS = [
    of_kind(kind, directed, **options)
    for directed in (False, True)
    for kind, options in (
        ("arma", {}),
        ("arma", {"lambda_max": 1.5}),
        ("arma", {"lambda_min": 0.25, "lambda_max": 1.5}),
        ("gcn", {}),
        ("gcn", {"gamma": 0.0}),
        ("gcn", {"gamma": 2.5}),
        ("laplacian", {}),
        ("adjacency", {}),
    )
] + [
    of_kind("arma", False, lambda_max="computed"),
    of_kind("arma", False, lambda_min="computed", lambda_max="computed"),
]

ARMA = operator(UNDIRECTED.dense(), "arma")
OTHERS = [
    Subject("rectangle", lambda dtype: CSR.from_dense(torch.from_numpy(RECTANGLE), dtype), RECTANGLE, False),
    Subject("rectangle.T", lambda dtype: CSR.from_dense(torch.from_numpy(RECTANGLE), dtype).T, RECTANGLE.T, False),
    Subject(
        "directed.T",
        lambda dtype: of_kind("gcn", True).build(dtype).T,
        operator(DIRECTED.dense(), "gcn").T,
        False,
    ),
    Subject(
        "with_value",
        lambda dtype: _with_value(of_kind("arma", False).build(dtype)),
        np.where(ARMA != 0, np.arange(81.0).reshape(9, 9) / 81, 0.0),
        False,
    ),
    Subject(
        "block_diagonal",
        batch,
        scipy.linalg.block_diag(ARMA, operator(DIRECTED.dense(), "arma"), ARMA),
        False,
    ),
    Subject("no-edges", lambda dtype: _empty(3, dtype), np.zeros((3, 3)), True),
    Subject("no-nodes", lambda dtype: _empty(0, dtype), np.zeros((0, 0)), True),
    Subject(
        "one-node",
        lambda dtype: GraphOperator.from_edge_index(torch.zeros(2, 1, dtype=torch.int64), 1, dtype=dtype),
        np.ones((1, 1)),
        True,
    ),
]

SUBJECTS = KINDS + OTHERS
FEW = [of_kind("arma", False), of_kind("gcn", True), *OTHERS[:5]]
"""One of each sort, for the checks that take long."""


def _with_value(op: CSR) -> CSR:
    row = np.repeat(np.arange(9), np.diff(op.rowptr.numpy()))
    return op.with_value(torch.from_numpy((row * 9 + op.col.numpy()) / 81).to(op.dtype))


def _empty(nodes: int, dtype: torch.dtype) -> CSR:
    return GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64), nodes, dtype=dtype)
