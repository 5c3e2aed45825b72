r"""What Lanczos' recursion does with vectors of the nodes (see `armagnn.solvers.krylov_sums`).

Complex numbers come as pairs of real matrices, so that all loops are over neighbouring real numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor, as_tensor

from armagnn.kernels.backends import backend

Numbers = npt.NDArray[np.float64]


class StateUpdate(NamedTuple):
    """New values of neighbouring states, from the old ones and from the vectors.

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


def blank(like: Tensor, *shape: int) -> Tensor:
    """Return a tensor without values, of the type and on the device of another; a large one where memory is fast.

    Example:
        >>> import torch
        >>> blank(torch.ones(1), 2, 3).shape
        torch.Size([2, 3])
    """
    compiled = _compiled(like)
    return like.new_empty(shape) if compiled is None else compiled.empty(*shape, dtype=like.dtype)


def column_dots(x: Tensor, y: Tensor) -> Tensor:
    """Return the inner products of the columns of two matrices (N, C), shape (C), float64.

    Example:
        >>> import torch
        >>> column_dots(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([[1.0, 2.0], [1.0, 5.0]]))
        tensor([4., 4.], dtype=torch.float64)
    """
    compiled = _compiled(x)
    return (x.double() * y.double()).sum(0) if compiled is None else compiled.column_dots(x, y)


def lanczos_vector(u: Tensor, v: Tensor, before: Tensor, factors: Numbers) -> Tensor:
    r"""Replace u by :math:`f_0 u + f_1 v + f_2 v_{before}`, and return :math:`|u|^2` of each column.

    Args:
        u: shape (N, C).
        v: shape (N, C).
        before: shape (N, C).
        factors: f of each column, shape (3, C).

    Example:
        >>> import torch
        >>> u, one = torch.tensor([[2.0], [0.0]]), torch.ones(2, 1)
        >>> lanczos_vector(u, one, one, np.array([[1.0], [1.0], [0.0]])), u.flatten()
        (tensor([10.], dtype=torch.float64), tensor([3., 1.]))
    """
    compiled = _compiled(u)
    if compiled is not None:
        return compiled.lanczos_vector(u, v, before, factors)  # type: ignore[no-any-return]
    f = as_tensor(factors).to(u)
    u.mul_(f[0]).addcmul_(v, f[1]).addcmul_(before, f[2])
    return column_dots(u, u)


def combine_states(states: Tensor, vectors: Tensor, places: Sequence[int], updates: Sequence[StateUpdate]) -> None:
    r"""Replace states :math:`x_s` by :math:`\sum_{s'} o_{s s'} x_{s'} + \sum_w n_{sw} v_w`, each column by its numbers.

    Args:
        states: the x, shape (S, N, C).
        vectors: shape (M, N, C).
        places: where in ``vectors`` each v_w lies.
        updates: what to do, one after the other.

    Example:
        >>> import torch
        >>> x, v = torch.ones(1, 2, 1), torch.tensor([[[3.0], [4.0]]])
        >>> combine_states(x, v, [0], [StateUpdate(0, [0], np.array([[[2.0]]]), np.array([[[10.0]]]))])
        >>> x.flatten()
        tensor([32., 42.])
    """
    compiled = _compiled(states)
    if compiled is not None:
        compiled.combine_states(states, vectors, places, updates)
        return
    for first, sources, old, new in updates:
        kept, added = as_tensor(old).to(states), as_tensor(new).to(states)
        made = [
            sum((states[s] * own[k] for k, s in enumerate(sources)), 0)
            + sum((vectors[w] * own_new[k] for k, w in enumerate(places)), 0)
            for own, own_new in zip(kept, added, strict=True)
        ]
        for offset, value in enumerate(made):
            states[first + offset] = value


def _compiled(x: Tensor) -> ModuleType | None:
    """Return the module of numba's kernels, where they run on the device of a tensor."""
    if backend(x.device).__name__ != "armagnn.kernels.cpu":
        return None
    from armagnn.kernels.cpu import lanczos_rows

    return lanczos_rows
