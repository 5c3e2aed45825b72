r"""A rational function of an operator applied to signals, :math:`\sum_k \mathrm{Re}\, b_k (I - a_k M)^{-1} Y`, with its gradient.

It is registered with torch as one operator, because how many steps it takes depends on the values: compiled code, vmap
and ``torch.func`` see one node.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, NoReturn

import torch
from torch import Tensor

from armagnn import kernels
from armagnn.errors import UnsupportedError
from armagnn.kernels.transforms import ReverseOnly, gradients_by_loop, refuse_transforms
from armagnn.operators import GraphOperator
from armagnn.solvers.conjugate_gradients import MAX_ITER
from armagnn.solvers.iteration import Statistics
from armagnn.solvers.shifted_systems import shifted_systems
from armagnn.torch_private import in_vmap_rule, recording, transforms_active

_MATRIX: Final = (
    "Tensor rowptr, Tensor col, Tensor value, Tensor t_rowptr, Tensor t_col, Tensor t_value, "
    "Tensor? perm, Tensor? inverse"
)
_OPTIONS: Final = "float? tol, int max_iter"
_library = torch.library.Library("armagnn", "FRAGMENT")  # type: ignore[no-untyped-call]
for _schema in (
    f"partial_fractions({_MATRIX}, Tensor y, Tensor a, Tensor b, {_OPTIONS}, bool keep) -> (Tensor, Tensor)",
    f"partial_fractions_backward({_MATRIX}, Tensor a, Tensor b, Tensor z, Tensor g, {_OPTIONS}, bool learned)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]

_log: ContextVar[list[Statistics] | None] = ContextVar("log", default=None)
"""Where the solve that runs appends its statistics; compiled code has no such place."""

_ADVICE: Final = "raise max_iter or tol, or keep the poles away from [-1, 1]"


def partial_fractions(
    op: GraphOperator,
    y: Tensor,
    a: Tensor,
    b: Tensor,
    tol: float | None = None,
    max_iter: int = MAX_ITER,
    statistics: list[Statistics] | None = None,
) -> Tensor:
    r"""Return :math:`\bar Y = \sum_{k=1}^P \mathrm{Re}\, b_k (I - a_k M)^{-1} Y`, each column with its own numbers.

    All systems are solved in one Krylov space (`shifted_systems`). The gradient comes from one more such solve, of the
    gradient G that comes down: with :math:`Z_k = (I - a_k M)^{-1} Y` and :math:`\Lambda_k = (I - a_k M)^{-1} G`

    .. math::
        \nabla_Y = \sum_k \mathrm{Re}\, b_k \Lambda_k, \quad
        d\ell = \sum_k \mathrm{Re} \left( \langle G, Z_k \rangle\, db_k + b_k \langle M \Lambda_k, Z_k \rangle\, da_k
        + a_k b_k \langle \Lambda_k, dM\, Z_k \rangle \right)

    where the brackets are sums of products without conjugation. The Z_k are kept for it, so memory does not grow with
    the steps. Second derivatives are refused.

    Args:
        op: the symmetric operator M; its values may need a gradient.
        y: shape (N, C), of the operator's type.
        a: real and imaginary parts, shape (P, 2, C), float64; the poles 1 / a lie off [-1, 1].
        b: real and imaginary parts, shape (P, 2, C), float64.
        tol: relative residual; 1e-12 in float64, 1e-6 in float32 by default.
        max_iter: steps after which it stops, with a warning.
        statistics: a list, to which the `Statistics` of the solve are appended; a backward pass adds its own to them.

    Example:
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), dtype=torch.float64)
        >>> a = torch.tensor([[[0.5], [0.0]]], dtype=torch.float64, requires_grad=True)
        >>> b = torch.tensor([[[1.0], [0.0]]], dtype=torch.float64)
        >>> out = partial_fractions(op, torch.ones(2, 1, dtype=torch.float64), a, b)
        >>> out.detach().squeeze(), torch.autograd.grad(out.sum(), a)[0][0, 0]  # of 2 / (1 - a)
        (tensor([2.0000, 2.0000], dtype=torch.float64), tensor([8.0000], dtype=torch.float64))
    """
    op.require_symmetric("a rational filter solved by conjugate gradients")
    if not op.whole:
        refuse_transforms("a rational filter over ranks")
        return _OverRanks.apply(op, op.value, y, a, b, tol, max_iter, statistics)  # type: ignore[no-any-return,no-untyped-call]
    matrix = op._arguments()
    unknown = recording() or transforms_active()  # whether there will be gradients
    keep = unknown or (torch.is_grad_enabled() and any(t.requires_grad for t in (op.value, a, b)))
    arguments = (*matrix, y, a, b, tol, max_iter, keep)
    if recording():
        return torch.ops.armagnn.partial_fractions(*arguments)[0]  # type: ignore[no-any-return]
    token = _log.set([] if statistics is None else statistics)
    try:
        out: Tensor = _Forward.apply(*arguments)[0]  # type: ignore[no-untyped-call]
    finally:
        _log.reset(token)
    return out


def _solve(
    matrix: tuple[Any, ...], y: Tensor, a: Tensor, tol: float | None, max_iter: int
) -> tuple[Tensor, Tensor, Statistics]:
    multiply, (rowptr, col, value) = kernels.backend(y.device).gcs, matrix[:3]
    product = lambda x: multiply(rowptr, col, value, x.contiguous(), None, None, "none", 0.0)  # noqa: E731
    z, image, statistics = shifted_systems(product, y.contiguous(), a, tol, max_iter)
    statistics._warn("conjugate gradients", _ADVICE)
    return z, image, statistics


def _combined(b: Tensor, z: Tensor) -> Tensor:
    """Return the sum of Re(b_k z_k)."""
    b = b.to(z.dtype)
    out = b[0, 0] * z[0, 0]
    for (br, bi), (zr, zi), first in zip(b, z, [True] + [False] * len(b), strict=False):
        if not first:
            out.addcmul_(zr, br)
        out.addcmul_(zi, bi, value=-1)
    return out


def _forward(*args: Any) -> tuple[Tensor, Tensor]:
    *matrix, y, a, b, tol, max_iter, keep = args
    with torch.no_grad():
        z, _, statistics = _solve(tuple(matrix), y, a, tol, max_iter)
        log = _log.get()
        if log is not None:
            log.append(statistics)
        return _combined(b, z), z if keep else y.new_empty(0)


def _backward(*args: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *matrix, a, b, z, g, tol, max_iter, learned = args
    with torch.no_grad():
        adjoint, image, statistics = _solve(tuple(matrix), g, a, tol, max_iter)
        log = _log.get()
        if log is not None:
            log.append(statistics)
        by_y = _combined(b, adjoint)
        by_a, by_b, by_value = torch.zeros_like(a), torch.zeros_like(b), g.new_zeros(matrix[1].shape[0] * learned)
        if not z.numel():
            return by_y, by_a, by_b, by_value
        for k in range(len(a)):
            by_a[k], by_b[k] = _by_numbers(g, b[k], z[k], adjoint[k], image[k])
            if learned:
                by_value += kernels.backend(g.device).sddmm(matrix[0], matrix[1], *_sides(a[k], b[k], z[k], adjoint[k]))
        return by_y, by_a, by_b, by_value


def _by_numbers(g: Tensor, b: Tensor, z: Tensor, adjoint: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of a pole's a and b, shape (2, C)."""
    # Re(q dx) for a complex q has the gradients Re q and -Im q
    dot, (zr, zi), (mr, mi), (br, bi) = kernels.column_dots, z, image, b
    re, im = dot(mr, zr) - dot(mi, zi), dot(mr, zi) + dot(mi, zr)
    return torch.stack([br * re - bi * im, -(br * im + bi * re)]), torch.stack([dot(g, zr), -dot(g, zi)])


