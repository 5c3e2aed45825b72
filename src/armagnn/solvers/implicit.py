"""The gradient of a fixed point, without the way there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import real_tensor
from armagnn.errors import ParameterError
from armagnn.kernels.transforms import ReverseOnly, gradients_by_loop
from armagnn.solvers.iteration import Map, Solution

Solver = Callable[[Map, Tensor], Solution]
"""Solves x = g(x) from an initial state."""


@checked
def implicit(step: Map, frozen: Map, solution: Tensor, solve: Solver) -> Tensor:
    r"""Return the fixed point :math:`x = g(x, \theta)` with its gradient by the implicit function theorem,

    .. math::
        \frac{\partial \ell}{\partial \theta} = u \frac{\partial g}{\partial \theta}, \qquad
        u = \frac{\partial \ell}{\partial x} + u \frac{\partial g}{\partial x}.

    u is the fixed point of the adjoint map, which contracts as g does; it is solved for in the backward pass. One step
    is kept for that, however many were taken. The second derivative is refused.

    Args:
        step: g with parameters that autograd follows.
        frozen: the same g with parameters that need no gradient.
        solution: x, shape (P, D).
        solve: how to solve the adjoint problem; the right-hand side is scaled to length one, so that a tolerance means
            the same whatever the loss.

    Example:
        >>> import torch
        >>> from armagnn.solvers import picard
        >>> a = torch.tensor(0.5, requires_grad=True)
        >>> solve = lambda g, start: picard(g, start, tol=1e-6, max_iter=100)
        >>> x = implicit(lambda x, _: a * x + 1, lambda x, _: 0.5 * x + 1, torch.tensor([[2.0]]), solve)
        >>> torch.autograd.grad(x.sum(), a)  # of 1 / (1 - a)
        (tensor(4.0000),)
    """
    real_tensor("solution", solution, "(P, D)")
    rows = torch.arange(solution.shape[0], device=solution.device)
    with torch.enable_grad():
        image = step(solution.detach(), rows)

    def adjoint(gradient: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        length = torch.where(length > 0, length, 1.0)
        right = gradient / length
        return length * solve(_transposed(frozen, solution.detach(), right), right).value

    attached: Tensor = _Attach.apply(image, solution.detach(), adjoint)  # type: ignore[no-untyped-call]
    return attached


def _transposed(frozen: Map, point: Tensor, right: Tensor) -> Map:
    """Return the adjoint map u -> right + u ∂g/∂x at a point; g is linearised again when problems have stopped."""
    kept: list[tuple[Tensor, Tensor, Tensor]] = []

    def function(u: Tensor, rows: Tensor) -> Tensor:
        if not kept or kept[0][0] is not rows:
            with torch.enable_grad():
                x = point[rows].requires_grad_()
                kept[:] = [(rows, x, frozen(x, rows))]
        _, x, image = kept[0]
        (down,) = torch.autograd.grad(image, x, u, retain_graph=True)
        return right[rows] + down

    return function


class _Attach(ReverseOnly):
    """The solution, whose gradient goes through the adjoint problem to the step that starts and ends there."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, solution: Tensor, adjoint: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.adjoint = adjoint
        return solution.view_as(solution)

    @staticmethod
    @gradients_by_loop
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            raise ParameterError(
                "the implicit gradient of a fixed point cannot be differentiated again (create_graph=True): "
                "use FixedPoint(backward='unrolled')."
            )
        with torch.autocast(gradient.device.type, enabled=False):  # a backward pass within autocast would round it
            return ctx.adjoint(gradient), None, None
