r"""One step of Lanczos' recursion and of the systems that it solves (see `armagnn.solvers.shifted_systems`).

Complex numbers come as pairs of real matrices, so that all loops are over neighbouring real numbers.
"""

from __future__ import annotations

from types import ModuleType

from torch import Tensor

from armagnn.kernels.backends import backend


def column_dots(x: Tensor, y: Tensor) -> Tensor:
    """Return the inner products of the columns of two matrices (N, C), shape (C), float64.

    Example:
        >>> import torch
        >>> column_dots(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([[1.0, 2.0], [1.0, 5.0]]))
        tensor([4., 4.], dtype=torch.float64)
    """
    compiled = _compiled(x)
    return (x.double() * y.double()).sum(0) if compiled is None else compiled.column_dots(x, y)


def lanczos_step(
    u: Tensor, v: Tensor, before: Tensor, factors: Tensor, running: list[int], real: list[bool], along: Tensor,
    step: Tensor, d: Tensor, z: Tensor,
) -> Tensor:  # fmt: skip
    r"""Take a step in place, and return :math:`|u|^2` of each column, shape (C), float64:

    .. math::
        d_k \leftarrow f_3 v + l_k d_k, \quad z_k \leftarrow z_k + s_k d_k, \qquad
        u \leftarrow f_0 u + f_1 v + f_2 v_{before}.

    Args:
        u: the product M v, shape (N, C), which becomes the next vector; ``v`` and ``before`` are the last two.
        v: shape (N, C).
        before: shape (N, C).
        factors: :math:`f_0, \dots, f_3` of each column, shape (4, C).
        running: the numbers k of the systems that take part.
        real: of each k, whether its factors are real; then the second parts of d and z are left alone.
        along: :math:`l_k`, its real and its imaginary part, shape (P, 2, C).
        step: :math:`s_k`, shape (P, 2, C).
        d: shape (P, 2, N, C).
        z: shape (P, 2, N, C).
    """
    compiled = _compiled(u)
    if compiled is not None:
        return compiled.lanczos_step(u, v, before, factors, running, real, along, step, d, z)  # type: ignore[no-any-return]
    factors, along, step = (t.to(u.dtype) for t in (factors, along, step))
    for k in running:
        (dr, di), (lr, li), (sr, si) = d[k], along[k], step[k]
        if real[k]:
            dr.mul_(lr).addcmul_(v, factors[3])
            z[k, 0].addcmul_(dr, sr)
            continue
        new = (dr * lr).addcmul_(v, factors[3]).addcmul_(di, li, value=-1)
        di.mul_(lr).addcmul_(dr, li)
        dr.copy_(new)
        z[k, 0].addcmul_(dr, sr).addcmul_(di, si, value=-1)
        z[k, 1].addcmul_(di, sr).addcmul_(dr, si)
    u.mul_(factors[0]).addcmul_(v, factors[1]).addcmul_(before, factors[2])
    return column_dots(u, u)


def _compiled(x: Tensor) -> ModuleType | None:
    """Return the module of numba's kernels, where they run on the device of a tensor."""
    if backend(x.device).__name__ != "armagnn.kernels.cpu":
        return None
    from armagnn.kernels.cpu import lanczos_rows

    return lanczos_rows
