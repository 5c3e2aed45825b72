"""The truth of a backward step in one pass."""

from __future__ import annotations

import torch
from torch import Tensor

from armagnn.kernels import reference
from armagnn.kernels.reference import gradient_of_activation


def late_step(
    down: Tensor, below: Tensor, w: Tensor, act: str, slope: float, layers: int = 1, skip: Tensor | None = None,
    drop: tuple[Tensor, float | Tensor, int] | None = None, parts: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """What `armagnn.kernels.gpu_dense.late_step` does, product by product."""
    gradient = torch.einsum("nkf,nkg->kfg", below, down)
    up = torch.einsum("nkg,kfg->nkf", down, w).contiguous()
    down.copy_(gradient_of_activation(up, below.contiguous(), act, slope))
    if skip is not None:
        kept = down
        if drop is not None:
            seed, p, step = drop
            if isinstance(p, Tensor):
                of_layers = down.reshape(down.shape[0], layers, -1)
                kept = reference.dropout_trials(of_layers, seed, p.view(-1), step).view(down.shape)
            else:
                kept = reference.dropout(down.flatten(1), seed, p, step).view(down.shape)
        skip.add_(kept)
    part = torch.cat([gradient, down.sum(0).unsqueeze(1)], 1).unsqueeze(0)
    return part if parts is None else parts.add_(part)
