"""Dense truth of the layers that are one polynomial: the matrices of the basis, by their definitions."""

from __future__ import annotations

from math import comb

import numpy as np
import torch
from scipy.special import eval_jacobi
from torch import Tensor

import oracles


def normalised(adjacency: Tensor) -> Tensor:
    """D^-1/2 A D^-1/2, dense."""
    return torch.from_numpy(oracles.operator(adjacency.numpy(), "arma"))


def powers(matrix: Tensor, degree: int) -> list[Tensor]:
    found = [torch.eye(len(matrix), dtype=matrix.dtype)]
    for _ in range(degree):
        found.append(found[-1] @ matrix)
    return found


def bernstein(matrix: Tensor, degree: int) -> list[Tensor]:
    eye = torch.eye(len(matrix), dtype=matrix.dtype)
    low, high = powers(eye - matrix, degree), powers(eye + matrix, degree)
    return [comb(degree, k) / 2**degree * low[k] @ high[degree - k] for k in range(degree + 1)]


def jacobi(matrix: Tensor, degree: int) -> list[Tensor]:
    """By their monomials: scipy's values at Chebyshev points, fitted exactly."""
    points = np.cos((2 * np.arange(degree + 1) + 1) * np.pi / (2 * (degree + 1)))
    own = powers(matrix, degree)
    vandermonde = np.vander(points, degree + 1, increasing=True)
    found = []
    for k in range(degree + 1):
        monomials = np.linalg.solve(vandermonde, eval_jacobi(k, 1, 1, points))
        found.append(sum((c * m for c, m in zip(monomials.tolist(), own, strict=True)), torch.zeros_like(matrix)))
    return found
