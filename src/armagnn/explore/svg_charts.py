"""Charts as inline SVG: lines, points, bars. Colours come from the style of the page, so they follow light and dark."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

WIDTH, HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 42
MOST_POINTS: Final = 300
"""Of a line; more would not be seen."""

Points = Sequence[tuple[float, float]]

_numbers = count(1)


def escaped(text: object) -> str:
    """Return a text as HTML shows it, whatever characters it has.

    Example:
        >>> escaped("<b> & 'c'")
        '&lt;b&gt; &amp; &#x27;c&#x27;'
    """
    plain = "".join(c if c.isprintable() or c == " " else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return html.escape(plain.encode(errors="replace").decode(), quote=True)


def number(value: float, digits: int = 3) -> str:
    """Return a number to read.

    Example:
        >>> number(0.123456), number(1234567.0), number(float("nan")), number(-0.5)
        ('0.123', '1.23e+06', '–', '−0.5')
    """
    if not math.isfinite(value):
        return "–"
    text = f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e6 else f"{value:.{digits}g}"
    return text.replace("-", "−").replace("e−0", "e−").replace("e−", "e−")


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers from low to high.

    Example:
        >>> ticks(0.0, 1.0), ticks(3.0, 47.0)
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [10.0, 20.0, 30.0, 40.0])
    """
    step = 10 ** math.floor(math.log10((high - low) / about))
    step = min((step * each for each in (1, 2, 5, 10)), key=lambda s: abs((high - low) / s - about))
    first = math.ceil(low / step - 1e-9)
    return [round(float(place * step), 12) for place in range(first, math.floor(high / step + 1e-9) + 1)]


@dataclass
class Chart:
    """Axes, and what is drawn between them.

    Attributes:
        title: what the picture shows, for those who do not see it.
        text: what is to be seen in it, likewise.
        x: the ends of the horizontal axis.
        y: those of the vertical one.
        x_name: below the horizontal axis.
        y_name: along the vertical one.
    """

    title: str
    text: str
    x: tuple[float, float]
    y: tuple[float, float]
    x_name: str = ""
    y_name: str = ""
    height: int = HEIGHT
    x_ticks: Sequence[tuple[float, str]] | None = None
    y_ticks: Sequence[tuple[float, str]] | None = None
    left: int = LEFT
    parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.x, self.y = _apart(self.x), _apart(self.y)

    def across(self, value: float) -> float:
        """Return where a number lies on the horizontal axis."""
        share = (value - self.x[0]) / (self.x[1] - self.x[0])
        return self.left + min(max(share, -0.05), 1.05) * (WIDTH - self.left - RIGHT)

    def up(self, value: float) -> float:
        """Return where a number lies on the vertical axis."""
        share = (value - self.y[0]) / (self.y[1] - self.y[0])
        return self.height - BOTTOM - min(max(share, -0.05), 1.05) * (self.height - TOP - BOTTOM)

    def line(self, points: Points, style: str) -> None:
        """Draw a line; where a number is missing it breaks."""
        step = max(1, math.ceil(len(points) / MOST_POINTS))
        thin = [*points[::step], *([points[-1]] if points and (len(points) - 1) % step else [])]
        path, pen = [], "M"
        for a, b in thin:
            if math.isfinite(a) and math.isfinite(b):
                path.append(f"{pen}{self.across(a):.1f} {self.up(b):.1f}")
                pen = "L"
            else:
                pen = "M"
        self.parts.append(f'<path class="line {style}" d="{" ".join(path)}"/>')

    def dots(self, points: Iterable[tuple[float, float]], style: str, radius: float = 3.0) -> None:
        """Draw points."""
        for a, b in points:
            if math.isfinite(a) and math.isfinite(b):
                at = f'cx="{self.across(a):.1f}" cy="{self.up(b):.1f}"'
                self.parts.append(f'<circle class="{style}" {at} r="{radius:g}"/>')

    def bar(self, x: tuple[float, float], y: tuple[float, float], style: str) -> None:
        """Draw a rectangle between two numbers on each axis."""
        a, b, top, bottom = self.across(x[0]), self.across(x[1]), self.up(y[1]), self.up(y[0])
        size = f'width="{max(b - a, 0.5):.1f}" height="{max(bottom - top, 0.0):.1f}"'
        self.parts.append(f'<rect class="{style}" x="{a:.1f}" y="{top:.1f}" {size}/>')

    def words(self, x: float, y: float, text: str, anchor: str = "start") -> None:
        """Write at a place of the axes."""
        at = f'x="{self.across(x):.1f}" y="{self.up(y) + 4:.1f}"'
        self.parts.append(f'<text class="value" {at} text-anchor="{anchor}">{escaped(text)}</text>')

    def svg(self) -> str:
        """Return the picture."""
        name = f"chart-{next(_numbers)}"
        bottom, end = self.height - BOTTOM, WIDTH - RIGHT
        marks = []
        across = [(v, number(v)) for v in ticks(*self.x)] if self.x_ticks is None else self.x_ticks
        for value, text in across:
            place = self.across(value)
            marks.append(f'<path class="grid" d="M{place:.1f} {TOP}V{bottom}"/>')
            marks.append(f'<text x="{place:.1f}" y="{bottom + 16}" text-anchor="middle">{escaped(text)}</text>')
        up = [(v, number(v)) for v in ticks(*self.y)] if self.y_ticks is None else self.y_ticks
        for value, text in up:
            place = self.up(value)
            if self.y_ticks is None:
                marks.append(f'<path class="grid" d="M{self.left} {place:.1f}H{end}"/>')
            marks.append(f'<text x="{self.left - 6}" y="{place + 4:.1f}" text-anchor="end">{escaped(text)}</text>')
        middle = (self.left + end) / 2
        marks.append(
            f'<text x="{middle}" y="{self.height - 6}" text-anchor="middle" class="axis">{escaped(self.x_name)}</text>'
        )
        if self.y_name:
            half = (TOP + bottom) / 2
            marks.append(
                f'<text transform="translate(13 {half}) rotate(-90)" text-anchor="middle" class="axis">'
                f"{escaped(self.y_name)}</text>"
            )
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-labelledby="{name} {name}-text">'
            f'<title id="{name}">{escaped(self.title)}</title><desc id="{name}-text">{escaped(self.text)}</desc>'
            f"{''.join(marks)}{''.join(self.parts)}</svg>"
        )


