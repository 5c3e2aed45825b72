"""The figures of a partition are those of its graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from armagnn.distributed.edge_stream import EdgeStream
from armagnn.distributed.partition_report import widths_of_arma
from armagnn.distributed.partitioning import partition


def test_a_path_of_nodes(tmp_path: Path) -> None:
    """0-1-2-3-4-5 in three parts: the ends need one row, the middle needs two."""
    stream = EdgeStream.of_arrays(np.stack([np.arange(5), np.arange(1, 6)]), None, "path")
    report = partition(stream, tmp_path / "parts", 3)
    assert report.nodes == (2, 2, 2)
    assert report.nonzeros == (3, 4, 3)
    assert report.halo == ((0, 1, 0), (1, 0, 1), (0, 1, 0))
    assert report.halo_rows == report.rows_sent == (1, 2, 1)
    assert report.halo_share == pytest.approx(4 / 6)
    assert report.balance == pytest.approx(1.2)
    assert report.bytes_sent([3, -3], torch.float64) == (48, 96, 48)


def test_directed_parts_send_other_rows_than_they_receive(tmp_path: Path) -> None:
    stream = EdgeStream.of_arrays(np.array([[3, 3, 2], [0, 1, 1]]), None, "directed")  # 0 and 1 hear 3 and 2
    report = partition(stream, tmp_path / "parts", 2, directed=True, num_nodes=5)
    assert report.nodes == (2, 3)
    assert report.halo_rows == (2, 0)
    assert report.rows_sent == (0, 2)
    assert report.bytes_sent([5]) == (0, 40)
    assert report.bytes_sent([-5]) == (40, 0)


def test_layers_of_several_steps() -> None:
    assert widths_of_arma(1000, 3, hidden=8, stacks=1, layers=2) == [8, -8, 8, -8, 3, -3, 3, -3]
    assert widths_of_arma(4, 3, hidden=8, stacks=1, layers=2) == [4, 8, -8, 3, -3, 3, -3]
