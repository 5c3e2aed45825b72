"""torch's linear layer, for many trials at a time."""

from __future__ import annotations

from torch import Tensor, nn

from armagnn import kernels


class Linear(nn.Linear):
    r"""The layer :math:`X W^\top + b` of torch, whose product is `kernels.product`.

    The product has two axes whatever x has: vmap over the weights then is one batched product, not one for every node.

    Example:
        >>> import torch
        >>> Linear(3, 2)(torch.randn(5, 4, 3)).shape
        torch.Size([5, 4, 2])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the new features, shape (..., F_out)."""
        out = kernels.product(input.flatten(0, -2) if input.dim() > 2 else input, self.weight.t())
        out = out.reshape(*input.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias.to(out.dtype)  # of another type only under autocast
