"""Routines of kernels, called from Python."""

from __future__ import annotations

from typing import Any

from armagnn.kernels.cpu.compile import compiled
from armagnn.kernels.cpu.dense import MULTIPLY
from armagnn.kernels.cpu.dense import multiply as at_address


@compiled()
def _multiply(at: int, out: Any, start: Any, a: Any, b: Any, how: int, gate: Any, slope: Any) -> None:
    at_address(at, out, start, a, b, how, gate, slope)


def multiply(out: Any, *rest: Any) -> None:
    """Call `multiply` of the tiles."""
    _multiply(MULTIPLY.address(out.dtype), out, *rest)
