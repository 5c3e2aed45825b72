"""The exact spectrum of an operator, kept on disk once computed."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import integer
from armagnn.operators import GraphOperator
from armagnn.solvers.eigen import MAX_NODES, check_graph, eigh
from armagnn.spectral import cache as disk

SMALL = 512
"""Up to this size computing is about as fast as reading, and nothing is written."""


@checked
def spectrum(
    op: GraphOperator, *, cache: bool | str | Path = True, max_nodes: int = MAX_NODES
) -> tuple[Tensor, Tensor]:
    r"""Return all eigenvalues and eigenvectors, :math:`M = \sum_m \mu_m u_m u_m^T`: ``mu`` (N) ascending, ``U`` (N, N).

    Column m of ``U`` belongs to ``mu[m]``. Both are float64, whatever the type of the operator's values, lie on its
    device and carry no gradient. The frequencies are the eigenvalues of the operator as it stands: for the arma
    operator ``mu`` in [-1, 1], of which the *largest* are the low frequencies; for the ``laplacian`` kind
    ``lambda = 1 - mu`` in [0, 2]. The operator must be symmetric.

    What is computed for more than 512 nodes is kept in a file named by a checksum of the operator, in the user's cache
    folder (``~/.cache/armagnn`` on Linux; ``$ARMAGNN_CACHE`` names another one, ``ARMAGNN_CACHE=off`` keeps nothing).
    A damaged file is computed anew; all may be deleted at any time. Cora's file has 59 MB, that of 10,000 nodes 800.

    Args:
        op: a symmetric operator of any kind.
        cache: False neither reads nor writes a file, a path names the folder.
        max_nodes: larger graphs are refused, because U is dense.

    Example:
        >>> import torch
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), dtype=torch.float64)
        >>> mu, U = spectrum(op)
        >>> bool(torch.allclose(U @ torch.diag(mu) @ U.T, op.to_dense()))
        True
    """
    check_graph(op).require_symmetric("a spectrum")
    max_nodes = integer("max_nodes", max_nodes, 1)
    folder = disk.folder(cache)
    if folder is None or op.num_nodes <= SMALL or op.num_nodes > max_nodes:
        return eigh(op, max_nodes)
    path = folder / f"spectrum-{disk.checksum(op)}.npz"
    found = disk.read(path, op.num_nodes)
    if found is None:
        found = eigh(op, max_nodes)
        disk.write(path, *found)
    mu, vectors = found
    return mu.to(op.device), vectors.to(op.device)
