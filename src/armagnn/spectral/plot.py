"""Pictures of responses and components over the frequencies lambda, low ones on the left.

Frequencies come as eigenvalues of the operator, lambda = 1 + shift - mu, with ``op.shift`` of an operator that was
built with ``lambda_min`` or ``lambda_max``; without them the shift is 0.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.checks import choice, integer
from armagnn.errors import ParameterError

FORMATS: Final = ("png", "svg", "pdf")


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """Return a figure and its axes as an array (rows, columns); nothing is shown on a screen.

    Example:
        >>> figure, axes = new_figure(6, 3, columns=2)
        >>> axes.shape
        (1, 2)
    """
    from matplotlib.figure import Figure  # slow to import, and needed only for pictures

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def plot_response(axes: Any, mu: Tensor, h: Tensor, *, shift: float = 0.0, **style: Any) -> None:
    """Draw a response as a line over lambda; NaN, where the signal was silent, is left out."""
    known = h.isfinite()
    frequency = 1.0 + shift - mu[known]
    order = frequency.argsort()
    axes.plot(frequency[order].numpy(), h[known][order].numpy(), **style)


def scatter_response(axes: Any, mu: Tensor, h: Tensor, *, shift: float = 0.0, **style: Any) -> None:
    """Draw a response as one small point per frequency lambda."""
    known = h.isfinite()
    options = {"s": 3, "alpha": 0.35, "linewidths": 0, "rasterized": True} | style
    axes.scatter((1.0 + shift - mu[known]).numpy(), h[known].numpy(), **options)


def plot_components(
    axes: Any, mu: Tensor, component: Tensor, bands: int = 60, *, shift: float = 0.0, **style: Any
) -> None:
    """Draw the root mean square of the components in equal bands of lambda in [0, 2], as steps on a log scale."""
    bands = integer("bands", bands, 1)
    band = ((1.0 + shift - mu) / 2.0 * bands).long().clamp(0, bands - 1)
    count = torch.zeros(bands, dtype=component.dtype).index_add(0, band, torch.ones_like(component))
    energy = torch.zeros(bands, dtype=component.dtype).index_add(0, band, component.square())
    height = torch.where(count > 0, (energy / count.clamp_min(1)).sqrt(), torch.nan)
    axes.stairs(height.numpy(), torch.linspace(0, 2, bands + 1).numpy(), baseline=None, **style)
    axes.set_yscale("log")


def picture(figure: Any, format: str = "png", dpi: int = 110) -> bytes:
    """Return the figure as the bytes of a PNG, SVG or PDF file.

    Example:
        >>> picture(new_figure(2, 2)[0])[:4]
        b'\\x89PNG'
    """
    content = io.BytesIO()
    # without the date the same numbers give the same bytes
    metadata = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[choice("format", format, FORMATS)]
    figure.savefig(content, format=format, dpi=dpi, metadata=metadata)
    return content.getvalue()


def check_format(path: Path) -> str:
    """Return the format that the name of a picture asks for: "png", "svg" or "pdf".

    Example:
        >>> check_format(Path("figures/response.svg"))
        'svg'
    """
    format = Path(path).suffix.removeprefix(".").lower()
    if format not in FORMATS:
        raise ParameterError(f"{path}: cannot draw this format. Name the picture *.png, *.svg or *.pdf.")
    return format
