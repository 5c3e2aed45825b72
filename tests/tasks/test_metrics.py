"""Metrics of nodes against counts by hand; logits lie on both sides of every threshold that one could take for 0."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn.tasks.metrics import accuracy, micro_f1


def test_a_label_is_more_probable_than_not_from_a_logit_of_0_on() -> None:
    """sigmoid(0.1) > 1/2: a threshold of 0.5 belongs to probabilities, not to logits."""
    logits = torch.tensor([[0.1, 0.4], [-0.1, -0.4], [0.3, -0.2]])
    labels = torch.tensor([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    assert accuracy(logits, labels).item() == pytest.approx(5 / 6)
    assert micro_f1(logits, labels).item() == pytest.approx(2 * 3 / (2 * 3 + 0 + 1))


entries = st.lists(st.tuples(st.floats(-1, 1, width=32), st.booleans()), min_size=1, max_size=12)


@given(entries)
def test_metrics_of_many_labels_are_counts_of_probable_ones(entries: list[tuple[float, bool]]) -> None:
    logits = torch.tensor([[logit] for logit, _ in entries])
    labels = torch.tensor([[float(there)] for _, there in entries])
    found = [logit > 0 for logit, _ in entries]  # what torch.sigmoid(logit) > 0.5 says, but for rounding
    right = sum(a == b for a, (_, b) in zip(found, entries, strict=True))
    hits = sum(a and b for a, (_, b) in zip(found, entries, strict=True))
    total = sum(found) + sum(there for _, there in entries)
    assert accuracy(logits, labels).item() == pytest.approx(right / len(entries))
    assert micro_f1(logits, labels).item() == pytest.approx(2 * hits / max(total, 1))
