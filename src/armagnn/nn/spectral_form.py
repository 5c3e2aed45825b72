r"""Polynomial filters in the frequencies of a small graph: what many signals on it want.

With :math:`L = U \mathrm{diag}(\lambda) U^\top`, found once, any filter is two dense products, whatever its degree:

.. math::
    \sum_c r_c(L) X W_c = U \hat Y, \qquad \hat Y_\lambda = \hat X_\lambda \sum_c r_c(\lambda) W_c, \qquad
    \hat X = U^\top X.

A recursion is a chain of sparse products instead, each a moment's work. The graphs of a batch, which are small, have
their own :math:`U_g` each (`spectral_blocks`), found once for all batches.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from armagnn import kernels
from armagnn.nn.chebyshev_sum import mixed
from armagnn.nn.conv import times
from armagnn.operators import GraphOperator
from armagnn.operators.kept import may_be_kept, once_per_operator
from armagnn.operators.spectra import BlockSpectrum
from armagnn.torch_private import learned, normal_mode, traced

MOST_NODES: Final = 1024
"""Nodes of a small graph: its vectors have 4 MiB in float32."""

FEWEST_SIGNALS: Final = 16
"""Signals for which the vectors of a graph are worth finding. Batches of graphs, which change, are one signal."""

RATIO: Final = 32
"""Multiplications of dense products that take no longer than one of a recursion: about 60 on one core, where it was
measured."""


class Spectrum(NamedTuple):
    """The frequencies λ, shape (N), float64, and the vectors U, shape (N, N), of a Laplacian."""

    frequencies: Tensor
    vectors: Tensor


def spectral_pays(op: GraphOperator, signals: int, degree: int, channels: tuple[int, int]) -> bool:
    """Return whether this number of signals is filtered faster in the frequencies than by a recursion of that degree.

    The dense products meet all channels, F_in and F_out; a recursion the fewer of them, D times.

    Example:
        >>> pair = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="laplacian")
        >>> spectral_pays(pair, 100, 25, (8, 16)), spectral_pays(pair, 1, 25, (8, 16))
        (True, False)
    """
    if not spectral_can(op):  # first: of an export, which it refuses, the sizes may be open
        return False
    small = op.num_nodes <= MOST_NODES and signals >= FEWEST_SIGNALS
    dense, sparse = op.num_nodes**2 * sum(channels), degree * op.nnz * min(channels)
    return small and dense <= RATIO * sparse


def spectral_can(op: GraphOperator) -> bool:
    """Return whether an operator has frequencies that are known or can be found, and kept, here and now."""
    if traced() or not op.whole or not op.symmetric or learned(op.value) or op.for_one_call:
        return False
    return bool(_kept(op)) or may_be_kept(op.value)


def spectrum(op: GraphOperator) -> Spectrum:
    """Return the frequencies and vectors of a symmetric operator; found once.

    Example:
        >>> pair = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="laplacian")
        >>> spectrum(pair).frequencies.abs().round(decimals=6)
        tensor([0., 2.], dtype=torch.float64)
    """
    kept = _kept(op)
    if not kept:  # made as in no special mode: what the first call was made in must not show in the others
        with normal_mode(), torch.no_grad(), torch.autocast(op.device.type, enabled=False):
            frequencies, vectors = torch.linalg.eigh(op.to_dense().double())
            kept.append(Spectrum(frequencies, vectors.to(op.dtype)))
    return kept[0]


@once_per_operator
def _kept(op: GraphOperator) -> list[Spectrum]:
    return []


def spectral(op: GraphOperator, x: Tensor, weight: Tensor, table: Tensor) -> Tensor:
    r"""Return :math:`\sum_c r_c(L) X W_c`, shape (N, batch, F_out).

    Args:
        op: L, symmetric.
        x: (N, batch, F_in).
        weight: the W_c, shape (F_in, C, F_out).
        table: :math:`r_c(\lambda)` of the frequencies of L, as `spectrum` has them, shape (N, C).

    Example:
        >>> pair = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="laplacian")
        >>> table = spectrum(pair).frequencies.unsqueeze(1)  # r(L) = L
        >>> spectral(pair, torch.tensor([[[1.0]], [[3.0]]]), torch.ones(1, 1, 1), table).flatten().round(decimals=4)
        tensor([-2.,  2.])
    """
    vectors = spectrum(op).vectors
    transformed = (vectors.t() @ x.flatten(1)).view(x.shape)
    filtered = torch.bmm(transformed, mixed(table, weight).to(transformed.dtype))
    return (vectors @ filtered.flatten(1)).view(filtered.shape)


def spectral_blocks(blocks: BlockSpectrum, x: Tensor, weight: Tensor, table: Tensor) -> Tensor:
    r"""Return :math:`\sum_c r_c(L) X W_c`, shape (N, batch, F_out), of a batch of graphs.

    Args:
        blocks: the spectrum of each graph.
        x: (N, batch, F_in).
        weight: the W_c, shape (F_in, C, F_out).
        table: :math:`r_c(\lambda)` of the frequencies, shape (N, C).

    Example:
        >>> from armagnn.operators import GraphBatches
        >>> pair = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="laplacian")
        >>> graphs = GraphBatches(pair, torch.tensor([0, 2]))
        >>> table = graphs.find_spectra().frequencies.unsqueeze(1)  # r(L) = L
        >>> x, blocks = torch.tensor([[[1.0]], [[3.0]]]), graphs.take([0]).op.blocks
        >>> spectral_blocks(blocks, x, torch.ones(1, 1, 1), table).flatten().round(decimals=4)
        tensor([-2.,  2.])
    """
    fin, count, fout = weight.shape
    nodes, batch = x.shape[:2]
    store = blocks.vectors.store.dtype  # under autocast the products with weights are narrow, those with U are not
    transformed = kernels.block_product(blocks.vectors, x.flatten(1).to(store), transposed=True).view(x.shape)
    table = table.to(store).view(nodes, 1, count, 1)
    if fin <= fout:
        scaled = (table * transformed.unsqueeze(2)).flatten(2)
        filtered = times(scaled, weight.transpose(0, 1).flatten(0, 1))
    else:
        products = times(transformed, weight.flatten(1)).view(nodes, batch, count, fout)
        filtered = (table * products).sum(2)
    out = kernels.block_product(blocks.vectors, filtered.flatten(1).to(store)).view(nodes, batch, fout)
    return out.to(filtered.dtype)
