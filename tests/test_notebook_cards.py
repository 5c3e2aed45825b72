"""What notebooks show: tables of properties and small pictures, well-formed and safe whatever a name holds."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from armagnn.notebook_cards import HEIGHT, WIDTH, bars, card, curve


def test_a_card_holds_its_rows_and_escapes_them() -> None:
    found = ElementTree.fromstring(card("<A>", {"k & l": "<b>", "n": 3}))
    assert found.findtext(".//strong") == "<A>"
    assert [cell.text for cell in found.iter("td")] == ["<b>", "3"]
    assert [cell.text for cell in found.iter("th")] == ["k & l", "n"]


@pytest.mark.parametrize("values", [[0.0, 0.5, 1.0], [-1.0, 2.0], [3.0], [0.0, 0.0], [-2.0, -1.0]])
def test_a_curve_passes_through_its_values(values: list[float]) -> None:
    svg = ElementTree.fromstring(curve(values, 'a "text"', ("λ = 0", "2")))
    assert svg.get("aria-label") == 'a "text"'
    zero, line = (path.get("d") or "" for path in svg.iter("path"))
    points = np.array([float(n) for n in re.findall(r"-?[\d.]+", line)]).reshape(-1, 2)
    low, high = min(0.0, *values), max(0.0, *values)
    np.testing.assert_allclose(points[:, 1], [HEIGHT * (high - v) / ((high - low) or 1) for v in values], atol=0.06)
    assert points[0, 0] == 0
    assert points[-1, 0] == (WIDTH if len(values) > 1 else 0)
    assert float(re.findall(r"[\d.]+", zero)[1]) == pytest.approx(HEIGHT * high / ((high - low) or 1), abs=0.06)
    assert [text.text for text in svg.iter("text")] == ["λ = 0", "2"]


def test_bars_are_as_high_as_their_numbers() -> None:
    svg = ElementTree.fromstring(bars([1, 4, 2], "counts"))
    assert [float(each.get("height", "")) for each in svg.iter("rect")] == [HEIGHT / 4, HEIGHT, HEIGHT / 2]
    assert list(ElementTree.fromstring(bars([], "none")).iter("rect")) == []
