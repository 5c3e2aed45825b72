"""Theorem 1: a GCS step with ||W|| < 1, ||L|| <= 1 and a σ that does not expand has one fixed point; the way to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn

from armagnn import checks
from armagnn.errors import GraphError, ParameterError, ShapeError, UnsupportedError, shown
from armagnn.kernels import Settings
from armagnn.nn.activations import name_of
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.extremes import DENSE, extremal_eigenvalues, random_start
from armagnn.operators.kept import once_per_operator
from armagnn.solvers import FixedPoint, Solution

if TYPE_CHECKING:
    from armagnn.nn.arma_recursion import Recursion

# ----------------------------------------------------------------------------------------------------------- weights


def bounded(weight: Tensor, contraction: float) -> Tensor:
    r"""Return :math:`W_k = c \, \Omega_k / \max(1, \|\Omega_k\|_2)`, so that :math:`\|W_k\|_2 \le c`, differentiably.

    The norm is exact (a singular value, not a power iteration), so the bound holds for whatever numbers the parameter
    Ω has: when it is drawn and after every step of an optimiser. All W with :math:`\|W\|_2 \le c` can be reached.

    Args:
        weight: Ω, shape (..., F, F).
        contraction: c.

    Example:
        >>> import torch
        >>> weight = bounded(torch.tensor([[0.0, 4.0], [0.0, 0.0]]), 0.9)
        >>> torch.linalg.matrix_norm(weight, 2)
        tensor(0.9000)
    """
    with torch.autocast(weight.device.type, enabled=False):
        wide = weight.float() if weight.dtype == torch.bfloat16 else weight
        # a little more than the norm, so that its rounding does not push the product over the bound
        width, margin = wide.shape[-1], 1.0 + 4 * wide.shape[-1] * torch.finfo(wide.dtype).eps
        if wide.dtype != weight.dtype:  # entries rounded by half a unit change the norm by no more than this
            margin += 0.5 * width**0.5 * torch.finfo(weight.dtype).eps
        try:
            norm = margin * torch.linalg.matrix_norm(wide, 2, keepdim=True)
        except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
            raise ParameterError("the weights W hold values that are not finite: their norm is not known.") from error
        scaled: Tensor = wide * (contraction / norm.clamp(min=1.0))
        return scaled.to(weight.dtype)


# ------------------------------------------------------------------------------------------------------- activations

_FINE: Final = ("relu", "leaky_relu", "elu", "celu", "tanh", "sigmoid", "softplus", "softsign")
_EXPANSIVE: Final = ("gelu", "silu", "mish", "selu", "hardswish")


class NonExpansive(nn.Module):
    """Declares that a function σ of your own is non-expansive, |σ(a) - σ(b)| <= |a - b|, as Theorem 1 needs it.

    Nobody checks the promise. A module keeps its parameters; they, too, must never make it expansive.

    Example:
        >>> import torch
        >>> from armagnn.nn import ARMAConv
        >>> from armagnn.solvers import FixedPoint
        >>> ARMAConv(8, 16, act=NonExpansive(torch.sin), fixed_point=FixedPoint()).act
        NonExpansive(sin)
    """

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        if isinstance(function, type) or not callable(function):
            raise ParameterError(f"NonExpansive declares a callable, got {shown(function)}.")
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Return σ(x)."""
        return self.function(checks.dense("x", x, "(...)"))

    def __repr__(self) -> str:
        return f"NonExpansive({getattr(self.function, '__name__', self.function)})"


