"""The registered operators, each one node to the compiler: values, gradients, vmap, shapes, choice of back end.

A sparse matrix A comes as ``(rowptr, col, value)`` with its transpose ``(t_rowptr, t_col, t_value)``, so that the
gradient with respect to x, ``A.T @ g``, is the same operator with the two swapped: no atomics, and differentiable
again. For fixed symmetric values both are the same tensors. Where the values themselves need a gradient the transpose
is a real one, with ``perm`` (``t_value = value[perm]``) and its inverse.

Trials are an axis. Under vmap they are folded into the columns, x of shape (N, R * C); a matrix whose values differ
from trial to trial has values of shape (R, nonzeros), one row for each group of C columns, and `dropout_trials` has a
seed and a rate for each trial.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch._C import _functorch
from torch._functorch.autograd_function import VmapInfo
from torch._functorch.pyfunctorch import VmapInterpreter, retrieve_current_functorch_interpreter

from armagnn.kernels import reference

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


# ------------------------------------------------------------------------------------------------ choice of back end


_HAS_NUMBA: Final = importlib.util.find_spec("numba") is not None
_HAS_TRITON: Final = importlib.util.find_spec("triton") is not None


def backend(device: torch.device | str) -> ModuleType:
    """Return the module whose kernels run on a device: the one place where that is decided.

    Example:
        >>> backend("cpu").__name__
        'armagnn.kernels.cpu'
    """
    if torch.device(device).type == "cpu" and _HAS_NUMBA:
        from armagnn.kernels import cpu  # the import compiles nothing, but numba takes half a second

        return cpu
    if torch.device(device).type == "cuda" and _HAS_TRITON:
        from armagnn.kernels import gpu

        return gpu
    return reference


LONG: Final = 256
"""A row of more nonzeros than this is cut into pieces on a GPU, so that it does not keep the others waiting."""


def keep_rows_whole(rowptr: Tensor) -> None:
    """Say that no row of a matrix is to be cut: kernels then need not look for long rows, and wait for no device."""
    tell = getattr(backend(rowptr.device), "keep_rows_whole", None)
    if tell is not None:
        tell(rowptr)


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
for _name, _function in _implementations.items():
    for _key in ("CPU", "CUDA", "CompositeExplicitAutograd"):
        _library.impl(_name, _function, _key)  # type: ignore[no-untyped-call]


# --------------------------------------------------------------------------------------------- shapes for the compiler


@torch.library.register_fake("armagnn::spmm")
def _(rowptr, col, value, t_rowptr, t_col, t_value, perm, inverse, x):  # type: ignore[no-untyped-def]
    return x.new_empty(rowptr.shape[0] - 1, x.shape[1])


@torch.library.register_fake("armagnn::gcs")
def _(rowptr, col, value, t_rowptr, t_col, t_value, perm, inverse, x, *rest):  # type: ignore[no-untyped-def]
    return x.new_empty(rowptr.shape[0] - 1, x.shape[1])


@torch.library.register_fake("armagnn::sddmm")
def _(rowptr, col, t_rowptr, t_col, perm, inverse, a, b):  # type: ignore[no-untyped-def]
    return a.new_empty(col.shape[0])


@torch.library.register_fake("armagnn::dropout")
def _(x, seed, p, step):  # type: ignore[no-untyped-def]
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.register_fake("armagnn::dropout_trials")
def _(x, seed, p, step):  # type: ignore[no-untyped-def]
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.register_fake("armagnn::stack_matmul")
def _(h, w):  # type: ignore[no-untyped-def]
    return h.new_empty(h.shape[0], h.shape[1], w.shape[2])


@torch.library.register_fake("armagnn::stack_mean")
def _(h):  # type: ignore[no-untyped-def]
    return h.new_empty(h.shape[0], h.shape[2])


@torch.library.register_fake("armagnn::sort_coo")
def _(row, col, num_rows, num_cols):  # type: ignore[no-untyped-def]
    return row.new_empty(num_rows + 1), torch.empty_like(row)


@torch.library.register_fake("armagnn::transpose")
def _(rowptr, col, num_cols):  # type: ignore[no-untyped-def]
    return rowptr.new_empty(num_cols + 1), torch.empty_like(col), torch.empty_like(col)


# ---------------------------------------------------------------------------------------------------------- gradients


def _swap(matrix: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of the transposed matrix."""
    rowptr, col, value, t_rowptr, t_col, t_value, perm, inverse = matrix
    return t_rowptr, t_col, t_value, rowptr, col, value, inverse, perm


