"""Dense float64 truths, in plain numpy: what graphs, operators and kernels must equal. Nothing here uses armagnn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[Any]

TOLERANCE = {torch.float64: 1e-11, torch.float32: 3e-6, torch.bfloat16: 3e-2}
"""Relative and absolute error that a result in a type may have where the numbers are of order one."""


def assert_near(actual: Tensor, truth: Array | Tensor, tolerance: float | None = None) -> None:
    """Raise unless ``actual`` is the truth up to the rounding of its type; NaN equals NaN."""
    expected = torch.as_tensor(truth).detach()
    wide = torch.complex128 if expected.is_complex() or actual.is_complex() else torch.float64
    expected = expected.to(wide)
    tolerance = TOLERANCE[actual.dtype] if tolerance is None else tolerance
    scale = max(1.0, float(expected.abs().nan_to_num(0.0, 0.0, 0.0).max())) if expected.numel() else 1.0
    actual = actual.detach().to(wide)
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


# --------------------------------------------------------------------------------------------------------------- graphs


@dataclass(frozen=True)
class Graph:
    """A weighted edge list, with everything a real one has: loops, parallel edges, lone nodes, zero weights."""

    num_nodes: int
    source: Array
    target: Array
    weight: Array

    @property
    def edge_index(self) -> Tensor:
        return torch.from_numpy(np.stack([self.source, self.target]).astype(np.int64))

    def edge_weight(self, dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.from_numpy(self.weight.astype(np.float64)).to(dtype)

    def dense(self) -> Array:
        """The adjacency: row i receives, so an edge source -> target is the entry [target, source]."""
        a = np.zeros((self.num_nodes, self.num_nodes))
        np.add.at(a, (self.target, self.source), self.weight)
        return a

    def both_ways(self) -> Graph:
        """The undirected graph: every edge in both directions, in one order, so that sums agree to the last bit."""
        join = np.concatenate
        return replace(
            self,
            source=join([self.source, self.target]),
            target=join([self.target, self.source]),
            weight=join([self.weight, self.weight]),
        ).merged()

    def merged(self) -> Graph:
        """The same adjacency without parallel edges, and exactly symmetric if it is symmetric at all."""
        a = self.dense()
        target, source = np.nonzero(a)
        return Graph(self.num_nodes, source, target, np.maximum(a, a.T)[target, source])

    def permuted(self, permutation: Array) -> Graph:
        """Node i becomes node ``permutation[i]``."""
        return replace(self, source=permutation[self.source], target=permutation[self.target])


def random_graph(num_nodes: int, num_edges: int, seed: int = 0, lone: int = 1) -> Graph:
    """A directed graph with self-loops, parallel edges and (the last ones) nodes without any edge."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, num_nodes - lone, size=(2, num_edges))
    return Graph(num_nodes, ends[0], ends[1], rng.uniform(0.2, 2.0, num_edges))


def operator(
    a: Array, kind: str, gamma: float = 1.0, lambda_min: float | str = 0.0, lambda_max: float | str = 2.0
) -> Array:
    """The operator of a kind as the paper writes it; ``a`` is the dense adjacency."""
    eye = np.eye(len(a))
    if kind == "adjacency":
        return a
    if kind == "gcn":
        return normalised(a + gamma * eye)
    laplacian = eye - normalised(a)
    if kind == "laplacian":
        return laplacian
    eigenvalues = np.linalg.eigvalsh((laplacian + laplacian.T) / 2) if len(a) else np.ones(1)
    low = eigenvalues[0] if lambda_min == "computed" else lambda_min
    high = eigenvalues[-1] if lambda_max == "computed" else lambda_max
    return (float(high) - float(low)) / 2 * eye - laplacian


def normalised(a: Array) -> Array:
    """D^-1/2 A D^-1/2 with the in-degrees, nothing for a node that receives nothing."""
    degree = a.sum(axis=1)
    scale = np.zeros_like(degree)
    scale[degree > 0] = degree[degree > 0] ** -0.5
    return scale[:, None] * a * scale[None, :]


