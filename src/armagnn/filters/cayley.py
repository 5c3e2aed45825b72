"""The Cayley filter of Eq. 17."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from armagnn.checks import dense, real
from armagnn.errors import DTypeError, ParameterError, shown
from armagnn.filters.base import Filter, check_solver, coefficients, show
from armagnn.operators import GraphOperator
from armagnn.solvers import Statistics
from armagnn.solvers.conjugate_gradients import MAX_ITER, solve_polynomial


class CayleyFilter(Filter):
    r"""The filter :math:`h = w_0 + 2 \mathrm{Re} \sum_{k=1}^K w_k (z\lambda + i)^k (z\lambda - i)^{-k}` (Eq. 17).

    :math:`\lambda = 1 - \mu` is the frequency of the Laplacian; ``response`` takes mu in [-1, 1] all the same. The
    fraction runs along the unit circle, so that h is a trigonometric polynomial in its angle, and the zoom z (1 in
    Eq. 17) spreads the frequencies near 1/z over it. The operator may be of kind ``arma``, ``gcn`` or ``laplacian``.

    Eq. 18 approximates the inverse by Jacobi steps (see `armagnn.nn.CayleyConv`); here it is exact:
    :math:`(zL - iI)^{-1} = (zL + iI)(z^2 L^2 + I)^{-1}`, and that real positive-definite system is solved by
    conjugate gradients, once for each power.

    Args:
        w: :math:`w_0` (real), :math:`w_1, \dots, w_K` (complex or real); a tensor may need a gradient.
        zoom: z > 0, a number or a tensor that may need a gradient.

    Example:
        >>> f = CayleyFilter([0.5, 0.25j])
        >>> [round(float(h), 4) for h in f.response([-1.0, 0.0, 1.0])]
        [0.1, 0.0, 0.5]
    """

    kinds = ("arma", "gcn", "laplacian")
    variable = "lambda"
    methods = {"exact": ("tol", "max_iter", "statistics"), "eigen": ("spectrum",)}  # noqa: RUF012

    def __init__(self, w: Any, zoom: float | Tensor = 1.0) -> None:
        self.w = coefficients("w", w, allow_complex=True)
        if self.w.is_complex() and bool(self.w[0].detach().imag != 0):
            raise ParameterError(f"w_0 must be real, got {self.w[0].item()}.")
        self.zoom = (
            zoom if isinstance(zoom, Tensor) else torch.as_tensor(real("zoom", zoom, above=0), dtype=torch.float64)
        )
        dense("zoom", self.zoom, "()")
        if not self.zoom.is_floating_point():
            raise DTypeError(f"zoom must be one real number, got {shown(zoom)}.")
        if not 0 < float(self.zoom.detach()) < float("inf"):
            raise ParameterError(f"zoom must be a positive number, got {float(self.zoom.detach())}.")

    @property
    def order(self) -> int:
        """K, the highest power."""
        return self.w.shape[0] - 1

    def _parts(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return Re w, Im w and the zoom in the type and on the device of a tensor."""
        imaginary = self.w.imag if self.w.is_complex() else torch.zeros_like(self.w)
        return self.w.real.to(like), imaginary.to(like), self.zoom.to(like)

    def _response(self, mu: Tensor) -> Tensor:
        real, imaginary, zoom = self._parts(mu)
        angle = 2 * torch.atan2(torch.ones_like(mu), zoom * (1 - mu))  # of (zλ + i) / (zλ - i), on the unit circle
        out = real[0].expand(mu.shape)
        for k in range(1, self.order + 1):
            out = out + 2 * (real[k] * torch.cos(k * angle) - imaginary[k] * torch.sin(k * angle))
        return out

    def _apply(
        self,
        op: GraphOperator,
        x: Tensor,
        method: str,
        tol: float | None = None,
        max_iter: int | None = None,
        statistics: list[Statistics] | None = None,
        **options: Any,
    ) -> Tensor:
        check_solver(op, tol, max_iter, statistics)
        real, imaginary, zoom = self._parts(x)
        # z² L² + I as a polynomial in the operator: L is it, or I minus it
        square = zoom.square()
        if not bool(torch.isfinite(square.detach())):
            raise ParameterError(
                f"zoom = {float(zoom.detach()):g}: its square is too large for {x.dtype}; use method='eigen'."
            )
        rows = [square * 0 + 1, square * 0, square] if op.kind == "laplacian" else [square + 1, -2 * square, square]
        c = torch.stack(rows).unsqueeze(1)

        def laplacian(y: Tensor) -> Tensor:
            return op @ y if op.kind == "laplacian" else y - op @ y

        out, width = real[0] * x, x.shape[1]
        power = torch.cat([x, torch.zeros_like(x)], 1)  # the real and the imaginary part of the k-th power
        for k in range(1, self.order + 1):
            columns = power[:, :width] if k == 1 else power  # the first right side is real
            z, own = solve_polynomial(op, c.expand(-1, columns.shape[1]), columns, tol, max_iter or MAX_ITER)
            if statistics is not None:
                statistics.append(own)
            lz = zoom * laplacian(z)
            # (zL + i)² = z² L² - 1 + 2i zL
            flat, turn = zoom * laplacian(lz) - z, 2 * lz
            power = torch.cat([flat, turn], 1) if k == 1 else flat + torch.cat([-turn[:, width:], turn[:, :width]], 1)
            out = out + 2 * (real[k] * power[:, :width] - imaginary[k] * power[:, width:])
        return out

    def __repr__(self) -> str:
        number = float(self.zoom.detach())
        zoom = "" if number == 1 else f", zoom={number:g}"
        return f"CayleyFilter({show(self.w)}{zoom})"
