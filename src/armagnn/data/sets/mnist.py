"""MNIST as signals on a grid: 784 pixels, each joined with its 8 nearest.

``mnist-self`` is another reading of that, in which a pixel is one of its own 8 nearest.
"""

from __future__ import annotations

import tempfile
from typing import Final

import numpy as np
import torch
from torch import Tensor

from armagnn.data.arrays import Arrays, Axes, read_arrays
from armagnn.data.signals import SignalsDataset
from armagnn.errors import DataError
from armagnn.files import sha256_of
from armagnn.operators import knn_graph

NAMES: Final = ("x_train", "y_train", "x_test", "y_test")
AXES: Final[Axes] = {"x_train": ("S", "P", "P"), "y_train": ("S",), "x_test": ("T", "P", "P"), "y_test": ("T",)}
NEIGHBOURS: Final = 8
SELF: Final = "mnist-self"
"""The dataset whose pixels are their own neighbours."""
VALIDATION: Final = 5000
"""The first images of the training part, as TensorFlow's reader, which Defferrard et al. used, takes them."""


def grid_graph(side: int = 28, k: int = NEIGHBOURS, *, itself: bool = False) -> Tensor:
    """Return the edges (2, E) of the k-nearest-neighbour graph of ``side`` × ``side`` pixels, row by row.

    With `itself` a pixel is one of its own k nearest, which leaves k - 1 others. Then many are equally near, and the
    rounding of the coordinates decides: they are ``linspace(0, 1, side)`` in single precision, as cnn_graph has them.

    Example:
        >>> grid_graph(28).shape, grid_graph(28, itself=True).shape
        (torch.Size([2, 6396]), torch.Size([2, 5968]))
    """
    points = np.indices((side, side)).reshape(2, -1).T
    if itself:
        edge_index, _ = knn_graph(np.linspace(0, 1, side, dtype=np.float32)[points[:, ::-1]], k - 1)
    else:
        edge_index, _ = knn_graph(points, k)
    return edge_index


def parse_mnist(content: bytes, *, name: str, source: str, provenance: str = "") -> SignalsDataset:
    """Read images and labels; the first 5,000 of the training part are for validation."""
    arrays = read_arrays(content, NAMES, source, what="images", axes=AXES)
    x = np.concatenate([arrays["x_train"], arrays["x_test"]])
    y = np.concatenate([arrays["y_train"], arrays["y_test"]])
    train = len(arrays["x_train"])
    if x.dtype != np.uint8 or x.ndim != 3 or x.shape[1] != x.shape[2] or x.shape[1] < 3:
        raise DataError(f"{source}: images must be (S, side, side) of uint8, got {x.dtype} of {x.shape}.")
    if y.shape != x.shape[:1] or y.dtype.kind not in "iu" or y.size == 0 or y.min() < 0:
        raise DataError(f"{source}: labels must be one integer from 0 for each image, got {y.dtype} of {y.shape}.")
    held = min(VALIDATION, train // 2)
    return SignalsDataset(
        name,
        grid_graph(x.shape[1], itself=name == SELF),
        torch.from_numpy(x.reshape(len(x), -1)),
        torch.from_numpy(y.astype(np.int64)),
        int(y.max()) + 1,
        torch.arange(held, train),
        torch.arange(held),
        torch.arange(train, len(x)),
        sha256_of(content),
        scale=255.0,
        provenance=provenance,
    )


def convert_mnist() -> Arrays:
    """Get MNIST by scikit-learn from OpenML (text files, no pickle)."""
    from sklearn.datasets import fetch_openml

    with tempfile.TemporaryDirectory() as folder:
        x, y = fetch_openml(
            "mnist_784", version=1, return_X_y=True, as_frame=False, parser="liac-arff", data_home=folder
        )
    x, y = np.asarray(x).astype(np.uint8).reshape(-1, 28, 28), np.asarray(y).astype(np.uint8)
    return {"x_train": x[:60000], "y_train": y[:60000], "x_test": x[60000:], "y_test": y[60000:]}
