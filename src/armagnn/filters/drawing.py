"""Pictures of responses over lambda, low frequencies on the left, as in all figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from armagnn.checks import instance
from armagnn.errors import ParameterError, shown
from armagnn.filters.targets import resolve
from armagnn.notebook_cards import curve

POINTS = 1001
"""Frequencies at which a curve is drawn."""


def axis_label(shift: float | None) -> str:
    """Return what stands below the axis, of an operator M = (1 + s) I - L, or of a Laplacian (None).

    Example:
        >>> axis_label(0.0), axis_label(0.25), axis_label(None)
        ('λ = 1 − μ', 'λ = 1.25 − μ', 'λ')
    """
    return "λ" if shift is None else f"λ = {1 + shift:.4g} − μ"


def draw(
    values: Callable[[Any], Any],
    shift: float | None = 0.0,
    *,
    ax: Any = None,
    marks: Any = None,
    target: Any = None,
    target_of_lambda: bool = False,
    label: str | None = None,
    y_label: str = "h(λ)",
    **style: Any,
) -> Any:
    r"""Draw a function of an operator's eigenvalues over :math:`\lambda \in [0, 2]`, and return the matplotlib axes.

    Args:
        values: the function, of arrays or tensors.
        shift: s of the operator :math:`(1 + s) I - L`; None if its eigenvalues are λ themselves.
        ax: where to draw; a new figure if not given.
        marks: eigenvalues that are marked on the curve.
        target: a response to draw behind it, as `armagnn.filters.targets.resolve` takes it.
        target_of_lambda: take it at μ = 1 - λ, whatever the operator's shift is.
        label: of the curve. With a label or a target there is a legend.
        y_label: along the vertical axis.
        style: passed on to matplotlib's ``plot``.
    """
    import matplotlib.pyplot as plt  # slow to import, and needed only here

    ax = plt.subplots()[1] if ax is None else instance("ax", ax, plt.Axes, "axes of matplotlib")
    wanted = None if target is None else resolve(target)
    frequency = np.linspace(0.0, 2.0, POINTS)
    eigenvalue = frequency if shift is None else 1 + shift - frequency
    if wanted is not None:
        plain = target_of_lambda or shift is None or wanted.variable == "lambda"
        goal = wanted.function(torch.from_numpy(1 - frequency if plain else eigenvalue)).detach()
        ax.plot(frequency, goal, color="0.55", linewidth=1.2, zorder=1.5, label="target")
    try:
        (line,) = ax.plot(frequency, values(eigenvalue), label=label, **style)
    except Exception as error:  # matplotlib raises many kinds
        if not style and label is None:
            raise
        raise ParameterError(f"matplotlib refuses the style {shown(style)}: {shown(str(error))}.") from error
    if marks is not None:
        heights = values(marks)  # it refuses what is no frequency
        places, heights = (
            part.detach().cpu().double().numpy() if isinstance(part, Tensor) else np.asarray(part, dtype=np.float64)
            for part in (marks, heights)
        )
        places = places if shift is None else 1 + shift - places
        ax.plot(np.ravel(places), np.ravel(heights), ".", color=line.get_color(), label="_eigenvalues")
    ax.set(xlabel=axis_label(shift), ylabel=y_label)
    if label is not None or target is not None:
        ax.legend()
    return ax


def small_curve(values: Callable[[Any], Any]) -> str:
    """Return a response over lambda as a small picture for a notebook; none where it is not finite.

    Example:
        >>> small_curve(lambda mu: mu**2)[:4]
        '<svg'
    """
    heights = np.asarray(values(1 - np.linspace(0.0, 2.0, 121)), dtype=np.float64)
    if not np.isfinite(heights).all():
        return ""
    text = f"response from {heights[0]:.3g} at lambda = 0 over {heights[60]:.3g} at 1 to {heights[-1]:.3g} at 2"
    return curve(heights.tolist(), text, ("λ = 0", "2"))
