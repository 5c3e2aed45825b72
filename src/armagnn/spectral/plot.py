"""Pictures of responses and components over the frequencies lambda, low ones on the left; and of signals on a graph.

Frequencies come as eigenvalues of the operator, lambda = 1 + shift - mu, with ``op.shift`` of an operator that was
built with ``lambda_min`` or ``lambda_max``; without them the shift is 0.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from armagnn.checks import choice, finite, instance, integer, real
from armagnn.errors import DTypeError, ParameterError, ShapeError, shown
from armagnn.operators import GraphOperator
from armagnn.solvers.eigen import extremal

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


def plot_signal(
    op: GraphOperator,
    x: Any,
    pos: Any = None,
    ax: Any = None,
    *,
    size: float | None = None,
    colorbar: bool = True,
    title: str | None = None,
    **style: Any,
) -> Any:
    """Draw a graph with its nodes coloured by a signal, and return the matplotlib axes.

    Args:
        op: the graph; only its pattern of edges is drawn.
        x: one number for each node, a tensor or an array of shape (N) or (N, 1).
        pos: the place of each node in the plane, (N, 2), or the dict of such places that networkx's layouts return. By
            default two of the smoothest signals of the graph, which the operator must be symmetric for.
        ax: where to draw; a new figure if not given.
        size: of a node, in points; by default one that suits the number of nodes.
        colorbar: add what the colours mean.
        title: above the picture.
        style: passed on to matplotlib's ``scatter``, e.g. ``cmap``, ``vmin``, ``vmax``.

    Example:
        >>> from armagnn.operators import ring
        >>> op, places = ring(12)
        >>> axes = plot_signal(op, places[:, 0], places, new_figure(3, 3)[1][0, 0])
        >>> len(axes.collections[1].get_offsets())
        12
    """
    import matplotlib.pyplot as plt  # slow to import, and needed only for pictures
    from matplotlib.collections import LineCollection

    if not isinstance(op, GraphOperator):
        raise DTypeError(f"op must be a GraphOperator, got {type(op).__name__}: use GraphOperator.from_graph.")
    ax = plt.subplots()[1] if ax is None else instance("ax", ax, plt.Axes, "axes of matplotlib")
    value = _numbers("x", x, op.num_nodes, 1)[:, 0]
    place = _smooth_places(op) if pos is None else _numbers("pos", pos, op.num_nodes, 2)
    row, col = op._rows().cpu(), op.col.long().cpu()
    once = (row < col) if op.symmetric else (row != col)
    lines = torch.stack([place[row[once]], place[col[once]]], 1).numpy()
    ax.add_collection(LineCollection(list(lines), color="0.7", linewidth=0.6))
    size = min(60.0, max(4.0, 8000.0 / max(1, op.num_nodes))) if size is None else real("size", size, least=0)
    try:
        dots = ax.scatter(place[:, 0], place[:, 1], c=value, s=size, zorder=2, **style)
    except Exception as error:  # matplotlib raises many kinds
        if not style:
            raise
        raise ParameterError(f"matplotlib refuses the style {shown(style)}: {shown(str(error))}.") from error
    ax.set_aspect("equal")
    ax.set_axis_off()
    if title is not None:
        ax.set_title(str(title), parse_math=False)
    if colorbar:
        ax.figure.colorbar(dots, ax=ax, shrink=0.8)
    return ax


def _numbers(name: str, values: Any, rows: int, columns: int) -> Tensor:
    """Return one row of finite numbers for each node, (N, columns), in float64."""
    if isinstance(values, Mapping):
        values = list(values.values())
    try:
        found = torch.as_tensor(values if isinstance(values, Tensor) else np.asarray(values, dtype=np.float64))
        found = found.detach().to("cpu", torch.float64)
    except Exception as error:  # whatever a foreign __array__ raises
        raise DTypeError(f"{name} must be a tensor or an array of real numbers: {shown(error)}.") from error
    found = found.unsqueeze(1) if found.dim() == 1 and columns == 1 else found
    if found.shape != (rows, columns):
        raise ShapeError(f"{name} must have the shape ({rows}, {columns}) of this graph, got {tuple(found.shape)}.")
    finite(name, found)
    return found


def _smooth_places(op: GraphOperator) -> Tensor:
    """Return two of the smoothest signals as places."""
    op.require_symmetric("a picture without places (pos)")
    if op.num_nodes < 3:
        return torch.stack([torch.arange(op.num_nodes).double(), torch.zeros(op.num_nodes, dtype=torch.float64)], 1)
    if op.kind == "laplacian":
        return extremal(op.detach(), 3, "smallest")[1][:, 1:].cpu().double()
    return extremal(op.detach(), 3, "largest")[1][:, :2].flip(1).cpu().double()


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