def _value_gradient(matrix: tuple[Any, ...], g: Tensor, x: Tensor) -> Tensor:
    rowptr, col, _, t_rowptr, t_col, _, perm, inverse = matrix
    return sddmm(rowptr, col, t_rowptr, t_col, perm, inverse, g, x)


def _spmm_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *matrix, x = inputs
    ctx.save_for_backward(*matrix, x if ctx.needs_input_grad[2] else None)


def _spmm_backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    *matrix, x = ctx.saved_tensors
    g = g.contiguous()
    value_grad = _value_gradient(tuple(matrix), g, x) if ctx.needs_input_grad[2] else None
    x_grad = spmm(*_swap(tuple(matrix)), g) if ctx.needs_input_grad[8] else None
    return None, None, value_grad, None, None, None, None, None, x_grad


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


def _gcs_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *matrix, x, _skip, _bias, seed, ctx.p, ctx.step, ctx.act, ctx.slope = inputs
    kept = None if ctx.act == "none" else output
    ctx.save_for_backward(*matrix, seed, x if ctx.needs_input_grad[2] else None, kept)


def _gcs_backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    *matrix, seed, x, out = ctx.saved_tensors
    g = gradient_of_activation(g, out, ctx.act, ctx.slope).contiguous()
    need = ctx.needs_input_grad
    value_grad = _value_gradient(tuple(matrix), g, x) if need[2] else None
    x_grad = spmm(*_swap(tuple(matrix)), g) if need[8] else None
    skip_grad = None
    if need[9]:  # the mask is drawn again from the seed, not stored
        skip_grad = g if seed is None else dropout(g, seed, ctx.p, ctx.step)
    bias_grad = g.sum(0) if need[10] else None
    return None, None, value_grad, *(None,) * 5, x_grad, skip_grad, bias_grad, *(None,) * 5


def _sddmm_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _sddmm_backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    rowptr, col, t_rowptr, t_col, perm, inverse, a, b = ctx.saved_tensors
    matrix = (rowptr, col, g, t_rowptr, t_col, g.index_select(0, perm), perm, inverse)
    a_grad = spmm(*matrix, b) if ctx.needs_input_grad[6] else None
    b_grad = spmm(*_swap(matrix), a) if ctx.needs_input_grad[7] else None
    return *(None,) * 6, a_grad, b_grad


def _dropout_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, seed, ctx.p, ctx.step = inputs
    ctx.save_for_backward(seed)


def _dropout_backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    (seed,) = ctx.saved_tensors
    return dropout(g, seed, ctx.p, ctx.step), None, None, None


def _dropout_trials_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, seed, p, ctx.step = inputs
    ctx.save_for_backward(seed, p)


def _dropout_trials_backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    seed, p = ctx.saved_tensors
    return dropout_trials(g, seed, p, ctx.step), None, None, None


def _stack_matmul_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _stack_matmul_backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    h, w = ctx.saved_tensors
    h_grad = stack_matmul(g, w.transpose(1, 2)) if ctx.needs_input_grad[0] else None
    w_grad = None
    if ctx.needs_input_grad[
        1
    ]:  # one product a stack: cuBLAS splits a single long sum over the GPU, not a batch of them
        w_grad = torch.stack([h[:, k].t() @ g[:, k] for k in range(w.shape[0])])
    return h_grad, w_grad


def _stack_mean_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.stacks = inputs[0].shape[1]


def _stack_mean_backward(ctx: Any, g: Tensor) -> Tensor:
    stacks: int = ctx.stacks
    return (g * (1.0 / stacks)).unsqueeze(1).expand(-1, stacks, -1)


# --------------------------------------------------------------------------------------------------------------- vmap


def _fold(x: Tensor, dim: int | None, size: int) -> Tensor:
    """Return (N, batch × C) from a tensor with a batch axis (or without: it is repeated)."""
    x = x.unsqueeze(1).expand(-1, size, -1) if dim is None else x.movedim(dim, 1)
    return x.reshape(x.shape[0], -1)


def _loop(op: Any, info: Any, in_dims: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Tensor, int]:
    """One call a batch element: for batched values or seeds, which no single product can serve."""
    results = [
        op(*(a if d is None else a.select(d, k) for a, d in zip(args, in_dims, strict=True)))
        for k in range(info.batch_size)
    ]
    return torch.stack(results), 0