def _sides(a: Tensor, b: Tensor, z: Tensor, adjoint: Tensor) -> tuple[Tensor, Tensor]:
    """Return matrices (N, 2 C) whose rows i and j have the gradient of entry (i, j) of M as their product."""
    (ar, ai), (br, bi), (lr, li) = a, b, adjoint
    cr, ci = (t.to(z.dtype) for t in (ar * br - ai * bi, ar * bi + ai * br))
    return torch.cat([cr * lr - ci * li, -(cr * li + ci * lr)], 1), torch.cat([z[0], z[1]], 1)


class _OverRanks(torch.autograd.Function):
    """The same for an operator whose rows lie on many ranks: each has the gradients of its rows and its part of others.

    Products with it exchange rows, and lengths are summed over the ranks, so all ranks call this together.
    """

    @staticmethod
    def forward(
        ctx: Any, op: GraphOperator, value: Tensor, y: Tensor, a: Tensor, b: Tensor, tol: float | None, max_iter: int,
        log: list[Statistics] | None,
    ) -> Tensor:  # fmt: skip
        z, _, statistics = shifted_systems(op.__matmul__, y.contiguous(), a, tol, max_iter, op)
        statistics._warn("conjugate gradients", _ADVICE)
        if log is not None:
            log.append(statistics)
        ctx.op, ctx.options, ctx.statistics = op.detach(), (tol, max_iter), statistics
        ctx.save_for_backward(value, a, b, z)
        return _combined(b, z)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            _refuse(ctx)
        (g,), (value, a, b, z), op, (tol, most) = grads, ctx.saved_tensors, ctx.op, ctx.options
        adjoint, image, ctx.statistics.adjoint = shifted_systems(op.__matmul__, g.contiguous(), a, tol, most, op)
        ctx.statistics.adjoint._warn("conjugate gradients", _ADVICE)
        found = [_by_numbers(g, *parts) for parts in zip(b, z, adjoint, image, strict=True)]
        by_a, by_b = (torch.stack(each) for each in zip(*found, strict=True))
        by_value = torch.zeros_like(value) if ctx.needs_input_grad[1] else None
        if by_value is not None:
            for parts in zip(a, b, z, adjoint, strict=True):
                left, right = _sides(*parts)
                with torch.enable_grad():
                    entries = value.detach().requires_grad_()
                    image = op.with_value(entries) @ right
                by_value += torch.autograd.grad(image, entries, left)[0]
        return None, by_value, _combined(b, adjoint), by_a, by_b, None, None, None


