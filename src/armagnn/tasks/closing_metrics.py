"""Metrics that are looked at once, after training: macro-F1 and ROC-AUC of classes and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from armagnn.arguments import checked

Numbers = NDArray[np.float64]


@checked
def closing_metrics(scores: Tensor, y: Tensor, auc: bool = True) -> dict[str, float]:
    """Macro-F1 of the most probable classes (or of labels whose score is positive), and the mean ROC-AUC of classes.

    Args:
        scores: (n, C), logits.
        y: (n,) classes, or (n, C) labels of 0 and 1.
        auc: with ROC-AUC, which needs a class that some of the nodes have and some have not.

    Example:
        >>> import torch
        >>> scores = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.0]])
        >>> closing_metrics(scores, torch.tensor([0, 0, 1, 1]))
        {'macro_f1': 0.7333333333333334, 'roc_auc': 1.0}
    """
    from sklearn.metrics import f1_score

    found = scores.double().numpy(force=True)
    truth = y.numpy(force=True)
    predicted = (found > 0).astype(int) if truth.ndim == 2 else found.argmax(axis=1)
    metrics = {"macro_f1": float(f1_score(truth, predicted, average="macro", zero_division=0))}
    return metrics | ({"roc_auc": mean_auc(_margins(found, truth), indicators(truth, found.shape[1]))} if auc else {})


def indicators(y: NDArray[Any], classes: int) -> NDArray[np.bool_]:
    """Which node has which class, (n, C)."""
    found: NDArray[np.bool_] = (y > 0.5) if y.ndim == 2 else y[:, None] == np.arange(classes)
    return found


def _margins(scores: Numbers, y: NDArray[Any]) -> Numbers:
    """What ranks the nodes for each class: of single classes the log of the probability against all others."""
    if y.ndim == 2:
        return scores
    shifted = scores - scores.max(axis=1, keepdims=True)
    weight = np.exp(shifted)
    rest = np.maximum(weight.sum(axis=1, keepdims=True) - weight, np.finfo(np.float64).tiny)
    margins: Numbers = shifted - np.log(rest)
    return margins


def has_auc(y: Tensor, classes: int) -> bool:
    """Is there a class that some of the nodes have and some have not?"""
    there = indicators(y.numpy(force=True), classes)
    return bool((there.any(axis=0) & ~there.all(axis=0)).any())


def mean_auc(scores: Numbers, there: NDArray[np.bool_]) -> float:
    """The mean over classes of the share of pairs (one with the class, one without) that the scores order right.

    A tie counts one half. Two classes are one question, asked once. Classes that all or none have are left out.

    Example:
        >>> mean_auc(np.array([[0.1], [0.4], [0.35], [0.8]]), np.array([[False], [False], [True], [True]]))
        0.75
    """
    from scipy.stats import rankdata

    aucs = []
    for score, mine in zip(scores.T, there.T, strict=True):
        count, others = int(mine.sum()), int((~mine).sum())
        if count and others:
            aucs.append((rankdata(score)[mine].sum() - count * (count + 1) / 2) / (count * others))
    return float(np.mean(aucs)) if aucs else 0.5
