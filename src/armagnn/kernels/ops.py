"""The registered operators, each one node to the compiler: schemas, values, shapes, and how one is called.

A sparse matrix A comes as ``(rowptr, col, value)`` with its transpose ``(t_rowptr, t_col, t_value)``, so that the
gradient with respect to x, ``A.T @ g``, is the same operator with the two swapped: no atomics, and differentiable
again. For fixed symmetric values both are the same tensors. Where the values themselves need a gradient the transpose
is a real one, with ``perm`` (``t_value = value[perm]``) and its inverse.

Trials are an axis. Under vmap they are folded into the columns, x of shape (N, R * C); a matrix whose values differ
from trial to trial has values of shape (R, nonzeros), one row for each group of C columns, and `dropout_trials` has a
seed and a rate for each trial.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from armagnn.errors import GraphError, ShapeError
from armagnn.kernels.backends import backend
from armagnn.torch_private import (
    apply_rule,
    batching,
    forward_mode,
    forwards,
    gradients_by_vmap,
    in_vmap_rule,
    is_batched_by,
    materialised,
    primals,
    recording,
    transforms_active,
)

ACTIVATIONS: Final = ("none", "relu", "leaky_relu", "elu", "tanh", "sigmoid")
"""Activations of `gcs` whose derivative is a function of their value, so that nothing else need be kept."""

_PATTERN = "Tensor rowptr, Tensor col, Tensor t_rowptr, Tensor t_col, Tensor? perm, Tensor? inverse"
_MATRIX = (
    "Tensor rowptr, Tensor col, Tensor value, Tensor t_rowptr, Tensor t_col, Tensor t_value, "
    "Tensor? perm, Tensor? inverse"
)
_EPILOGUE = "Tensor? skip, Tensor? bias, Tensor? seed, float p, int step, str act, float slope"
_library = torch.library.Library("armagnn", "DEF")  # type: ignore[no-untyped-call]
for _schema in (
    f"spmm({_MATRIX}, Tensor x) -> Tensor",
    f"gcs({_MATRIX}, Tensor x, {_EPILOGUE}) -> Tensor",
    f"sddmm({_PATTERN}, Tensor a, Tensor b) -> Tensor",
    "dropout(Tensor x, Tensor seed, float p, int step) -> Tensor",
    "dropout_trials(Tensor x, Tensor seed, Tensor p, int step) -> Tensor",
    "stack_matmul(Tensor h, Tensor w) -> Tensor",
    "stack_mean(Tensor h) -> Tensor",
    "sort_coo(Tensor row, Tensor col, SymInt num_rows, SymInt num_cols) -> (Tensor, Tensor)",
    "transpose(Tensor rowptr, Tensor col, SymInt num_cols) -> (Tensor, Tensor, Tensor)",
):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]

sort_coo = torch.ops.armagnn.sort_coo
transpose = torch.ops.armagnn.transpose


def spmm(*args: Any) -> Tensor:
    """Return ``A @ x``, shape (M, C), for x of shape (N, C); arguments as in the schema."""
    return _call("spmm", args)


def gcs(*args: Any) -> Tensor:
    """Return ``act(A @ x + dropout(skip) + bias)``, Eq. 14 with the weights applied; arguments as in the schema."""
    return _call("gcs", args)


def sddmm(*args: Any) -> Tensor:
    """Return ``<a[i], b[j]>`` for every nonzero (i, j), the gradient with respect to the values."""
    return _call("sddmm", args)


def stack_matmul(h: Tensor, w: Tensor) -> Tensor:
    """Return ``h[:, k] @ w[k]`` for every stack k: (M, K, F) times (K, F, G) is (M, K, G), contiguous."""
    return _call("stack_matmul", (h, w))


def stack_mean(h: Tensor) -> Tensor:
    """Return the mean over the stacks (Eq. 16): (M, K, F) to (M, F)."""
    return _call("stack_mean", (h,))


def dropout(x: Tensor, seed: Tensor, p: float | Tensor, step: int) -> Tensor:
    """Return x with each entry zeroed with probability p, the mask a function of the seed and the step.

    A rate that is a tensor may differ from trial to trial under vmap.
    """
    if not isinstance(p, Tensor):
        return _call("dropout", (x, seed, p, step))
    shape = (x.shape[0], 1, -1) if x.dim() > 1 else (1, 1, -1)
    return dropout_trials(x.reshape(shape), seed.reshape(1), p.reshape(1), step).reshape(x.shape)


def dropout_trials(*args: Any) -> Tensor:
    """Return x of shape (M, R, C) with entries of trial r zeroed with probability ``p[r]``.

    The mask of a trial is the one that `dropout` with ``seed[r]`` gives its own (M, C).
    """
    return _call("dropout_trials", args)


# --------------------------------------------------------------------------------------------------------------- values


def _spmm(*args: Any) -> Tensor:
    rowptr, col, value, *_, x = args
    out: Tensor = backend(x.device).gcs(rowptr, col, value, x, None, None, "none", 0.0)
    return out


def _gcs(*args: Any) -> Tensor:
    rowptr, col, value, *_, x, skip, bias, seed, p, step, act, slope = args
    out: Tensor = backend(x.device).gcs(rowptr, col, value, x, skip, bias, act, slope, seed, p, step)
    return out


_implementations: Final[dict[str, Callable[..., Any]]] = {
    "spmm": _spmm,
    "gcs": _gcs,
    "sddmm": lambda rowptr, col, t_rowptr, t_col, perm, inverse, a, b: backend(a.device).sddmm(rowptr, col, a, b),
    "dropout": lambda x, seed, p, step: backend(x.device).dropout(x, seed, p, step),
    "dropout_trials": lambda x, seed, p, step: backend(x.device).dropout_trials(x, seed, p, step),
    "stack_matmul": lambda h, w: backend(h.device).stack_matmul(h, w),
    "stack_mean": lambda h: backend(h.device).stack_mean(h),
    "sort_coo": lambda row, col, m, n: backend(row.device).sort_coo(row, col, m, n),
    "transpose": lambda rowptr, col, n: backend(col.device).transpose(rowptr, col, n),
}


def _check_rows(t_rowptr: Tensor, x: Tensor) -> None:
    """Raise unless x has a row for each column of a matrix."""
    if x.shape[0] != t_rowptr.shape[0] - 1:
        raise ShapeError(f"x must have {t_rowptr.shape[0] - 1} rows, one per node, got {x.shape[0]}{_RECORDED}")


def _check_ids(row: Tensor, col: Tensor, num_rows: int, num_cols: int) -> None:
    """Raise where an id lies outside the matrix; a GPU, which could not crash the process, is not waited for."""
    if max(num_rows, num_cols, row.shape[0]) > torch.iinfo(row.dtype).max:
        raise GraphError(
            f"the graph is too large for ids of {row.dtype}, which an exported program has: build its operator by "
            "GraphOperator.from_edge_index."
        )
    for ids, size in ((row, num_rows), (col, num_cols)):
        if ids.device.type == "cpu" and ids.numel():
            low, high = (int(end) for end in ids.aminmax())
            if low < 0 or high >= size:
                wrong = low if low < 0 else high
                raise GraphError(f"an edge names node {wrong}, but ids run from 0 to {size - 1}{_RECORDED}")


_RECORDED: Final = ": a traced or exported program takes the sizes of its example, except those exported as dynamic."
_CHECKS: Final[dict[str, Callable[..., None]]] = {
    "spmm": lambda *args: _check_rows(args[3], args[8]),
    "gcs": lambda *args: _check_rows(args[3], args[8]),
    "sort_coo": _check_ids,
}
"""What recorded code must ask before it reads memory: Python's own checks are not recorded with it."""