def _values_of_trials(in_dims: tuple[Any, ...], args: tuple[Any, ...]) -> list[Any] | None:
    """Return the matrix with values of shape (R, nonzeros), or None if more than fixed values differ."""
    matrix = list(args[:8])
    varying = [k for k in range(8) if in_dims[k] is not None]
    if any(k not in (2, 5) or matrix[k].dim() != 2 for k in varying) or matrix[2].requires_grad:
        return None
    for k in varying:
        matrix[k] = matrix[k].movedim(in_dims[k], 0).contiguous()
    return matrix if len(varying) in (0, 2) else None


def _spmm_vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
    matrix = _values_of_trials(in_dims, args)
    if matrix is None:
        return _loop(spmm, info, in_dims, args)
    out = spmm(*matrix, _fold(args[8], in_dims[8], info.batch_size))
    return out.view(out.shape[0], info.batch_size, -1), 1


def _gcs_vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
    *_, x, skip, bias, seed, p, step, act, slope = args
    matrix, size = _values_of_trials(in_dims, args), info.batch_size
    if matrix is None:
        return _loop(gcs, info, in_dims, args)
    if seed is not None and skip is not None:
        skip, dim = _dropout_vmap(info, (in_dims[9], in_dims[11], None, None), skip, seed, p, step)
    else:
        dim = in_dims[9]
    skip = None if skip is None else _fold(skip, dim, size)
    if bias is not None:
        bias = (bias.expand(size, -1) if in_dims[10] is None else bias.movedim(in_dims[10], 0)).reshape(-1)
    out = gcs(*matrix, _fold(x, in_dims[8], size), skip, bias, None, 0.0, step, act, slope)
    return out.view(out.shape[0], size, -1), 1


def _sddmm_vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
    return _loop(sddmm, info, in_dims, args)


def _dropout_vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
    x, seed, p, step = args
    size = info.batch_size
    x = x.unsqueeze(0).expand(size, *x.shape) if in_dims[0] is None else x.movedim(in_dims[0], 0)
    rows = x.shape[1] if x.dim() > 2 else 1  # node-major if there are rows, as the products leave it
    folded = x.reshape(size, rows, -1).transpose(0, 1)
    seed = seed.reshape(-1).expand(size) if in_dims[1] is None else seed.movedim(in_dims[1], 0).reshape(size)
    rate = torch.full((size,), p, dtype=torch.float64, device=x.device)
    out = dropout_trials(folded, seed, rate, step)
    return out.transpose(0, 1).reshape(x.shape), 0


def _dropout_trials_vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
    x, seed, p, step = args
    size = info.batch_size
    x = x.unsqueeze(1).expand(-1, size, -1, -1) if in_dims[0] is None else x.movedim(in_dims[0], 1)
    seed, p = (t.expand(size, -1) if d is None else t.movedim(d, 0) for t, d in ((seed, in_dims[1]), (p, in_dims[2])))
    out = dropout_trials(x.flatten(1, 2), seed.flatten(), p.flatten(), step)
    return out.view(x.shape), 1


def _stack_matmul_vmap(info: Any, in_dims: tuple[Any, ...], h: Tensor, w: Tensor) -> tuple[Tensor, int]:
    size, stacks = info.batch_size, w.shape[0] if in_dims[1] is None else w.movedim(in_dims[1], 0).shape[1]
    h = h.unsqueeze(1).expand(-1, size, -1, -1) if in_dims[0] is None else h.movedim(in_dims[0], 1)
    w = w.expand(size, -1, -1, -1) if in_dims[1] is None else w.movedim(in_dims[1], 0)
    out = stack_matmul(h.flatten(1, 2), w.flatten(0, 1))
    return out.view(out.shape[0], size, stacks, -1), 1


def _stack_mean_vmap(info: Any, in_dims: tuple[Any, ...], h: Tensor) -> tuple[Tensor, int]:
    h = h.movedim(in_dims[0], 1)
    return stack_mean(h.flatten(0, 1)).view(*h.shape[:2], h.shape[3]), 1


# ------------------------------------------------------------------------------------------------------- registration


class _Gradient(NamedTuple):
    """One operator's gradient in the two forms that torch asks for, and its rule for vmap."""

    eager: type[torch.autograd.Function]
    transformed: type[torch.autograd.Function]
    vmap: Callable[..., tuple[Tensor, int]]