def torch_operator(index: Tensor, weight: Tensor, num_nodes: int, kind: str, gamma: float = 1.0) -> Tensor:
    """The same as `operator` in dense torch, from edges: autograd through it is the truth for gradients."""
    a = torch.zeros(num_nodes, num_nodes, dtype=weight.dtype).index_put((index[1], index[0]), weight, accumulate=True)
    eye = torch.eye(num_nodes, dtype=weight.dtype)
    a = a + gamma * eye if kind == "gcn" else a
    if kind == "adjacency":
        return a
    degree = a.sum(1)
    scale = torch.stack([d**-0.5 if d > 0 else d.new_zeros(()) for d in degree])
    s = scale[:, None] * a * scale[None, :]
    return eye - s if kind == "laplacian" else s


# -------------------------------------------------------------------------------------------------------------- kernels


def sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


ACTIVATION: dict[str, Callable[[Array, float], Array]] = {
    "none": lambda z, slope: z,
    "relu": lambda z, slope: np.where(z < 0, 0.0, z),
    "leaky_relu": lambda z, slope: np.where(z < 0, slope * z, z),
    "elu": lambda z, slope: np.where(z < 0, slope * np.expm1(np.minimum(z, 0)), z),
    "tanh": lambda z, slope: np.tanh(z),
    "sigmoid": lambda z, slope: sigmoid(z),
}
"""Every activation of the kernels; the second argument is the leaky ReLU's slope or the ELU's alpha."""


@dataclass(frozen=True)
class Sparse:
    """A sparse matrix as the kernels take it, and dense. Stored zeros are allowed, and rows without entries."""

    rowptr: Tensor
    col: Tensor
    value: Tensor
    shape: tuple[int, int]

    @property
    def row(self) -> Array:
        return np.repeat(np.arange(self.shape[0]), np.diff(self.rowptr.numpy()))

    def dense(self) -> Array:
        a = np.zeros(self.shape)
        a[self.row, self.col.numpy()] = self.value.detach().double().numpy()
        return a

    def transposed(self) -> tuple[Tensor, Tensor, Tensor]:
        """(rowptr, col, perm) of the transpose, by numpy's stable sort."""
        col = self.col.numpy()
        perm = np.argsort(col, kind="stable")
        pointer = np.concatenate([[0], np.cumsum(np.bincount(col, minlength=self.shape[1]))])
        kind = self.col.numpy().dtype
        return tuple(torch.from_numpy(part.astype(kind)) for part in (pointer, self.row[perm], perm))  # type: ignore[return-value]

    def arguments(self, value: Tensor | None = None) -> tuple[Tensor, ...]:
        """The eight tensors of the registered operators, with the permutation that learned values need."""
        value = self.value if value is None else value
        pointer, t_col, perm = self.transposed()
        inverse = torch.from_numpy(np.argsort(perm.numpy(), kind="stable").astype(perm.numpy().dtype))
        return self.rowptr, self.col, value, pointer, t_col, value.index_select(0, perm), perm, inverse

    def pattern(self) -> tuple[Tensor, ...]:
        """The six tensors of `sddmm`."""
        rowptr, col, _, t_rowptr, t_col, _, perm, inverse = self.arguments()
        return rowptr, col, t_rowptr, t_col, perm, inverse


def sparse(
    rows: int,
    cols: int,
    density: float = 0.4,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    index: torch.dtype = torch.int32,
    whole: bool = False,
) -> Sparse:
    """A random matrix; ``whole`` numbers (-3 to 3) make every sum exact, in any order and any type."""
    rng = np.random.default_rng(seed)
    pattern = rng.random((rows, cols)) < density
    pattern[1::3] = False  # rows without entries
    row, col = np.nonzero(pattern)
    value = rng.integers(-3, 4, len(row)).astype(float) if whole else rng.uniform(-1, 1, len(row))
    pointer = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))])
    return Sparse(
        torch.from_numpy(pointer).to(index), torch.from_numpy(col).to(index), torch.from_numpy(value).to(dtype),
        (rows, cols),
    )  # fmt: skip


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64, whole: bool = False) -> Tensor:
    """Random numbers of order one, or whole ones from -3 to 3."""
    rng = np.random.default_rng(seed)
    array = rng.integers(-3, 4, shape).astype(float) if whole else rng.standard_normal(shape)
    return torch.from_numpy(array).to(dtype)
