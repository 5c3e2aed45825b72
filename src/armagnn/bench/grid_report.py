"""What was learned on the grid, as a table and as a picture."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from armagnn.bench.grid_filters import RESPONSES
from armagnn.bench.grid_training import Learned
from armagnn.files import write_atomic


def table(learned: Sequence[Learned]) -> Table:
    """The squared error of an image, summed over the mask, mean over images; and the seconds of a training."""
    shown = Table(
        "method", "training", "coefficients", *RESPONSES, "images", "seconds", title="Squared error of an image"
    )
    for one in learned:
        errors = [f"{error:.2g}" for error in one.sse.mean(1)]
        count, images = str(one.coefficients), str(one.sse.shape[1])
        shown.add_row(one.method, one.protocol, count, *errors, images, f"{one.seconds:.3f}")
    return shown


def draw(learned: Sequence[Learned], path: Path, coefficients: int = 9) -> None:
    """Draw the responses learned from the first image by a polynomial and a rational filter, and their errors below."""
    import matplotlib.pyplot as plt

    mu = np.linspace(-1, 1, 801)
    chosen = {
        one.method: one
        for one in learned
        if (one.protocol, one.coefficients) == ("fit", coefficients) and one.method in ("chebyshev", "rational")
    }
    figure, axes = plt.subplots(2, len(RESPONSES), figsize=(15, 5), sharex=True, layout="constrained")
    for column, (name, h) in enumerate(RESPONSES.items()):
        axes[0, column].plot(1 - mu, h(mu), color="0.6", linewidth=3, label="wanted")
        for method, colour in (("chebyshev", "tab:orange"), ("rational", "tab:blue")):
            one = chosen.get(method)
            if one is None or one.response is None:
                continue
            found = one.response(mu)[column, 0]
            label = {"chebyshev": f"polynomial of degree {coefficients - 1}", "rational": "rational"}[method]
            axes[0, column].plot(1 - mu, found, color=colour, linewidth=1, label=label)
            axes[1, column].semilogy(1 - mu, np.abs(found - h(mu)), color=colour, linewidth=1)
        axes[0, column].set_title(name)
        axes[1, column].set_xlabel(r"$\lambda = 1 - \mu$")
    axes[0, 0].set_ylabel(r"$h$")
    axes[1, 0].set_ylabel("error")
    axes[0, 0].legend()
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.lstrip(".") or "png", dpi=110)
    plt.close(figure)
    write_atomic(path, buffer.getvalue())
