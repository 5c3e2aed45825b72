"""Folds: each graph tested once, classes alike in all, the same for everyone, tied to their dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from armagnn.data import CATALOGUE, Fold, folds, load, load_graphs, own_split
from armagnn.data.arrays import Arrays, pack_arrays, read_arrays
from armagnn.data.graphs import GraphsDataset
from armagnn.data.splits import KEPT, SEED, SPLIT, content_sha256, draw_folds, parse_folds, random_split, shuffled
from armagnn.errors import DataError, ParameterError, UnknownNameError


def pack_folds(dataset: GraphsDataset, seed: int = SEED) -> bytes:
    """Return the file of a dataset's folds: ``fold`` (G,), ``val`` (the ids, fold after fold), ``val_ptr`` (11,).

    With them go the seed and the checksums of the dataset's file and content.
    """
    drawn = draw_folds(dataset.y, seed)
    fold = np.full(dataset.num_graphs, -1, dtype=np.int8)
    for k, one in enumerate(drawn):
        fold[one.test.numpy()] = k
    arrays: Arrays = {
        "fold": fold,
        "val": torch.cat([one.val for one in drawn]).numpy().astype(np.int32),
        "val_ptr": np.cumsum([0, *(len(one.val) for one in drawn)]).astype(np.int32),
        "seed": np.array(seed),
        "sha256": np.array(dataset.sha256),
        "content_sha256": np.array(content_sha256(dataset)),
    }
    return pack_arrays(arrays)


def spread(counts: Tensor) -> int:
    return int(counts.max() - counts.min())


def check(y: Tensor, found: list[Fold]) -> None:
    """Ten folds of all graphs, disjoint, stratified within one."""
    assert len(found) == 10
    classes = int(y.max()) + 1
    assert torch.cat([fold.test for fold in found]).sort().values.tolist() == list(range(len(y)))
    per_class = torch.stack([torch.bincount(y[fold.test], minlength=classes) for fold in found])
    assert int((per_class.max(0).values - per_class.min(0).values).max()) <= 1
    assert spread(torch.tensor([len(fold.test) for fold in found])) <= 1
    for fold in found:
        ids = torch.cat([fold.train, fold.val, fold.test])
        assert ids.sort().values.tolist() == list(range(len(y)))
        rest = torch.bincount(y, minlength=classes) - torch.bincount(y[fold.test], minlength=classes)
        val = torch.bincount(y[fold.val], minlength=classes)
        assert bool(((val - rest / 10).abs() < 1).all())
        assert abs(len(fold.val) - int(rest.sum()) / 10) < 1
        assert all(bool((part.diff() > 0).all()) for part in (fold.train, fold.val, fold.test))


@given(st.lists(st.integers(0, 3), min_size=18, max_size=200), st.integers(0, 2**63 - 1))
def test_any_labels_are_dealt_fairly(labels: list[int], seed: int) -> None:
    y = torch.tensor([0, 1, *labels])
    found = draw_folds(y, seed)
    check(y, found)
    for a, b in zip(found, draw_folds(y, seed), strict=True):
        assert torch.equal(a.test, b.test)
        assert torch.equal(a.val, b.val)


@pytest.mark.parametrize("name", KEPT)
def test_the_folds_of_the_package(name: str, real: Callable[[str], str]) -> None:
    data = load_graphs(name if CATALOGUE[name].embedded else real(name))
    found = folds(data)
    check(data.y, found)
    for kept, drawn in zip(found, folds(data, seed=0), strict=True):
        assert torch.equal(kept.test, drawn.test)
        assert torch.equal(kept.val, drawn.val)
        assert torch.equal(kept.train, drawn.train)
    path = Path(draw_folds.__code__.co_filename).with_name("fold_files") / f"{name}.npz"
    arrays = read_arrays(path.read_bytes(), ("sha256", "fold"), path.name)
    assert str(arrays["sha256"]) == CATALOGUE[name].sha256
    assert arrays["fold"].dtype == np.int8
    assert path.stat().st_size < 6000


def test_seeds_differ_and_mean_the_same_everywhere() -> None:
    data = load_graphs("mutag")
    assert not torch.equal(folds(data)[0].test, folds(data, seed=1)[0].test)
    assert folds(data)[0].test[:5].tolist() == [2, 18, 20, 28, 32]


def test_folds_belong_to_their_dataset() -> None:
    data = load_graphs("mutag")
    with pytest.raises(DataError, match="belong to a file with SHA-256 0219cf86df61"):
        folds(data.select(range(187)))
    y = data.y.clone()
    y[0] = 1 - y[0]
    with pytest.raises(DataError, match="draw some with"):
        folds(replace(data, y=y, sha256="0" * 64))
    # another compression of the same graphs has another checksum, but the same folds
    assert torch.equal(folds(replace(data, sha256="0" * 64))[3].val, folds(data)[3].val)
    # the dataset of another name is drawn for
    assert len(folds(replace(data, name="mine").select(range(100)))) == 10


def test_the_files_own_split(real: Callable[[str], str]) -> None:
    assert repr(own_split(load_graphs(real("bench-hard-small")))) == "Fold(train=245, val=29, test=26)"
    with pytest.raises(DataError, match="comes without a split"):
        own_split(load_graphs("mutag"))


@given(st.integers(20, 300), st.integers(0, 2**63 - 1))
def test_a_regression_is_split_80_10_10(count: int, seed: int) -> None:
    found = draw_folds(torch.zeros(count, 2), seed)
    assert torch.cat([fold.test for fold in found]).sort().values.tolist() == list(range(count))
    for k, fold in enumerate(found):
        assert torch.equal(fold.val, found[(k + 1) % 10].test)
        assert torch.cat([fold.train, fold.val, fold.test]).sort().values.tolist() == list(range(count))
        assert abs(len(fold.test) - count / 10) < 1


def test_qm9s_folds_are_these() -> None:
    found = draw_folds(torch.zeros(130831, 9), 0)
    assert repr(found[0]) == "Fold(train=104664, val=13083, test=13084)"
    part = torch.empty(130831, dtype=torch.int8)
    for k, fold in enumerate(found):
        part[fold.test] = k
    assert hashlib.sha256(part.numpy().tobytes()).hexdigest()[:16] == "f273093af38f61d5"


@pytest.mark.parametrize("y", [torch.zeros(19, 1), torch.arange(19), torch.tensor([-1] * 30)])
def test_what_cannot_be_folded(y: Tensor) -> None:
    with pytest.raises(ParameterError):
        draw_folds(y, 0)


ALL = ("fold", "val", "val_ptr", "seed", "sha256", "content_sha256")


@pytest.mark.parametrize(
    ("name", "value"),
    [("fold", 10), ("fold", -1), ("val", 188), ("val", -1), ("val_ptr", [0, 1])],
)
def test_damaged_files_are_refused(name: str, value: object) -> None:
    data = load_graphs("mutag")
    arrays = read_arrays(pack_folds(data), ALL, "mutag.npz")
    if isinstance(value, int):
        arrays[name][0] = value
    else:
        arrays[name] = np.asarray(value)
    with pytest.raises(DataError, match=name):
        parse_folds(pack_arrays(arrays), data, "mutag.npz")
    arrays = read_arrays(pack_folds(data), ALL, "mutag.npz")
    arrays["val"][0] = int(folds(data)[0].test[0])
    with pytest.raises(DataError, match="fold 0 validates"):
        parse_folds(pack_arrays(arrays), data, "mutag.npz")


@given(st.lists(st.integers(-1, 2), min_size=12, max_size=60), st.integers(0, 2**63 - 1))
def test_a_split_is_disjoint_balanced_and_repeats(labels: list[int], seed: int) -> None:
    y = torch.tensor([0, 0, 1, 1, 2, 2, 0, 1, *labels])
    train, val, test = random_split(y, seed, per_class=2, val=1, test=1)
    ids = torch.cat([train, val, test])
    assert len(set(ids.tolist())) == len(ids) == 8
    assert torch.bincount(y[train]).tolist() == [2, 2, 2]
    assert bool((y[ids] >= 0).all())
    again = random_split(y, seed, per_class=2, val=1, test=1)
    assert all(torch.equal(a, b) for a, b in zip((train, val, test), again, strict=True))


def test_shuffled_is_a_permutation_and_fair() -> None:
    assert sorted(shuffled(5, SPLIT, 100).tolist()) == list(range(100))
    first = torch.tensor([shuffled(seed, SPLIT, 4)[0] for seed in range(400)])
    assert int(torch.bincount(first, minlength=4).min()) > 70  # 100 expected, deviation 9


def test_load_draws_it() -> None:
    a, b, other = (load("cora", split="random", seed=seed) for seed in (3, 3, 4))
    assert torch.equal(a.train_idx, b.train_idx)
    assert a.sha256 == b.sha256
    assert len({a.sha256, other.sha256, load("cora").sha256}) == 3
    assert not torch.equal(a.train_idx, other.train_idx)
    assert [len(a.idx(part)) for part in ("train", "val", "test")] == [140, 500, 1000]
    assert torch.equal(load("cora", split="random").val_idx, load("cora").with_random_split(0).val_idx)


@pytest.mark.parametrize(
    "options",
    [{"per_class": 181}, {"val": 2000, "test": 600}, {"val": 0}, {"test": -1}, {"per_class": 1.5}, {"seed": -1},
     {"seed": 2**63}, {"seed": 0.5}, {"seed": True}],
)  # fmt: skip
def test_impossible_splits_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        load("cora").with_random_split(**{"seed": 0, **options})


def test_options_of_load_that_do_not_fit() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'random'"):
        load("cora", split="randm")
    with pytest.raises(ParameterError, match="split='random'"):
        load("cora", seed=1)
