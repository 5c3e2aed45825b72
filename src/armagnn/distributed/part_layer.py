"""An ARMA layer on one rank's rows as one operation: the passes of `layer_products`, with the halo exchanged.

Only the product with the operator and the dropout masks differ from a layer of one process. A product sends the rows
that other ranks need, multiplies by the block of own rows and columns in the meantime, and adds what the halo brings.
The product with the transpose does the same the other way round: it sends back as many bytes.

All ranks take the same way through a layer, or they would wait for each other forever. So nothing here decides about an
exchange by the number of this rank's nodes, of its border or of its halo.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from armagnn.distributed.halo import Halo
from armagnn.distributed.stack_masks import drop_run
from armagnn.kernels import reference
from armagnn.kernels.backends import Layer, Matrix, backend
from armagnn.kernels.layer_products import LayerRun

if TYPE_CHECKING:
    from armagnn.operators import CSR


class PartPlan:
    """How a layer runs on a rank's rows; see `armagnn.kernels.backends.Plan`.

    Args:
        own: the rows over this rank's own columns.
        border: which rows reach into the halo.
        other: these rows over the columns of the halo.
        halo: what is exchanged with whom.
    """

    def __init__(self, own: CSR, border: Tensor, other: CSR, halo: Halo) -> None:
        self.own: Matrix = own._arguments()  # with the transpose, which is made once
        self.other: Matrix = other._arguments()
        self.border, self.halo = border, halo

    def keeps(self, t: Layer) -> bool:
        """Return the same on every rank: all exchange again what is computed again."""
        return True

    def forward(self, t: Layer, keep: bool) -> tuple[Tensor, list[Any]]:
        """Return the mean of the stacks of this rank's nodes, and tensors for `backward` if ``keep``."""
        run = PartRun(t, self)
        out, propagated, states = run.forward(keep)
        return run.of_nodes(out, run.shape), [propagated, *states]

    def backward(self, t: Layer, g: Tensor, kept: list[Any], needs_x: bool, consume: bool) -> tuple[Tensor | None, ...]:
        """Return the gradients of x, and this rank's part of those of w0, w, v and the bias."""
        run, (propagated, *states) = PartRun(t, self, needs_x), kept
        x_grad, *found = run.backward(g if g.dim() == 2 else run.by_node(g), propagated, states, needs_x, consume)
        return None if x_grad is None else run.of_nodes(x_grad, run.shape), *run.as_given(found)


class PartRun(LayerRun):
    """One pass over a layer on a rank's rows."""

    def __init__(self, t: Layer, plan: PartPlan, multiplies: bool = True) -> None:
        super().__init__(t, multiplies)
        self.plan, self.frugal = plan, False  # ranks exchange rows once a step, however many rows each has
        if self.seed is not None:
            self.kernels = _without_masks(t.v.device.type)

    def propagate(self, h: Tensor, transpose: bool = False) -> Tensor:
        """Return this rank's rows of L h or L^T h for h of shape (n * batch, F); all ranks ask for it together."""
        wide = h.view(self.nodes, h.numel() // self.nodes)
        if not transpose:
            return self._product(wide, None, None).view(h.shape)
        halo, border = self.plan.halo, self.plan.border
        pending = halo.launch(self._small(self.plan.other[3:6], wide.index_select(0, border)), back=True)
        rowptr, col, value = self.plan.own[3:6]
        out = self.kernels.gcs(rowptr, col, value, wide, None, None, "none", 0.0)
        return out.index_add_(0, halo.sent, pending.wait()).view(h.shape)

    def _product(self, h: Tensor, skip: Tensor | None, target: Tensor | None) -> Tensor:
        """Return L h + skip, perhaps in the target, which may be the skip connection."""
        halo, border = self.plan.halo, self.plan.border
        pending = halo.launch(h.index_select(0, halo.sent), back=False)
        rowptr, col, value = self.plan.own[:3]
        out = self.kernels.gcs(rowptr, col, value, h, skip, None, "none", 0.0, target=target)
        return out.index_add_(0, border, self._small(self.plan.other[:3], pending.wait()))

    def _small(self, matrix: Matrix, x: Tensor) -> Tensor:
        """Return the product with a matrix that may have no row or no column."""
        rowptr, col, value = matrix
        rows = rowptr.shape[0] - 1
        if not rows or not x.shape[0]:
            return x.new_zeros(rows, x.shape[1])
        return self.kernels.gcs(rowptr, col, value, x, None, None, "none", 0.0)

    def drop(self, h: Tensor, seed: Tensor, t: int, reuse: bool = False) -> Tensor:
        """Return h with the entries dropped that one process would drop: by their numbers in the whole graph."""
        first = self.plan.halo.first * (h.numel() // self.nodes)
        return drop_run(h, seed, float(self.settings.p), t, first, h if reuse else None)

    def step(
        self, t: int, h: Tensor, skip: Tensor, bias: Tensor | None, seed: Tensor | None, reuse: bool, mean: bool = False
    ) -> Tensor:
        """Return σ(L h + dropout(skip) + bias), or its mean over the stacks; it may write over a skip it may reuse."""
        s, shape = self.settings, (self.nodes, self.batch * self.channels)
        if seed is not None:
            skip, reuse = self.drop(skip, seed, t, reuse), True
        skip = skip.view(shape)
        out = self._product(h.view(shape), skip, skip if reuse else None).view(self.rows, self.channels)
        out = reference.activate(out if bias is None else out.add_(bias), s.act, s.slope)
        return self.mean(out) if mean else out


@cache
def _without_masks(device: str) -> Any:
    """Return the kernels of a device without those that draw masks and would number entries from this rank's first."""
    own = {name: getattr(reference, name) for name in ("early_step", "gcs_mean", "late_step")}
    return SimpleNamespace(**vars(backend(device)) | own)
