r"""Eigenpairs at the two ends of a symmetric matrix.

Every connected component is looked at alone: one Lanczos iteration sees each eigenvalue once, however many components
share it. Small components are decomposed whole. Of a large one the ends are found by Lanczos iterations, with
:math:`M` itself, or, where a factorisation stays sparse, with :math:`(\sigma I - M)^{-1}`: on paths, grids and other
graphs of a large diameter the frequencies crowd at the ends, and products with M would tell them apart only after
thousands of steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from armagnn.errors import ConvergenceError
from armagnn.operators.csr import CSR

Array = NDArray[Any]
End = Literal["SA", "LA"]
Pairs = tuple[Array, Array]
"""Eigenvalues (k) and vectors, as columns (N, k)."""

DENSE: Final = 512
"""Up to this size all eigenvalues are computed: Lanczos needs room between the size and the number of vectors."""
AT_ONCE: Final = 1 << 22
"""Numbers of the small components that are decomposed together."""
PROFILE: Final = 1 << 25
"""Numbers within the band of a matrix, its nodes well ordered, up to which it is factorised."""
CLOSE: Final = 1e-8
"""Distance of the shift from the end of the spectrum, relative to the size of the matrix."""
ROUNDS: Final = 8
"""Factorisations on the way to that distance; each makes it about fifty times smaller."""
BUDGET: Final = 10
"""Restarts of Lanczos, of about 60 products each, after which a factorisation is tried."""


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
    host = matrix.to(torch.float64).to_scipy()
    low, high = (end_pairs(host, 1, end, tol=1e-9)[0] for end in ("SA", "LA"))
    return float(low[0]), float(high[0])


def end_pairs(matrix: Any, k: int, end: End, tol: float) -> Pairs:
    """Return k eigenpairs from the lower (``SA``) or the upper (``LA``) end of a symmetric scipy matrix, ascending.

    Example:
        >>> import scipy.sparse
        >>> values, vectors = end_pairs(scipy.sparse.csr_array(np.diag([3.0, 1.0, 2.0])), 2, "LA", tol=1e-10)
        >>> values
        array([2., 3.])
    """
    sign = 1.0 if end == "LA" else -1.0
    best: list[tuple[float, Array, Array]] = []  # value, nodes, vector
    for values, nodes, vectors in _of_components(matrix, k, end, tol):
        order = np.argsort(-sign * values, kind="stable")[:k]
        best += [(float(values[i]), nodes[i], vectors[i]) for i in order]
        best = sorted(best, key=lambda pair: -sign * pair[0])[:k]
    best.sort(key=lambda pair: pair[0])
    out = np.zeros((matrix.shape[0], k))
    for column, (_, nodes, vector) in enumerate(best):
        out[nodes, column] = vector
    return np.array([value for value, _, _ in best]), out


# ---------------------------------------------------------------------------------------------------------- components


def _of_components(matrix: Any, k: int, end: End, tol: float) -> Iterator[tuple[Array, Array, Array]]:
    """Yield, for some components at a time, eigenvalues (P), the nodes of each, (P, m), and the vectors, (P, m)."""
    import scipy.sparse.csgraph

    count, label = scipy.sparse.csgraph.connected_components(matrix, directed=False)
    if count == 1 and matrix.shape[0] > DENSE:
        values, vectors = _of_large(matrix, k, end, tol)
        yield values, np.broadcast_to(np.arange(matrix.shape[0]), vectors.T.shape), vectors.T
        return
    order = np.argsort(label, kind="stable")
    sorted_ = matrix[order][:, order].tocsr()  # the components are blocks on the diagonal
    size = np.bincount(label, minlength=count)
    start = np.cumsum(size) - size
    for m in np.unique(size):
        blocks = start[size == m]
        if m > DENSE:
            for first in blocks:
                part = sorted_[first : first + m, first : first + m]
                values, vectors = _of_large(part, min(k, int(m)), end, tol)
                yield values, np.broadcast_to(order[first : first + m], vectors.T.shape), vectors.T
            continue
        step = max(1, AT_ONCE // int(m) ** 2)
        for some in np.split(blocks, np.arange(step, len(blocks), step)):
            values, vectors = np.linalg.eigh(_dense_blocks(sorted_, some, int(m)))
            # of one component no more than k can be among the k best
            few = slice(0, k) if end == "SA" else slice(max(0, m - k), m)
            values, vectors = values[:, few], vectors[:, :, few].transpose(0, 2, 1)
            nodes = order[some[:, None] + np.arange(m)]
            yield values.ravel(), np.repeat(nodes, values.shape[1], axis=0), vectors.reshape(-1, m)


def _dense_blocks(matrix: Any, start: Array, m: int) -> Array:
    """Return the blocks of m rows each that begin at ``start``, shape (B, m, m)."""
    out = np.zeros((len(start), m, m))
    rows = start[:, None] + np.arange(m)
    counts = np.diff(matrix.indptr)[rows].ravel()
    row = np.repeat(rows.ravel(), counts)
    # the places of the entries of these rows: each row's first, and on from there
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    place = matrix.indptr[row] + offset
    block = np.repeat(np.repeat(np.arange(len(start)), m), counts)
    np.add.at(out, (block, row - start[block], matrix.indices[place] - start[block]), matrix.data[place])
    return out


# ------------------------------------------------------------------------------------------------------- one component


def _of_large(matrix: Any, k: int, end: End, tol: float) -> Pairs:
    if 4 * k >= matrix.shape[0]:  # Lanczos needs room between k and the size
        values, vectors = np.linalg.eigh(matrix.toarray())
        few = slice(0, k) if end == "SA" else slice(matrix.shape[0] - k, matrix.shape[0])
        return values[few], vectors[:, few]
    n, width = matrix.shape[0], _bandwidth(matrix)
    found = None
    if width > 2 * n**0.5:  # not drawn out: most often the ends are well apart
        found = _by_products(matrix, k, end, tol, BUDGET)
    if found is None and n * (width + 1) <= PROFILE:
        found = _by_inverse(matrix, k, end, tol)
    if found is None:
        found = _by_products(matrix, k, end, tol, 10 * n)
    if found is None:
        raise ConvergenceError(
            f"the {k} eigenvalues at an end of the spectrum did not converge: they lie too close together. Ask for "
            "fewer, or for all of them with spectrum(op)."
        )
    return found


def random_start(n: int) -> Array:
    """Return where Lanczos starts: fixed, so that answers repeat, and random, as a structure might miss vectors."""
    return np.random.default_rng(0).standard_normal(n)


def _by_products(matrix: Any, k: int, end: End, tol: float, restarts: int) -> Pairs | None:
    """Return the pairs by products with the matrix, or None where so many restarts do not find them."""
    import scipy.sparse.linalg

    n = matrix.shape[0]
    ncv = min(n, max(4 * k + 1, 64))
    try:
        values, vectors = scipy.sparse.linalg.eigsh(
            matrix, k=k, which=end, v0=random_start(n), ncv=ncv, tol=tol, maxiter=restarts
        )
    except scipy.sparse.linalg.ArpackError:
        return None
    order = np.argsort(values, kind="stable")
    return values[order], vectors[:, order]


def _bandwidth(matrix: Any) -> int:
    """Return how far off the diagonal entries lie in a good order of the nodes: a factor stays within that band."""
    import scipy.sparse.csgraph

    n = matrix.shape[0]
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(matrix, symmetric_mode=True)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    row = np.repeat(np.arange(n), np.diff(matrix.indptr))
    return int(np.abs(place[row] - place[matrix.indices]).max(initial=0))


class _Factorised:
    r"""The inverse of :math:`\sigma I - A`; ``definite`` says whether sigma lies above all eigenvalues of A."""

    def __init__(self, matrix: Any, sigma: float) -> None:
        import scipy.sparse
        import scipy.sparse.linalg

        self.sigma = sigma
        shifted = scipy.sparse.csc_array(sigma * scipy.sparse.eye_array(matrix.shape[0]) - matrix)
        try:
            lu = scipy.sparse.linalg.splu(
                shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
            )
        except RuntimeError:  # exactly singular
            self.definite = False
            return
        # without exchanges of rows these are the pivots, whose signs are those of the eigenvalues (Sylvester)
        self.definite = bool(np.array_equal(lu.perm_r, lu.perm_c) and (lu.U.diagonal() > 0).all())
        self.solve = lu.solve

    def largest(self, matrix: Any, k: int, tol: float) -> Pairs:
        """Return the k largest eigenvalues of A, and vectors."""
        import scipy.sparse.linalg

        n = matrix.shape[0]
        inverse = scipy.sparse.linalg.LinearOperator((n, n), matvec=lambda x: -self.solve(x), dtype=np.float64)
        ncv = min(n, max(4 * k + 1, 32))
        values, vectors = scipy.sparse.linalg.eigsh(
            matrix, k=k, sigma=self.sigma, OPinv=inverse, which="LM", v0=random_start(n), ncv=ncv, tol=tol, maxiter=200
        )
        order = np.argsort(values, kind="stable")
        return values[order], vectors[:, order]


def _by_inverse(matrix: Any, k: int, end: End, tol: float) -> Pairs | None:
    """Return the pairs by products with the inverse, or None where that fails."""
    import scipy.sparse.linalg

    sign = 1.0 if end == "LA" else -1.0
    matrix = matrix if end == "LA" else -matrix
    size = float(abs(matrix).sum(axis=1).max())  # Gershgorin: no eigenvalue lies beyond
    if not 0 < size < np.inf:
        return None
    try:
        shifted = _Factorised(matrix, size * (1 + CLOSE))
        for _ in range(ROUNDS):
            if not shifted.definite:
                return None
            (value,), _ = shifted.largest(matrix, 1, 1e-2)
            far = shifted.sigma - value
            if far <= 4 * CLOSE * size:
                break
            nearer = _Factorised(matrix, value + max(far / 50, CLOSE * size))
            if not nearer.definite:  # the value was not yet the end
                nearer = _Factorised(matrix, value + far / 5)
            if not nearer.definite:
                break
            shifted = nearer
        values, vectors = shifted.largest(matrix, k, tol)
    except (scipy.sparse.linalg.ArpackError, MemoryError):
        return None
    values = np.einsum("nk,nk->k", vectors, matrix @ vectors)
    error = np.linalg.norm(matrix @ vectors - vectors * values, axis=0).max()
    if not error <= 1e-7 * size:
        return None
    order = np.argsort(sign * values, kind="stable")
    return sign * values[order], vectors[:, order]
