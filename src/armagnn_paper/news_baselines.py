"""What can be had on 20news without a graph: classifiers of scikit-learn on the tf-idf that the networks see.

.. math:: x_{dw} \\propto n_{dw} \\left(\\log \\frac{1 + D}{1 + d_w} + 1\\right), \\qquad \\|x_d\\| = 1

They learn from all D training documents; nothing is chosen. Naive Bayes has alpha = .01, as the baseline of
mdeff/cnn_graph, or scikit-learn's default 1; logistic regression has the default C = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from scipy.sparse import csr_matrix

from armagnn.data import SignalsDataset
from armagnn.sealed import read_rows, rows_csv, write_sealed

NAME: Final = "news-baselines.csv"
COMMAND: Final = "armagnn reproduce news-baselines"


@dataclass(frozen=True)
class Baseline:
    """The test accuracy in per cent of a classifier that sees no graph."""

    dataset: str
    method: str
    accuracy: float
    documents: int


def baselines(data: SignalsDataset) -> list[Baseline]:
    """Fit every classifier on the training and validation documents, and test it.

    Example:
        >>> x = torch.eye(4).repeat(3, 1) * 2
        >>> data = SignalsDataset.of([[0, 1], [1, 0]], x, torch.arange(12) % 4, range(4), range(4, 8), range(8, 12))
        >>> [(found.method, found.accuracy) for found in baselines(data)][:1]
        [('naive Bayes, alpha = .01', 100.0)]
    """
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import MultinomialNB

    known = torch.cat([data.train_idx, data.val_idx]).sort().values
    parts: list[Any] = [csr_matrix(data.x[ids].numpy().astype(float)) for ids in (known, data.test_idx)]
    labels = [data.y[ids].numpy() for ids in (known, data.test_idx)]
    scale = TfidfTransformer().fit(parts[0])
    train, test = (scale.transform(part) for part in parts)
    methods = {
        "naive Bayes, alpha = .01": MultinomialNB(alpha=0.01),
        "naive Bayes, alpha = 1": MultinomialNB(),
        "logistic regression": LogisticRegression(max_iter=1000),
    }
    return [
        Baseline(data.name, name, 100 * float(method.fit(train, labels[0]).score(test, labels[1])), len(labels[1]))
        for name, method in methods.items()
    ]


def write_baselines(found: list[Baseline], path: Path) -> None:
    """Write them as a table with its digest."""
    write_sealed(path, rows_csv(Baseline, found))


def read_baselines(path: Path) -> list[Baseline]:
    """Read what `write_baselines` wrote."""
    return read_rows(path, Baseline, "baselines of 20news", f"Make it with: {COMMAND}.")
