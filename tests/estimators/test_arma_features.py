from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from armagnn import GraphOperator
from armagnn.errors import ArmagnnError, ParameterError, SymmetryError, UnknownNameError
from armagnn.estimators import ARMAFeatures
from armagnn.filters import ARMAFilter
from oracles import random_graph

GRAPH = random_graph(9, 14, seed=2).both_ways()
X = np.random.default_rng(0).normal(size=(9, 2))
PAIR = ARMAFilter([0.4 + 0.5j, 0.4 - 0.5j], [0.3 + 0.1j, 0.3 - 0.1j])


def response(filter: Any, m: Any) -> Any:
    """h(M) by eigenvectors of a matrix, symmetric or not."""
    values, vectors = np.linalg.eig(m)
    h = sum(b / (1 - a * values) for a, b in zip(filter.a.numpy(), filter.b.numpy(), strict=True))
    return (vectors @ np.diag(h) @ np.linalg.inv(vectors)).real


def test_the_checks_of_scikit_learn() -> None:
    for result in check_estimator(ARMAFeatures(), on_skip=None, on_fail="raise"):
        assert result["status"] in ("passed", "skipped")
        assert not result["expected_to_fail"]


def test_it_is_the_bank_of_filters() -> None:
    op = GraphOperator.from_edge_index(GRAPH.edge_index, 9, dtype=torch.float64)
    bank = [0.8, PAIR, "low-pass"]
    found = ARMAFeatures(GRAPH.edge_index, filters=bank).fit_transform(X)
    filters = [ARMAFilter([0.8], [0.2]), PAIR, ARMAFilter.design("low-pass", 4)]
    m = op.to_dense().numpy()
    expected = np.concatenate([X, *(response(f, m) @ X for f in filters)], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(
        ARMAFeatures(op, filters=bank, passthrough=False).fit_transform(X), expected[:, 2:], atol=1e-6
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_a_new_row_is_a_node_that_only_receives(seed: int, k: int) -> None:
    """Dense truth: h of the operator of all rows, with edges from rows of fit to the new one and none back."""
    rng = np.random.default_rng(seed)
    x, new = rng.normal(size=(9, 2)), rng.normal(size=(1, 2))
    features = ARMAFeatures(n_neighbors=k, filters=(0.7, -0.5, PAIR), passthrough=False).fit(x)
    part = features.rows_.ask(new, None)
    m = GraphOperator.from_scipy(part.graph, dtype=torch.float64).to_dense().numpy()
    every = np.concatenate([x, new]).astype(complex)
    filters = [ARMAFilter([0.7], [0.3]), ARMAFilter([-0.5], [0.5]), PAIR]

    def solved(f: ARMAFilter) -> Any:  # by the matrix of each term, as this one may have no eigenvectors
        pairs = zip(f.a.numpy(), f.b.numpy(), strict=True)
        return sum(b * np.linalg.solve(np.eye(10) - a * m, every) for a, b in pairs).real

    expected = np.concatenate([solved(f) for f in filters], 1)
    np.testing.assert_allclose(features.transform(new)[0], expected[-1], atol=1e-6)


def test_rows_of_fit_and_single_calls() -> None:
    features = ARMAFeatures(n_neighbors=3).fit(X)
    call = np.concatenate([X[::2], X + 0.1])
    np.testing.assert_allclose(features.transform(call), np.concatenate([features.transform(r[None]) for r in call]))
    np.testing.assert_array_equal(features.transform(X[::2]), features.fit_transform(X)[::2])


def test_with_other_models() -> None:
    x, y = load_iris(return_X_y=True)
    search = GridSearchCV(
        make_pipeline(ARMAFeatures(), LogisticRegression(max_iter=1000)),
        {"armafeatures__filters": [(0.9,), (0.5, -0.5), ("low-pass",)]},
        cv=3,
    ).fit(x, y)
    assert search.best_score_ > 0.94
    assert make_pipeline(ARMAFeatures(), KMeans(3, n_init=1)).fit_predict(x).shape == (150,)


def test_names_and_types() -> None:
    features = ARMAFeatures(filters=(0.9, "low-pass", PAIR), n_neighbors=2).fit(X.astype(np.float32))
    names = ["x0", "x1", "x0 a=0.9", "x1 a=0.9", "x0 low-pass", "x1 low-pass", "x0 filter 2", "x1 filter 2"]
    assert features.get_feature_names_out().tolist() == names
    assert features.transform(sp.csr_array(X.astype(np.float32))).dtype == np.float32
    some = ARMAFeatures(GRAPH.edge_index).fit(X, nodes=range(9)).transform(X[[4]] * 2, nodes=[4])
    assert some.shape == (1, 8)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"filters": ()}, ParameterError),
        ({"filters": "low-pass"}, ParameterError),
        ({"filters": (1.0,)}, ParameterError),
        ({"filters": ("low-poss",)}, UnknownNameError),
        ({"filters": (object(),)}, ParameterError),
        ({"passthrough": 1}, ParameterError),
        ({"graph": np.array([[0, 1], [1, 2]])}, SymmetryError),
        ({"graph": np.eye(4)}, ArmagnnError),
    ],
)
def test_options_are_checked(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        ARMAFeatures(**options).fit(X)
