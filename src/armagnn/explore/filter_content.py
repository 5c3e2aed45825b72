"""Filters, as the explorer takes them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from armagnn.checks import instance
from armagnn.filters import ARMAFilter


def filter_content(filter: ARMAFilter | None) -> dict[str, Any]:
    """Return a filter as the explorer takes it: real and imaginary parts of a and b.

    Example:
        >>> filter_content(ARMAFilter(a=[0.9], b=[0.1]))
        {'a': [[0.9, 0.0]], 'b': [[0.1, 0.0]]}
    """
    if filter is None:
        return {}
    instance("filter", filter, ARMAFilter, "an ARMAFilter")
    return {"a": _parts(filter.a), "b": _parts(filter.b)}


def _parts(values: Tensor) -> list[list[float]]:
    parts: list[list[float]] = torch.view_as_real(values.detach().cpu().to(torch.complex128)).tolist()
    return parts