for _key in ("CPU", "CUDA", "CompositeExplicitAutograd"):
    _library.impl("partial_fractions", _forward, _key)  # type: ignore[no-untyped-call]
    _library.impl("partial_fractions_backward", _backward, _key)  # type: ignore[no-untyped-call]


@torch.library.register_fake("armagnn::partial_fractions")
def _(*args):  # type: ignore[no-untyped-def]
    y, a, keep = args[8], args[9], args[13]
    return torch.empty_like(y, memory_format=torch.contiguous_format), y.new_empty(
        (*a.shape[:2], *y.shape) if keep else (0,)
    )


@torch.library.register_fake("armagnn::partial_fractions_backward")
def _(*args):  # type: ignore[no-untyped-def]
    value, a, b, g, learned = args[2], args[8], args[9], args[11], args[14]
    kept = torch.contiguous_format
    return (
        torch.empty_like(g, memory_format=kept),
        torch.empty_like(a, memory_format=kept),
        torch.empty_like(b, memory_format=kept),
        g.new_empty(value.shape[0] if learned else 0),
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *matrix, _y, a, b, ctx.tol, ctx.max_iter, _keep = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    log = _log.get()
    ctx.statistics = log[-1] if log else None
    ctx.save_for_backward(*matrix, a, b, output[1])


@gradients_by_loop
def _gradient(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
    (g, _), (*matrix, a, b, z) = grads, ctx.saved_tensors
    if g is None:
        return (None,) * 14
    learned = bool(ctx.needs_input_grad[2])
    arguments = (*matrix, a, b, z, g, ctx.tol, ctx.max_iter, learned)
    log: list[Statistics] = []
    if recording():
        by_y, by_a, by_b, by_value = torch.ops.armagnn.partial_fractions_backward(*arguments)
    else:
        token = _log.set(log)
        try:
            by_y, by_a, by_b, by_value = _Backward.apply(*arguments)  # type: ignore[no-untyped-call]
        finally:
            _log.reset(token)
    if log and ctx.statistics is not None:
        ctx.statistics.adjoint = log[-1]
    return None, None, by_value if learned else None, None, None, None, None, None, by_y, by_a, by_b, None, None, None


def _refuse(ctx: Any, *grads: Any) -> NoReturn:
    raise UnsupportedError(
        "a rational filter solved by conjugate gradients has first derivatives only: use method='eigen' on a small "
        "graph, or ARMAFilter, for gradients of gradients."
    )


def _nothing(ctx: Any, inputs: Any, output: Any) -> None:
    """Keep nothing."""


torch.library.register_autograd("armagnn::partial_fractions", _gradient, setup_context=_setup)
torch.library.register_autograd("armagnn::partial_fractions_backward", _refuse)


# ----------------------------------------------------------------------------------------------------------------- vmap


def _folded(x: Tensor, dim: int | None, size: int) -> Tensor:
    """Return (..., trials × C) from (..., C), whose axis of trials may lie anywhere, or be missing."""
    x = x.unsqueeze(-2).expand(*x.shape[:-1], size, x.shape[-1]) if dim is None else x.movedim(dim, -2)
    return x.flatten(-2)


def _unfolded(x: Tensor, size: int) -> Tensor:
    return x.unflatten(-1, (size, -1))  # type: ignore[no-any-return,no-untyped-call]


def _check_fixed(dims: tuple[int | None, ...]) -> None:
    if any(dim is not None for dim in dims):
        raise UnsupportedError("a rational filter has one operator for all trials of a vmap: loop over the operators.")


def _forward_vmap(info: Any, dims: tuple[int | None, ...], *args: Any) -> tuple[tuple[Tensor, ...], tuple[Any, ...]]:
    _check_fixed(dims[:8])
    size, wide = info.batch_size, [_folded(args[k], dims[k], info.batch_size) for k in (8, 9, 10)]
    out, z = _of(_Forward, "partial_fractions")(*args[:8], *wide, *args[11:])
    if not args[13]:
        return (_unfolded(out, size), z), (1, None)
    return (_unfolded(out, size), _unfolded(z, size)), (1, 3)


def _backward_vmap(info: Any, dims: tuple[int | None, ...], *args: Any) -> tuple[tuple[Tensor, ...], tuple[Any, ...]]:
    _check_fixed(dims[:8])
    if args[14]:
        raise UnsupportedError("a rational filter gives no gradient by the operator's values under vmap: detach it.")
    size = info.batch_size
    wide = [_folded(args[k], dims[k], size) if args[k].dim() > 1 else args[k] for k in (8, 9, 10, 11)]
    *found, by_value = _of(_Backward, "partial_fractions_backward")(*args[:8], *wide, *args[12:])
    return (*(_unfolded(t, size) for t in found), by_value), (1, 2, 2, None)


def _of(function: type[ReverseOnly], name: str) -> Callable[..., tuple[Tensor, ...]]:
    """Return what calls a Function, or the operator where torch runs that operator's rule for vmap."""
    return getattr(torch.ops.armagnn, name) if in_vmap_rule() else function.apply


torch.library.register_vmap("armagnn::partial_fractions", _forward_vmap)
torch.library.register_vmap("armagnn::partial_fractions_backward", _backward_vmap)


class _Forward(ReverseOnly):
    """The operator as torch.func wants it."""

    @staticmethod
    def forward(*args: Any) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = _Forward.apply(*args) if transforms_active() else _forward(*args)  # type: ignore[no-untyped-call]
        return found

    setup_context = staticmethod(_setup)
    backward = staticmethod(_gradient)
    vmap = staticmethod(_forward_vmap)


class _Backward(ReverseOnly):
    """Its backward pass, whose own gradient is refused."""

    @staticmethod
    def forward(*args: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if transforms_active():
            return _Backward.apply(*args)  # type: ignore[no-any-return,no-untyped-call]
        return _backward(*args)

    setup_context = staticmethod(_nothing)
    backward = staticmethod(_refuse)
    vmap = staticmethod(_backward_vmap)
