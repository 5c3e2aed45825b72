"""The two ends of an operator's spectrum, for the λmin and λmax of Eq. 9."""

from __future__ import annotations

import numpy as np
import torch

from armagnn.operators.csr import CSR

DENSE = 512
"""Up to this size all eigenvalues are computed: Lanczos needs room between the size and the number of vectors."""


def extremal_eigenvalues(matrix: CSR) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a symmetric matrix, to about 1e-9.

    Example:
        >>> import torch
        >>> low, high = extremal_eigenvalues(CSR.from_dense(torch.tensor([[0., 1.], [1., 0.]])))
        >>> round(low, 6), round(high, 6)
        (-1.0, 1.0)
    """
    if matrix.shape[0] == 0 or matrix.nnz == 0:
        return 0.0, 0.0
    if matrix.shape[0] <= DENSE:
        values = torch.linalg.eigvalsh(matrix.to_dense().double().cpu())
        return float(values[0]), float(values[-1])
    import scipy.sparse
    import scipy.sparse.linalg

    host = matrix.to("cpu")
    csr = scipy.sparse.csr_array(
        (host.value.double().numpy(), host.col.numpy(), host.rowptr.numpy()), shape=matrix.shape
    )
    # a fixed start makes the answer repeatable; random, because a structured one may miss the wanted vectors
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    low, high = (
        scipy.sparse.linalg.eigsh(csr, k=1, which=which, v0=start, ncv=64, tol=1e-9, return_eigenvectors=False)[0]
        for which in ("SA", "LA")
    )
    return float(low), float(high)
