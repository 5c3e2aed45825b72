from __future__ import annotations

import pytest
import torch
from sklearn.metrics import roc_auc_score

from armagnn.tasks.roc_auc import roc_auc
from oracles import numbers


@pytest.mark.parametrize("ties", [True, False])
def test_it_is_that_of_scikit_learn_on_the_nodes_that_count(ties: bool) -> None:
    logits, y = numbers(40, 2, seed=1), (numbers(40, seed=2) > 0.4).long()
    logits = logits.round(decimals=0) if ties else logits
    counts = (numbers(40, seed=3) > 0).float()
    score = logits[:, 1] - logits[:, 0]
    assert roc_auc(logits, y).item() == pytest.approx(roc_auc_score(y, score))
    some = counts > 0
    assert roc_auc(logits, y, counts).item() == pytest.approx(roc_auc_score(y[some], score[some]))


def test_trials_are_an_axis() -> None:
    logits, y = numbers(3, 30, 2, seed=1).round(decimals=1), (numbers(30, seed=2) > 0).long()
    counts = (numbers(3, 30, seed=3) > 0).double()
    each = [roc_auc(*pair[:1], y, pair[1]) for pair in zip(logits, counts, strict=True)]
    assert torch.equal(torch.func.vmap(lambda z, c: roc_auc(z, y, c))(logits, counts), torch.stack(each))


def test_without_a_pair_it_is_one_half() -> None:
    assert roc_auc(numbers(5, 2), torch.zeros(5, dtype=torch.int64)).item() == 0.5