def _differentiable(name: str, setup: Any, backward: Any, vmap: Any) -> _Gradient:
    """Register gradient and vmap with the operator, and return the same as autograd Functions.

    The compiler needs the operator. Plain eager code takes a Function, which costs a fraction of the operator's way
    through the dispatcher; ``torch.func`` needs one with its own ``setup_context``, which torch calls more slowly.
    """
    torch.library.register_autograd(f"armagnn::{name}", backward, setup_context=setup)
    torch.library.register_vmap(f"armagnn::{name}", vmap)

    def forward(ctx: Any, *args: Any) -> Any:
        out = _implementations[name](*args)
        setup(ctx, args, out)
        return out

    def transformed(*args: Any) -> Any:
        return _call(name, args)

    base, members = (torch.autograd.Function,), {"backward": staticmethod(backward)}
    functional = {"forward": transformed, "setup_context": setup, "vmap": vmap}
    return _Gradient(
        type(f"_{name}", base, members | {"forward": staticmethod(forward)}),
        type(f"_{name}_transformed", base, members | {k: staticmethod(f) for k, f in functional.items()}),
        vmap,
    )


_gradients: Final = {
    "spmm": _differentiable("spmm", _spmm_setup, _spmm_backward, _spmm_vmap),
    "gcs": _differentiable("gcs", _gcs_setup, _gcs_backward, _gcs_vmap),
    "sddmm": _differentiable("sddmm", _sddmm_setup, _sddmm_backward, _sddmm_vmap),
    "dropout": _differentiable("dropout", _dropout_setup, _dropout_backward, _dropout_vmap),
    "dropout_trials": _differentiable(
        "dropout_trials", _dropout_trials_setup, _dropout_trials_backward, _dropout_trials_vmap
    ),
    "stack_matmul": _differentiable("stack_matmul", _stack_matmul_setup, _stack_matmul_backward, _stack_matmul_vmap),
    "stack_mean": _differentiable("stack_mean", _stack_mean_setup, _stack_mean_backward, _stack_mean_vmap),
}


def batching() -> VmapInterpreter | None:
    """Return the innermost transform, if there is one and it is vmap."""
    if torch._C._are_functorch_transforms_active():
        interpreter = retrieve_current_functorch_interpreter()
        if isinstance(interpreter, VmapInterpreter):
            return interpreter
    return None


def apply_rule(interpreter: VmapInterpreter, rule: Callable[..., tuple[Tensor, int]], args: tuple[Any, ...]) -> Tensor:
    """Apply a rule for vmap to arguments of which at least one differs along its axis.

    It is what torch does with the rule of an autograd Function, in a tenth of the time: that goes through a dispatcher
    written in Python, and searches all arguments for tensors within tensors.
    """
    level = interpreter.level()
    unwrapped = [_functorch._unwrap_batched(a, level) if isinstance(a, Tensor) else (a, None) for a in args]
    info = VmapInfo(interpreter.batch_size(), interpreter.randomness())
    with interpreter.lower():
        out, dim = rule(info, tuple(dim for _, dim in unwrapped), *(arg for arg, _ in unwrapped))
    return _functorch._add_batch_dim(out, dim, level)


def is_batched(tensor: Any) -> bool:
    """Return whether a tensor stands for those of all trials of a vmap."""
    return isinstance(tensor, Tensor) and bool(_functorch.is_batchedtensor(tensor))


def _call(name: str, args: tuple[Any, ...]) -> Tensor:
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():  # fake tensors, counters, tracers
        return getattr(torch.ops.armagnn, name)(*args)  # type: ignore[no-any-return]
    gradient = _gradients[name]
    if not torch._C._are_functorch_transforms_active():
        return gradient.eager.apply(*args)  # type: ignore[no-any-return,no-untyped-call]
    if torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.FuncTorchVmapMode):
        # within the operator's own vmap rule, as when an exported program runs under vmap
        return getattr(torch.ops.armagnn, name)(*args)  # type: ignore[no-any-return]
    interpreter = batching()
    if interpreter is not None and any(
        is_batched(arg) and _functorch.maybe_get_level(arg) == interpreter.level() for arg in args
    ):
        return apply_rule(interpreter, gradient.vmap, args)
    return gradient.transformed.apply(*args)  # type: ignore[no-any-return,no-untyped-call]
