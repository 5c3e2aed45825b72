"""Estimators for scikit-learn with valid arguments."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from armagnn.estimators import (
    ARMAClassifier,
    ARMAFeatures,
    ARMARegressor,
    ReservoirARMA,
    StoredFeatures,
    pool_states,
    precompute_features,
)
from attack.subjects import Call, edges, features
from attack.subjects import graph as operator


def estimators_room() -> Iterator[Call]:
    x, index = features(), edges()
    numbers, classes = x.numpy(), np.array([0, 1, 0, 1, 0, 1])
    yield Call(
        "estimators.ReservoirARMA", lambda **a: ReservoirARMA(**a).fit(numbers, classes).transform(numbers),
        {"units": 4, "num_stacks": 2, "contraction": 0.9, "spread": 1.0, "input_scale": 0.3, "act": "tanh",
         "graph": index,
         "tol": 1e-5, "max_iter": 500, "random_state": 0},
    )  # fmt: skip
    fitted = ReservoirARMA(4, 2, graph=index, random_state=0).fit(numbers)
    fresh = functools.partial(ReservoirARMA, 4, 2, graph=index, random_state=0)
    for method in ("fit", "fit_transform"):
        yield Call(
            f"estimators.ReservoirARMA.{method}",
            lambda method=method, **a: getattr(fresh(), method)(**a),
            {"X": numbers, "y": classes},
        )
    yield Call("estimators.ReservoirARMA.transform", lambda X: fitted.transform(X), {"X": numbers})
    yield Call("estimators.pool_states", pool_states, {"states": numbers, "ptr": [0, 2, 6], "pool": "mean"})
    options: dict[str, Any] = {
        "graph": index, "n_neighbors": 2, "conv": "arma", "hidden": 4, "num_stacks": 2, "num_layers": 1, "act": "relu",
        "dropout": 0.25, "l2": 5e-4, "lr": 0.01, "epochs": 3, "patience": 2, "validation_fraction": 0.3, "seeds": 2,
        "standardise": True, "device": "cpu", "random_state": 0,
    }  # fmt: skip
    for learner, y in ((ARMAClassifier, classes), (ARMARegressor, numbers[:, 0])):
        name = f"estimators.{learner.__name__}"
        quick = functools.partial(learner, epochs=2, hidden=2, random_state=0)
        yield Call(name, lambda learner=learner, y=y, **a: learner(**a).fit(numbers, y).predict(numbers), options)
        for graph in ("knn", index):
            given = {"X": numbers, "y": y} | ({"nodes": range(6)} if graph is index else {})
            made = functools.partial(quick, graph)
            yield Call(f"{name}.fit", lambda made=made, **a: made().fit(**a).predict(numbers), given)
            learnt = made().fit(numbers, y)
            asked = {"X": numbers[:2], "nodes": [1, 4]} if graph is index else {"X": numbers[:2]}
            for method in ("predict", "predict_proba", "score"):
                if hasattr(learnt, method):
                    more = {"y": y[:2], "sample_weight": np.ones(2)} if method == "score" else {}
                    yield Call(f"{name}.{method}", getattr(learnt, method), asked | more)
    bank: dict[str, Any] = {"graph": index, "n_neighbors": 2, "filters": (0.9, "low-pass"), "passthrough": True}
    yield Call("estimators.ARMAFeatures", lambda **a: ARMAFeatures(**a).fit(numbers).transform(numbers), bank)
    for graph, asked in (("knn", {"X": numbers[:2] + 1}), (index, {"X": numbers[:2], "nodes": [1, 4]})):
        given = {"X": numbers, "y": classes} | ({"nodes": range(6)} if graph is index else {})
        for method in ("fit", "fit_transform"):
            yield Call(
                f"estimators.ARMAFeatures.{method}",
                lambda graph=graph, method=method, **a: getattr(ARMAFeatures(graph), method)(**a),
                given,
            )
        yield Call("estimators.ARMAFeatures.transform", ARMAFeatures(graph).fit(numbers).transform, asked)
    names = ARMAFeatures(filters=(0.9,)).fit(numbers).get_feature_names_out
    yield Call("estimators.ARMAFeatures.get_feature_names_out", names, {"input_features": ["a", "b", "c"]})
    yield from _on_the_disk(numbers)


def _on_the_disk(x: Any) -> Iterator[Call]:
    numbers = itertools.count()

    def computed(out: Any, **given: Any) -> Any:
        out = f"{out}-{next(numbers)}" if out == "columns" else out  # each call its own folder
        return precompute_features(out=out, **given).rows([0, 5])

    stored = precompute_features(operator(), x, "columns-read", filters=(0.9, -0.5))
    yield Call(
        "estimators.precompute_features", computed,
        {"graph": operator(), "x": x, "out": "columns", "filters": (0.9, -0.5), "passthrough": True, "memory": 1e9,
         "dtype": "float32", "tol": 1e-5, "max_iter": 100, "progress": None},
    )  # fmt: skip
    yield Call(
        "estimators.StoredFeatures.open", lambda path: StoredFeatures.open(path).rows([0]), {"path": stored.path}
    )
    yield Call(
        "estimators.StoredFeatures", lambda **a: repr(StoredFeatures(**a)),
        {"path": stored.path, "plan": stored.plan, "report": stored.report},
    )  # fmt: skip
    yield Call("estimators.StoredFeatures.rows", stored.rows, {"nodes": [0, 5]})
    yield Call(
        "estimators.StoredFeatures.batches",
        lambda **a: list(stored.batches(**a)),
        {"size": 2, "nodes": [0, 3, 5], "seed": 0},
    )
