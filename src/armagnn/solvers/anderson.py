"""Fixed-point iteration with Anderson's acceleration."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import integer
from armagnn.solvers.iteration import Map, Solution, Total, iterate

MEMORY = 10
"""Steps that are mixed."""

MOST = 10_000
"""The largest memory: its square is kept for every problem."""

RIDGE = 1e-12
"""Added to the diagonal of the normal equations, whose diagonal is one: they are solved in float64."""


@checked
def anderson(
    function: Map,
    initial: Tensor,
    tol: float,
    max_iter: int,
    memory: int = MEMORY,
    contraction: float | None = None,
    total: Total | None = None,
) -> Solution:
    r"""Solve :math:`x = g(x)` by mixing the last images, each problem with its own weights:

    .. math::
        x^{(t+1)} = \sum_i \alpha_i g(x^{(t-i)}), \qquad
        \alpha = \arg\min_{\sum_i \alpha_i = 1} \left\| \sum_i \alpha_i (g(x^{(t-i)}) - x^{(t-i)}) \right\|.

    Where a contraction is weak (c near 1) and plain iteration needs thousands of steps, this needs tens or hundreds. It
    is safeguarded: a step that makes the residual larger is thrown away, with all that was remembered, and the plain
    step from the last good state is taken instead. So a contraction is solved for certain, in hardly more steps than
    plain iteration takes.

    Autograd does not follow it: the weights depend on the states too. See `implicit` for the gradient of the solution.

    Args:
        function: g, as a `Map`: it takes the states and the numbers of the problems that have not stopped yet.
        initial: x(0) of P independent problems, shape (P, D).
        tol: the tolerance of ||g(x) - x||.
        max_iter: the most steps (evaluations of g) of a problem.
        memory: images that are mixed, at least 3.
        contraction: the c of g, where it is known, for `Statistics.bounds`.
        total: sums over the ranks, where each holds a part of every state.

    Example:
        >>> import torch
        >>> decay = torch.linspace(0.0, 0.99, 6)
        >>> solution = anderson(lambda x, rows: decay * x + 1, torch.zeros(1, 6), tol=1e-3, max_iter=100)
        >>> solution.statistics.steps[0] < 20
        True
        >>> round(float(solution.value[0, -1]), 1)  # 1 / (1 - 0.99)
        100.0
    """
    with torch.no_grad():
        mixing = _Mixing(max(integer("memory", memory, most=MOST), 3), total)
        return iterate(function, initial, tol, max_iter, mixing, contraction, total)


class _Mixing:
    """The last images and their residuals, of all problems: slots of a ring, each usable or not for each problem."""

    plain = False

    def __init__(self, memory: int, total: Total | None) -> None:
        self.memory, self.count, self.total = memory, 0, total
        self.last: list[float] = []  # the residuals of the last good steps
        self.newest: list[int] = []  # the slots of these

    def _start(self, image: Tensor) -> None:
        problems, size = image.shape
        self.images = image.new_zeros(problems, self.memory, size)
        self.residuals = torch.zeros_like(self.images, dtype=torch.float64)
        # what is small lives on the processor, where the loop looks at the residuals anyway
        self.gram = np.zeros((problems, self.memory, self.memory))
        self.usable = np.zeros((problems, self.memory), dtype=bool)
        self.last, self.newest = [math.inf] * problems, [0] * problems

    def keep(self, mask: Tensor) -> None:
        if self.count == 0:
            return
        self.images, self.residuals = self.images[mask], self.residuals[mask]
        kept = mask.nonzero().flatten().tolist()
        self.gram, self.usable = self.gram[kept], self.usable[kept]
        self.last, self.newest = [self.last[k] for k in kept], [self.newest[k] for k in kept]

    def propose(self, state: Tensor, image: Tensor, residuals: list[float]) -> Tensor:
        if self.count == 0:
            self._start(image)
        slot = self.count % self.memory
        self.count += 1
        self.images[:, slot] = image
        self.residuals[:, slot] = image - state
        self.usable[:, slot] = True
        for k, residual in enumerate(residuals):
            if residual <= self.last[k]:
                self.last[k], self.newest[k] = residual, slot
            else:  # or NaN: only the last good image is left; the next step, a plain one, is accepted in any case
                self.images[k, slot] = self.residuals[k, slot] = 0.0
                self.usable[k] = False
                self.usable[k, self.newest[k]] = True
                self.last[k] = math.inf
        products = torch.bmm(self.residuals, self.residuals[:, slot].unsqueeze(2)).squeeze(2)
        products = products if self.total is None else self.total(products)
        self.gram[:, slot] = self.gram[:, :, slot] = products.cpu().numpy()
        weights = torch.from_numpy(self._weights()).to(image)
        return torch.bmm(weights.unsqueeze(1), self.images).squeeze(1)

    def _weights(self) -> NDArray[np.float64]:
        """Return α, shape (P, memory): the least squares by normal equations, with every residual scaled to one."""
        square = np.diagonal(self.gram, axis1=1, axis2=2)
        usable = self.usable & (square > 0)
        scale = np.where(usable, square, 1.0) ** -0.5 * usable
        ridge = np.where(usable, RIDGE, 1.0)[:, None] * np.eye(self.memory)
        matrix = scale[:, :, None] * self.gram * scale[:, None, :] + ridge
        share = np.linalg.solve(matrix, scale[:, :, None])[:, :, 0] * scale
        normal: NDArray[np.float64] = share / share.sum(axis=1, keepdims=True)
        return normal
