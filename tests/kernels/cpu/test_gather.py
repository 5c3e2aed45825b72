from __future__ import annotations

from armagnn.kernels.cpu.gather import WIDEST
from armagnn.kernels.cpu.sparse import column_blocks


def test_blocks_cover_every_column_once() -> None:
    for width in range(1, 301):
        starts, widths = (each.tolist() for each in column_blocks(width))
        covered = [c for start, size in zip(starts, widths, strict=True) for c in range(start, start + size)]
        assert covered == list(range(width))
        assert set(widths[:-1]) <= {WIDEST}
        assert 0 < widths[-1] <= WIDEST
