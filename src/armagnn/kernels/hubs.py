"""Long rows of a matrix (hubs), cut into segments that a GPU adds up side by side."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from armagnn.kernels.reference import LONG


class Segments(NamedTuple):
    """Where the segments of the long rows start and end among the nonzeros, and the first segment of each row."""

    starts: Tensor
    ends: Tensor
    first: Tensor


def cut_long_rows(rowptr: Tensor, nonzeros: int | None = None) -> Segments | None:
    """Return the segments of the rows of more than `LONG` nonzeros, or None where there can be none.

    Their number must be known, for which a GPU is waited for. With the number of all nonzeros given it is not: there
    are then as many segments as such a matrix can have at most, and those that are not needed are empty.

    Example:
        >>> import torch
        >>> cut_long_rows(torch.tensor([0, 2, 302])).starts, cut_long_rows(torch.tensor([0, 2, 202]))
        (tensor([  2, 258]), None)
        >>> cut_long_rows(torch.tensor([0, 2, 202, 402]), 402).ends
        tensor([0, 0])
    """
    degree = rowptr.diff()
    pieces = torch.where(degree > LONG, (degree + (LONG - 1)) // LONG, 0).long()
    last = pieces.cumsum(0)
    # a row of d > LONG nonzeros has at most 1 + floor(d / LONG) segments, no more than twice that floor; and the floors
    # of all rows add up to floor(nonzeros / LONG) at most
    count = 2 * (nonzeros // LONG) if nonzeros is not None else int(last[-1]) if last.numel() else 0
    if count == 0:
        return None
    number, first = torch.arange(count, device=rowptr.device), last - pieces
    row = torch.searchsorted(last, number, right=True).clamp_(max=degree.shape[0] - 1)
    starts = rowptr[row] + (number - first[row]) * LONG
    ends = torch.minimum(starts + LONG, rowptr[row + 1])
    needed = number < last[-1]
    return Segments(torch.where(needed, starts, 0), torch.where(needed, ends, 0), first)
