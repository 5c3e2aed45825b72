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

from armagnn.errors import UnsupportedError
from armagnn.kernels.backends import backend
from armagnn.operators import GraphOperator
from armagnn.solvers.conjugate_gradients import MAX_ITER
from armagnn.solvers.fraction_sums import by_value_of, complex_numbers, parts_of, product_of, sum_of_fractions
from armagnn.solvers.iteration import Statistics
from armagnn.torch_private import (
    ReverseOnly,
    gradients_by_loop,
    in_vmap_rule,
    recording,
    refuse_transforms,
    transforms_active,
)

_MATRIX: Final = (
    "Tensor rowptr, Tensor col, Tensor value, Tensor t_rowptr, Tensor t_col, Tensor t_value, "
    "Tensor? perm, Tensor? inverse"
)
_OPTIONS: Final = "float? tol, int max_iter"
_library = torch.library.Library("armagnn", "FRAGMENT")  # type: ignore[no-untyped-call]
for _schema in (
    f"partial_fractions({_MATRIX}, Tensor y, Tensor a, Tensor b, {_OPTIONS}) -> Tensor",
    f"partial_fractions_backward({_MATRIX}, Tensor a, Tensor b, Tensor y, Tensor g, {_OPTIONS}, bool poles,"
    " bool learned) -> (Tensor, Tensor, Tensor, Tensor)",
):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]

_log: ContextVar[list[Statistics] | None] = ContextVar("log", default=None)
"""Where the solve that runs appends its statistics; compiled code has no such place."""


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

    All systems are solved in one Krylov space, and only the sum is formed (`krylov_sums`). The gradient comes from one
    more such solve, of the gradient G that comes down: with :math:`\Lambda_k = (I - a_k M)^{-1} G`

    .. math::
        \nabla_Y = \sum_k \mathrm{Re}\, b_k \Lambda_k, \quad
        d\ell = \sum_k \mathrm{Re} \left( \langle \Lambda_k, Y \rangle\, db_k
        + b_k \frac{\partial \langle \Lambda_k, Y \rangle}{\partial a_k}\, da_k
        + a_k b_k \langle \Lambda_k, dM\, Z_k \rangle \right), \quad Z_k = (I - a_k M)^{-1} Y,

    where the brackets are sums of products without conjugation. The first two of these numbers come from the inner
    products of the Krylov space's vectors with Y, at no further product with M. So Y is all that is kept, whatever the
    number of steps and poles. Where the values of M are learned, the Z_k and the :math:`\Lambda_k` are found together
    on the way back. Second derivatives are refused.

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
    arguments = (*matrix, y, a, b, tol, max_iter)
    if recording():
        return torch.ops.armagnn.partial_fractions(*arguments)  # type: ignore[no-any-return]
    token = _log.set([] if statistics is None else statistics)
    try:
        out: Tensor = _Forward.apply(*arguments)  # type: ignore[no-untyped-call]
    finally:
        _log.reset(token)
    return out


def _forward(*args: Any) -> Tensor:
    *matrix, y, a, b, tol, max_iter = args
    with torch.no_grad():
        out, _, _, statistics = sum_of_fractions(product_of(tuple(matrix)), y.contiguous(), a, b, tol, max_iter)
        log = _log.get()
        if log is not None:
            log.append(statistics)
        return out