def check_nonexpansive(act: str | Callable[[Tensor], Tensor] | None) -> None:
    """Raise unless an activation is known, or declared, to be non-expansive.

    Example:
        >>> check_nonexpansive("elu")
        >>> check_nonexpansive("gelu")
        Traceback (most recent call last):
        armagnn.errors.ParameterError: fixed_point needs a non-expansive activation (Theorem 1), which gelu is not: use
        one of relu, leaky_relu, elu, celu, tanh, sigmoid, softplus, softsign.
    """
    declared, inner = isinstance(act, NonExpansive), act
    while isinstance(inner, NonExpansive):
        inner = inner.function
    name = None if inner is None else name_of(inner)
    if name in _EXPANSIVE:
        raise ParameterError(
            f"fixed_point needs a non-expansive activation (Theorem 1), which {name} is not: "
            f"use one of {', '.join(_FINE)}."
        )
    if inner is None:
        return
    if name is None and not declared:
        raise ParameterError(
            f"fixed_point needs a non-expansive activation (Theorem 1), and nothing is known about {shown(inner)}: "
            "declare it by act=NonExpansive(function) if |σ(a) - σ(b)| <= |a - b|."
        )
    slope = {"leaky_relu": "negative_slope", "elu": "alpha", "celu": "alpha"}.get(name or "")
    number = getattr(inner, slope, 1.0) if slope is not None else 1.0
    if not (0 < number <= 1 if name == "celu" else abs(number) <= 1):  # of a negative alpha, celu grows like an exp
        raise ParameterError(
            f"fixed_point needs a non-expansive activation (Theorem 1), and {name} with {slope}={number:g} may not be "
            f"one: use a {slope} in (0, 1]."
        )


# --------------------------------------------------------------------------------------------------------- operators


def check_operator(op: GraphOperator) -> None:
    """Raise unless an operator's norm is at most 1, up to the rounding of its values; worked out once per operator."""
    norm = operator_norm(op)
    # values may have been rounded to float32 before they were converted
    if not norm <= 1 + 16 * max(torch.finfo(op.dtype).eps, torch.finfo(torch.float32).eps):
        advice = "symmetrize='max' or 'mean'" if not op.symmetric else "the default lambda_min and lambda_max"
        raise GraphError(
            f"fixed_point needs an operator with a norm of at most 1 (Theorem 1), and this one has {norm:.9g}: "
            f"build it with {advice}."
        )


@once_per_operator
def operator_norm(op: GraphOperator) -> float:
    r"""Return the norm :math:`\|\tilde L\|_2` of an operator, or 1 where its kind says that it is no more.

    :math:`D^{-1/2} A D^{-1/2}` of an undirected graph has its eigenvalues in [-1, 1]. An ``arma`` operator without
    entries on its diagonal is that; with entries it may also be shifted by another λmin or λmax, and its eigenvalues
    are computed. So are the singular values of a directed one, unless a bound by its sums settles the matter.

    Example:
        >>> import torch
        >>> from armagnn import GraphOperator
        >>> star = torch.tensor([[0, 0, 0, 0, 1], [1, 2, 3, 4, 0]])  # directed, in-degrees of one
        >>> round(operator_norm(GraphOperator.from_edge_index(star)), 4)
        2.0
    """
    op = op.detach()
    if op.whole and op.nnz == 0:
        return 0.0
    if op.kind == "arma" and op.symmetric and not bool(op.most((op._rows() == op.col).sum())):
        return 1.0
    if not op.whole:
        raise UnsupportedError(
            "the norm of a PartitionedOperator is known only of undirected graphs without self-loops, of kind 'arma' "
            "with the default lambda_min and lambda_max: remove the self-loops, or use one process."
        )
    size = op.with_value(op.value.abs())
    ones = torch.ones(op.num_nodes, 1, dtype=op.dtype, device=op.device)
    bound = math.sqrt(float((size @ ones).max()) * float((size.T @ ones).max()))
    if bound <= 1:
        return bound
    if op.symmetric:
        low, high = extremal_eigenvalues(op)
        return max(abs(low), abs(high))
    if op.num_nodes <= DENSE:
        return float(torch.linalg.matrix_norm(op.to_dense().double(), 2))
    return _largest_singular_value(op)


def _largest_singular_value(op: GraphOperator) -> float:
    import scipy.sparse.linalg

    matrix = op.to(torch.float64).to_scipy()
    start = random_start(op.num_nodes)
    return float(scipy.sparse.linalg.svds(matrix, k=1, v0=start, return_singular_vectors=False)[0])


# ---------------------------------------------------------------------------------------------------------- iteration