def _checked(name: str) -> Callable[..., Any]:
    check, function = _CHECKS.get(name), _implementations[name]
    if check is None:
        return function

    def checked(*args: Any) -> Any:
        check(*args)
        return function(*args)

    return checked


for _name in _implementations:
    for _key in ("CPU", "CUDA", "CompositeExplicitAutograd"):
        _library.impl(_name, _checked(_name), _key)  # type: ignore[no-untyped-call]


# --------------------------------------------------------------------------------------------- shapes for the compiler


def _product_shape(rowptr: Tensor, *rest: Any) -> Tensor:
    x: Tensor = rest[7]
    return x.new_empty(rowptr.shape[0] - 1, x.shape[1])


_shapes: Final[dict[str, Callable[..., Any]]] = {
    "spmm": _product_shape,
    "gcs": _product_shape,
    "sddmm": lambda rowptr, col, t_rowptr, t_col, perm, inverse, a, b: a.new_empty(col.shape[0]),
    "dropout": lambda x, *_: torch.empty_like(x, memory_format=torch.contiguous_format),
    "dropout_trials": lambda x, *_: torch.empty_like(x, memory_format=torch.contiguous_format),
    "stack_matmul": lambda h, w: h.new_empty(h.shape[0], h.shape[1], w.shape[2]),
    "stack_mean": lambda h: h.new_empty(h.shape[0], h.shape[2]),
    "sort_coo": lambda row, col, m, n: (row.new_empty(m + 1), torch.empty_like(row)),
    "transpose": lambda rowptr, col, n: (rowptr.new_empty(n + 1), torch.empty_like(col), torch.empty_like(col)),
}
for _name, _shape in _shapes.items():
    torch.library.register_fake(f"armagnn::{_name}")(_shape)