def _backward(*args: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    matrix, (a, b, y, g, tol, max_iter, poles, learned) = args[:8], args[8:]
    with torch.no_grad():
        y, g = y.contiguous(), g.contiguous()
        by_value = g.new_zeros(matrix[1].shape[0] * learned)
        product = product_of(matrix)
        if learned:
            sddmm = backend(g.device).sddmm

            def add(left: Tensor, right: Tensor) -> None:
                by_value.add_(sddmm(matrix[0], matrix[1], left, right))

            by_y, products, slopes, statistics = by_value_of(product, a, b, y, g, tol, max_iter, add)
        else:
            by_y, products, slopes, statistics = sum_of_fractions(product, g, a, b, tol, max_iter, y, poles)
        log = _log.get()
        if log is not None:
            log.append(statistics)
        by_a, by_b = (parts_of(t).to(a) for t in (complex_numbers(b) * slopes, products))
        return by_y, by_a, by_b, by_value


class _OverRanks(torch.autograd.Function):
    """The same for an operator whose rows lie on many ranks: each has the gradients of its rows and its part of others.

    Products with it exchange rows, and lengths are summed over the ranks, so all ranks call this together.
    """

    @staticmethod
    def forward(
        ctx: Any, op: GraphOperator, value: Tensor, y: Tensor, a: Tensor, b: Tensor, tol: float | None, max_iter: int,
        log: list[Statistics] | None,
    ) -> Tensor:  # fmt: skip
        ctx.op, ctx.options = op.detach(), (tol, max_iter)
        out, _, _, ctx.statistics = sum_of_fractions(_exchanging(ctx.op), y.contiguous(), a, b, tol, max_iter, over=op)
        if log is not None:
            log.append(ctx.statistics)
        ctx.save_for_backward(value, y, a, b)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            _refuse(ctx)
        (g,), (value, y, a, b), op, (tol, most) = grads, ctx.saved_tensors, ctx.op, ctx.options
        y, g, by_value = y.contiguous(), g.contiguous(), None
        if ctx.needs_input_grad[1]:
            by_value = torch.zeros_like(value)

            def add(left: Tensor, right: Tensor) -> None:
                with torch.enable_grad():
                    entries = value.detach().requires_grad_()
                    image = op.with_value(entries) @ right
                by_value.add_(torch.autograd.grad(image, entries, left)[0])

            by_y, products, slopes, found = by_value_of(_exchanging(op), a, b, y, g, tol, most, add, op)
        else:
            slope = ctx.needs_input_grad[3]
            by_y, products, slopes, found = sum_of_fractions(_exchanging(op), g, a, b, tol, most, y, slope, op)
        ctx.statistics.adjoint = found
        by_a, by_b = (parts_of(t).to(a) for t in (complex_numbers(b) * slopes, products))
        return None, by_value, by_y, by_a, by_b, None, None, None


def _exchanging(op: GraphOperator) -> Callable[..., Tensor]:
    """Return what multiplies by an operator over ranks, which makes a new tensor."""
    return lambda x, out=None: op @ x


for _key in ("CPU", "CUDA", "CompositeExplicitAutograd"):
    _library.impl("partial_fractions", _forward, _key)  # type: ignore[no-untyped-call]
    _library.impl("partial_fractions_backward", _backward, _key)  # type: ignore[no-untyped-call]


@torch.library.register_fake("armagnn::partial_fractions")
def _(*args):  # type: ignore[no-untyped-def]
    return torch.empty_like(args[8], memory_format=torch.contiguous_format)


@torch.library.register_fake("armagnn::partial_fractions_backward")
def _(*args):  # type: ignore[no-untyped-def]
    value, a, b, g, learned = args[2], args[8], args[9], args[11], args[15]
    kept = torch.contiguous_format
    return (
        torch.empty_like(g, memory_format=kept),
        torch.empty_like(a, memory_format=kept),
        torch.empty_like(b, memory_format=kept),
        g.new_empty(value.shape[0] if learned else 0),
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *matrix, y, a, b, ctx.tol, ctx.max_iter = inputs
    ctx.set_materialize_grads(False)
    log = _log.get()
    ctx.statistics = log[-1] if log else None
    ctx.save_for_backward(*matrix, a, b, y)


@gradients_by_loop
def _gradient(ctx: Any, g: Tensor | None) -> tuple[Tensor | None, ...]:
    if g is None:
        return (None,) * 13
    poles, learned = bool(ctx.needs_input_grad[9]), bool(ctx.needs_input_grad[2])
    arguments = (*ctx.saved_tensors, g, ctx.tol, ctx.max_iter, poles, learned)
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
    return None, None, by_value if learned else None, None, None, None, None, None, by_y, by_a, by_b, None, None


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


def _forward_vmap(info: Any, dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
    _check_fixed(dims[:8])
    wide = [_folded(args[k], dims[k], info.batch_size) for k in (8, 9, 10)]
    return _unfolded(_of(_Forward, "partial_fractions")(*args[:8], *wide, *args[11:]), info.batch_size), 1


def _backward_vmap(info: Any, dims: tuple[int | None, ...], *args: Any) -> tuple[tuple[Tensor, ...], tuple[Any, ...]]:
    _check_fixed(dims[:8])
    if args[15]:
        raise UnsupportedError("a rational filter gives no gradient by the operator's values under vmap: detach it.")
    size = info.batch_size
    wide = [_folded(args[k], dims[k], size) for k in (8, 9, 10, 11)]
    *found, by_value = _of(_Backward, "partial_fractions_backward")(*args[:8], *wide, *args[12:])
    return (*(_unfolded(t, size) for t in found), by_value), (1, 2, 2, None)


def _of(function: type[ReverseOnly], name: str) -> Callable[..., Any]:
    """Return what calls a Function, or the operator where torch runs that operator's rule for vmap."""
    return getattr(torch.ops.armagnn, name) if in_vmap_rule() else function.apply


torch.library.register_vmap("armagnn::partial_fractions", _forward_vmap)
torch.library.register_vmap("armagnn::partial_fractions_backward", _backward_vmap)


class _Forward(ReverseOnly):
    """The operator as torch.func wants it."""

    @staticmethod
    def forward(*args: Any) -> Tensor:
        found: Tensor = _Forward.apply(*args) if transforms_active() else _forward(*args)  # type: ignore[no-untyped-call]
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
