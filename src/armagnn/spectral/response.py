"""The empirical response (Eq. 20): what a layer or a stack of it, linear or not, did to each frequency of a signal."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn

from armagnn.arguments import checked
from armagnn.checks import integer, real_tensor
from armagnn.errors import DTypeError, ParameterError, ShapeError
from armagnn.nn import ARMAConv
from armagnn.operators import CSR

MOST_BANDS: Final = 10**6
"""More bands are a slip."""

NEAR: Final = 1e-3
"""How far beyond [-1, 1] rounding in float32 or bfloat16 may have brought an eigenvalue."""

SILENT: Final = 1e-6
"""A component below this share of the signal's norm is rounding: layers compute in single precision."""


@checked
def components(U: Tensor, x: Tensor | CSR) -> Tensor:
    r"""Return :math:`c_m = \frac{1}{F} \sum_{f=1}^F u_m^T x_f`, the mean Fourier component of a signal, shape (..., N).

    Args:
        U: eigenvectors as columns, shape (N, N), as `spectrum` gives them.
        x: a signal, shape (..., N, F), dense or a `CSR` of shape (N, F).

    Example:
        >>> components(torch.eye(3), torch.tensor([[1.0, 3.0], [0.0, 0.0], [4.0, 4.0]]))
        tensor([2., 0., 4.])
    """
    _check(U, x, "x")
    if isinstance(x, CSR):
        return (
            U.mT @ (x.to(U.dtype) @ torch.ones(x.shape[1], 1, dtype=U.dtype, device=U.device)).squeeze(1) / x.shape[1]
        )
    return x.to(U.dtype).mean(-1) @ U


@checked
def empirical_response(U: Tensor, x: Tensor | CSR, y: Tensor, *, silent: float = SILENT) -> Tensor:
    r"""Return the empirical response of whatever made y of x, one value per frequency,

    .. math::
        \tilde h_m = \frac{F_{in}}{F_{out}} \frac{\sum_{f=1}^{F_{out}} u_m^T \bar x_f}{\sum_{f=1}^{F_{in}} u_m^T x_f},

    Eq. 20 of the paper: the ratio of the mean Fourier components. Of a linear filter applied to every feature alike it
    is the response h; of a layer with non-linearities and trained weights it is what the layer did to this signal, and
    holds for no other. Value m belongs to the eigenvalue ``mu[m]`` of ``mu, U = spectrum(op)``.

    A frequency that x does not have says nothing about the layer: where the component is no more than ``silent`` times
    the norm of the mean signal, the response is NaN, never a division by rounding errors.

    Args:
        U: eigenvectors as columns, shape (N, N).
        x: the input, shape (..., N, F_in), dense or a `CSR`.
        y: the output, shape (..., N, F_out); leading axes, as of ``conv.stacks(x, op)``, are kept.
        silent: which share of the norm counts as no energy.

    Example:
        >>> U = torch.eye(3)
        >>> empirical_response(U, torch.tensor([[2.0], [0.0], [1.0]]), torch.tensor([[1.0], [5.0], [3.0]]))
        tensor([0.5000,    nan, 3.0000])
    """
    _check(U, x, "x")
    _check(U, y, "y")
    before, after = components(U, x), components(U, y)
    heard = _heard(before, silent, _energy(U, x))
    return torch.where(heard, after, torch.nan) / torch.where(heard, before, 1.0)


@checked
def empirical_gain(U: Tensor, x: Tensor | CSR, y: Tensor, *, silent: float = SILENT) -> Tensor:
    r"""Return :math:`g_m = \sqrt{\frac{1}{F_{out}} \sum_f (u_m^T \bar x_f)^2 / \frac{1}{F_{in}} \sum_f (u_m^T x_f)^2}`.

    The companion of Eq. 20 that adds energies in place of components. Features of a trained layer have either sign, and
    in Eq. 20's sums they cancel; here they do not. It has no sign, and is the size of h for a linear filter applied to
    every feature alike. Arguments and the NaN of silent frequencies are those of `empirical_response`.

    Example:
        >>> empirical_gain(torch.eye(2), torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0, -3.0], [1.0, 1.0]]))
        tensor([3.0000, 0.5000])
    """
    _check(U, x, "x")
    _check(U, y, "y")
    before, after = _energy(U, x), _energy(U, y)
    heard = _heard(before, silent, before)
    return torch.where(heard, after, torch.nan) / torch.where(heard, before, 1.0)