@dataclass(frozen=True)
class _Step:
    """One GCS step of the stacks that are asked for, as a `Map` of the solvers: states of shape (K', N * batch * F)."""

    op: GraphOperator
    weight: Tensor  # W, (K, F, F)
    skip: Tensor  # dropout(X V) + bias, (N * batch, K, F)
    settings: Settings
    activation: Callable[[Tensor], Tensor] | None

    def __call__(self, state: Tensor, rows: Tensor) -> Tensor:
        weight, skip = self.weight, self.skip
        if rows.shape[0] < weight.shape[0]:
            weight, skip = weight.index_select(0, rows), skip.index_select(1, rows)
        stacks, width = weight.shape[:2]
        h = torch.bmm(state.view(stacks, skip.shape[0], width), weight).transpose(0, 1)
        nodes = self.op.num_nodes
        shape = (nodes, h.numel() // max(nodes, 1))
        h, skip = h.reshape(shape), skip.reshape(shape)
        out = self.op._step(h, skip, None, None, 0.0, 0, self.settings.act, self.settings.slope)
        out = out.view(-1, stacks, width)
        if self.activation is not None:  # of one stack at a time: which others have not stopped yet must not matter
            out = torch.cat([self.activation(stack) for stack in torch.split(out, 1, dim=1)], dim=1)
        return out.transpose(0, 1).reshape(state.shape)

    def detach(self) -> _Step:
        return replace(self, op=self.op.detach(), weight=self.weight.detach(), skip=self.skip.detach())


@torch.compiler.disable  # how many steps there are depends on the values
def converge(
    fixed_point: FixedPoint,
    recursion: Recursion,
    op: GraphOperator,
    features: Tensor | CSR,
    initial: Tensor | None = None,
) -> Solution:
    r"""Solve :math:`\bar X_k = \sigma(\tilde L \bar X_k W_k + X V_k)` for all stacks, each by itself.

    The skip connection, with its one dropout mask, is computed once: it is the same in every step.

    Args:
        fixed_point: how to solve it.
        recursion: the steps; its W is bounded already.
        op: the operator L, whose norm must not be above 1 (`check_operator`).
        features: X, dense of shape (N * batch, F_in), node-major, or sparse of shape (N, F_in).
        initial: X(0), shape (K, N * batch * F_out), zero by default; the solution does not depend on it.

    Returns:
        the states, shape (K, N * batch * F_out), and the statistics of the solve.
    """
    settings, (_, w, _, bias) = recursion.settings, recursion.weights
    assert w is not None
    skip = recursion.skip(0, features)
    if recursion.seed is not None:
        skip = op._dropout(skip, recursion.seed, settings.p, 0)
    skip = skip if bias is None else skip + bias.squeeze(0)
    skip = skip.reshape(-1, settings.stacks, settings.width)
    step = _Step(op, w.squeeze(0), skip, settings, recursion.activation)
    if initial is None:
        initial = skip.new_zeros(settings.stacks, skip.shape[0] * settings.width)
    return fixed_point.solve(step, step.detach(), initial, None if op.whole else op.total)


def check_state(name: str, state: Any, shape: tuple[int, ...], like: Tensor | CSR) -> Tensor:
    """Return a state of all stacks, node-major of shape (K, N * batch * F), from (K, ..., N, F)."""
    if not isinstance(state, Tensor):
        raise ShapeError(f"{name} must be a tensor of shape {shape}, the states of all stacks, got {shown(state)}.")
    checks.real_tensor(name, state, str(shape))
    if tuple(state.shape) != shape:
        raise ShapeError(f"{name} must have shape {shape}, the states of all stacks, got {tuple(state.shape)}.")
    if state.dtype != like.dtype or state.device != like.device:
        raise ParameterError(f"{name} is {state.dtype} on {state.device}, x {like.dtype} on {like.device}: use .to(x).")
    stacks, *batch, nodes, width = shape
    rows = state.reshape(stacks, math.prod(batch), nodes, width).transpose(1, 2)
    return rows.reshape(stacks, math.prod(batch) * nodes * width)
