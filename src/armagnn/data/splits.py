"""Ten folds of a set of graphs, the same for everyone: drawn once, kept in the package, tied to their dataset.

Graphs of one class are dealt to the folds in turn, in a random order, so that the folds have equally many of each
class, up to one. Of what fold k does not test, every tenth graph of each class (up to one) is for validation. A
regression has no classes: its graphs are dealt into ten parts, and fold k tests on part k, validates on part k + 1 and
trains on the other eight.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from armagnn.checks import instance, integer, tensor
from armagnn.data.arrays import NO_LABEL, integers, on_device, read_arrays
from armagnn.data.graphs import GraphsDataset
from armagnn.errors import DataError, ParameterError
from armagnn.files import read_file
from armagnn.randomness import bits

FOLDS: Final = 10
SEED: Final = 0
"""Seed of the folds in the package."""
TESTS: Final = 120
"""Purpose of the draw of the folds; see :mod:`armagnn.randomness`."""
VALIDATION: Final = 121
"""Purpose of the draw of fold k's graphs for validation, which is step k."""
FOLDER: Final = "fold_files"
KEPT: Final = ("enzymes", "proteins", "dd", "mutag", "bench-hard", "bench-hard-small")
"""The datasets whose folds are in the package."""


@dataclass(frozen=True, eq=False)
class Fold:
    """Ids of the graphs to learn from, to choose on and to report on; ascending, int64.

    Example:
        >>> Fold(torch.tensor([0, 1, 4]), torch.tensor([3]), torch.tensor([2]))
        Fold(train=3, val=1, test=1)
    """

    train: Tensor
    val: Tensor
    test: Tensor

    def __post_init__(self) -> None:
        for part in ("train", "val", "test"):
            tensor(part, getattr(self, part), 1)

    def __repr__(self) -> str:
        return f"Fold(train={len(self.train)}, val={len(self.val)}, test={len(self.test)})"


def folds(dataset: GraphsDataset, *, seed: int | None = None) -> list[Fold]:
    """Return the ten folds of a dataset: those of the package, or with `seed` (or for any other dataset) drawn.

    Those of the package belong to files with one SHA-256; a dataset of that name with other graphs is refused.
    Without a seed, other datasets (QM9 among them) are drawn with seed 0.

    Example:
        >>> from armagnn.data import load_graphs
        >>> mutag = load_graphs("mutag")
        >>> folds(mutag)[:2], folds(mutag, seed=3)[0].test[:5]
        ([Fold(train=152, val=17, test=19), Fold(train=152, val=17, test=19)], tensor([ 6, 12, 14, 17, 39]))
    """
    instance("dataset", dataset, GraphsDataset, "a set of graphs")
    if seed is None and dataset.name in KEPT:
        return _kept(dataset)
    return draw_folds(dataset.y, SEED if seed is None else seed)


def own_split(dataset: GraphsDataset) -> Fold:
    """Return the one split that the file of a dataset has (both Bench-hard sets do), as a fold.

    Example:
        >>> own_split(load_graphs("bench-hard-small"))  # doctest: +SKIP
        Fold(train=245, val=29, test=26)
    """
    instance("dataset", dataset, GraphsDataset, "a set of graphs")
    if dataset.split is None:
        raise DataError(f"{dataset.name} comes without a split: take one of its ten folds.")
    train, val, test = ((dataset.split == part).nonzero().squeeze(1) for part in range(3))
    return Fold(train, val, test)


def draw_folds(y: Tensor, seed: int) -> list[Fold]:
    """Draw ten folds for labels y (G,) or real targets y (G, T); the same for the same (number of graphs, y, seed).

    Example:
        >>> [fold.test.tolist() for fold in draw_folds(torch.tensor([0] * 10 + [1] * 10), 0)][:3]
        [[8, 15], [6, 14], [2, 13]]
    """
    y = y.cpu()
    if len(y) < 2 * FOLDS:
        raise ParameterError(f"{FOLDS} folds with validation need {2 * FOLDS} graphs or more, got {len(y)}.")
    if y.is_floating_point():
        part = _dealt(torch.zeros(len(y), dtype=torch.int64), shuffled(seed, TESTS, len(y)))
        return [_fold(part == k, part == (k + 1) % FOLDS) for k in range(FOLDS)]
    if bool((y == NO_LABEL).any()):
        raise ParameterError("y has graphs without a label: folds are drawn by class.")
    part = _dealt(y, shuffled(seed, TESTS, len(y)))
    drawn = []
    for k in range(FOLDS):
        order = shuffled(seed, VALIDATION, len(y), step=k)
        drawn.append(_fold(part == k, _dealt(y, order[part[order] != k]) == 0))
    return drawn


def _dealt(y: Tensor, order: Tensor) -> Tensor:
    """Deal the graphs of `order` to the folds in turn, class by class; -1 for graphs that are not in it."""
    by_class = order[y[order].argsort(stable=True)]
    part = torch.full((len(y),), -1)
    part[by_class] = torch.arange(len(by_class)) % FOLDS
    return part


