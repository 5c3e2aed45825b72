"""Blocks of columns; and sums of very many numbers in float32, which lose all but a few digits if added one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("numba")

from armagnn import GraphOperator
from armagnn.kernels import backend, cpu, neighbour_attention, neighbour_max, reference
from armagnn.kernels.cpu import dense
from armagnn.kernels.cpu.dense import ACTIVATED, PLAIN
from armagnn.kernels.cpu.gather import WIDEST
from armagnn.kernels.cpu.sparse import column_blocks
from armagnn.kernels.reference import LONG
from armagnn.nn import ARMAConv
from kernels.cpu.called import multiply

LEAVES = 10**6
TENTH = 0.1
"""Its sum in float32 drifts in one direction: a million of them, one by one, make 100,958."""


def test_blocks_cover_every_column_once() -> None:
    for width in range(1, 301):
        starts, widths = (each.tolist() for each in column_blocks(width))
        covered = [c for start, size in zip(starts, widths, strict=True) for c in range(start, start + size)]
        assert covered == list(range(width))
        assert set(widths[:-1]) <= {WIDEST}
        assert 0 < widths[-1] <= WIDEST


def star(leaves: int) -> Tensor:
    """Node 0 joined to all others, in both directions."""
    leaf = torch.arange(1, leaves + 1)
    return torch.stack([torch.cat([leaf, 0 * leaf]), torch.cat([0 * leaf, leaf])])


def relative(actual: Tensor, truth: Tensor) -> float:
    return float((actual.detach().double() - truth.detach()).norm() / truth.detach().norm())


@pytest.mark.parametrize("kind", ["arma", "adjacency"])
def test_a_star_of_a_million_leaves(kind: str) -> None:
    """The product, and the gradients of what is multiplied and of the weights of the edges."""
    edges, found = star(LEAVES), []
    for dtype in (torch.float32, torch.float64):
        weight = torch.full((edges.shape[1],), TENTH, dtype=torch.float32).to(dtype).requires_grad_()
        x = (
            torch.linspace(0.5, 1.5, LEAVES + 1, dtype=torch.float32)
            .unsqueeze(1)
            .repeat(1, 2)
            .to(dtype)
            .requires_grad_()
        )
        op = GraphOperator.from_edge_index(edges, num_nodes=LEAVES + 1, edge_weight=weight, kind=kind)
        y = op @ x
        (y[0] * y[1:].square().mean(0)).sum().backward()
        found.append((y[0], y, x.grad[0], x.grad, weight.grad))
    for ours, truth in zip(*found, strict=True):
        assert relative(ours, truth) < 1e-5


def test_no_norm_exceeds_one() -> None:
    """The norm of a star's operator is that of its centre's row. Theorem 1 trusts that it is 1."""
    weight = torch.full((2 * LEAVES,), 0.001)  # whose sum, one by one, is too small
    op = GraphOperator.from_edge_index(star(LEAVES), num_nodes=LEAVES + 1, edge_weight=weight)
    assert float(op.value[:LEAVES].double().norm()) < 1 + 1e-6


LENGTHS = [0, 1, LONG - 1, LONG, LONG + 1, 2 * LONG, 2 * LONG + 1, 7 * LONG - 1]


def matrix(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of lengths on both sides of every border between pieces."""
    rng = np.random.default_rng(seed)
    col = torch.from_numpy(rng.integers(0, 500, sum(LENGTHS))).int()
    pointer = torch.tensor([0, *np.cumsum(LENGTHS)]).int()
    return pointer, col, torch.from_numpy(rng.uniform(-1, 1, sum(LENGTHS)))


