"""What makes a GCS step a contraction (Theorem 1): ||W|| < 1, a non-expansive σ, and an operator with ||L|| <= 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from armagnn import checks
from armagnn.errors import GraphError, ParameterError, shown
from armagnn.nn.keep import once_per_operator
from armagnn.operators import GraphOperator
from armagnn.operators.extremes import DENSE, extremal_eigenvalues, random_start

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

_FUNCTIONS: Final[dict[Any, str]] = {
    function: name
    for name in _FINE + _EXPANSIVE
    for function in (getattr(torch, name, None), getattr(F, name, None))
    if function is not None
}
_MODULES: Final[dict[type, str]] = {
    nn.ReLU: "relu", nn.LeakyReLU: "leaky_relu", nn.ELU: "elu", nn.CELU: "celu", nn.Tanh: "tanh",
    nn.Sigmoid: "sigmoid", nn.Softplus: "softplus", nn.Softsign: "softsign", nn.GELU: "gelu", nn.SiLU: "silu",
    nn.Mish: "mish", nn.SELU: "selu", nn.Hardswish: "hardswish",
}  # fmt: skip


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
    name = inner if isinstance(inner, str) else _MODULES.get(type(inner)) or _named(inner)
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


def _named(function: Any) -> str | None:
    try:
        return _FUNCTIONS.get(function)
    except TypeError:  # a callable without a hash
        return None


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
    if op.nnz == 0:
        return 0.0
    if op.kind == "arma" and op.symmetric and not bool((op._rows() == op.col).any()):
        return 1.0
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
    import scipy.sparse
    import scipy.sparse.linalg

    host = op.to("cpu")
    arrays = (host.value.double().numpy(), host.col.numpy(), host.rowptr.numpy())
    matrix = scipy.sparse.csr_array(arrays, shape=op.shape)
    start = random_start(op.num_nodes)
    return float(scipy.sparse.linalg.svds(matrix, k=1, v0=start, return_singular_vectors=False)[0])
