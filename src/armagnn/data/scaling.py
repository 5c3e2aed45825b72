"""How the features of nodes are scaled before a network sees them: a property of the dataset, or a choice."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn.checks import choice
from armagnn.data import checks
from armagnn.data.features import SMALLEST_DEVIATION, Scaler, spread
from armagnn.operators import CSR

Features = Literal["auto", "rows", "standardise", "none", "kind"]
FEATURES: Final = ("auto", "rows", "standardise", "none", "kind")
"""The choices of `armagnn.data.load`:

- ``rows``: each row is divided by the sum of its absolute values, as is right for bags of words.
- ``standardise``: from each column its mean is subtracted, and it is divided by its deviation; both are those of the
  training nodes. See `standardised`.
- ``none``: features are taken as they are.
- ``auto``: a dataset of the catalogue has its own scaling (Cora, Citeseer and Pubmed ``rows``, PPI ``standardise``);
  your own are standardised.
- ``kind``: what the kind of file had in armagnn 0.1, also for your own: ``rows`` for a graph of nodes with one label
  each, ``standardise`` for many labels. Runs of that version are read so.
"""

ROWS: Final = "features: each row is divided by the sum of its absolute values."
NONE: Final = "features: taken as they are."

OF_KIND: Final[dict[str, Features]] = {"nodes": "rows", "multilabel": "standardise"}
"""The scaling of the files of the catalogue, by the kind of file."""


def resolved(features: Any, kind: str, known: bool) -> Features:
    """Return ``rows``, ``standardise`` or ``none`` for a file of a `kind`; `known` says that the catalogue has it."""
    features = choice("scaling of features", features, FEATURES)
    if features == "kind" or (features == "auto" and known):
        return OF_KIND[kind]
    return "standardise" if features == "auto" else features


def scaled(
    x: sp.csr_array | NDArray[Any], how: Features, train: NDArray[np.int64], source: str
) -> tuple[CSR | Tensor, str]:
    """Return features (N, F), sparse or dense, scaled and as float32; and what was done, in a sentence.

    Example:
        >>> scaled(np.array([[1.0, 3.0], [0.0, 2.0]]), "rows", np.array([0]), "mine.npz")[0]
        tensor([[0.2500, 0.7500],
                [0.0000, 1.0000]])
    """
    if how == "standardise":
        x, said = standardised(x, train)
        beyond = "standardised features: a node has a value far beyond those of the training nodes"
    else:
        if isinstance(x, np.ndarray):
            checks.told_apart(x, f"{source}: x")
        x, said = (row_normalised(x), ROWS) if how == "rows" else (x, NONE)
        beyond = "features"
    if isinstance(x, np.ndarray):
        return torch.from_numpy(checks.single(x, f"{source}: x", beyond)), said
    x.data = checks.single(x.data, f"{source}: x_data", beyond)
    return CSR.from_scipy(x, dtype=torch.float32), said


def row_normalised(x: sp.csr_array | NDArray[Any]) -> Any:
    """Divide each row by the sum of its absolute values, in float64; rows of zeros stay zero."""
    if isinstance(x, np.ndarray):
        total = np.abs(x.astype(np.float64)).sum(axis=1, keepdims=True)
        return x / np.where(total == 0.0, 1.0, total)
    value = x.data.astype(np.float64)
    row = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    total = np.bincount(row, weights=np.abs(value), minlength=x.shape[0])
    total[total == 0.0] = 1.0
    return sp.csr_array((value / total[row], x.indices, x.indptr), shape=x.shape)


def standardised(x: sp.csr_array | NDArray[Any], train: NDArray[np.int64]) -> tuple[Any, str]:
    """Return (x - mean) / deviation, column by column, in float64, with both taken from the rows `train`.

    The deviation is that of `Scaler.fit`: a column that is constant in training is divided by its size. A sparse
    matrix stays sparse: only a column that has an entry in every row is centred, as the zeros of the others would be
    zeros no more. Their deviation counts the zeros.

    Example:
        >>> x = sp.csr_array(np.array([[5.0, 0.0], [7.0, 2.0], [9.0, 0.0]]))
        >>> standardised(x, np.array([0, 1]))[0].toarray()
        array([[-1.,  0.],
               [ 1.,  2.],
               [ 3.,  0.]])
    """
    where = f"on the {train.size} training nodes"
    if isinstance(x, np.ndarray):
        wide = torch.from_numpy(x.astype(np.float64))
        scaler = Scaler.fit(wide, torch.from_numpy(train))
        return scaler(wide).numpy(), f"features: each of the {x.shape[1]} columns is standardised {where}."
    columns = x.shape[1]
    full = np.bincount(x.indices, minlength=columns) == x.shape[0]
    rows = x[train]
    column, value = rows.indices, rows.data.astype(np.float64)
    zeros = train.size - np.bincount(column, minlength=columns)
    mean = np.bincount(column, weights=value, minlength=columns) / train.size
    off = value - mean[column]
    squares = np.bincount(column, weights=off**2, minlength=columns) + zeros * mean**2
    distance, size = np.where(zeros > 0, np.abs(mean), 0.0), np.zeros(columns)
    np.maximum.at(distance, column, np.abs(off))
    np.maximum.at(size, column, np.abs(value))
    moments = (torch.from_numpy(each) for each in (np.sqrt(squares / train.size), distance, size))
    deviation = spread(*moments, floor=SMALLEST_DEVIATION).numpy()
    centre = np.where(full, mean, 0.0)
    data = (x.data.astype(np.float64) - centre[x.indices]) / deviation[x.indices]
    count = int(full.sum())
    if count == columns:
        said = f"features: each of the {columns} columns is standardised {where}."
    else:
        said = (
            f"features: sparse; {columns - count} of the {columns} columns are divided by their deviation {where} and "
            f"not centred, so that zeros stay zeros; the {count} that have an entry in every row are standardised."
        )
    return sp.csr_array((data, x.indices, x.indptr), shape=x.shape), said


def restandardised(x: Tensor | CSR, train: Tensor) -> Tensor | CSR:
    """Standardise features anew on the rows `train`: of shifted and scaled columns it gives what it gives of the raw
    ones (but of a sparse one that is constant in training, whose unit was lost).
    """
    rows = train.numpy(force=True)
    if isinstance(x, Tensor):
        return torch.from_numpy(standardised(x.numpy(force=True), rows)[0].astype(np.float32)).to(x.device)
    parts = (each.numpy(force=True) for each in (x.value, x.col, x.rowptr))
    scaled_x, _ = standardised(sp.csr_array(tuple(parts), shape=x.shape), rows)
    return CSR(x.rowptr, x.col, torch.from_numpy(scaled_x.data).to(x.value), x.shape)
