"""Plain torch versions of every kernel: the fall-back on devices and installations without a faster one.

They are deterministic, work on any device and never hold an (edges × features) tensor for a whole graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from armagnn.randomness import DROPOUT, bits, keep_mask, thresholds

ALIKE: Final = 6
"""Blocks of one size that are worth being brought together."""

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's decay of the means and of the squares, and what keeps it from dividing by zero."""

LONG: Final = 256
"""A row of more nonzeros than this is cut into pieces: one by one its sum would lose digits, and keep a GPU waiting."""

MANY_ROWS: Final = 1 << 15
"""Up to so many rows `inner` leaves to a BLAS alone."""

SLICE = 1 << 22
"""Numbers of an (edges × features) product that may exist at a time."""


def _accumulator(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def rows_of(rowptr: Tensor, nonzeros: int) -> Tensor:
    """Return the row of every nonzero."""
    counts = rowptr[1:] - rowptr[:-1]
    rows = torch.arange(counts.numel(), device=rowptr.device, dtype=rowptr.dtype)
    return torch.repeat_interleave(rows, counts.long(), output_size=nonzeros)


def activate(x: Tensor, act: str, slope: float) -> Tensor:
    """Apply an activation in place; ``slope`` is the leaky ReLU's slope or the ELU's alpha."""
    if act == "none":
        return x
    if act == "relu":
        return torch.relu_(x)
    if act == "leaky_relu":
        return torch.nn.functional.leaky_relu_(x, slope)
    if act == "elu":
        return torch.nn.functional.elu_(x, slope)
    if act == "tanh":
        return x.tanh_()
    return x.sigmoid_()


def gradient_of_activation(g: Tensor, out: Tensor, act: str, slope: float, target: Tensor | None = None) -> Tensor:
    """Return ``g * act'(z)`` from ``out = act(z)``: one pass, differentiable again in g and out.

    With a ``target``, which may be g or out itself, the gradient is written there.
    """
    aten: Any = torch.ops.aten
    if act == "none":
        return g if target is None else target.copy_(g)
    name, arguments = {
        "relu": ("threshold_backward", (g, out, 0)),
        "leaky_relu": ("leaky_relu_backward", (g, out, slope, True)),
        "elu": ("elu_backward", (g, slope, 1, 1, True, out)),
        "tanh": ("tanh_backward", (g, out)),
        "sigmoid": ("sigmoid_backward", (g, out)),
    }[act]
    operation = getattr(aten, name)
    gradient: Tensor = operation(*arguments) if target is None else operation.grad_input(*arguments, grad_input=target)
    return gradient


def gcs(
    rowptr: Tensor, col: Tensor, value: Tensor, x: Tensor, skip: Tensor | None, bias: Tensor | None,
    act: str, slope: float, seed: Tensor | None = None, p: float = 0.0, step: int = 0, target: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``act(A x + dropout(skip) + bias)``."""
    work = torch.float64 if _has_long_rows(rowptr) else _accumulator(x.dtype)
    if value.dim() == 2:  # one matrix for each group of columns
        groups = zip(value, x.to(work).view(x.shape[0], value.shape[0], -1).unbind(1), strict=True)
        product = [gcs(rowptr, col, of_trial, part, None, None, "none", 0.0) for of_trial, part in groups]
        out = torch.stack(product, dim=1).flatten(1)
        return activate(_added(out, skip, bias, seed, p, step), act, slope).to(x.dtype)
    shape = (rowptr.numel() - 1, x.shape[0])
    with warnings.catch_warnings():  # torch calls its CSR tensors "beta" at every first use
        warnings.simplefilter("ignore", UserWarning)
        matrix = torch.sparse_csr_tensor(rowptr, col, value.to(work), shape, check_invariants=False)
        out = matrix @ x.to(work)
    return activate(_added(out, skip, bias, seed, p, step), act, slope).to(x.dtype)


def _has_long_rows(rowptr: Tensor) -> bool:
    """Return whether torch would lose digits: on a processor it adds up the numbers of a row one by one."""
    return rowptr.device.type == "cpu" and rowptr.numel() > 1 and int(rowptr.diff().max()) > LONG


def _added(out: Tensor, skip: Tensor | None, bias: Tensor | None, seed: Tensor | None, p: float, step: int) -> Tensor:
    if skip is not None:
        out += skip if seed is None else dropout(skip, seed, p, step)
    if bias is not None:
        out += bias
    return out


def sddmm(rowptr: Tensor, col: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return ``<a[i], b[j]>`` for every nonzero (i, j), in slices."""
    work = _accumulator(a.dtype)
    row = rows_of(rowptr, col.numel())
    out = torch.empty(col.numel(), dtype=work, device=a.device)
    size = max(1, SLICE // max(1, a.shape[1]))
    for start in range(0, col.numel(), size):
        piece = slice(start, start + size)
        out[piece] = (a[row[piece]].to(work) * b[col[piece]].to(work)).sum(1)
    return out.to(a.dtype)


def dropout(x: Tensor, seed: Tensor, p: float, step: int) -> Tensor:
    """Return ``x`` with each entry zeroed with probability p, the others scaled by 1 / (1 - p)."""
    return torch.where(keep_mask(seed, p, step, x.shape), x * (1.0 / (1.0 - p)), x.new_zeros(()))


def dropout_trials(x: Tensor, seed: Tensor, p: Tensor, step: int, target: Tensor | None = None) -> Tensor:
    """Return x of shape (M, R, C) with entries of trial r zeroed with probability ``p[r]``; target may be x itself."""
    rows, _, columns = x.shape
    index = torch.arange(rows * columns, device=x.device).view(rows, 1, columns)
    kept = bits(seed.view(-1, 1), DROPOUT, step, index) >= thresholds(p).view(-1, 1)
    work = _accumulator(x.dtype)  # in which a single rate would multiply too
    scaled = (x.to(work) * (1.0 / (1.0 - p)).to(work).view(-1, 1)).to(x.dtype)
    out = torch.where(kept, scaled, x.new_zeros(()))
    return out if target is None else target.copy_(out)


def adam(
    param: Tensor, grad: Tensor, mean: Tensor, square: Tensor, lr: Tensor, decay: Tensor, step: Tensor, axis: int = 0
) -> None:
    """Take one step of Adam in place, with a rate lr and a weight decay (R) for every trial along an axis."""
    shape = [1] * param.dim()
    shape[axis] = -1
    grad = torch.addcmul(grad, param, decay.to(param.dtype).view(shape))
    mean.lerp_(grad, 1 - BETA1)
    square.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
    size = (lr / (1 - BETA1**step)).to(param.dtype).view(shape)
    root = (1 - BETA2**step).sqrt().to(param.dtype)
    param.addcmul_(mean / (square.sqrt() / root + EPSILON), size, value=-1)


def affine(a: Tensor, weight: Tensor, skip: Tensor | None, bias: Tensor | None, act: str, slope: float) -> Tensor:
    """Return ``act(a W + skip + bias)`` for a of shape (M, F) and W of shape (F, C)."""
    if skip is not None:
        out = torch.addmm(skip, a, weight)
        return activate(out if bias is None else out.add_(bias), act, slope)
    return activate(a @ weight if bias is None else torch.addmm(bias, a, weight), act, slope)


def nonzeros(rowptr: Tensor, col: Tensor, value: Tensor, perm: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the matrix with the values ``value[:, perm]``, of any form that `gcs` takes: here, with all of them."""
    return rowptr, col, value if perm is None else value.index_select(-1, perm)


def gcs_mean(*_: Any) -> None:
    """Return None: the caller takes the mean of what `gcs` returns."""
    return


def early_step(*_: Any) -> None:
    """Return None: the caller takes the step product by product."""
    return


def late_step(*_: Any) -> None:
    """Return None: the caller goes back product by product."""
    return


def take_padded(*_: Any) -> None:
    """Return None: the caller takes the blocks by torch's operations."""
    return


def plan(layer: Any) -> None:
    """Return None: a layer goes product by product."""
    return


def attends(kinds: set[torch.dtype]) -> bool:
    """Return False: attention is made of torch's operations."""
    return False


def attend(*_: Any) -> Any:
    """Refuse: see `attends`."""
    raise NotImplementedError


attend_back = attend


def keep_rows_whole(rowptr: Tensor) -> None:
    """Do nothing: no row is ever cut."""


def cut_rows(rowptr: Tensor, nonzeros: int) -> None:
    """Do nothing: no row is ever cut."""


def outer(x: Tensor, g: Tensor) -> Tensor:
    """Return ``x[:, r]^T g[:, r]`` for every trial r, shape (R, F, C), of x (M, R, F) and g (M, R, C)."""
    return torch.bmm(x.permute(1, 2, 0), g.transpose(0, 1))


def inner(a: Tensor, b: Tensor, total: Tensor | None = None) -> Tensor:
    """Return ``a^T b`` of (M, I) and (M, J), such as the gradient of a weight matrix, or add it to a total in place.

    A BLAS may add up thin matrices row by row, and in float32 then loses all but two or three digits of a million.
    """
    if a.shape[0] <= MANY_ROWS or a.device.type != "cpu":
        return a.t() @ b if total is None else total.addmm_(a.t(), b)
    pieces = a.shape[0] // LONG
    rows = pieces * LONG
    parts = torch.bmm(a[:rows].reshape(pieces, LONG, -1).mT, b[:rows].reshape(pieces, LONG, -1))
    out = parts.sum(0).addmm_(a[rows:].t(), b[rows:])  # torch's sum is one of pieces
    return out if total is None else total.add_(out)


def trial_products(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a[r] @ b[r]`` for every trial r, shape (R, I, J), of a (R, I, M) and b (R, M, J)."""
    return torch.bmm(a, b)


def finish(skip: Tensor, bias: Tensor | None, act: str, slope: float) -> Tensor:
    """Return ``act(skip + bias)``, the step that has nothing to propagate."""
    return activate(skip.clone() if bias is None else skip + bias, act, slope)


def stack_matmul(h: Tensor, w: Tensor) -> Tensor:
    """Return ``h[:, k] @ w[k]`` for every stack k, node-major like h."""
    # written where it belongs: the batched product itself would put the stacks first and cost a permuting copy
    out = h.new_empty(h.shape[0], h.shape[1], w.shape[2])
    torch.bmm(h.transpose(0, 1), w, out=out.transpose(0, 1))
    return out


def stack_mean(h: Tensor) -> Tensor:
    """Return the mean over the stacks."""
    return h.mean(1)


def sort_coo(row: Tensor, col: Tensor, num_rows: int, num_cols: int) -> tuple[Tensor, Tensor]:
    """Return (rowptr, perm) that sort the entries by row, then column, then position."""
    key, perm = torch.sort(row.long() * num_cols + col, stable=True)
    starts = torch.arange(num_rows + 1, device=row.device) * num_cols
    return torch.searchsorted(key, starts).to(row.dtype), perm.to(row.dtype)


def transpose(rowptr: Tensor, col: Tensor, num_cols: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return (rowptr, col, perm) of the transposed matrix; its values are ``value[perm]``."""
    row = rows_of(rowptr, col.numel())
    key, perm = torch.sort(col, stable=True)
    pointer = torch.searchsorted(key, torch.arange(num_cols + 1, device=col.device, dtype=col.dtype))
    return pointer.to(rowptr.dtype), row[perm], perm.to(col.dtype)


def row_max(rowptr: Tensor, col: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maxima and, in the type of x, how many neighbours have each: 1 where there is none. In plain torch."""
    rows, width = rows_of(rowptr, col.shape[0]).long(), x.shape[1]
    most = x.new_zeros(rowptr.shape[0] - 1, width)
    ties = torch.zeros_like(most)
    for part in torch.split(torch.arange(width, device=x.device), max(1, SLICE // max(1, col.shape[0]))):
        values = x[:, part][col.long()]
        index = rows.unsqueeze(1).expand_as(values)
        found = most[:, part].scatter_reduce(0, index, values, "amax", include_self=False)
        most[:, part] = found
        ties[:, part] = ties[:, part].index_add(0, rows, (values == found[rows]).to(x.dtype))
    return most, ties.clamp(min=1)


def row_max_back(t_rowptr: Tensor, t_col: Tensor, x: Tensor, most: Tensor, shares: Tensor) -> Tensor:
    """Return for every row of x the sum of the shares of those rows whose maximum it has. In plain torch."""
    rows, width = rows_of(t_rowptr, t_col.shape[0]).long(), x.shape[1]
    out, to = torch.zeros_like(x), t_col.long()
    for part in torch.split(torch.arange(width, device=x.device), max(1, SLICE // max(1, to.shape[0]))):
        given = torch.where(most[:, part][to] == x[:, part][rows], shares[:, part][to], 0.0)
        out[:, part] = out[:, part].index_add(0, rows, given)
    return out


def block_product(blocks: Any, x: Tensor, transposed: bool) -> Tensor:
    """Return the product: many blocks of one size at once, others one by one. On a GPU, that waits for it."""
    result, starts, firsts = x.new_empty(x.shape), blocks.ptr.tolist(), blocks.first.tolist()
    alike: dict[int, list[int]] = {}
    for b, first in enumerate(firsts):
        size = starts[b + 1] - starts[b]
        if first < 0:
            result[starts[b] : starts[b + 1]] = 0.0
        elif size:
            alike.setdefault(size, []).append(b)
    for size, which in alike.items():
        if len(which) >= ALIKE:
            chosen = torch.tensor(which, device=x.device)
            count = torch.arange(size * size, device=x.device)
            rows = (blocks.ptr[chosen].unsqueeze(1) + count[:size]).flatten()
            some = blocks.store[blocks.first[chosen].unsqueeze(1) + count].view(-1, size, size)
            products = torch.bmm(some.mT if transposed else some, x.index_select(0, rows).view(len(which), size, -1))
            result.index_copy_(0, rows, products.flatten(0, 1))
            continue
        for b in which:
            block = blocks.store[firsts[b] : firsts[b] + size * size].view(size, size)
            rows_of = slice(starts[b], starts[b + 1])
            torch.mm(block.t() if transposed else block, x[rows_of], out=result[rows_of])
    return result


def blank(like: Tensor, *shape: int) -> Tensor:
    """Return a tensor without values, of the type and on the device of another."""
    return like.new_empty(shape)


def column_dots(x: Tensor, y: Tensor) -> Tensor:
    """Return the inner products of the columns of two matrices (N, C), shape (C), float64."""
    return (x.double() * y.double()).sum(0)


def lanczos_vector(u: Tensor, v: Tensor, before: Tensor, factors: Any) -> Tensor:
    """Replace u by ``f0 u + f1 v + f2 before``, and return ``|u|^2`` of each column."""
    f = torch.as_tensor(factors).to(u)
    u.mul_(f[0]).addcmul_(v, f[1]).addcmul_(before, f[2])
    return column_dots(u, u)


def combine_states(states: Tensor, vectors: Tensor, places: Sequence[int], updates: Sequence[Any]) -> None:
    """Replace states by sums of states and vectors, one update after the other."""
    for first, sources, old, new in updates:
        kept, added = torch.as_tensor(old).to(states), torch.as_tensor(new).to(states)
        made = [
            sum((states[s] * own[k] for k, s in enumerate(sources)), 0)
            + sum((vectors[w] * own_new[k] for k, w in enumerate(places)), 0)
            for own, own_new in zip(kept, added, strict=True)
        ]
        for offset, value in enumerate(made):
            states[first + offset] = value


# ------------------------------------------------------------------------------------------------------------ long rows


class Segments(NamedTuple):
    """Where the segments of the long rows start and end among the nonzeros, and the first segment of each row."""

    starts: Tensor
    ends: Tensor
    first: Tensor


def cut_long_rows(rowptr: Tensor, nonzeros: int | None = None) -> Segments | None:
    """Return the segments of the rows of more than `LONG` nonzeros, or None where there can be none.

    Their number must be known, for which a GPU is waited for. With the number of all nonzeros given it is not: there
    are then as many segments as such a matrix can have at most, and those that are not needed are empty.

    Example:
        >>> import torch
        >>> cut_long_rows(torch.tensor([0, 2, 302])).starts, cut_long_rows(torch.tensor([0, 2, 202]))
        (tensor([  2, 258]), None)
        >>> cut_long_rows(torch.tensor([0, 2, 202, 402]), 402).ends
        tensor([0, 0])
    """
    degree = rowptr.diff()
    pieces = torch.where(degree > LONG, (degree + (LONG - 1)) // LONG, 0).long()
    last = pieces.cumsum(0)
    # a row of d > LONG nonzeros has at most 1 + floor(d / LONG) segments, no more than twice that floor; and the floors
    # of all rows add up to floor(nonzeros / LONG) at most
    count = 2 * (nonzeros // LONG) if nonzeros is not None else int(last[-1]) if last.numel() else 0
    if count == 0:
        return None
    number, first = torch.arange(count, device=rowptr.device), last - pieces
    row = torch.searchsorted(last, number, right=True).clamp_(max=degree.shape[0] - 1)
    starts = rowptr[row] + (number - first[row]) * LONG
    ends = torch.minimum(starts + LONG, rowptr[row + 1])
    needed = number < last[-1]
    return Segments(torch.where(needed, starts, 0), torch.where(needed, ends, 0), first)
