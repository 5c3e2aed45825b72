r"""Responses to aim at: by name, as a function, or as samples. All are functions of mu in [-1, 1]; lambda = 1 - mu.

Low frequencies are *large* mu: mu = 1 is lambda = 0, the smoothest signal of a component.

The responses that have a name are functions of lambda, written in mu = 1 - lambda: the heat kernel is
:math:`e^{-t \lambda}`, and an ideal low-pass keeps :math:`\lambda \le 1 - c`, also where an operator was built with
another ``lambda_min`` or ``lambda_max`` and its eigenvalues are not 1 - lambda. A function of mu, and samples, are
functions of the operator's eigenvalues.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import torch
from torch import Tensor

from armagnn.checks import real
from armagnn.errors import DTypeError, ParameterError, ShapeError, UnknownNameError

Response = Callable[[Tensor], Tensor]
GRID: Final = 2000
"""Midpoints of this many equal cells stand for [-1, 1] where a response is measured."""


@dataclass(frozen=True)
class OfLambda:
    """A response that is a function of lambda, written in mu = 1 - lambda."""

    function: Response

    def __call__(self, mu: Tensor) -> Tensor:
        """Return the response at mu = 1 - lambda."""
        return self.function(mu)


def variable_of(target: object) -> Literal["mu", "lambda"]:
    """Return what a target is a function of: of the operator's eigenvalues or of the Laplacian's."""
    return "lambda" if isinstance(target, str | OfLambda) else "mu"


def low_pass(cutoff: float = 0.0) -> Response:
    r"""Return the ideal low-pass :math:`h(\mu) = 1` for :math:`\mu \ge c` and 0 below."""
    cutoff = real("cutoff", cutoff)
    return OfLambda(lambda mu: (mu >= cutoff).to(mu.dtype))


def high_pass(cutoff: float = 0.0) -> Response:
    r"""Return the ideal high-pass :math:`h(\mu) = 1` for :math:`\mu < c` and 0 above."""
    cutoff = real("cutoff", cutoff)
    return OfLambda(lambda mu: (mu < cutoff).to(mu.dtype))


def band_pass(low: float = -0.5, high: float = 0.5) -> Response:
    r"""Return the ideal band-pass :math:`h(\mu) = 1` for :math:`l \le \mu \le u` and 0 elsewhere."""
    low, high = real("low", low), real("high", high)
    return OfLambda(lambda mu: ((mu >= low) & (mu <= high)).to(mu.dtype))


def band_stop(low: float = -0.5, high: float = 0.5) -> Response:
    r"""Return the ideal band-stop :math:`h(\mu) = 0` for :math:`l \le \mu \le u` and 1 elsewhere."""
    low, high = real("low", low), real("high", high)
    return OfLambda(lambda mu: ((mu < low) | (mu > high)).to(mu.dtype))


def comb(teeth: float = 1.0) -> Response:
    r"""Return the comb :math:`h(\mu) = |\sin(\pi n \mu)|`, for n = 1 the same in :math:`\lambda = 1 - \mu`."""
    teeth = real("teeth", teeth)
    return OfLambda(lambda mu: torch.sin(torch.pi * teeth * mu).abs())


def heat(time: float = 5.0) -> Response:
    r"""Return the heat kernel :math:`h(\mu) = e^{-t (1 - \mu)} = e^{-t \lambda}`."""
    time = real("time", time)
    return OfLambda(lambda mu: torch.exp(-time * (1 - mu)))


NAMED: Final[dict[str, Callable[[], Response]]] = {
    "low-pass": low_pass,
    "high-pass": high_pass,
    "band-pass": band_pass,
    "band-stop": band_stop,
    "comb": comb,
    "heat": heat,
}
"""The targets that have a name. Steps are at mu = 0 (passes) or mu = ±0.5 (bands); the functions above take others."""


@dataclass(frozen=True)
class Target:
    """A target where it is to be met: ``value`` (S) at ``mu`` (S), float64, ascending, finite; and as a function."""

    mu: Tensor
    value: Tensor
    function: Response
    sampled: bool
    variable: Literal["mu", "lambda"] = "mu"


def resolve(target: object) -> Target:
    """Return a target given by a name, a function of mu, or samples ``(mu, h)``; samples are joined by lines.

    A function may be written for tensors, arrays or single numbers. The word "ideal" before a name is optional.

    Example:
        >>> resolve("low-pass").function(torch.tensor([-0.5, 0.5]))
        tensor([0., 1.])
        >>> resolve(([-1.0, 1.0], [0.0, 1.0])).function(torch.tensor([0.5], dtype=torch.float64))
        tensor([0.7500], dtype=torch.float64)
    """
    variable = variable_of(target)
    if isinstance(target, str):
        name = target.lower().removeprefix("ideal ")
        if name not in NAMED:
            raise UnknownNameError("target response", target, NAMED)
        target = NAMED[name]()
    sampled = not callable(target)
    if callable(target):
        mu = (torch.arange(GRID, dtype=torch.float64) + 0.5) * (2 / GRID) - 1
        function = vectorized(target)
        value = function(mu)
    else:
        mu, value = _samples(target)
        function = _interpolation(mu, value)
    if not bool(torch.isfinite(value).all()):
        bad = float(mu[~torch.isfinite(value)][0])
        raise ParameterError(f"the target is not finite on [-1, 1], e.g. at mu = {bad:.4g}: give a bounded response.")
    return Target(mu, value.detach(), function, sampled, variable)


def vectorized(function: Callable[[Any], Any]) -> Response:
    """Return the function as one from a tensor to a tensor of the same shape; constants are spread out."""

    def evaluate(mu: Tensor) -> Tensor:
        try:
            with warnings.catch_warnings():  # numpy's functions of a tensor work, with a warning about torch's own code
                warnings.filterwarnings("ignore", "__array_wrap__", DeprecationWarning)
                value = function(mu)
        except (TypeError, ValueError, RuntimeError):  # written for one number at a time: math.exp, if mu > 0
            flat = [float(function(float(m))) for m in mu.detach().flatten()]
            value = torch.tensor(flat, dtype=mu.dtype).view(mu.shape)
        if isinstance(value, np.ndarray | np.generic | int | float):
            value = torch.as_tensor(value)
        if not isinstance(value, Tensor):
            raise DTypeError(f"a response must return real numbers, got {type(value).__name__}.")
        if value.is_complex():
            raise DTypeError("a response must be real, got complex numbers.")
        if value.dim() and value.shape != mu.shape:
            raise ShapeError(f"a response must return one number per mu, {tuple(mu.shape)}, got {tuple(value.shape)}.")
        return value.to(mu).expand(mu.shape)

    return evaluate


def _samples(target: object) -> tuple[Tensor, Tensor]:
    if not isinstance(target, tuple | list) or len(target) != 2:
        raise DTypeError(
            f"a target is a name ({', '.join(NAMED)}), a function of mu in [-1, 1], or samples (mu, h), "
            f"got {type(target).__name__}."
        )
    try:
        mu, value = (torch.as_tensor(part).detach().to("cpu", torch.float64) for part in target)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DTypeError(f"samples (mu, h) must hold real numbers: {error}.") from error
    if mu.dim() != 1 or mu.shape != value.shape or len(mu) < 2:
        raise ShapeError(
            f"samples (mu, h) are two lists of one length (at least 2), got {tuple(mu.shape)} and {tuple(value.shape)}."
        )
    if not bool(((mu >= -1 - 1e-9) & (mu <= 1 + 1e-9)).all()):
        raise ParameterError("samples (mu, h) must have mu in [-1, 1]; mu = 1 - lambda, if you have lambda.")
    mu, order = mu.sort(stable=True)
    return mu, value[order]


def _interpolation(mu: Tensor, value: Tensor) -> Response:
    knots, heights = mu.numpy(), value.numpy()
    return lambda x: torch.from_numpy(np.interp(x.detach().cpu().double().numpy(), knots, heights)).to(x)
