from __future__ import annotations

from armagnn.kernels.gather import WIDTHS, blocks


def test_blocks_cover_every_column_of_every_width() -> None:
    for width in range(1, 301):
        starts, widths = (list(part) for part in blocks(width))
        assert set(widths) <= set(WIDTHS)
        assert starts[0] == 0
        assert starts[-1] + widths[-1] == width  # nothing is written behind the last column
        ends = [start + size for start, size in zip(starts, widths, strict=True)]
        assert starts[1:-1] == ends[:-2]  # only the last block may overlap its neighbour
        assert starts[-1] <= ends[-2] if len(starts) > 1 else width == ends[0]
        assert {c for start, end in zip(starts, ends, strict=True) for c in range(start, end)} == set(range(width))
        assert sum(widths) < 2 * width  # and little is computed twice
