"""The truth of a backward step in one pass."""

from __future__ import annotations

import torch
from torch import Tensor

from armagnn.kernels.ops import gradient_of_activation


def late_step(down: Tensor, below: Tensor, w: Tensor, act: str, slope: float, skip: Tensor | None = None) -> Tensor:
    """What `armagnn.kernels.gpu_dense.late_step` does, product by product."""
    gradient = torch.einsum("nkf,nkg->kfg", below, down)
    up = torch.einsum("nkg,kfg->nkf", down, w).contiguous()
    down.copy_(gradient_of_activation(up, below.contiguous(), act, slope))
    if skip is not None:
        skip.add_(down)
    return gradient
