"""Pictures of responses: what is drawn, and the bytes that are written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from armagnn.errors import ParameterError, UnknownNameError
from armagnn.spectral.plot import (
    FORMATS,
    check_format,
    new_figure,
    picture,
    plot_components,
    plot_response,
    scatter_response,
)

MU = torch.tensor([0.5, -0.5, 0.0])
H = torch.tensor([1.0, torch.nan, 3.0])


@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_a_response_is_drawn_over_lambda_without_silent_frequencies(shift: float) -> None:
    axes = new_figure(4, 3)[1][0, 0]
    plot_response(axes, MU, H, shift=shift, label="h")
    scatter_response(axes, MU, H, shift=shift)
    line, points = axes.lines[0], axes.collections[0].get_offsets()
    np.testing.assert_allclose(line.get_xdata(), [0.5 + shift, 1.0 + shift])
    np.testing.assert_allclose(line.get_ydata(), [1.0, 3.0])
    np.testing.assert_allclose(sorted(points.tolist()), [[0.5 + shift, 1.0], [1.0 + shift, 3.0]])


def test_components_are_root_mean_squares_in_bands() -> None:
    axes = new_figure(4, 3)[1][0, 0]
    plot_components(axes, torch.tensor([0.9, 0.8, -0.9]), torch.tensor([3.0, 4.0, 2.0]), bands=4)
    values, edges, _ = axes.patches[0].get_data()
    np.testing.assert_allclose(values, [12.5**0.5, np.nan, np.nan, 2.0])
    np.testing.assert_allclose(edges, [0.0, 0.5, 1.0, 1.5, 2.0])
    assert axes.get_yscale() == "log"
    with pytest.raises(ParameterError, match="bands"):
        plot_components(axes, MU, MU, bands=0)


@pytest.mark.parametrize(("format", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_picture_has_the_same_bytes_every_time(format: str, start: bytes) -> None:
    made = [picture(new_figure(2, 2)[0], format) for _ in range(2)]
    assert made[0].startswith(start)
    if format != "svg":  # its ids are random
        assert made[0] == made[1]


def test_formats_by_name() -> None:
    assert [check_format(Path(f"a.{format.upper()}")) for format in FORMATS] == list(FORMATS)
    with pytest.raises(ParameterError, match="Name the picture"):
        check_format(Path("a.txt"))
    with pytest.raises(UnknownNameError, match="format"):
        picture(new_figure(2, 2)[0], "gif")
