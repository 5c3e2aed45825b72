"""How the features of nodes are scaled before a network sees them: a property of the dataset, or a choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn.checks import finite, ids, real, tensor
from armagnn.data.arrays import on_device
from armagnn.errors import DataError, DeviceError, ParameterError, ShapeError
from armagnn.operators import CSR

Features = Literal["auto", "rows", "standardise", "none", "kind"]
FEATURES: Final = get_args(Features)
"""The choices of `armagnn.data.load`:

- ``rows``: each row is divided by the sum of its absolute values, as is right for bags of words.
- ``standardise``: from each column its mean is subtracted, and it is divided by its deviation; both are those of the
  training nodes. See `standardised`.
- ``none``: features are taken as they are.
- ``auto``: a dataset of the catalogue has its own scaling (Cora, Citeseer and Pubmed ``rows``, PPI ``standardise``, the
  heterophily benchmarks ``none``);
  your own are standardised.
- ``kind``: what the kind of file had in armagnn 0.1, also for your own: ``rows`` for a graph of nodes with one label
  each, ``standardise`` for many labels. Runs of that version are read so.
"""

SMALLEST_DEVIATION: Final = 0.01
"""Of the largest distance from the mean, the least that the deviation of a feature counts as: a feature that is nearly
constant in training is not blown up elsewhere, whatever its unit."""
CONSTANT: Final = 1e-12
"""Of the size of equal numbers, a distance from their mean, or a deviation, in float64, that is only its rounding."""
LARGEST_ERROR: Final = 0.01
"""Of a deviation, what float32 may round away."""

ROWS: Final = "features: each row is divided by the sum of its absolute values."
NONE: Final = "features: taken as they are."

OF_KIND: Final[dict[str, Features]] = {"nodes": "rows", "multilabel": "standardise", "splits": "none"}
"""The scaling of the files of the catalogue, by the kind of file."""


def spread(deviation: Tensor, distance: Tensor, size: Tensor, *, floor: float) -> Tensor:
    """Return what each column is divided by, from its deviation, its largest distance from the mean, and its largest
    absolute value: at least `floor` times the distance; of a constant column the size, and of zeros 1.
    """
    deviation = torch.maximum(deviation, floor * distance)
    return torch.where(distance > CONSTANT * size, deviation, torch.where(size > 0, size, 1.0))


@dataclass(frozen=True, eq=False)
class Scaler:
    """x -> (x - mean) / deviation, column by column, with both taken from the rows for training only.

    Example:
        >>> x = torch.tensor([[1.0, 5.0], [3.0, 5.0], [99.0, 99.0]])
        >>> scaler = Scaler.fit(x, torch.tensor([0, 1]))  # row 2 is of a test graph
        >>> scaler(x)
        tensor([[-1.0000,  0.0000],
                [ 1.0000,  0.0000],
                [97.0000, 18.8000]])
        >>> torch.equal(scaler.inverse(scaler(x)), x)
        True
    """

    mean: Tensor
    deviation: Tensor

    def __post_init__(self) -> None:
        for name, value in (("mean", self.mean), ("deviation", self.deviation)):
            tensor(name, value, 1)
            if value.shape != self.mean.shape or not value.is_floating_point() or value.dtype != self.mean.dtype:
                raise ShapeError(
                    "mean and deviation must be floats of one type, one for each column, got "
                    f"{self.mean.dtype} of {tuple(self.mean.shape)} and {value.dtype} of {tuple(value.shape)}."
                )
            if value.device != self.mean.device:
                raise DeviceError(f"mean is on {self.mean.device}, but deviation on {value.device}: move one of them.")
            if not value.is_meta:
                finite(name, value, advice="replace or leave out such columns")
        if not self.deviation.is_meta and not bool((self.deviation > 0).all()):
            raise ParameterError("deviation must be positive: columns are divided by it.")

    @classmethod
    def fit(
        cls, x: Tensor, nodes: Tensor, *, floor: float = SMALLEST_DEVIATION, columns: Tensor | None = None
    ) -> Scaler:
        """Take mean and deviation of the rows `nodes` (ids, or a mask) of `x` (N, F).

        The deviation is the population's, and at least `floor` times the largest distance from the mean; a column that
        is constant there is divided by its size (zeros by 1). So the unit of a column does not matter.
        The rows are those of the nodes of training graphs (:func:`nodes_of`), or, for targets, training graphs; for
        targets take ``floor=0``. Columns outside the mask `columns` (F,) stay as they are, e.g. one-hot ones with
        ``columns=features.numeric``.
        """
        floor = real("floor", floor, least=0)
        tensor("x", x, 2)
        if not x.is_floating_point() or x.is_meta:
            raise ShapeError(f"x must be (N, F) floats with values, got {x.dtype} of shape {tuple(x.shape)}.")
        rows = x[_rows(nodes, len(x))].double()
        if not len(rows):
            raise ParameterError("nodes is empty: a scaler is fitted on one row or more.")
        finite("x", rows, advice="replace them, or leave out such rows or columns")
        if columns is not None and (tensor("columns", columns, 1).dtype != torch.bool or len(columns) != x.shape[1]):
            raise ShapeError(f"columns must be a mask ({x.shape[1]},), got {columns.dtype} of {tuple(columns.shape)}.")
        mean, size = rows.mean(dim=0), rows.abs().amax(dim=0)
        distance = (rows - mean).abs().amax(dim=0)
        deviation = spread(rows.std(dim=0, correction=0), distance, size, floor=floor)
        if columns is not None:
            mean, deviation = torch.where(columns, mean, 0.0), torch.where(columns, deviation, 1.0)
        # what is smaller than every normal number of the type of x would be rounded to zero
        return cls(mean.to(x.dtype), deviation.clamp(min=torch.finfo(x.dtype).tiny).to(x.dtype))

    def __call__(self, x: Tensor) -> Tensor:
        """Scale rows, (..., F)."""
        self._check(x)
        return (x - self.mean) / self.deviation

    def inverse(self, x: Tensor) -> Tensor:
        """Undo the scaling."""
        self._check(x)
        return x * self.deviation + self.mean

    def to(self, device: torch.device | str) -> Scaler:
        """The same scaler on `device`."""
        return on_device(self, device)

    def _check(self, x: Tensor) -> None:
        """Refuse what does not have the columns."""
        tensor("x", x)
        small = x.is_floating_point() and x.dtype.itemsize < 2  # arithmetic has no eight-bit floats
        if x.is_complex() or x.dtype == torch.bool or small or not x.dim() or x.shape[-1] != len(self.mean):
            raise ShapeError(f"x must be (..., {len(self.mean)}) real numbers, got {x.dtype} of {tuple(x.shape)}.")
        if x.device != self.mean.device:
            raise DeviceError(f"x is on {x.device}, but the scaler on {self.mean.device}: move one of them with to().")


def _rows(nodes: Any, count: int) -> Tensor:
    """Return ids of rows, or a mask of them, as what selects them."""
    if isinstance(nodes, Tensor) and nodes.dtype == torch.bool:
        tensor("nodes", nodes, 1)
        if len(nodes) != count or nodes.is_meta:
            raise ShapeError(f"nodes must be ids of rows, or a mask ({count},), got a mask {tuple(nodes.shape)}.")
        return nodes
    return ids("nodes", nodes, count)


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


# -------------------------------------------------------------------------------------------------- what can be learned


def check_precision(array: NDArray[Any], where: str) -> None:
    """Refuse reals to learn from, (N,) or (N, F), with a column whose differences float32 would round away.

    Example:
        >>> check_precision(np.array([1e9, 1e9 + 1, 1e9 + 2]), "y")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        armagnn.errors.DataError: y, column 1: varies by 0.816 around 1e+09, which float32 rounds away: subtract ...
    """
    if array.dtype.kind != "f" or np.can_cast(array.dtype, np.float32) or not array.size or array.ndim not in (1, 2):
        return
    for number, column in enumerate(array.reshape(len(array), -1).T, 1):
        wide = column.astype(np.float64)
        with np.errstate(all="ignore"):  # NaN and what float32 cannot hold are refused elsewhere
            deviation, error = wide.std(), np.abs(wide - wide.astype(np.float32)).max()
        if error > LARGEST_ERROR * deviation and deviation > CONSTANT * np.abs(wide).max():
            raise DataError(
                f"{where}, column {number}: varies by {deviation:.3g} around {wide.mean():.6g}, which float32 rounds "
                "away: subtract its mean and divide by its deviation before."
            )


def check_varied(targets: NDArray[Any], where: str, of: str = "graphs") -> None:
    """Refuse real targets (G, T) of graphs, or of other things, with a column in which all are the same.

    Example:
        >>> check_varied(np.array([[1.0, 0.5], [2.0, 0.5]]), "y")
        Traceback (most recent call last):
        ...
        armagnn.errors.DataError: y, column 2: all graphs have the target 0.5; there is nothing to learn. Leave it out.
    """
    same = (targets == targets[:1]).all(axis=0)
    if len(targets) > 1 and same.any():
        column = int(same.argmax())
        raise DataError(
            f"{where}, column {column + 1}: all {of} have the target {targets[0, column]:g}; there is nothing to "
            "learn. Leave it out."
        )
