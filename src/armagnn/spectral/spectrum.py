"""The exact spectrum of an operator, kept on disk once computed: one pickle-free file, named by its checksum."""

from __future__ import annotations

import contextlib
import hashlib
import os
import zipfile
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import integer
from armagnn.errors import ParameterError, WriteError, shown
from armagnn.files import platform_folder, write_atomic
from armagnn.operators import GraphOperator
from armagnn.solvers.eigen import MAX_NODES, check_graph, eigh

CACHE_VARIABLE: Final = "ARMAGNN_CACHE"
HEADER: Final = 1 << 16
"""More bytes than the header of an array takes."""
FORMAT: Final = b"armagnn spectrum 1"
"""Part of every checksum: a new way of computing or writing gets a new number, and old files are not found."""
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
    folder = cache_folder(cache)
    if folder is None or op.num_nodes <= SMALL or op.num_nodes > max_nodes:
        return eigh(op, max_nodes)
    path = folder / f"spectrum-{checksum(op)}.npz"
    found = read(path, op.num_nodes)
    if found is None:
        found = eigh(op, max_nodes)
        write(path, *found)
    mu, vectors = found
    return mu.to(op.device), vectors.to(op.device)


# ---------------------------------------------------------------------------------------------------------- on the disk


def cache_folder(cache: bool | str | Path = True) -> Path | None:
    """Return where spectra are kept, or None if nowhere: by the argument, ``$ARMAGNN_CACHE``, or the platform's place.

    Example:
        >>> cache_folder("here")
        PosixPath('here')
    """
    if cache is False:
        return None
    if cache is not True:
        if not isinstance(cache, str | os.PathLike) or not os.fspath(cache):
            raise ParameterError(f"cache must be True, False or the path of a folder, got {shown(cache)}.")
        return Path(cache)
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return None if named.lower() == "off" else Path(named)
    with contextlib.suppress(RuntimeError):  # a user without a home, as in some containers
        return platform_folder("cache")
    return None


def checksum(op: GraphOperator) -> str:
    """Return 32 hex digits that belong to these entries in these places."""
    digest = hashlib.sha256(FORMAT)
    host = op.detach().to("cpu")
    for part in (host.rowptr.long(), host.col.long(), host.value.double()):
        digest.update(np.int64(part.shape[0]).tobytes())
        digest.update(part.contiguous().numpy().data)
    return digest.hexdigest()[:32]


def read(path: Path, nodes: int) -> tuple[Tensor, Tensor] | None:
    """Return what the file holds, or None where there is none, or none that `write` made and nobody touched."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():  # what `write` does not do: it may inflate to anything
                if member.compress_type != zipfile.ZIP_STORED or member.file_size > 8 * nodes * nodes + HEADER:
                    return None
        with np.load(path, allow_pickle=False) as arrays:  # zip's CRC-32 vouches for every array read
            values, vectors = arrays["mu"], arrays["U"]
    except Exception:  # of a damaged archive zipfile and numpy raise many kinds, and all of them mean: compute it
        return None
    if values.dtype != np.float64 or vectors.dtype != np.float64:
        return None
    if values.shape != (nodes,) or vectors.shape != (nodes, nodes):
        return None
    return torch.from_numpy(values), torch.from_numpy(vectors)


def write(path: Path, values: Tensor, vectors: Tensor) -> None:
    """Write the file whole or not at all; a folder that cannot be written to means that nothing is kept."""
    arrays = {"mu": values.cpu().numpy(), "U": vectors.cpu().numpy()}
    with contextlib.suppress(WriteError, ValueError):  # ValueError: a path with a zero byte
        write_atomic(path, lambda file: np.savez(file, allow_pickle=False, **arrays))