@checked
def band_response(mu: Tensor, U: Tensor, x: Tensor | CSR, y: Tensor, bands: int = 40) -> tuple[Tensor, Tensor]:
    r"""Return the middles of equal bands of [-1, 1] (in ``mu``) and the response fitted to each, shape (..., bands).

    In band B it is the least-squares answer to :math:`\bar c_m = h_B c_m`, that is
    :math:`h_B = \sum_{m \in B} c_m \bar c_m / \sum_{m \in B} c_m^2`, with c the components of x and :math:`\bar c`
    of y: the mean of Eq. 20 weighted by energy, steady where single ratios scatter. A band without energy is NaN.

    Example:
        >>> mu, U = torch.tensor([-0.9, 0.9]), torch.eye(2)
        >>> band_response(mu, U, torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [1.0]]), bands=2)
        (tensor([-0.5000,  0.5000]), tensor([3.0000, 0.5000]))
    """
    bands = integer("bands", bands, 1, MOST_BANDS)
    mu = real_tensor("mu", mu, "(N,)")
    if mu.shape != U.shape[:1]:
        raise ShapeError(f"mu has shape {tuple(mu.shape)}; for U of {tuple(U.shape)} it must be ({U.shape[0]},).")
    before, after = components(U, x), components(U, y)
    size = _energy(U, x)
    before, size = (part.expand_as(after) if part.dim() < after.dim() else part for part in (before, size))
    if not bool((mu.abs() <= 1 + NEAR).all()):
        raise ParameterError(
            "mu must lie in [-1, 1], whose bands these are: take the eigenvalues of an arma operator, and subtract "
            "op.shift if it was built with lambda_min or lambda_max."
        )
    # a power of two, so that the squares of small numbers do not vanish and the others keep their bits
    scale = torch.exp2(size.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(size.dtype).tiny).log2().floor())
    before, after, size = before / scale, after / scale, size / scale
    band = ((mu + 1.0) / 2.0 * bands).long().clamp(0, bands - 1)
    empty = before.new_zeros(*before.shape[:-1], bands)
    energy, shared = (empty.index_add(-1, band, before * other) for other in (before, after))
    floor = (SILENT * size.norm(dim=-1, keepdim=True)).square()
    middles = (torch.arange(bands, dtype=mu.dtype, device=mu.device) + 0.5) * 2.0 / bands - 1.0
    return middles, torch.where(energy > floor, shared / energy.clamp_min(torch.finfo(energy.dtype).tiny), torch.nan)


# -------------------------------------------------------------------------------------------------- stacks of a layer


@checked
def stack_outputs(conv: nn.Module, x: Tensor | CSR, op: Any) -> Tensor:
    """Return what each of the K stacks of an ARMA layer gives, shape (K, ..., N, F_out); any other layer is one stack.

    The layer is looked at as it is used, without dropout, and left in the mode that it was in.
    """
    training = conv.training
    conv.eval()
    try:
        with torch.no_grad():
            out: Tensor = conv.stacks(x, op) if isinstance(conv, ARMAConv) else conv(x, op).unsqueeze(0)
    finally:
        conv.train(training)
    return out


@checked
def layer_response(conv: nn.Module, x: Tensor | CSR, op: Any, U: Tensor) -> Tensor:
    r"""Return the empirical response (Eq. 20) of every stack of a layer, shape (K, N).

    Args:
        conv: an `ARMAConv`, or any other layer, which counts as one stack.
        x: its input, shape (N, F_in).
        op: the graph, as the layer takes it.
        U: the eigenvectors of the graph's arma operator (and so of L), from ``mu, U = spectrum(op)``.

    Example:
        >>> from armagnn import GraphOperator
        >>> from armagnn.spectral import spectrum
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> mu, U = spectrum(op)
        >>> layer_response(ARMAConv(2, 4, num_stacks=3, num_layers=2), torch.rand(3, 2), op, U).shape
        torch.Size([3, 3])
    """
    return empirical_response(U, x, stack_outputs(conv, x, op))


# ------------------------------------------------------------------------------------------------------------ helpers


def _energy(U: Tensor, x: Tensor | CSR) -> Tensor:
    """Return the root mean square over the features of the components, shape (..., N)."""
    dense = x.to_dense() if isinstance(x, CSR) else x
    size: Tensor = (U.mT @ dense.to(U.dtype)).square().mean(-1).sqrt()
    return size


def _heard(component: Tensor, silent: float, size: Tensor) -> Tensor:
    """Return where a component is more than rounding of a signal of this size: means of features may cancel."""
    heard: Tensor = component.abs() > float(silent) * size.norm(dim=-1, keepdim=True)
    return heard


def _check(U: Tensor, x: Tensor | CSR, name: str) -> None:
    if U.dim() != 2 or U.shape[0] != U.shape[1]:
        raise ShapeError(f"U has shape {tuple(U.shape)}; it must hold all N eigenvectors as columns, (N, N).")
    if not U.dtype.is_floating_point:
        raise DTypeError(f"U is {U.dtype}; take the eigenvectors of spectrum(op).")
    if len(x.shape) < 2 or x.shape[-2] != U.shape[0] or x.shape[-1] == 0:
        fitting = f"(..., {U.shape[0]}, F), F > 0"
        raise ShapeError(f"{name} has shape {tuple(x.shape)}; with {U.shape[0]} eigenvectors it must be {fitting}.")
    if not x.dtype.is_floating_point:
        raise DTypeError(f"{name} is {x.dtype}; convert it with {name}.to({U.dtype}).")