def limits(values: Iterable[float], *, least: float | None = None, share: float = 0.06) -> tuple[float, float]:
    """Return the ends of an axis that shows all finite values, with a margin.

    Example:
        >>> limits([1.0, 3.0, float("nan")], share=0.5), limits([])
        ((0.0, 4.0), (0.0, 1.0))
    """
    found = [value for value in values if math.isfinite(value)]
    if not found:
        return 0.0, 1.0
    low, high = min(found), max(found)
    margin = share * (high - low)
    return (low - margin if least is None else least), high + margin


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Return what the styles of a chart mean: pairs of a style and a text."""
    items = "".join(f'<li><i class="key {style}"></i>{escaped(text)}</li>' for style, text in entries)
    return f'<ul class="legend">{items}</ul>'


def _apart(ends: tuple[float, float]) -> tuple[float, float]:
    """Return two ends that differ, and that arithmetic can tell apart."""
    low, high = ends
    least = max(abs(low), abs(high), 1e-12) * 1e-6
    return (low, high) if high - low > least else (low - max(least, 0.5), high + max(least, 0.5))


def histogram(values: Sequence[float], caption: str, x_name: str, bins: int = 24) -> str:
    """Return a figure of how numbers are distributed."""
    low, high = _apart((min(values), max(values)))
    width = (high - low) / bins
    counts = [0] * bins
    for value in values:
        counts[min(int((value - low) / width), bins - 1)] += 1
    text = f"{len(values)} values from {number(low)} to {number(high)}, mean {number(sum(values) / len(values))}"
    chart = Chart(caption, text, (low, high), (0.0, 1.1 * max(counts)), x_name, "number")
    for place, amount in enumerate(counts):
        chart.bar((low + place * width, low + (place + 0.92) * width), (0, amount), "fill")
    return f"<figure><figcaption>{escaped(caption)}</figcaption>{chart.svg()}</figure>"


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", texts: int = 1) -> str:
    """A table; the first columns, which are `texts`, are aligned as text."""
    marks = [' class="text"' if place < texts else "" for place in range(len(heads))]
    head = "".join(f'<th scope="col"{mark}>{escaped(text)}</th>' for mark, text in zip(marks, heads, strict=True))
    body = ""
    for first, *others in rows:
        cells = "".join(f"<td{mark}>{escaped(cell)}</td>" for mark, cell in zip(marks[1:], others, strict=True))
        body += f'<tr><th scope="row">{escaped(first)}</th>{cells}</tr>'
    title = f"<caption>{escaped(caption)}</caption>" if caption else ""
    label = escaped(caption or heads[0])
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>{title}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
