"""Where matrices are put together by compiled kernels, and not by operations of torch, which take more memory."""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Final

import torch
from torch import Tensor

from armagnn.torch_private import is_wrapped, learned, recording, transforms_active

_HAS_NUMBA: Final = importlib.util.find_spec("numba") is not None


def compiled_assembly(*tensors: Tensor) -> ModuleType | None:
    """Return `cpu.ordering` if it can read these tensors: of the processor, eager, and without gradient.

    Example:
        >>> compiled_assembly(torch.ones(2, requires_grad=True)) is None
        True
    """
    if not _HAS_NUMBA or recording() or transforms_active():
        return None
    for tensor in tensors:
        plain = tensor.device.type == "cpu" and not is_wrapped(tensor) and not learned(tensor)
        if not plain or tensor.dtype not in (torch.int32, torch.int64, torch.float32, torch.float64):
            return None
    from armagnn.kernels.cpu import ordering

    return ordering
