from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from armagnn import GraphOperator
from armagnn.data import load
from armagnn.errors import ArmagnnError, DataError, GraphError, ParameterError, ShapeError, UnknownNameError
from armagnn.estimators import ARMAClassifier, ARMARegressor
from armagnn.operators.neighbours import knn_graph
from armagnn.tasks import NodeNet, conv_options

X, Y = load_iris(return_X_y=True)
QUICK: dict[str, Any] = {"hidden": 8, "epochs": 40, "random_state": 0}


def corner() -> tuple[Any, Any, Any]:
    """The first 600 nodes of Cora, with the edges among them."""
    cora = load("cora")
    keep = (cora.edge_index < 600).all(0)
    return cora.x.to_dense()[:600].numpy(), cora.y[:600].numpy(), cora.edge_index[:, keep]


@pytest.mark.parametrize("estimator", [ARMAClassifier(epochs=60), ARMARegressor(epochs=60)], ids=["classes", "numbers"])
def test_the_checks_of_scikit_learn(estimator: Any) -> None:
    for result in check_estimator(estimator, on_skip=None, on_fail="raise"):
        assert result["status"] in ("passed", "skipped")
        assert not result["expected_to_fail"]


def test_prediction_is_the_network_on_the_whole_graph() -> None:
    """Dense truth: the graph of the rows of fit, to which new rows are joined by edges from their nearest ones."""
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(60, 3)), rng.normal(size=(20, 3))
    model = ARMAClassifier(standardise=False, n_neighbors=4, **QUICK).fit(x, x[:, 0] > 0)
    a = np.zeros((80, 80))
    edges = knn_graph(x, 4)[0].numpy()
    a[edges[1], edges[0]] = 1.0
    for row, point in enumerate(new):
        a[60 + row, ((x - point) ** 2).sum(1).argsort()[:4]] = 1.0
    net = NodeNet("arma", 3, 2, hidden=8, options=conv_options("arma", 2, 1)).double().eval()
    net.load_state_dict({name: value.double() for name, value in model.states_[0].items()})
    op = GraphOperator.from_dense(a, dtype=torch.float64)
    with torch.no_grad():
        expected = net(torch.tensor(np.concatenate([x, new])), op).softmax(-1)
    np.testing.assert_allclose(model.predict_proba(new), expected[60:].numpy(), atol=1e-5)
    np.testing.assert_allclose(model.label_distributions_, expected[:60].numpy(), atol=1e-5)


def test_a_row_does_not_depend_on_the_others_of_a_call() -> None:
    model = ARMARegressor(**QUICK).fit(X[:, :3], X[:, 3])
    new = np.concatenate([X[::10, :3] + 0.05, X[::7, :3]])
    alone = np.concatenate([model.predict(row[None]) for row in new])
    np.testing.assert_allclose(model.predict(new), alone, atol=1e-6)


def test_rows_of_fit_are_those_nodes() -> None:
    model = ARMAClassifier(**QUICK).fit(X, np.where(np.arange(150) % 3, -1, Y))
    np.testing.assert_array_equal(model.transduction_, model.predict(X))
    np.testing.assert_allclose(model.label_distributions_[::-1], model.predict_proba(X[::-1]), atol=1e-6)
    assert model.score(X, Y) > 0.8


@pytest.mark.parametrize("unknown", [-1, np.nan, None], ids=str)
def test_unknown_rows_have_no_say(unknown: Any) -> None:
    """What stands where a class is unknown changes nothing."""
    known = np.arange(150) % 5 == 0
    names = np.array(["a", "b", "c"], dtype=object)[Y]
    y: Any = np.where(known, names, unknown) if unknown is None else np.where(known, Y, unknown)
    found = ARMAClassifier(**QUICK).fit(X, y)
    expected = ARMAClassifier(**QUICK).fit(X, np.where(known, Y, -1))
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
    assert len(found.classes_) == 3


def test_minus_one_is_a_class_where_it_must_be() -> None:
    y = np.where(Y == 0, -1, 1)
    assert ARMAClassifier(**QUICK).fit(X, y).classes_.tolist() == [-1, 1]


def test_missing_targets_have_no_say() -> None:
    y = X[:, 3].copy()
    y[::3] = np.nan
    model = ARMARegressor(**QUICK).fit(X[:, :3], y)
    assert np.isfinite(model.transduction_).all()
    assert model.score(X[::3, :3], X[::3, 3]) > 0.8


def test_who_decides_when_to_stop() -> None:
    known = np.arange(0, 150, 2)
    for fraction, count in (("auto", 0), (0.0, 0), (0.2, 15)):
        model = ARMAClassifier(validation_fraction=fraction)
        train, val = model._split(Y, known, 3, np.random.default_rng(0))
        assert np.array_equal(val, train) if count == 0 else len(val) == count
        assert set(train) | set(val) == set(known)
        assert not count or np.bincount(Y[val]).tolist() == [5, 5, 5]
    many = np.arange(1000)
    train, val = ARMARegressor()._split(many * 1.0, many, 0, np.random.default_rng(0))
    assert (len(train), len(val)) == (900, 100)


def test_units_of_the_target_do_not_matter() -> None:
    plain = ARMARegressor(**QUICK).fit(X[:, :3], X[:, 3]).predict(X[:, :3])
    large = ARMARegressor(**QUICK).fit(X[:, :3], 1e9 + 1e6 * X[:, 3]).predict(X[:, :3])
    np.testing.assert_allclose((large - 1e9) / 1e6, plain, atol=1e-4)


@pytest.mark.parametrize("conv", ["arma", "gcn", "chebyshev", "gat", "sage", "gin", "mlp"])
def test_all_layers(conv: str) -> None:
    model = ARMAClassifier(conv=conv, **QUICK | {"epochs": 5}).fit(X[::2], Y[::2])
    assert model.predict_proba(X).shape == (150, 3)


