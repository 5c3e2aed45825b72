"""Macro-F1 and ROC-AUC against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, roc_auc_score

from armagnn.tasks.closing_metrics import closing_metrics, has_auc, mean_auc


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 4))
def test_classes(seed: int, classes: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (30,), generator=draw)
    y[:classes] = torch.arange(classes)
    scores = torch.randn(30, classes, generator=draw)
    found = closing_metrics(scores, y)
    probabilities = scores.double().softmax(1).numpy()
    truth = y.numpy()
    assert found["macro_f1"] == pytest.approx(f1_score(truth, scores.argmax(1).numpy(), average="macro"))
    given = probabilities[:, 1] if classes == 2 else probabilities
    assert found["roc_auc"] == pytest.approx(roc_auc_score(truth, given, multi_class="ovr", average="macro"), abs=1e-6)


def test_a_tie_counts_one_half() -> None:
    draw = np.random.default_rng(0)
    scores, there = draw.integers(0, 3, (30, 1)).astype(float), draw.random((30, 1)) < 0.4
    assert mean_auc(scores, there) == pytest.approx(roc_auc_score(there[:, 0], scores[:, 0]))


def test_labels() -> None:
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(2, (40, 3), generator=draw).float()
    scores = torch.randn(40, 3, generator=draw)
    found = closing_metrics(scores, y)
    assert found["roc_auc"] == pytest.approx(roc_auc_score(y.numpy(), scores.numpy(), average="macro"))
    assert found["macro_f1"] == pytest.approx(f1_score(y.numpy(), (scores > 0).numpy(), average="macro"))


def test_a_class_that_all_or_none_have_is_left_out() -> None:
    assert not has_auc(torch.tensor([1, 1]), 2)
    assert has_auc(torch.tensor([1, 0]), 3)
    there = np.array([[True, True], [True, False]])
    assert mean_auc(np.array([[0.0, 1.0], [1.0, 0.0]]), there) == 1.0
    assert closing_metrics(torch.zeros(2, 2), torch.tensor([0, 0]), auc=False).keys() == {"macro_f1"}
