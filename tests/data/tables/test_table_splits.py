"""Splits: whole, apart, by class, and folds that test every node once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from armagnn.data.tables.frame import Frame
from armagnn.data.tables.node_targets import target_of
from armagnn.data.tables.table_splits import SplitWish, split_nodes
from armagnn.errors import ParameterError

LABELS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=20, max_size=60)


@settings(max_examples=60, deadline=None)
@given(labels=LABELS, seed=st.integers(0, 1000))
def test_a_split_is_whole_and_by_class(labels: list[str | None], seed: int) -> None:
    counts = {name: labels.count(name) for name in ("a", "b", "c")}
    known = sum(counts.values())
    assume(known >= 10 and sum(count > 1 for count in counts.values()) > 1)
    frame = Frame.of({"y": labels}, "nodes")
    target = target_of(frame, ["y"], "classes")
    split = split_nodes(frame, target, SplitWish(seed=seed))
    parts = [split.train, split.val, split.test]
    together = np.concatenate(parts)
    assert sorted(together.tolist()) == [row for row, label in enumerate(labels) if label is not None]
    assert len(split.val) == len(split.test) == max(1, round(0.2 * known))
    for name, count in counts.items():
        shares = [sum(labels[row] == name for row in part.tolist()) for part in parts]
        assert count == 0 or shares[0] >= 1
        assert all(abs(share - 0.2 * count) <= 1.5 for share in shares[1:])


def test_folds_test_every_node_once() -> None:
    frame = Frame.of({"y": ["a", "b", "b"] * 10}, "nodes")
    target = target_of(frame, ["y"])
    splits = [split_nodes(frame, target, SplitWish(folds=5, fold=fold)) for fold in range(5)]
    assert sorted(np.concatenate([split.test for split in splits]).tolist()) == list(range(30))
    for split in splits:
        assert len({*split.train.tolist(), *split.val.tolist(), *split.test.tolist()}) == 30
        assert sum(row % 3 == 0 for row in split.test.tolist()) == 2


@pytest.mark.parametrize("wish", [{"val": -1}, {"folds": 1}, {"folds": 3, "fold": 3}, {"column": "y", "folds": 3}])
def test_bad_wishes(wish: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        SplitWish(**wish)  # type: ignore[arg-type]
