"""Linear fixed points, their dense truth, and the solvers that find them."""

from __future__ import annotations

import torch
from torch import Tensor

from armagnn.solvers import anderson, picard
from armagnn.solvers.iteration import Map
from oracles import numbers

SOLVERS = {"picard": picard, "anderson": anderson}


def linear(problems: int, size: int, contraction: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Matrices with exactly this norm, and right-hand sides."""
    a = numbers(problems, size, size, seed=seed)
    return contraction * a / torch.linalg.matrix_norm(a, 2, keepdim=True), numbers(problems, size, seed=seed + 1)


def affine(a: Tensor, b: Tensor) -> Map:
    return lambda x, rows: torch.einsum("pij,pj->pi", a[rows], x) + b[rows]


def solved(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.solve(torch.eye(a.shape[-1], dtype=a.dtype) - a, b)
