"""Signals on one graph: MNIST and 20news, from tiny files and, where they are, from the real ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from armagnn.data import SignalsDataset
from armagnn.errors import DataError, DTypeError, GraphError, ParameterError, ShapeError

EDGES, X, Y = (
    torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
    torch.arange(18.0).view(6, 3),
    torch.tensor([0, 1, 0, 1, 0, 1]),
)


OWN: dict[str, Any] = {"edge_index": EDGES, "x": X, "y": Y, "train": [0, 1, 2], "val": [3], "test": [4, 5]}


def test_arrays_lists_and_masks_are_taken() -> None:
    masks = [torch.tensor([i in OWN[name] for i in range(6)]) for name in ("train", "val", "test")]
    weight = torch.ones(4)
    plain = SignalsDataset.of(*OWN.values(), edge_weight=weight)
    arrays = SignalsDataset.of(
        EDGES.numpy(), X.numpy(), Y.numpy(), *(mask.numpy() for mask in masks), edge_weight=weight.numpy()
    )
    lists = SignalsDataset.of(EDGES.tolist(), X.tolist(), Y.tolist(), range(3), [3], (4, 5), weight.tolist())
    for found in (arrays, lists):
        for name in ("edge_index", "y", "train_idx", "val_idx", "test_idx", "edge_weight"):
            assert torch.equal(getattr(found, name), getattr(plain, name)), name
        torch.testing.assert_close(found.x, plain.x)
        assert found.num_classes == 2
    strange = SignalsDataset.of(
        EDGES.numpy().astype(np.uint32), X.numpy()[::-1].astype(">f4"), Y.numpy().astype(np.uint16),
        np.arange(3, dtype=np.uint16), np.array([3], dtype=np.uint64), [4, 5],
    )  # fmt: skip
    assert torch.equal(strange.x, X.flip(0))
    assert torch.equal(strange.edge_index, EDGES)
    assert SignalsDataset.of([[], []], X, Y, [0], [1], [2]).edge_index.shape == (2, 0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": X.index_fill(1, torch.tensor([1]), math.nan)}, DataError, "finite"),
        ({"x": torch.zeros(0, 3), "y": torch.zeros(0, dtype=torch.int64)}, ParameterError, "at least one signal"),
        ({"x": [["a"]]}, DTypeError, "x must be a tensor, array or list"),
        ({"x": X.to_sparse()}, DTypeError, "x must be a dense"),
        ({"y": Y * 10**12}, DataError, "integers 0 .. C-1"),
        ({"y": Y - 1}, DataError, "integers 0 .. C-1"),
        ({"y": Y + 0.5}, DataError, "integers 0 .. C-1"),
        ({"y": Y[:4]}, ParameterError, r"y \(S,\)"),
        ({"train": [0, 6]}, DataError, "train holds 0 .. 6; the 6 signals are 0 .. 5"),
        ({"test": [-1]}, DataError, "test holds -1"),
        ({"val": []}, ParameterError, "val must name one signal or more"),
        ({"val": torch.zeros(6, dtype=torch.bool)}, ParameterError, "val must name one signal or more"),
        ({"train": torch.ones(5, dtype=torch.bool)}, DTypeError, r"mask \(6,\)"),
        ({"train": [0.0, 1.0]}, DTypeError, "train must hold integers"),
        ({"test": [2, 4]}, DataError, "train and test share 1 signals"),
        ({"edge_index": EDGES + 1}, GraphError, "names node 3"),
        ({"edge_index": EDGES.float()}, DTypeError, "integers"),
        ({"edge_weight": torch.ones(3)}, ShapeError, "one per edge"),
        ({"edge_weight": torch.full((4,), math.inf)}, GraphError, "NaN or infinite"),
    ],
)
def test_own_arrays_that_are_wrong_are_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SignalsDataset.of(**OWN | change)
