from __future__ import annotations

import math
import re

from hypothesis import example, given
from hypothesis import strategies as st

from armagnn.explore.svg_charts import Chart, escaped, histogram, html_table, limits, ticks

finite = st.floats(-1e12, 1e12)


@given(st.lists(finite, min_size=1, max_size=30), st.lists(st.floats(), max_size=30))
@example([0.0], [math.nan, math.inf, 1.0])
@example([1e-300, 1e12], [])
def test_everything_is_drawn_inside_the_picture(values: list[float], others: list[float]) -> None:
    chart = Chart("a", "b", limits(values), limits(values))
    chart.line(list(zip(values + others, values + others, strict=True)), "one")
    chart.dots(zip(others, others, strict=True), "mark")
    svg = chart.svg()
    assert "nan" not in svg
    assert "inf" not in svg
    for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", svg):
        assert -30 <= float(x) <= 450
        assert -30 <= float(y) <= 290


@given(finite, st.floats(1e-6, 1e9))
def test_ticks_are_few_and_inside(low: float, size: float) -> None:
    chart = Chart("", "", (low, low + size), (0, 1))
    low, high = chart.x
    found = ticks(low, high)
    assert len(found) <= 11
    assert all(
        low - 1e-6 * (high - low) - 1e-9 * abs(low) <= each <= high + 1e-6 * (high - low) + 1e-9 * abs(high)
        for each in found
    )


@given(st.text())
def test_text_stays_text(text: str) -> None:
    assert not set('<>"') & set(escaped(text))
    assert not set("<>\x00\x1b\u202e") & set(escaped(text))
    escaped(text).encode()
    assert "<b>" not in html_table(["<b>"], [["<b>"]], "<b>")


def test_histogram_counts_all() -> None:
    assert histogram([1.0, 1.0, 2.0], "a", "b").count("<rect") == 24
    assert "3 values" in histogram([5.0] * 3, "a", "b")
