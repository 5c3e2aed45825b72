"""Random splits: sizes, disjointness, and the same draw everywhere."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn.data import load
from armagnn.data.split import SPLIT, random_split, shuffled
from armagnn.errors import ParameterError, UnknownNameError


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
