"""What a backend is, and which one runs on a device."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from armagnn.kernels import reference
from armagnn.torch_private import is_wrapped, learned, recording, traced, transforms_active

_HAS_NUMBA: Final = importlib.util.find_spec("numba") is not None
_HAS_TRITON: Final = importlib.util.find_spec("triton") is not None

Pair = tuple[Tensor, Tensor]

Numbers = npt.NDArray[np.float64]

Matrix = tuple[Any, ...]
"""A sparse matrix and its transpose: (rowptr, col, value, t_rowptr, t_col, t_value, ...)."""


class Settings(NamedTuple):
    """X(0), T, K, F_out, whether X is propagated before W0, dropout (a tensor if trials have their own), activation.

    With ``recompute`` the states are not kept for the backward pass, which computes them again.
    """

    init: str
    steps: int
    stacks: int
    width: int
    early: bool
    p: float | Tensor
    act: str
    slope: float
    recompute: bool = False


class Layer(NamedTuple):
    """An ARMA layer of one network, or those of R trials: then the weights begin with an axis of R.

    Attributes:
        settings: what is not a tensor.
        trials: R, or 0 for one network.
        op: the operator; its values are fixed.
        sparse: X as a matrix, behind which the permutation of its transpose stands; each trial may have values of its
            own, (R, E). None for a dense X.
        seed: of the dropout masks, (1) or (R), or None.
        x: X dense. Of one network (..., N, F_in), the leading axes being signals; of trials (R, N, F_in), or (N, F_in)
            for all. None for a sparse X.
        w0: W0, (F_in, K, F_out), or None.
        w: W, (1 or T - 1, K, F_out, F_out), or None.
        v: V, (1 or T, F_in, K, F_out).
        bias: (1 or T, K, F_out), or None.
    """

    settings: Settings
    trials: int
    op: Matrix
    sparse: Matrix | None
    seed: Tensor | None
    x: Tensor | None
    w0: Tensor | None
    w: Tensor | None
    v: Tensor
    bias: Tensor | None


class StateUpdate(NamedTuple):
    """New values of neighbouring states of a Krylov space, from the old ones and from the vectors.

    Attributes:
        first: the number of the first of these states.
        sources: numbers of the old states that they are made of.
        old: what each of those is multiplied by, shape (states, sources, C).
        new: what each vector is multiplied by, shape (states, vectors, C).
    """

    first: int
    sources: Sequence[int]
    old: Numbers
    new: Numbers


class Plan(Protocol):
    """How a layer runs, both ways: a module, such as `layer_products`."""

    def keeps(self, t: Layer) -> bool:
        """Return whether `backward` needs anything that `forward` keeps; else nothing is computed again for it."""

    def forward(self, t: Layer, keep: bool) -> tuple[Tensor, list[Any]]:
        """Return the mean of the stacks, (..., N, F_out) or (R, N, F_out), and tensors for `backward` if ``keep``."""

    def backward(self, t: Layer, g: Tensor, kept: list[Any], needs_x: bool, consume: bool) -> tuple[Tensor | None, ...]:
        """Return the gradients of x, w0, w, v and the bias; it may write over what was kept if it may ``consume``."""


class Backend(Protocol):
    """The kernels of a device, a module: `reference`, `cpu` or `gpu`. What a module does not have is `reference`'s.

    A sparse matrix A of shape (M, N) with E nonzeros is ``rowptr`` (M + 1), ``col`` (E) and ``value`` (E), or (R, E)
    where each group of columns has values of its own. K are stacks, R trials, F and C features.
    """

    __name__: str

    # ------------------------------------------------------------------------------------------------ sparse matrices

    def gcs(
        self, rowptr: Tensor, col: Tensor, value: Tensor, x: Tensor, skip: Tensor | None, bias: Tensor | None,
        act: str, slope: float, seed: Tensor | None = None, p: float = 0.0, step: int = 0,
        target: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Return ``act(A x + dropout(skip) + bias)``: x (N, C), skip (M, C), bias (C) to (M, C).

        The result may be in ``target``, which may be the skip connection itself.
        """

    def gcs_mean(
        self, rowptr: Tensor, col: Tensor, value: Tensor, x: Tensor, skip: Tensor, bias: Tensor | None,
        act: str, slope: float, seed: Tensor | None, p: float, step: int, stacks: int, width: int,
    ) -> Tensor | None:  # fmt: skip
        """Return the mean over the stacks of `gcs`, x (N, B K F) with K stacks of width F to (M B, F); None for no."""

    def sddmm(self, rowptr: Tensor, col: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return ``<a[i], b[j]>`` for every nonzero (i, j): a (M, C), b (N, C) to (E)."""

    def nonzeros(
        self, rowptr: Tensor, col: Tensor, value: Tensor, perm: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the matrix with the values ``value[:, perm]``, (R, E), in any form that `gcs` takes."""

    def sort_coo(self, row: Tensor, col: Tensor, num_rows: int, num_cols: int) -> Pair:
        """Return (rowptr, perm), shapes (M + 1) and (E), that sort entries by row, then column, then position."""

    def transpose(self, rowptr: Tensor, col: Tensor, num_cols: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return (rowptr, col, perm), shapes (N + 1), (E) and (E), of the transposed matrix."""

    def keep_rows_whole(self, rowptr: Tensor) -> None:
        """Cut no row of a matrix into pieces."""

    def cut_rows(self, rowptr: Tensor, nonzeros: int) -> None:
        """Cut the long rows of a matrix, and wait for no device."""

    def row_max(self, rowptr: Tensor, col: Tensor, x: Tensor) -> Pair:
        """Return the maxima over neighbours, and how many neighbours have each: x (N, C) to (M, C) and (M, C)."""

    def row_max_back(self, t_rowptr: Tensor, t_col: Tensor, x: Tensor, most: Tensor, shares: Tensor) -> Tensor:
        """Return for every row of x (N, C) the sum of the shares (M, C) of the rows whose maximum it has."""

    def attends(self, kinds: set[torch.dtype]) -> bool:
        """Return whether there are `attend` and `attend_back` for numbers of these types."""

    def attend(
        self, rowptr: Tensor, col: Tensor, z: Tensor, s: Tensor, d: Tensor, slope: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Attend the neighbours: z (N, H, C), s and d (N, H) to (N, H, C), (N, H), (N, H), (N, H, C)."""

    def attend_back(
        self, t_rowptr: Tensor, t_col: Tensor, g: Tensor, q: Tensor, s: Tensor, d: Tensor, log: Tensor, slope: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sums over columns for the gradients of z and s: (N, H, C), (N, H, C), (N, H)."""

    # ------------------------------------------------------------------------------------------------- dense matrices

    def affine(
        self, a: Tensor, weight: Tensor, skip: Tensor | None, bias: Tensor | None, act: str, slope: float
    ) -> Tensor:
        """Return ``act(a W + skip + bias)``: a (M, F), W (F, C), skip (M, C), bias (C) to (M, C)."""

    def finish(self, skip: Tensor, bias: Tensor | None, act: str, slope: float) -> Tensor:
        """Return ``act(skip + bias)``: skip (M, C), bias (C) to (M, C)."""

    def stack_matmul(self, h: Tensor, w: Tensor) -> Tensor:
        """Return ``h[:, k] @ w[k]`` for every k: h (M, K, F), w (K, F, C) to (M, K, C)."""

    def stack_mean(self, h: Tensor) -> Tensor:
        """Return the mean over the stacks: (M, K, F) to (M, F)."""

    def outer(self, x: Tensor, g: Tensor) -> Tensor:
        """Return ``x[:, r]^T g[:, r]`` for every r: x (M, R, F), g (M, R, C) to (R, F, C)."""

    def trial_products(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ``a[r] @ b[r]`` for every r: a (R, I, M), b (R, M, J) to (R, I, J)."""

    def block_product(self, blocks: Any, x: Tensor, transposed: bool) -> Tensor:
        """Return the products with `blocks.DenseBlocks`, or with their transposes: x (N, C) to (N, C)."""

    # -------------------------------------------------------------- vectors of the nodes: `armagnn.solvers.krylov_sums`

    def blank(self, like: Tensor, *shape: int) -> Tensor:
        """Return a tensor without values, of another's type and on its device; a large one where memory is fast."""

    def column_dots(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the inner products of the columns of two matrices: (N, C) and (N, C) to (C), float64."""

    def lanczos_vector(self, u: Tensor, v: Tensor, before: Tensor, factors: Numbers) -> Tensor:
        """Replace u by ``f0 u + f1 v + f2 before``, factors (3, C), and return ``|u|^2`` of each column, float64."""

    def combine_states(
        self, states: Tensor, vectors: Tensor, places: Sequence[int], updates: Sequence[StateUpdate]
    ) -> None:
        """Replace states x (S, N, C) by sums of states and vectors (M, N, C), each column by its numbers.

        That of an update is ``sum_s old_s x_s + sum_w new_w v_w``, where v_w is ``vectors[places[w]]``.
        """

    # -------------------------------------------------------------------------------------------- trainings and layers

    def dropout(self, x: Tensor, seed: Tensor, p: float, step: int) -> Tensor:
        """Return x, of any shape, with each entry zeroed with probability p; seed (1)."""

    def dropout_trials(self, x: Tensor, seed: Tensor, p: Tensor, step: int, target: Tensor | None = None) -> Tensor:
        """Return x (M, R, C) with entries of trial r zeroed with probability ``p[r]``; seed (R), p (R)."""

    def adam(
        self, param: Tensor, grad: Tensor, mean: Tensor, square: Tensor, lr: Tensor, decay: Tensor, step: Tensor,
        axis: int = 0,
    ) -> None:  # fmt: skip
        """Take one step of Adam in place, with rates lr (R) and decays (R) for the trials along an axis."""

    def plan(self, layer: Layer) -> Plan | None:
        """Return what runs a layer; None for `armagnn.kernels.layer_products`."""

    def early_step(
        self, x: Tensor, propagated: Tensor, v: Tensor, w0: Tensor, bias: Tensor | None, w: Tensor | None, act: str,
        slope: float, seed: Tensor | None, p: float, group: int, keep_skip: bool, keep_state: bool,
    ) -> tuple[Any, ...] | None:  # fmt: skip
        """Return X V, ``act((L X) W0 + dropout(X V) + bias)`` and that times W, made in one pass; None for no."""

    def late_step(
        self, down: Tensor, below: Tensor, w: Tensor, act: str, slope: float, layers: int = 1,
        skip: Tensor | None = None, drop: tuple[Tensor, float | Tensor, int] | None = None,
        parts: Tensor | None = None,
    ) -> Tensor | None:  # fmt: skip
        """Go back through ``act`` and the product with W in one pass: see `gpu_dense`; None for no."""

    def take_padded(
        self, blocks: Any, all_starts: Tensor, ids: Tensor, rows: int, nonzeros: int, index: torch.dtype
    ) -> Any:
        """Return what `armagnn.kernels.blocks.Slicer.take_padded` promises, made at once; None for no."""


def backend(device: torch.device | str) -> Backend:
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


def column_dots(x: Tensor, y: Tensor) -> Tensor:
    """Return the inner products of the columns of two matrices (N, C), shape (C), float64.

    Example:
        >>> column_dots(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([[1.0, 2.0], [1.0, 5.0]]))
        tensor([4., 4.], dtype=torch.float64)
    """
    return backend(x.device).column_dots(x, y)


def keep_rows_whole(rowptr: Tensor) -> None:
    """Say that no row of a matrix is to be cut: kernels then need not look for long rows, and wait for no device."""
    if not traced():  # what is traced has no rows yet
        backend(rowptr.device).keep_rows_whole(rowptr)


def cut_rows(rowptr: Tensor, nonzeros: int) -> None:
    """Say that a matrix of so many nonzeros may have long rows: kernels then cut them without waiting for the device.

    For matrices that serve one batch; of one that lasts, the kernels look for long rows once. They do so, too, where
    they do not meet this very tensor: under ``torch.func.grad``, or compiled.
    """
    if not traced():
        backend(rowptr.device).cut_rows(rowptr, nonzeros)


def compiled_assembly(*tensors: Tensor) -> ModuleType | None:
    """Return `cpu.ordering` if it can read these tensors: of the processor, eager, and without gradient.

    Example:
        >>> compiled_assembly(torch.ones(2, requires_grad=True)) is None
        True
    """
    if not _HAS_NUMBA or recording() or transforms_active():
        return None
    for tensor in tensors:
        plain = tensor.device.type == "cpu" and not is_wrapped(tensor) and not learned(tensor)
        if not plain or tensor.dtype not in (torch.int32, torch.int64, torch.float32, torch.float64):
            return None
    from armagnn.kernels.cpu import ordering

    return ordering


@functools.cache
def compiled_or_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function compiled by numba; without numba, the function itself, which does the same slowly.

    Example:
        >>> compiled_or_plain(max)(2, 3)  # doctest: +SKIP
        3
    """
    try:
        from armagnn.kernels.cpu.compile import compiled  # numba takes half a second to import
    except ModuleNotFoundError:
        return function
    return compiled()(function)  # type: ignore[no-any-return]
