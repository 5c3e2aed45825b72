from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from armagnn import GraphOperator
from armagnn.data import load
from armagnn.errors import (
    ConvergenceError,
    DTypeError,
    GraphError,
    ParameterError,
    ShapeError,
    UnknownNameError,
)
from armagnn.estimators.reservoir import ReservoirARMA, pool_states
from oracles import Graph, random_graph
from strategies import undirected

Array = Any
NODES, FEATURES = 12, 4


def features(nodes: int = NODES, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(nodes, FEATURES))


def operator(graph: Graph) -> GraphOperator:
    return GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight())


def normalised(graph: Graph) -> Array:
    """D^-1/2 A D^-1/2 in dense numpy."""
    a = graph.dense()
    root = np.sqrt(a.sum(1))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    return inverse[:, None] * a * inverse


def small(**options: Any) -> ReservoirARMA:
    return ReservoirARMA(**{"units": 6, "num_stacks": 3, "random_state": 0, "tol": 1e-13} | options)


GRAPH = random_graph(NODES, 25, seed=3).both_ways()


# ------------------------------------------------------------------------------------------------------- scikit-learn


def test_check_estimator_passes_with_nothing_expected_to_fail() -> None:
    for result in check_estimator(ReservoirARMA(), on_skip=None, on_fail="raise"):
        # one check needs an environment variable that is read when scipy is first imported
        assert result["status"] == "passed" or result["check_name"] == "check_array_api_input", result


def test_it_is_a_step_of_a_pipeline() -> None:
    x, op = features(), operator(GRAPH)
    y = (x[:, 0] + (op.to_dense().numpy() @ x)[:, 1] > 0).astype(int)
    train = np.arange(NODES) % 3 > 0
    for readout in (RidgeClassifier(0.1), LogisticRegression()):
        model = make_pipeline(small(graph=op), StandardScaler(), readout)
        name = model.steps[-1][0]
        weight = {"standardscaler__sample_weight": train.astype(float), f"{name}__sample_weight": train.astype(float)}
        model.fit(x, y, **weight)
        states = small(graph=op).fit_transform(x)
        scaler = StandardScaler().fit(states[train])
        by_rows = clone(readout).fit(scaler.transform(states[train]), y[train])
        np.testing.assert_array_equal(model.predict(x), by_rows.predict(scaler.transform(states)))
        np.testing.assert_allclose(
            model.decision_function(x), by_rows.decision_function(scaler.transform(states)), 1e-4
        )


def test_its_parameters_can_be_searched() -> None:
    x = features(40)
    search = GridSearchCV(
        make_pipeline(small(), Ridge(1e-6)), {"reservoirarma__input_scale": [0.01, 3.0]}, cv=2, error_score="raise"
    )
    assert search.fit(x, x[:, 0]).best_params_ == {"reservoirarma__input_scale": 0.01}  # where tanh is all but linear


def test_a_clone_and_a_pickle_draw_the_same_states() -> None:
    x, reservoir = features(), small(graph=operator(GRAPH))
    states = reservoir.fit_transform(x)
    np.testing.assert_array_equal(clone(reservoir).fit_transform(x), states)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(reservoir)).transform(x), states)
    assert np.abs(small(graph=operator(GRAPH), random_state=1).fit_transform(x) - states).max() > 0.01


def test_the_package_does_not_import_scikit_learn() -> None:
    code = "import sys, armagnn, armagnn.nn; assert not any(name.split('.')[0] == 'sklearn' for name in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# --------------------------------------------------------------------------------------------------- the fixed points


@pytest.mark.parametrize("act", ["relu", "leaky_relu", "elu", "celu", "tanh", "sigmoid", "softplus", "softsign"])
def test_states_are_fixed_points_of_the_dense_recursion(act: str) -> None:
    x, reservoir = features(), small(graph=operator(GRAPH), act=act, input_scale=1.0)
    states = reservoir.fit_transform(x)
    matrix = normalised(GRAPH)
    function = getattr(torch, act, None) or getattr(torch.nn.functional, act)
    for k in range(3):
        own = states[:, 6 * k : 6 * (k + 1)]
        image = matrix @ own @ reservoir.weight_[k] + x @ reservoir.skip_weight_[:, k]
        np.testing.assert_allclose(function(torch.from_numpy(image)).numpy(), own, atol=1e-11)
    assert np.abs(states).max() > 0.1
    assert np.abs(states[:, :6] - states[:, 6:12]).max() > 0.1


