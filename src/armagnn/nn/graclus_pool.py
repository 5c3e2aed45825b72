"""Pooling of signals on a graph that `armagnn.operators.coarsen` has put in the order of a tree."""

from __future__ import annotations

from typing import Final, Literal

import torch
from torch import Tensor, nn

from armagnn import checks
from armagnn.errors import DeviceError, DTypeError, ShapeError

MODES: Final = ("max", "mean")


class GraclusPool(nn.Module):
    r"""Plain strided pooling along the nodes of a `Coarsening`,

    .. math::
        z_p = \max_{i \in \mathcal{C}_p} x_i \qquad\text{or}\qquad
        z_p = \frac{1}{|\mathcal{C}_p|} \sum_{i \in \mathcal{C}_p} x_i, \qquad
        \mathcal{C}_p = \{i : s p \le i < s (p + 1), \; i \text{ is real}\},

    as Defferrard et al. have it: in the order of the balanced binary tree the clusters of level l + log2(s) are s
    places of level l each, side by side. Fake places hold whatever the bias and activation of the layer before made of
    them; here they are masked: they win no maximum, of negative features neither, and count in no average. A cluster of
    fakes only is zero, and fake in the next level.

    Args:
        stride: s, a power of 2 where the order is that of a tree.
        mode: ``"max"`` or ``"mean"``.

    Shapes:
        - ``x``: (..., M, F), signals on M places; M is a multiple of s.
        - ``real``: (M,) bool, ``coarsening.real[level]``; None if all places are real.
        - output: (..., M / s, F).

    Example:
        >>> import torch
        >>> x = torch.tensor([[-3.0], [-1.0], [-2.0], [9.0]])
        >>> real = torch.tensor([True, True, True, False])
        >>> GraclusPool(2)(x, real).squeeze(), GraclusPool(2, "mean")(x, real).squeeze()
        (tensor([-1., -2.]), tensor([-2., -2.]))
    """

    def __init__(self, stride: int, mode: Literal["max", "mean"] = "max") -> None:
        super().__init__()
        self.stride, self.mode = checks.integer("stride", stride, 1), checks.choice("way to pool", mode, MODES)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Return the pooled signals, shape (..., M / s, F)."""
        self._check(x, real)
        if real is None:
            clusters = self._clusters(x)
            return clusters.amax(-2) if self.mode == "max" else clusters.mean(-2)
        fake = ~real.unsqueeze(1)
        count = real.view(-1, self.stride).sum(1, keepdim=True)
        if self.mode == "mean":
            return self._clusters(x.masked_fill(fake, 0.0)).sum(-2) / count.clamp(min=1).to(x.dtype)
        largest = self._clusters(x.masked_fill(fake, -torch.inf)).amax(-2)
        return largest.masked_fill(count == 0, 0.0)

    def _clusters(self, x: Tensor) -> Tensor:
        """Return the places of each cluster side by side, shape (..., M / s, s, F)."""
        return x.reshape(*x.shape[:-2], x.shape[-2] // self.stride, self.stride, x.shape[-1])

    def _check(self, x: Tensor, real: Tensor | None) -> None:
        checks.real_tensor("x", x, "(..., M, F)")
        if x.shape[-2] % self.stride:
            raise ShapeError(
                f"x must have shape (..., M, F) with M a multiple of the stride {self.stride}, got {tuple(x.shape)}: "
                "bring signals into the order of the tree with coarsening.arrange(x)."
            )
        if real is None:
            return
        if checks.dense("real", real, "(M,)", " or None").dtype != torch.bool:
            raise DTypeError(f"real must hold booleans, got {real.dtype}: pass coarsening.real[level].")
        if real.shape != (x.shape[-2],):
            raise ShapeError(f"real must have shape ({x.shape[-2]},), one for each place, got {tuple(real.shape)}.")
        if real.device != x.device:
            raise DeviceError(f"x is on {x.device} and real on {real.device}: move one with .to(device).")

    def extra_repr(self) -> str:
        """Show stride and mode."""
        return f"{self.stride}, {self.mode!r}"
