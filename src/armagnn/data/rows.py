"""Rows of a feature matrix, dense or sparse."""

from __future__ import annotations

import torch
from torch import Tensor

from armagnn.operators import CSR


def select_rows(x: Tensor | CSR, nodes: Tensor) -> Tensor | CSR:
    """Return the rows `nodes` of X, in that order: (n, F).

    Example:
        >>> x = CSR.from_dense(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]]))
        >>> select_rows(x, torch.tensor([2, 0])).to_dense()
        tensor([[3., 4.],
                [1., 0.]])
    """
    if isinstance(x, Tensor):
        return x[nodes]
    start = x.rowptr[:-1][nodes]
    count = x.rowptr[1:][nodes] - start
    rowptr = torch.zeros(len(nodes) + 1, dtype=x.rowptr.dtype, device=x.device)
    torch.cumsum(count, 0, out=rowptr[1:])
    total = int(rowptr[-1])
    shift = torch.repeat_interleave(start - rowptr[:-1], count, output_size=total)
    entry = torch.arange(total, device=x.device) + shift
    return CSR(rowptr, x.col[entry], x.value[entry], (len(nodes), x.shape[1]))