def test_a_small_input_is_filtered_by_first_order_arma_filters() -> None:
    """Where tanh is linear, a column of X_k Q_k is (I - a L)^-1 X V q: the response 1 / (1 - a mu)."""
    x, reservoir = features(), small(graph=operator(GRAPH), input_scale=1e-5, spread=2.0, tol=1e-16)
    states = reservoir.fit_transform(x)
    mu, basis = np.linalg.eigh(normalised(GRAPH))
    for k in range(3):
        a, rotation = np.linalg.eigh(reservoir.weight_[k])
        driven = basis.T @ x @ reservoir.skip_weight_[:, k] @ rotation
        found = basis.T @ states[:, 6 * k : 6 * (k + 1)] @ rotation
        np.testing.assert_allclose(found, driven / (1 - a * mu[:, None]), rtol=1e-4, atol=1e-12)


@settings(max_examples=25)
@given(
    undirected(),
    st.floats(0.05, 0.95),
    st.floats(0.0, 2.0),
    st.integers(0, 50),
)
def test_a_renumbered_graph_has_renumbered_states(graph: Graph, contraction: float, spread: float, seed: int) -> None:
    x = features(graph.num_nodes, seed)
    perm = np.random.default_rng(seed).permutation(graph.num_nodes)
    reservoir = small(graph=operator(graph), contraction=contraction, spread=spread)
    states = reservoir.fit_transform(x)
    moved = np.empty_like(x)
    moved[perm] = x
    found = reservoir.set_params(graph=operator(graph.permuted(perm))).transform(moved)
    np.testing.assert_allclose(found[perm], states, atol=1e-9)


@settings(max_examples=25)
@given(st.integers(1, 20), st.floats(0.01, 0.999), st.floats(0.0, 2.0), st.integers(0, 99))
def test_the_norm_of_the_weights_is_the_contraction(units: int, contraction: float, spread: float, seed: int) -> None:
    reservoir = ReservoirARMA(units, 2, contraction, spread, random_state=seed).fit(features())
    np.testing.assert_allclose(np.linalg.norm(reservoir.weight_, 2, axis=(1, 2)), contraction)
    eigenvalues = np.linalg.eigvalsh(reservoir.weight_)
    assert eigenvalues.min() >= (1 - spread) * contraction - 1e-9
    assert reservoir.skip_weight_.shape == (FEATURES, 2, units)


def test_a_spread_of_zero_is_one_filter_for_all_units() -> None:
    np.testing.assert_allclose(
        small(spread=0.0).fit(features()).weight_, 0.9 * np.tile(np.eye(6), (3, 1, 1)), atol=1e-12
    )
    assert np.linalg.eigvalsh(small(units=60, spread=2.0).fit(features()).weight_).min() < -0.8


@pytest.mark.parametrize("scale", [0.01, 1.0, 7.0])
def test_the_input_scale_is_the_size_of_what_drives_a_unit(scale: float) -> None:
    for x in (features(), 1000 * features()):
        driven = np.tensordot(x, small(input_scale=scale).fit(x).skip_weight_, 1)
        np.testing.assert_allclose(np.sqrt(np.mean(driven**2)), scale)
    assert np.isfinite(small(input_scale=scale).fit_transform(np.zeros((3, 2)))).all()


def test_stacks_take_their_own_number_of_steps_and_a_weaker_contraction_more() -> None:
    x, op = features(), operator(GRAPH)
    slow, fast = (small(graph=op, contraction=c, input_scale=0.01).fit(x) for c in (0.99, 0.5))
    assert slow.steps_.shape == (3,)
    assert slow.n_iter_ == slow.steps_.max() > 3 * fast.n_iter_
    assert len(set(slow.steps_)) > 1


# -------------------------------------------------------------------------------------------------- features and graphs


def test_no_graph_is_a_graph_without_edges() -> None:
    x = features()
    reservoir = small().fit(x)
    states = reservoir.transform(x)
    np.testing.assert_allclose(states, np.tanh(np.tensordot(x, reservoir.skip_weight_, 1)).reshape(NODES, -1))
    edgeless = small(graph=torch.empty(2, 0, dtype=torch.int64)).fit_transform(x)
    np.testing.assert_array_equal(states, edgeless)


def test_a_graph_may_come_in_any_form() -> None:
    x, op = features(), operator(GRAPH)
    expected = small(graph=op).fit_transform(x)
    dense = GRAPH.dense()
    forms = [op.to(torch.float64), sp.csr_array(dense), sp.coo_matrix(dense), torch.from_numpy(dense).to_sparse_csr()]
    for form in forms:
        np.testing.assert_allclose(small(graph=form).fit_transform(x), expected, atol=1e-6)
    pattern = np.stack([GRAPH.source, GRAPH.target])
    unweighted = [pattern, torch.from_numpy(pattern), GraphOperator.from_edge_index(torch.from_numpy(pattern), NODES)]
    first, *others = (small(graph=form).fit_transform(x) for form in unweighted)
    for other in others:
        np.testing.assert_allclose(other, first, atol=1e-6)
    assert np.abs(first - expected).max() > 1e-3


