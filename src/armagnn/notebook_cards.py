"""What a notebook shows of an object: a small table, and a small picture; in the colours of the notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

WIDTH, HEIGHT = 240, 90
TABLE: Final = "border-collapse:collapse;font-size:90%"
CELL: Final = "text-align:left;padding:1px 10px 1px 0;border:0;background:none;vertical-align:top"
NAME: Final = f"{CELL};font-weight:normal;opacity:.75;white-space:nowrap"
SVG: Final = "max-width:100%;color:inherit"


def card(title: str, rows: Mapping[str, object], picture: str = "") -> str:
    """Return an object as HTML: its name, a table of its properties, and a picture next to it.

    Example:
        >>> "&lt;3&gt;</td>" in card("Layer", {"features": "<3>"})
        True
    """
    cells = "".join(
        f'<tr style="background:none"><th style="{NAME}">{html.escape(name)}</th>'
        f'<td style="{CELL}">{html.escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    table = f'<strong>{html.escape(title)}</strong><table style="{TABLE}">{cells}</table>'
    table = f'<div style="flex:1 1 300px;min-width:0;overflow-wrap:anywhere">{table}</div>'
    return f'<div style="display:flex;flex-wrap:wrap;gap:24px;align-items:center">{picture}{table}</div>'


def curve(values: Sequence[float], text: str, ends: tuple[str, str] = ("", "")) -> str:
    """Return equally spaced values as a line, with what stands below its ends; the line of 0 is always in the picture.

    Example:
        >>> curve([0.0, 1.0], "rises", ("0", "2")).count("L")
        1
    """
    low, high = min(0.0, *values), max(0.0, *values)
    span = (high - low) or 1.0
    step = WIDTH / max(1, len(values) - 1)
    path = "L".join(f"{place * step:.1f} {HEIGHT * (high - v) / span:.1f}" for place, v in enumerate(values))
    zero = f'<path d="M0 {HEIGHT * high / span:.1f}H{WIDTH}" stroke="currentColor" stroke-opacity=".35"/>'
    line = f'<path d="M{path}" fill="none" stroke="currentColor" stroke-width="2"/>'
    return _svg(zero + line, text, ends)


def bars(heights: Sequence[float], text: str, ends: tuple[str, str] = ("", "")) -> str:
    """Return heights from 0 as bars, with what stands below the first and the last.

    Example:
        >>> bars([1, 2, 3], "three").count("<rect")
        3
    """
    width, most = WIDTH / max(1, len(heights)), max(heights, default=0) or 1
    found = "".join(
        f'<rect x="{place * width:.1f}" y="{HEIGHT * (1 - h / most):.1f}" width="{0.9 * width:.1f}" '
        f'height="{HEIGHT * h / most:.1f}" fill="currentColor" fill-opacity=".7"/>'
        for place, h in enumerate(heights)
    )
    return _svg(found, text, ends)


def _svg(parts: str, text: str, ends: Iterable[str]) -> str:
    left, right = (html.escape(end) for end in ends)
    below = f'y="{HEIGHT + 14}" font-size="11" fill="currentColor"'
    return (
        f'<svg viewBox="-3 -3 {WIDTH + 6} {HEIGHT + 22}" width="{WIDTH}" role="img" style="{SVG}" '
        f'aria-label="{html.escape(text)}">{parts}<text x="0" {below}>{left}</text>'
        f'<text x="{WIDTH}" {below} text-anchor="end">{right}</text></svg>'
    )
