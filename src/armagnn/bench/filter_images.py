"""The community's regression task: real images on the grid of their pixels, and what spectral filters make of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from armagnn.checks import integer
from armagnn.errors import ParameterError, shown
from armagnn.filters import SpectralFilter
from armagnn.operators import GraphOperator

RESPONSES: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "low-pass": lambda mu: torch.exp(-10 * (1 - mu) ** 2),
    "high-pass": lambda mu: 1 - torch.exp(-10 * (1 - mu) ** 2),
    "band-pass": lambda mu: torch.exp(-10 * mu**2),
    "band-rejection": lambda mu: 1 - torch.exp(-10 * mu**2),
    "comb": lambda mu: torch.sin(torch.pi * mu).abs(),
}
"""The responses to learn, of mu = 1 - lambda: exp(-10 λ²), 1 - exp(-10 λ²), exp(-10 (λ - 1)²), its rest, |sin πλ|."""

SIDE: Final = 24
COUNTS: Final = {"train": 2, "val": 2, "test": 8}


@dataclass(frozen=True, eq=False)
class FilterData:
    """Images and what each filter makes of them.

    Attributes:
        edge_index: the grid of pixels, each joined with its neighbours left, right, above and below.
        x: by split, the images, shape (B, N, 1), grey values in [-1/2, 1/2].
        y: by split, their filtered versions, shape (5, B, N, 1), in the order of `RESPONSES`, divided by `scale`.
        scale: the deviation of the filtered training images, shape (5), so that all filters are learned alike.
    """

    edge_index: Tensor
    x: Mapping[str, Tensor]
    y: Mapping[str, Tensor]
    scale: Tensor


def pixel_grid(side: int) -> Tensor:
    """The edges of a square grid of pixels, both directions, (2, E).

    Example:
        >>> pixel_grid(2).shape
        torch.Size([2, 8])
    """
    integer("side", side, 1, 2**14)
    number = torch.arange(side * side).view(side, side)
    pairs = [
        torch.stack([one.flatten(), other.flatten()])
        for one, other in ((number[:, :-1], number[:, 1:]), (number[:-1], number[1:]))
    ]
    edges = torch.cat(pairs, 1)
    return torch.cat([edges, edges.flip(0)], 1)


def photographs(side: int = SIDE) -> Tensor:
    """Square pieces of the two photographs that scikit-learn ships, in turn, shape (B, N, 1), in [-1/2, 1/2].

    Every 4 by 4 pixels become one, and the colours their mean, which leaves 106 by 160 pixels of each.
    """
    integer("side", side, 1, 106)
    from sklearn.datasets import load_sample_images

    pieces = []
    for image in load_sample_images().images:
        grey = torch.from_numpy(image.copy()).double().mean(2) / 255 - 0.5
        small = torch.nn.functional.avg_pool2d(grey[None, None], 4)[0, 0]
        rows, columns = (length // side for length in small.shape)
        cut = small[: rows * side, : columns * side].view(rows, side, columns, side)
        pieces.append(cut.transpose(1, 2).reshape(rows * columns, side * side))
    return torch.stack(pieces, 1).flatten(0, 1).unsqueeze(-1)  # one of each photograph in turn


def filter_data(side: int = SIDE, counts: Mapping[str, int] = COUNTS) -> FilterData:
    """Cut the photographs into the splits, and filter them exactly (Eq. 1)."""
    images, edges = photographs(side), pixel_grid(side)
    if not isinstance(counts, Mapping) or "train" not in counts:
        raise ParameterError(f"counts must have the number of images of each split, got {shown(counts)}.")

    for split, count in counts.items():
        integer(f"counts[{split!r}]", count, 1, len(images))
    # neighbouring pieces of a photograph go to different splits; the order is one for all times
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    op = GraphOperator.from_edge_index(edges, side * side, dtype=torch.float64)
    x, y, first = {}, {}, 0
    for split, count in counts.items():
        chosen = images[order[first : first + count]]
        first += count
        x[split] = chosen.float()
        y[split] = torch.stack([SpectralFilter(h).filter(op, chosen) for h in RESPONSES.values()])
    scale = y["train"].flatten(1).std(1)
    return FilterData(edges, x, {split: (own / scale.view(-1, 1, 1, 1)).float() for split, own in y.items()}, scale)
