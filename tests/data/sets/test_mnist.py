"""MNIST as signals on a grid of pixels, from tiny files and, where it is, from the real one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from armagnn.data import load_signals
from armagnn.data.arrays import Arrays, pack_arrays
from armagnn.data.sets.mnist import grid_graph, parse_mnist
from armagnn.errors import DataError


def images(train: int = 6, test: int = 2, side: int = 4) -> Arrays:
    rng = np.random.default_rng(0)
    return {
        "x_train": rng.integers(0, 256, (train, side, side)).astype(np.uint8),
        "y_train": (np.arange(train) % 3).astype(np.uint8),
        "x_test": rng.integers(0, 256, (test, side, side)).astype(np.uint8),
        "y_test": np.zeros(test, dtype=np.uint8),
    }


def test_images_are_signals_on_a_grid() -> None:
    arrays = images()
    data = parse_mnist(pack_arrays(arrays), name="tiny", source="tiny.npz")
    assert repr(data) == (
        f"SignalsDataset('tiny', signals=8, nodes=16, edges={grid_graph(4).shape[1]}, classes=3, split=3/3/2)"
    )
    assert torch.equal(data.x[6:], torch.from_numpy(arrays["x_test"].reshape(2, 16)))
    assert data.val_idx.tolist() == [0, 1, 2]
    assert data.test_idx.tolist() == [6, 7]
    assert data.scale == 255.0


def test_a_pixel_may_be_its_own_neighbour() -> None:
    tiny = parse_mnist(pack_arrays(images()), name="mnist-self", source="tiny.npz")
    edges = tiny.edge_index
    assert torch.equal(edges, grid_graph(4, itself=True))
    assert not bool((edges[0] == edges[1]).any()), "there are no loops in the graph"
    assert int(torch.bincount(edges[1], minlength=16).min()) == 7, "seven others at least"
    assert edges.shape[1] < grid_graph(4).shape[1]


def test_the_split_of_mnist(real: Callable[[str], str]) -> None:
    data = load_signals(real("mnist"))
    assert [len(data.idx(split)) for split in ("train", "val", "test")] == [55000, 5000, 10000]
    assert (data.num_nodes, data.num_classes, data.edge_index.shape[1]) == (784, 10, 6396)
    assert data.val_idx[0] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_train": np.zeros((6, 4, 5), dtype=np.uint8), "x_test": np.zeros((2, 4, 5), dtype=np.uint8)}, "side"),
        ({"x_train": np.zeros((6, 4, 4)), "x_test": np.zeros((2, 4, 4))}, "uint8"),
        ({"y_train": np.zeros(5, dtype=np.uint8)}, "labels"),
        ({"y_train": np.full(6, -1, dtype=np.int8)}, "labels"),
    ],
    ids=["oblong", "floats", "few", "negative"],
)
def test_bad_images_are_refused(change: Arrays, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_mnist(pack_arrays(images() | change), name="tiny", source="tiny.npz")