def test_sparse_features_and_single_precision() -> None:
    x, op = features() * (features(seed=1) > 0), operator(GRAPH)
    expected = small(graph=op).fit_transform(x)
    for sparse in (sp.csr_array(x), sp.coo_array(x), sp.csr_matrix(x)):
        np.testing.assert_allclose(small(graph=op).fit_transform(sparse), expected, atol=1e-12)
    single = small(graph=op, tol=1e-7).fit_transform(x.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=1e-5)


def test_disjoint_graphs_in_one_operator_and_their_pools() -> None:
    graphs = [random_graph(n, 2 * n, seed=n).both_ways() for n in (3, 5, 4)]
    ptr = np.array([0, 3, 8, 12])
    x, y = features(12), np.array([0, 1, 0])
    joined = GraphOperator.block_diagonal([operator(graph) for graph in graphs])
    reservoir = small(graph=joined).fit(x)
    states = reservoir.transform(x)
    alone = [
        reservoir.set_params(graph=operator(g)).transform(x[a:b]) for g, a, b in zip(graphs, ptr, ptr[1:], strict=False)
    ]
    np.testing.assert_allclose(np.concatenate(alone), states, atol=1e-10)
    np.testing.assert_allclose(pool_states(states, ptr), np.stack([part.mean(0) for part in alone]))
    np.testing.assert_allclose(pool_states(states, torch.from_numpy(ptr), "sum"), np.stack([p.sum(0) for p in alone]))
    pool = FunctionTransformer(pool_states, kw_args={"ptr": ptr})
    model = make_pipeline(small(graph=joined), pool, RidgeClassifier(1e-3)).fit(x, y)
    np.testing.assert_array_equal(model.predict(x), y)


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "wrong",
    [
        {"units": 0}, {"units": 2.5}, {"num_stacks": 0}, {"contraction": 0.0}, {"contraction": 1.0},
        {"contraction": -0.5}, {"contraction": "0.9"}, {"contraction": float("nan")}, {"tol": 0.0}, {"tol": -1e-6},
        {"max_iter": 0}, {"spread": -0.1}, {"spread": 2.1}, {"spread": None}, {"input_scale": -1.0},
        {"input_scale": float("inf")}, {"input_scale": True},
    ],
)  # fmt: skip
def test_bad_parameters(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ParameterError, match=name):
        small(**wrong).fit(features())


def test_activations_that_expand_distances_are_refused_by_name() -> None:
    for act in ("gelu", "silu", "mish", "selu", "hardswish", torch.nn.GELU()):
        with pytest.raises(ParameterError, match="non-expansive"):
            small(act=act).fit(features())
    with pytest.raises(UnknownNameError, match="tan"):
        small(act="tan").fit(features())


def test_bad_graphs() -> None:
    x = features()
    with pytest.raises(ShapeError, match="12 rows, but the graph 5 nodes"):
        small(graph=GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 5)).fit(x)
    with pytest.raises(ShapeError, match="5 rows, but the graph 12 nodes"):
        small(graph=operator(GRAPH)).fit(x).transform(x[:5])
    with pytest.raises(GraphError, match="norm of at most 1"):
        small(graph=torch.tensor([[0, 0, 0, 0, 1], [1, 2, 3, 4, 0]])).fit(x)
    with pytest.raises(GraphError, match="kind"):
        small(graph=GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), NODES, kind="gcn")).fit(x)
    with pytest.raises(DTypeError, match="cannot read a graph"):
        small(graph="cora").fit(x)


def test_too_few_steps_are_not_passed_over() -> None:
    with pytest.raises(ConvergenceError, match="max_iter"):
        small(graph=operator(GRAPH), max_iter=3).fit(features())


def test_bad_pools() -> None:
    states = np.ones((4, 2))
    with pytest.raises(UnknownNameError, match="max"):
        pool_states(states, [0, 4], "max")  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="ptr"):
        pool_states(states, [0, 3])


def test_what_is_set_after_fitting_is_checked_too_and_numpys_numbers_are_numbers() -> None:
    X = features()
    fitted = small().fit(X)
    with pytest.raises(ParameterError, match="gelu"):
        fitted.set_params(act="gelu").transform(X)
    small(max_iter=np.int64(5000), contraction=np.float32(0.5), spread=np.int64(1)).fit(X)
    assert pool_states([[1.0], [3.0]], [0, 2]).tolist() == [[2.0]]


@pytest.mark.parametrize(("name", "least"), [("cora", 76.0), ("citeseer", 66.0)])
def test_a_reservoir_as_it_comes_learns_citation_networks(name: str, least: float, real: Callable[[str], str]) -> None:
    data = load(name if name == "cora" else real(name))
    states = ReservoirARMA(graph=data.operator(), random_state=0).fit_transform(data.x.to_dense().numpy())
    y = data.y.numpy()
    readout = RidgeClassifier().fit(states[data.train_idx], y[data.train_idx])
    assert 100 * readout.score(states[data.val_idx], y[data.val_idx]) > least
