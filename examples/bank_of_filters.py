"""Filter once, then train any model on rows: who of 11,758 crowd workers will be banned (Tolokers, first split)?

    python examples/bank_of_filters.py FOLDER [--data ../shared/data]

Ten features pass five filters, once, into a folder. Three models then read rows of it in minibatches, without a graph:
a network of dense layers, a linear model by `partial_fit`, and gradient boosting. Each also sees the ten features by
themselves. Beside them stand networks that are trained end to end on the graph. Settings and epochs are chosen by
ROC-AUC on the validation nodes; the test nodes are looked at once, with the settings chosen. Seeds are 0, 1, 2.
"""

from __future__ import annotations

import argparse
import copy
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from armagnn import GraphOperator
from armagnn.data import load
from armagnn.estimators import StoredFeatures, precompute_features
from armagnn.nn import MLPConv
from armagnn.training import NodesConfig, train

FILTERS = (0.97, 0.9, 0.5, -0.5, -0.9)
BATCH = 512
Scores = Callable[[np.ndarray], np.ndarray]


class Rows:
    """Rows of stored features, some of their columns, standardised by what the training rows are like."""

    def __init__(self, stored: StoredFeatures, columns: int, y: np.ndarray, train: np.ndarray) -> None:
        self.stored, self.columns, self.y, self.train = stored, columns, y, train
        self.scaler = StandardScaler()
        for _, rows in stored.batches(BATCH, train):
            self.scaler.partial_fit(rows[:, :columns])

    def batches(self, nodes: np.ndarray, seed: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield rows and their labels."""
        for some, rows in self.stored.batches(BATCH, nodes, seed):
            yield self.scaler.transform(rows[:, : self.columns]), self.y[some]

    def auc(self, score: Scores, nodes: np.ndarray) -> float:
        """ROC-AUC of scores of rows."""
        found = [(score(rows), labels) for rows, labels in self.batches(nodes)]
        return float(roc_auc_score(np.concatenate([y for _, y in found]), np.concatenate([s for s, _ in found])))


def dense(rows: Rows, seed: int, lr: float, dropout: float, epochs: int = 40) -> Iterator[Scores]:
    """Two dense layers by Adam; yields what each epoch leaves."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(MLPConv(rows.columns, 64), MLPConv(64, 1, act=None, dropout=dropout))
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    for epoch in range(epochs):
        net.train()
        for x, y in rows.batches(rows.train, 1000 * seed + epoch):
            optimizer.zero_grad()
            logits = net(torch.from_numpy(x).float()).squeeze(1)
            torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(y).float()).backward()
            optimizer.step()
        kept = copy.deepcopy(net).eval().requires_grad_(False)
        yield lambda x, kept=kept: kept(torch.from_numpy(x).float()).squeeze(1).numpy()


def linear(rows: Rows, seed: int, alpha: float, epochs: int = 20) -> Iterator[Scores]:
    """Logistic regression by stochastic gradients; yields what each epoch leaves."""
    model = SGDClassifier(loss="log_loss", alpha=alpha, random_state=seed)
    for epoch in range(epochs):
        for x, y in rows.batches(rows.train, 1000 * seed + epoch):
            model.partial_fit(x, y, classes=(0, 1))
        yield copy.deepcopy(model).decision_function


def boosting(rows: Rows, seed: int, learning_rate: float, leaves: int) -> Iterator[Scores]:
    """Boosted trees, 25 more at a time; they want all training rows at once, which they keep as bytes."""
    x, y = (np.concatenate(parts) for parts in zip(*rows.batches(rows.train), strict=True))
    options: dict[str, Any] = {"learning_rate": learning_rate, "max_leaf_nodes": leaves, "random_state": seed}
    model = HistGradientBoostingClassifier(warm_start=True, early_stopping=False, max_iter=25, **options)
    for trees in range(25, 301, 25):
        model.set_params(max_iter=trees).fit(x, y)
        kept = copy.deepcopy(model)
        yield lambda x, kept=kept: kept.predict_proba(x)[:, 1]


