"""The exchange of halo rows: what a rank needs of the other ranks' nodes before it can multiply by its own rows.

The rows of an operator lie on ranks in runs: rank r owns the nodes from ``starts[r]`` to ``starts[r + 1]``. Its halo is
the set of nodes of other ranks that its rows name. Which rows go from whom to whom is worked out once; an exchange is
then one ``all_to_all_single``, and its gradient is the exchange the other way.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Halo:
    """The lists of an exchange; all ranks of the group hold their own.

    Attributes:
        group: the ranks.
        starts: the first node of each rank, and N at the end.
        wanted: the nodes of other ranks that this rank needs, ascending, as numbers of the whole graph.
        sent: which own rows go out, rank by rank, as numbers from 0 within this rank.
        sends: how many rows go to each rank.
        receives: how many rows come from each rank.
    """

    group: dist.ProcessGroup
    starts: tuple[int, ...]
    wanted: Tensor
    sent: Tensor
    sends: list[int]
    receives: list[int]

    @classmethod
    def agree(cls, group: dist.ProcessGroup, starts: tuple[int, ...], wanted: Tensor) -> Self:
        """Ask all ranks what they need of whom; every rank of the group calls this together."""
        bounds = torch.tensor(starts, device=wanted.device)
        owner = torch.bucketize(wanted, bounds[1:], right=True)
        receives = torch.bincount(owner, minlength=len(starts) - 1)
        sends = torch.empty_like(receives)
        dist.all_to_all_single(sends, receives, group=group)
        asked = wanted.new_empty(int(sends.sum()))
        dist.all_to_all_single(asked, wanted.contiguous(), sends.tolist(), receives.tolist(), group=group)
        first = starts[dist.get_rank(group)]
        return cls(group, starts, wanted, asked - first, sends.tolist(), receives.tolist())

    @property
    def first(self) -> int:
        """The first node of this rank."""
        return self.starts[dist.get_rank(self.group)]

    @property
    def owned(self) -> int:
        """The number of nodes of this rank."""
        rank = dist.get_rank(self.group)
        return self.starts[rank + 1] - self.starts[rank]

    @property
    def total(self) -> int:
        """The number of nodes N of the whole graph."""
        return self.starts[-1]

    @property
    def some_empty(self) -> bool:
        """Whether some rank has no node."""
        return any(a == b for a, b in itertools.pairwise(self.starts))

    def bytes_sent(self, width: int, dtype: torch.dtype) -> int:
        """Return the bytes that this rank sends in one product with ``width`` columns; as many go back in its gradient.

        They are the rows that other ranks need of this one, times the bytes of a row.
        """
        return sum(self.sends) * width * dtype.itemsize

    def to(self, device: torch.device) -> Self:
        """Return the lists on a device."""
        return replace(self, wanted=self.wanted.to(device), sent=self.sent.to(device))

    # ------------------------------------------------------------------------------------------------------- exchange

    def begin(self, x: Tensor) -> tuple[Tensor, Pending]:
        """Send the rows that others need of ``x``, (n, F), and return the halo's (H, F), which `end` waits for.

        Between the two there is time for work that needs no halo. In the backward pass the same holds the other way
        round: the gradient of the halo is under way while that of the other work is computed.
        """
        pending = Pending()
        rows: Tensor = _Begin.apply(x.index_select(0, self.sent), self, pending)  # type: ignore[no-untyped-call]
        return rows, pending

    def end(self, rows: Tensor, pending: Pending) -> Tensor:
        """Wait for the rows of the halo, and return them."""
        out: Tensor = _End.apply(rows, self, pending)  # type: ignore[no-untyped-call]
        return out

    def launch(self, rows: Tensor, *, back: bool) -> Pending:
        """Begin an exchange of rows that are laid out rank by rank: to the halos, or ``back`` from them."""
        given, taken = (self.receives, self.sends) if back else (self.sends, self.receives)
        rows = rows.contiguous()
        out = rows.new_empty(sum(taken), *rows.shape[1:])
        # gloo knows no numbers of 16 bits: they travel as bytes
        wire, landed = (t.view(torch.uint8) if t.dtype == torch.bfloat16 else t for t in (rows, out))
        work = dist.all_to_all_single(landed, wire, taken, given, group=self.group, async_op=True)
        return Pending(out, rows, work)


@dataclass
class Pending:
    """An exchange under way; ``source`` must live until it is over."""

    out: Tensor | None = None
    source: Tensor | None = None
    work: Any = None

    def take(self, other: Pending) -> None:
        """Become another exchange."""
        self.out, self.source, self.work = other.out, other.source, other.work

    def wait(self) -> Tensor:
        """Return what came, once all of it is here."""
        assert self.out is not None
        self.work.wait()
        out, self.out, self.source, self.work = self.out, None, None, None
        return out


class _Begin(torch.autograd.Function):
    """From the rows to send to those of the halo, which arrive later."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, halo: Halo, pending: Pending) -> Tensor:
        ctx.halo, ctx.pending = halo, pending
        pending.take(halo.launch(rows, back=False))
        assert pending.out is not None
        return pending.out

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor, None, None]:
        if ctx.pending.work is None:  # a derivative of this gradient is wanted: nothing was begun by `_End`
            return _Exchange.apply(grad[0], ctx.halo, True), None, None  # type: ignore[no-untyped-call]
        return ctx.pending.wait(), None, None


class _End(torch.autograd.Function):
    """The halo's rows, when they are here."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, halo: Halo, pending: Pending) -> Tensor:
        ctx.halo, ctx.pending = halo, pending
        pending.wait()
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor, None, None]:
        if not torch.is_grad_enabled():
            ctx.pending.take(ctx.halo.launch(grad[0], back=True))
        return grad[0], None, None


class _Exchange(torch.autograd.Function):
    """An exchange that is waited for at once, any number of times differentiable."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, halo: Halo, back: bool) -> Tensor:
        ctx.halo, ctx.back = halo, back
        return halo.launch(rows, back=back).wait()

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor, None, None]:
        return _Exchange.apply(grad[0], ctx.halo, not ctx.back), None, None  # type: ignore[no-untyped-call]