# ------------------------------------------------------------------------------------------------------- registration


class Rules(NamedTuple):
    """One operator's gradient in the two forms that torch asks for, and its rule for vmap."""

    eager: type[torch.autograd.Function]
    transformed: type[torch.autograd.Function]
    vmap: Callable[..., tuple[Tensor, int]]


_rules: Final[dict[str, Rules]] = {}


def register(name: str, setup: Any, backward: Any, vmap: Any, tangent: Any) -> None:
    """Register gradient and vmap with the operator, and keep the same as autograd Functions (see `Rules`).

    ``tangent`` is the derivative forwards, which only the Functions have: torch has no place for it in an operator.

    The compiler needs the operator. Plain eager code takes a Function, which costs a fraction of the operator's way
    through the dispatcher; ``torch.func`` needs one with its own ``setup_context``, which torch calls more slowly.
    """
    backward = gradients_by_vmap(backward)
    torch.library.register_autograd(f"armagnn::{name}", backward, setup_context=setup)
    torch.library.register_vmap(f"armagnn::{name}", vmap)

    def forward(ctx: Any, *args: Any) -> Any:
        given = materialised(args) if forward_mode() else args
        out = _implementations[name](*given)
        prepare(ctx, args, out)
        return out

    def prepare(ctx: Any, args: tuple[Any, ...], out: Tensor) -> None:
        setup(ctx, args, out)
        if forward_mode():
            ctx.set_materialize_grads(False)  # what has no tangent costs nothing
            ctx.numbers = tuple(None if isinstance(arg, Tensor) else arg for arg in args)
            ctx.save_for_forward(*(arg if isinstance(arg, Tensor) else None for arg in args), out)

    @forwards
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor | None:
        *tensors, out = primals(ctx)
        given = (other if tensor is None else tensor for tensor, other in zip(tensors, ctx.numbers, strict=True))
        return tangent(tuple(given), out, tangents)  # type: ignore[no-any-return]

    def behind(ctx: Any, g: Tensor | None) -> Any:
        return (None,) * len(ctx.needs_input_grad) if g is None else backward(ctx, g)

    def transformed(*args: Any) -> Any:
        return _call(name, args)

    base, members = (torch.autograd.Function,), {"backward": staticmethod(behind), "jvp": staticmethod(jvp)}
    functional = {"forward": transformed, "setup_context": prepare, "vmap": vmap}
    _rules[name] = Rules(
        type(f"_{name}", base, members | {"forward": staticmethod(forward)}),
        type(f"_{name}_transformed", base, members | {k: staticmethod(f) for k, f in functional.items()}),
        vmap,
    )


def _call(name: str, args: tuple[Any, ...]) -> Tensor:
    if recording():
        return getattr(torch.ops.armagnn, name)(*args)  # type: ignore[no-any-return]
    rules = _rules[name]
    if not transforms_active():
        return rules.eager.apply(*args)  # type: ignore[no-any-return,no-untyped-call]
    if in_vmap_rule():
        return getattr(torch.ops.armagnn, name)(*args)  # type: ignore[no-any-return]
    interpreter = batching()
    if interpreter is not None and any(is_batched_by(interpreter, arg) for arg in args):
        return apply_rule(interpreter, rules.vmap, args)
    return rules.transformed.apply(*args)  # type: ignore[no-any-return,no-untyped-call]