def _fold(test: Tensor, val: Tensor) -> Fold:
    train, chosen, tested = (mask.nonzero().squeeze(1) for mask in (~test & ~val, val, test))
    return Fold(train, chosen, tested)


def content_sha256(dataset: GraphsDataset) -> str:
    """Return the checksum of the graphs and labels themselves, however the file was compressed."""
    digest = hashlib.sha256()
    for part in (dataset.ptr, dataset.edge_index, dataset.y):
        digest.update(np.ascontiguousarray(part.cpu().numpy()).tobytes())
    return digest.hexdigest()


def _kept(dataset: GraphsDataset) -> list[Fold]:
    path = Path(__file__).with_name(FOLDER) / f"{dataset.name}.npz"
    kept = parse_folds(read_file(path), dataset, f"{FOLDER}/{path.name}")
    return [on_device(fold, dataset.ptr.device) for fold in kept]


def parse_folds(content: bytes, dataset: GraphsDataset, source: str) -> list[Fold]:
    """Turn the bytes of a file of folds into folds of `dataset`, if they belong to it."""
    names = ("fold", "val", "val_ptr", "sha256", "content_sha256")
    arrays = read_arrays(content, names, source, what="folds")
    # a file that was compressed by another library has other bytes but the same graphs
    if str(arrays["sha256"]) != dataset.sha256 and str(arrays["content_sha256"]) != content_sha256(dataset):
        raise DataError(
            f"{source}: these folds belong to a file with SHA-256 {str(arrays['sha256'])[:12]}..., not to "
            f"{dataset.name} with {dataset.sha256[:12]}...: draw some with a seed of your own."
        )
    count = dataset.num_graphs
    fold = torch.from_numpy(integers(arrays, "fold", source, shape=(count,), within=(0, FOLDS)))
    val = torch.from_numpy(integers(arrays, "val", source, within=(0, count)))
    ptr = integers(arrays, "val_ptr", source, shape=(FOLDS + 1,))
    kept = []
    for k in range(FOLDS):
        chosen = torch.zeros(count, dtype=torch.bool)
        chosen[val[ptr[k] : ptr[k + 1]]] = True
        if bool((chosen & (fold == k)).any()):
            raise DataError(f"{source}: fold {k} validates on graphs that it tests.")
        kept.append(_fold(fold == k, chosen))
    return kept


SPLIT: Final = 100
"""Purpose of the draws here; see :mod:`armagnn.randomness`."""


def shuffled(seed: int, purpose: int, count: int, *, step: int = 0) -> Tensor:
    """Return 0 .. count-1 in an order that depends on (seed, purpose, step) only, int64.

    Number i is given the word ``bits(seed, purpose, step, i)``; numbers are sorted by their words, equal words by i.

    Example:
        >>> shuffled(3, SPLIT, 5).tolist()
        [1, 0, 4, 2, 3]
    """
    seed = check_seed(seed)
    return bits(torch.tensor([seed]), purpose, step, torch.arange(count)).argsort(stable=True)


def check_seed(seed: int) -> int:
    """Refuse what the generator cannot take as a seed."""
    return integer("seed", seed, 0, 2**63 - 1)


def random_split(
    y: Tensor, seed: int, *, per_class: int = 20, val: int = 500, test: int = 1000
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw (train_idx, val_idx, test_idx) from the nodes that have a label (y >= 0); each ascending.

    All nodes are shuffled. The first `per_class` of each class are for training; of the other labelled ones the
    first `val` are for validation and the next `test` for the test.

    Example:
        >>> y = torch.tensor([0, 1, 0, 1, 0, 1, -1])
        >>> [ids.tolist() for ids in random_split(y, 0, per_class=1, val=1, test=2)]
        [[4, 5], [1], [2, 3]]
    """
    tensor("y", y, 1)
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool or not y.numel():
        raise ParameterError(f"y must be labels, one integer for each node, got {y.dtype} of shape {tuple(y.shape)}.")
    per_class, val, test = (integer(*each, 1) for each in (("per_class", per_class), ("val", val), ("test", test)))
    device, y = y.device, y.long().cpu()
    if int(y.max()) >= len(y):
        raise ParameterError(f"y holds {int(y.max())}; labels of {len(y)} nodes are 0 .. C-1, or -1 for none.")
    order = shuffled(seed, SPLIT, len(y))
    order = order[y[order] >= 0]
    label = y[order]
    taken = torch.zeros(len(order), dtype=torch.bool)
    for c in range(int(y.max()) + 1):
        members = (label == c).nonzero().squeeze(1)
        if len(members) < per_class:
            raise ParameterError(f"per_class is {per_class}, but class {c} has {len(members)} nodes.")
        taken[members[:per_class]] = True
    rest = order[~taken]
    if len(rest) < val + test:
        raise ParameterError(f"val + test is {val + test}, but {len(rest)} labelled nodes remain after training's.")
    parts = order[taken], rest[:val], rest[val : val + test]
    train_idx, val_idx, test_idx = (part.sort().values.to(device) for part in parts)
    return train_idx, val_idx, test_idx