@pytest.mark.parametrize("kernels", [cpu, reference], ids=lambda module: module.__name__)
@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 67, 130])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rows_of_every_number_of_pieces(kernels: Any, width: int, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(width)
    pointer, col, value = matrix()
    x, skip = (torch.from_numpy(rng.standard_normal((rows, width))).to(dtype) for rows in (500, len(LENGTHS)))
    bias = torch.from_numpy(rng.standard_normal(width)).to(dtype)
    value = value.float().to(dtype if dtype == torch.float64 else torch.float32)
    dense = torch.zeros(len(LENGTHS), 500, dtype=torch.float64)
    dense.index_put_((reference.rows_of(pointer, col.numel()).long(), col.long()), value.double(), accumulate=True)
    truth = torch.relu(dense @ x.double() + skip.double() + bias.double())
    ours = kernels.gcs(pointer, col, value, x, skip, bias, "relu", 0.0)
    tolerance = {torch.float32: 1e-6, torch.float64: 4e-15, torch.bfloat16: 4e-3}[dtype]
    assert relative(ours, truth) < tolerance
    assert torch.equal(ours[0], torch.relu(skip[0] + bias))


def test_infinities_and_nan_pass_through_pieces() -> None:
    pointer, col = torch.tensor([0, 3 * LONG]).int(), torch.zeros(3 * LONG).int()
    col[1] = 1
    value = torch.ones(3 * LONG)
    for number in (torch.inf, -torch.inf, torch.nan):
        x = torch.tensor([[1.0], [number]])
        out = cpu.gcs(pointer, col, value, x, None, None, "none", 0.0)
        torch.testing.assert_close(out, torch.tensor([[number]]), equal_nan=True)


@pytest.mark.parametrize("way", [PLAIN, ACTIVATED])
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 40), (17, 33)])
def test_dense_products_of_a_long_sum(way: int, rows: int, width: int) -> None:
    a, b = np.full((rows, LEAVES // 10), TENTH, np.float32), np.ones((LEAVES // 10, width), np.float32)
    out = np.ones((rows, width), np.float32)
    multiply(out, out, a, b, way, out, np.float32(1))
    np.testing.assert_allclose(out, 1 + np.float64(a[0, 0]) * a.shape[1], rtol=1e-5)


def test_products_of_many_trials() -> None:
    x, g = torch.full((LEAVES, 4, 1), TENTH), torch.ones(LEAVES, 4, 2)
    torch.testing.assert_close(dense.outer(x, g), torch.full((4, 1, 2), LEAVES * float(x[0, 0, 0])), rtol=1e-5, atol=0)


def layers(batch: int, **options: Any) -> list[dict[str, Tensor]]:
    """The value and all gradients of a layer on a star, in float32 and in float64."""
    leaves, found = 2000 if batch else 200_000, []
    for dtype in (torch.float32, torch.float64):
        op = GraphOperator.from_edge_index(star(leaves), num_nodes=leaves + 1).to(dtype)
        torch.manual_seed(0)
        conv = ARMAConv(1, 2, act="leaky_relu", **options)
        conv = conv.to(dtype)
        shape = (batch, leaves + 1, 1) if batch else (leaves + 1, 1)
        x = torch.full(shape, TENTH, dtype=torch.float32).to(dtype).requires_grad_()
        y = conv(x, op)
        y.backward(torch.full_like(y, TENTH))
        grads = {name: each.grad for name, each in conv.named_parameters()}
        found.append({"y": y[..., 0, :], "x": x.grad} | grads)
    return found


@pytest.mark.parametrize("batch", [0, 300])
@pytest.mark.parametrize(("stacks", "steps"), [(1, 1), (4, 3)])
def test_a_layer_on_a_star(batch: int, stacks: int, steps: int) -> None:
    """The weights and biases of a layer have gradients that are sums over all nodes, or over all nodes of a batch."""
    ours, truth = layers(batch, num_stacks=stacks, num_layers=steps)
    for name in truth:
        assert relative(ours[name], truth[name]) < 3e-5, (name, relative(ours[name], truth[name]))


def both_ways(leaves: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    op = GraphOperator.from_edge_index(star(leaves), num_nodes=leaves + 1)
    return (op.rowptr, op.col), (op.rowptr, op.col)


def test_attention_and_maxima_on_a_star() -> None:
    leaves = 10**6
    there, back = both_ways(leaves)
    found = []
    for dtype in (torch.float32, torch.float64):
        z = torch.full((leaves + 1, 1, 1), TENTH, dtype=torch.float32).to(dtype)
        z[1] = 5.0  # of which the mean keeps a millionth
        z.requires_grad_()
        s, d = (torch.zeros(leaves + 1, 1, dtype=dtype, requires_grad=True) for _ in range(2))
        out = neighbour_attention(there, back, z, s, d, 0.2)
        out.sum().backward()
        flat = torch.full((leaves + 1, 1), TENTH, dtype=torch.float32).to(dtype).requires_grad_()
        most = neighbour_max(*there, *back, flat)
        (TENTH * most).sum().backward()
        found.append((out[0], z.grad[0], flat.grad[0]))
    for ours, truth in zip(*found, strict=True):
        assert relative(ours, truth) < 1e-5


@pytest.mark.parametrize("count", [2, 3])
def test_the_bits_do_not_depend_on_the_threads(count: int) -> None:
    edges = star(100_000)
    op = GraphOperator.from_edge_index(edges, num_nodes=100_001)
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((100_001, 20))).float()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = op @ x
        torch.set_num_threads(count)
        assert torch.equal(op @ x, alone)
    finally:
        torch.set_num_threads(before)
    assert backend("cpu") is cpu
