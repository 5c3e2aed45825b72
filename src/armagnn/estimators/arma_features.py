"""`ARMAFeatures`: the columns of X through a bank of ARMA filters, as features for any other model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from armagnn import checks
from armagnn.estimators.node_rows import AskedRows, NodeRows, as_dense, nodes_of, validated
from armagnn.filters import ARMAFilter, FilterBank
from armagnn.operators import GraphOperator

Array = NDArray[Any]


class ARMAFeatures(TransformerMixin, BaseEstimator):
    r"""Every column of X through every filter of a bank, :math:`[X, h_1(M) X, \dots, h_B(M) X]`, with ARMA filters

    .. math::
        h(\mu) = \sum_{k=1}^K \frac{b_k}{1 - a_k \mu}

    of the frequencies :math:`\mu` of :math:`M = D^{-1/2} A D^{-1/2}`. Nothing is learnt: a gradient boosting, a linear
    model, a k-means that comes after it sees what lies around a node. For graphs that do not fit into memory with their
    features there is `StoredFeatures`.

    With ``graph="knn"`` a new row x receives from its nearest rows of ``fit`` and gives nothing back. As
    :math:`h(\mu) = h(0) + \mu g(\mu)` with :math:`g(\mu) = \sum_k a_k b_k / (1 - a_k \mu)`, it becomes
    :math:`h(0) x + m^T g(M) X`, where m are the weights of its edges.

    Args:
        graph: ``"knn"``; or a symmetric graph in any form that a `GraphOperator` can be built from. ``fit`` and
            ``transform`` then take all nodes, or those that ``nodes=`` or the index of a ``DataFrame`` names.
        n_neighbors: of ``"knn"``: how many nearest rows each row asks for. Scale the columns before.
        filters: each a number a with \|a\| < 1, the filter (1 - \|a\|) / (1 - a μ), low-pass for a > 0 and high-pass
            for a < 0; a name such as ``"low-pass"`` or ``"band-pass"`` (see `armagnn.filters.targets`); or an
            `ARMAFilter`.
        passthrough: put X itself before the filtered columns.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.pipeline import make_pipeline
        >>> X, y = load_digits(return_X_y=True)
        >>> model = make_pipeline(ARMAFeatures(filters=(0.9, 0.5)), LogisticRegression(max_iter=200))
        >>> model.fit(X[:900] / 16, y[:900]).score(X[900:] / 16, y[900:]) > 0.93
        True
        >>> ARMAFeatures(filters=(0.9,)).fit([[0.0], [1.0], [5.0]]).get_feature_names_out()
        array(['x0', 'x0 a=0.9'], dtype=object)
    """

    def __init__(
        self,
        graph: Any = "knn",
        n_neighbors: int = 10,
        filters: Sequence[Any] = (0.9, 0.5, -0.5),
        passthrough: bool = True,
    ) -> None:
        self.graph, self.n_neighbors = graph, n_neighbors
        self.filters, self.passthrough = filters, passthrough

    def fit(self, X: Any, y: Any = None, nodes: Any = None) -> Self:
        """Learn the rows (n, F), dense or sparse, and their graph; y is not looked at."""
        self.fit_transform(X, y, nodes)
        return self

    def fit_transform(self, X: Any, y: Any = None, nodes: Any = None) -> Array:
        """Learn the rows and return their features, (n, (1 + B) F)."""
        nodes = nodes_of(X, nodes)
        X = as_dense(validated(self, X, reset=True))
        bank = FilterBank.of(self.filters)
        checks.flag("passthrough", self.passthrough)
        self.names_ = list(bank.names)
        self.rows_ = NodeRows.fit(self.graph, self.n_neighbors, X, nodes)
        part = self.rows_.all()
        if self.rows_.search is None:
            return self._with_input(X, _filtered(part, bank))
        # what a new row receives from the rows of fit: g(M) X
        received = tuple(ARMAFilter(f.a, f.a * f.b) for f in bank.filters)
        both = FilterBank((*bank.filters, *received), (*bank.names, *(f"{name}, received" for name in bank.names)))
        self.features_, self.received_ = np.split(_filtered(part, both), 2, axis=1)
        return self._with_input(X, self.features_)

    def transform(self, X: Any, nodes: Any = None) -> Array:
        """Return the features of rows, (m, (1 + B) F)."""
        check_is_fitted(self)
        nodes = nodes_of(X, nodes)
        X = as_dense(validated(self, X, reset=False))
        bank = FilterBank.of(self.filters)
        if self.rows_.search is None:
            return self._with_input(X, _filtered(self.rows_.ask(X, nodes), bank))
        self.rows_.ask(X[:0], nodes)  # refuses nodes
        place, new, edges = self.rows_.new_edges(X)
        found = self.features_[place]
        degree = np.asarray(self.rows_.matrix.sum(1)).ravel()
        weights = edges.multiply(1.0 / np.sqrt(degree * self.rows_.neighbours)).tocsr()
        direct = np.concatenate([float(f.response(0.0)) * X[new] for f in bank.filters], axis=1)
        found[new] = direct + weights @ self.received_
        return self._with_input(X, found)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return a name for each column: that of the column of X, and that of the filter."""
        check_is_fitted(self)
        columns = _check_feature_names_in(self, input_features)
        plain = list(columns) if self.passthrough else []
        return np.array(plain + [f"{column} {name}" for name in self.names_ for column in columns], dtype=object)

    def _with_input(self, X: Array, found: Array) -> Array:
        return np.concatenate([X, found], axis=1) if self.passthrough else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _filtered(part: AskedRows, bank: FilterBank) -> Array:
    """Return h(M) X of every filter, side by side, (m, B F)."""
    graph = part.graph
    op = graph if isinstance(graph, GraphOperator) else GraphOperator.from_scipy(graph, dtype=torch.float64)
    found = bank.filter(op, torch.from_numpy(np.array(part.X, dtype=np.float64)))
    wanted = found[:, torch.from_numpy(part.wanted)]
    return wanted.transpose(0, 1).flatten(1).numpy().astype(part.X.dtype, copy=False)
