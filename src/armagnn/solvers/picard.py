"""Plain fixed-point iteration."""

from __future__ import annotations

from torch import Tensor

from armagnn.arguments import checked
from armagnn.solvers.iteration import Map, Solution, iterate


@checked
def picard(function: Map, initial: Tensor, tol: float, max_iter: int, contraction: float | None = None) -> Solution:
    r"""Solve :math:`x = g(x)` by :math:`x^{(t+1)} = g(x^{(t)})`, until :math:`\|x^{(t+1)} - x^{(t)}\| < tol`.

    This is Eq. 14 iterated until convergence. If g contracts by c, the residual falls by c in every step, and what is
    found is not farther than c / (1 - c) times the residual from the fixed point: ``contraction`` turns it into a bound
    of the error, `Statistics.bounds`. Autograd follows all steps, where it is switched on.

    Args:
        function: g, as a `Map`: it takes the states and the numbers of the problems that have not stopped yet.
        initial: x(0) of P independent problems, shape (P, D).
        tol: the tolerance.
        max_iter: the most steps of a problem.
        contraction: c, where it is known.

    Example:
        >>> import torch
        >>> a = torch.tensor([[0.9], [0.1]])
        >>> solution = picard(lambda x, rows: a[rows] * x + 1, torch.zeros(2, 1), tol=1e-3, max_iter=100)
        >>> solution.value.squeeze(), solution.statistics.steps
        (tensor([9.9914, 1.1111]), [67, 5])
    """
    return iterate(function, initial, tol, max_iter, _Plain(), contraction)


class _Plain:
    """No acceleration."""

    plain = True

    def propose(self, state: Tensor, image: Tensor, residuals: list[float]) -> Tensor:
        return image

    def keep(self, mask: Tensor) -> None:
        pass