HEADS: dict[str, tuple[Callable[..., Iterator[Scores]], list[dict[str, Any]]]] = {
    "dense layers": (dense, [{"lr": lr, "dropout": p} for lr in (1e-3, 3e-3) for p in (0.0, 0.3)]),
    "linear": (linear, [{"alpha": alpha} for alpha in (1e-5, 1e-4, 1e-3)]),
    "boosting": (boosting, [{"learning_rate": lr, "leaves": n} for lr in (0.03, 0.1) for n in (7, 31)]),
}
NETWORKS: list[dict[str, Any]] = [
    {"conv": "arma", "stacks": 2, "layers": 1},
    {"conv": "arma", "stacks": 2, "layers": 4},
    {"conv": "rational", "stacks": 4, "layers": 1, "radius": 0.8},
]
SHARED: dict[str, Any] = {
    "hidden": 64, "input_dropout": 0.1, "hidden_dropout": 0.3, "skip_dropout": 0.1, "l2": 0.0, "lr": 0.01,
    "epochs": 300, "patience": 60, "linear_skip": True, "features": "standardise", "stop_on": "roc_auc",
}  # fmt: skip


def chosen(
    rows: Rows, head: str, val: np.ndarray, test: np.ndarray, seeds: range
) -> tuple[dict[str, Any], list[float]]:
    """Return the setting that is best on the validation nodes, and its ROC-AUC on the test nodes, per cent."""
    make, settings = HEADS[head]
    best: tuple[float, dict[str, Any], list[Scores]] | None = None
    for setting in settings:
        of_seeds = [
            max(((rows.auc(f, val), f) for f in make(rows, seed, **setting)), key=lambda p: p[0]) for seed in seeds
        ]
        mean = float(np.mean([value for value, _ in of_seeds]))
        if best is None or mean > best[0]:
            best = mean, setting, [score for _, score in of_seeds]
    assert best is not None
    return best[1], [100 * rows.auc(score, test) for score in best[2]]


def main(folder: Path, seeds: int = 3, networks: int = len(NETWORKS), **shared: Any) -> dict[str, list[float]]:
    """Filter, train, print, and return ROC-AUC on the test nodes of each way, in per cent, seed by seed."""
    data = load("tolokers")
    op = GraphOperator.from_edge_index(data.edge_index, data.num_nodes)
    x = (data.x.to_dense() if not isinstance(data.x, torch.Tensor) else data.x).numpy()
    stored = precompute_features(op, x, folder / "bank", filters=FILTERS)
    y, (train_idx, val, test) = data.y.numpy(), (t.numpy() for t in (data.train_idx, data.val_idx, data.test_idx))
    found: dict[str, list[float]] = {}

    def told(name: str, setting: Any, values: list[float]) -> None:
        found[name] = values
        print(f"{name}: {np.mean(values):.1f} ± {np.std(values):.1f} % ({setting}, {len(values)} seeds)", flush=True)

    for name, columns in (("features alone", x.shape[1]), ("bank", stored.shape[1])):
        rows = Rows(stored, columns, y, train_idx)
        for head in HEADS:
            told(f"{name}, {head}", *chosen(rows, head, val, test, range(seeds)))
    best: tuple[float, Any, list[float]] | None = None
    for place, options in enumerate(NETWORKS[:networks]):
        config = NodesConfig(dataset="tolokers", seeds=seeds, **{**SHARED, **options, **shared})
        run = train(config, folder / f"run-{place}", overwrite=True)
        trials = run.metrics()["trials"]
        on_val = float(np.mean([trial["val"]["roc_auc"] for trial in trials]))
        if best is None or on_val > best[0]:
            best = on_val, options, [100 * trial["test"]["roc_auc"] for trial in trials]
    if best is not None:
        told("end to end", *best[1:])
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    given = parser.parse_args()
    os.environ.setdefault("ARMAGNN_DATA", str(given.data))
    main(given.folder)
