r"""The filter-learning benchmark of BernNet: 50 grey images on the grid of their pixels, filtered in five ways.

Each image x is filtered exactly, :math:`y = h(M) x`. A model is trained on the pair (x, y) of an image and judged by
its squared error, summed over the 9,216 pixels of a mask. The loss of its training is the same sum, and nothing else of
the target is seen. The grid is its own mirror image in two ways, so M is four matrices of a quarter of the size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse

from armagnn.checks import integer
from armagnn.data.arrays import read_arrays
from armagnn.data.catalogue import DATA_VARIABLE, folders
from armagnn.errors import DataError
from armagnn.files import check_digest, read_file

Array = npt.NDArray[Any]

FILE: Final = "grid_filters.npz"
SHA256: Final = "7549e88ef7e3485843666500e9ca75cdc5fca95ae09a532efcd302dfbd36f629"
SOURCE: Final = "2Dgrid.mat of github.com/ivam-he/BernNet; its images come from a commercial toolbox and are not ours"
IMAGES: Final = 50
RESPONSES: Final[Mapping[str, Callable[[Array], Array]]] = {
    "low": lambda mu: np.exp(-10 * (1 - mu) ** 2),
    "high": lambda mu: 1 - np.exp(-10 * (1 - mu) ** 2),
    "band": lambda mu: np.exp(-10 * mu**2),
    "rejection": lambda mu: 1 - np.exp(-10 * mu**2),
    "comb": lambda mu: np.abs(np.sin(np.pi * mu)),
}
"""The responses, of mu = 1 - lambda."""


@dataclass(frozen=True, eq=False)
class GridData:
    """The images and what the filters make of them.

    Attributes:
        edges: the pairs of neighbouring pixels, each once, (E, 2).
        matrix: M, the normalised adjacency, (N, N).
        images: (N, B).
        targets: by filter, (N, B).
        mask: the pixels that count, (N) bool.
    """

    edges: Array
    matrix: scipy.sparse.csr_array
    images: Array
    targets: Mapping[str, Array]
    mask: Array

    def first(self, images: int) -> GridData:
        """Return the same with the first images only."""
        targets = {name: target[:, :images] for name, target in self.targets.items()}
        return replace(self, images=self.images[:, :images], targets=targets)


def grid_data(images: int = IMAGES) -> GridData:
    """Read the benchmark's file from a data folder, and filter its first images exactly.

    Example:
        >>> grid_data(2).targets["comb"].shape  # doctest: +SKIP
        (10000, 2)
    """
    integer("images", images, 1, IMAGES)
    places = [folder / FILE for folder in folders() if (folder / FILE).is_file()]
    if not places:
        looked = ", ".join(str(folder) for folder in folders())
        raise DataError(
            f"{FILE} was not found in: {looked}. Set {DATA_VARIABLE} to the folder that holds it ({SOURCE})."
        )
    content = read_file(places[0])
    check_digest(content, str(places[0]), SHA256)
    arrays = read_arrays(content, ("edges", "signals", "mask"), str(places[0]), what="filter-learning")
    return filtered(arrays["edges"], arrays["signals"][:images].T.copy(), arrays["mask"])


def filtered(edges: Array, images: Array, mask: Array) -> GridData:
    """Filter images, (N, B), on the square grid that the edges are."""
    matrix = normalised(edges, len(images))
    found = exactly(matrix, images, list(RESPONSES.values()))
    return GridData(edges, matrix, images, dict(zip(RESPONSES, found, strict=True)), mask)


def normalised(edges: Array, nodes: int) -> scipy.sparse.csr_array:
    """Return D^-1/2 A D^-1/2 of edges that are given once, (E, 2)."""
    row, col = np.concatenate([edges, edges[:, ::-1]]).T
    adjacency = scipy.sparse.csr_array((np.ones(len(row)), (row, col)), shape=(nodes, nodes))
    scale = scipy.sparse.diags_array(np.asarray(adjacency.sum(1)).ravel() ** -0.5)
    return scipy.sparse.csr_array(scale @ adjacency @ scale)


def exactly(matrix: scipy.sparse.csr_array, x: Array, responses: list[Callable[[Array], Array]]) -> list[Array]:
    """Return h(M) x for each response, by the eigenvectors of the four parts of a symmetric grid.

    A part has the signals that are even or odd from top to bottom, and even or odd from left to right.

    Example:
        >>> M = normalised(np.array([[0, 1], [2, 3], [0, 2], [1, 3]]), 4)  # the grid of 2 by 2 pixels
        >>> exactly(M, np.eye(4), [np.square])[0][0].round(2) + 0.0
        array([0.5, 0. , 0. , 0.5])
    """
    side = round(len(x) ** 0.5)
    out = [np.zeros_like(x) for _ in responses]
    for up in (1, -1):
        for left in (1, -1):
            part = scipy.sparse.csr_array(scipy.sparse.kron(_mirrored(side, up), _mirrored(side, left)))
            own = (part.T @ matrix @ part).toarray()
            if abs(matrix @ part - part @ scipy.sparse.csr_array(own)).max() > 1e-12:
                raise DataError("the graph is not a square grid of pixels: it differs from its mirror image.")
            mu, vectors = scipy.linalg.eigh((own + own.T) / 2, driver="evd")
            inside = vectors.T @ (part.T @ x)
            for total, h in zip(out, responses, strict=True):
                total += part @ (vectors @ (h(mu)[:, None] * inside))
    return out


def _mirrored(side: int, sign: int) -> scipy.sparse.csr_array:
    """Return an orthonormal basis of the even or odd signals on a line of pixels, as columns."""
    columns = []
    for k in range((side + (sign > 0)) // 2):
        column = np.zeros(side)
        column[k] += 1
        column[side - 1 - k] += sign
        columns.append(column / np.linalg.norm(column))
    return scipy.sparse.csr_array(np.stack(columns, 1)) if columns else scipy.sparse.csr_array((side, 0))


@dataclass(frozen=True, eq=False)
class Reduced:
    r"""The masked squared error of an image in few numbers: :math:`\|F c - y\|^2 = \|R c - q\|^2 + s`, QR of F.

    Nothing is approximated: F has the columns of a linear model, of which the loss sees no more than this.

    Attributes:
        r: R, (P, P), upper triangular.
        q: for each filter, (P, 5).
        rest: s, for each filter, (5).
    """

    r: Array
    q: Array
    rest: Array


def reduce_loss(columns: Array, targets: Array) -> Reduced:
    """Return the loss of a linear model with these columns, (S, P), for targets, (S, 5); S >= P.

    Example:
        >>> found = reduce_loss(np.array([[2.0], [0.0]]), np.array([[4.0], [3.0]]))
        >>> abs(found.q[0, 0] / found.r[0, 0]).round(6), found.rest.round(6)  # the best c, and what it leaves
        (np.float64(2.0), array([9.]))
    """
    size = columns.shape[1]
    (upper,) = scipy.linalg.qr(np.concatenate([columns, targets], 1), mode="r", check_finite=False)[:1]
    upper = upper[: size + targets.shape[1]]
    return Reduced(upper[:size, :size], upper[:size, size:], (upper[size:, size:] ** 2).sum(0))