def test_more_networks_are_averaged() -> None:
    three = ARMAClassifier(seeds=3, **QUICK).fit(X, Y)
    assert len(three.states_) == 3
    proba = []
    for state in three.states_:
        one = clone(three).fit(X, Y)
        one.states_ = [state]
        proba.append(one.predict_proba(X))
    np.testing.assert_allclose(three.predict_proba(X), np.mean(proba, 0))


def test_dense_and_sparse_features_are_the_same() -> None:
    x, y, edges = corner()
    options = {"graph": edges, "standardise": False, **QUICK}
    dense = ARMAClassifier(**options).fit(x, y).predict_proba(x)
    sparse = ARMAClassifier(**options).fit(sp.csr_array(x), y).predict_proba(sp.csr_matrix(x))
    assert (dense.argmax(1) == sparse.argmax(1)).mean() > 0.97  # dropout falls on nonzeros, so bits differ
    assert ARMAClassifier(graph="knn", **QUICK).fit(sp.csr_array(x[:80]), y[:80]).predict(x[80:90]).shape == (10,)


# --------------------------------------------------------------------------------------------------------- scikit-learn


def test_search_pipeline_and_pickle() -> None:
    model = make_pipeline(StandardScaler(), ARMAClassifier(**QUICK | {"epochs": 150}))
    search = GridSearchCV(model, {"armaclassifier__n_neighbors": [3, 9]}, cv=3).fit(X, Y)
    assert search.best_score_ > 0.9
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X + 0.01), search.predict_proba(X + 0.01))


def test_cross_validation_with_a_graph_by_nodes() -> None:
    x, y, edges = corner()
    model = ARMAClassifier(graph=edges, **QUICK)
    with config_context(enable_metadata_routing=True):
        routed = model.set_fit_request(nodes=True).set_score_request(nodes=True)
        found = cross_validate(routed, x, y, cv=3, params={"nodes": np.arange(600)}, error_score="raise")
    assert found["test_score"].mean() > 0.45


def test_cross_validation_with_a_graph_by_the_index_of_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    x, y, edges = corner()
    frame = pandas.DataFrame(x, columns=[f"w{i}" for i in range(x.shape[1])])
    model = ARMAClassifier(graph=edges, **QUICK)
    graph = cross_val_score(model, frame, y, cv=3, error_score="raise").mean()
    alone = cross_val_score(clone(model).set_params(conv="mlp"), frame, y, cv=3, error_score="raise").mean()
    assert graph > alone + 0.02  # the edges are seen
    shuffled = frame.sample(frac=1, random_state=0)
    fitted = model.fit(frame, y)
    np.testing.assert_allclose(
        fitted.predict_proba(shuffled), fitted.predict_proba(frame)[shuffled.index.to_numpy()], atol=1e-6
    )


def test_a_few_nodes_are_asked_for_after_all_were_seen() -> None:
    x, y, edges = corner()
    model = ARMAClassifier(graph=edges, **QUICK).fit(x, np.where(np.arange(600) < 300, y, -1))
    some = [450, 7, 333]
    np.testing.assert_allclose(model.predict_proba(x[some], nodes=some), model.predict_proba(x)[some], atol=1e-6)
    assert model.score(x[300:], y[300:], nodes=np.arange(300, 600)) > 0.4


# --------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"conv": "arme"}, UnknownNameError, "arma"),
        ({"hidden": 0}, ParameterError, "hidden"),
        ({"num_stacks": 1.5}, ParameterError, "stacks"),
        ({"dropout": 1.0}, ParameterError, "dropout"),
        ({"validation_fraction": 1.0}, ParameterError, "validation_fraction"),
        ({"seeds": 0}, ParameterError, "seeds"),
        ({"standardise": 1}, ParameterError, "standardise"),
        ({"random_state": "x"}, ParameterError, "random_state"),
        ({"device": "moon"}, ParameterError, "device"),
        ({"graph": np.eye(3)}, ShapeError, "150 rows, but the graph 3 nodes"),
        ({"graph": "nearest"}, UnknownNameError, "knn"),
        ({"conv": "gcn", "graph": GraphOperator.from_dense(torch.eye(150))}, GraphError, "kind 'gcn'"),
        ({"lr": 1e30}, ArmagnnError, "diverged|too large|finite"),
    ],
)
def test_options_are_checked(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ARMAClassifier(**QUICK | options).fit(X, Y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full(150, -1), "no known class"),
        (np.full(150, 3), "one class"),
        (Y[:-1], "149 targets for the 150 rows"),
        (Y + 0.25, "Unknown label type"),
        (np.array(["a", 1.5] * 75, dtype=object), "y:"),
        (None, "requires y"),
        (np.where(Y, np.inf, 1.0), "infinity"),
    ],
)
def test_targets_of_classes_are_checked(y: Any, message: str) -> None:
    with pytest.raises(ArmagnnError, match=message):
        ARMAClassifier(**QUICK).fit(X, y)


def test_targets_of_a_regression_are_checked() -> None:
    for y in (np.full(150, np.nan), np.full(150, np.inf), ["a"] * 150):
        with pytest.raises(DataError, match="y"):
            ARMARegressor(**QUICK).fit(X, y)
    with pytest.raises(DataError, match="single precision"):
        ARMARegressor(np.eye(150), standardise=False, **QUICK).fit(X * 1e300, X[:, 0])


def test_the_graph_of_nearest_patients() -> None:
    """Diabetes: as good as the network without edges, at least."""
    x, y = load_diabetes(return_X_y=True)
    scores = cross_val_score(ARMARegressor(random_state=0), x, y, cv=3)
    assert scores.mean() > 0.38
