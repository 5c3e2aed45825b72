"""Estimators for scikit-learn: a classifier, a regressor, a bank of filters and a random reservoir, all on a graph.

A bank for graphs that fit on the disk: `precompute_features` and `StoredFeatures`.
"""

from typing import TYPE_CHECKING

from armagnn.importing import lazily

if TYPE_CHECKING:
    from armagnn.estimators.arma_features import ARMAFeatures
    from armagnn.estimators.learners import ARMAClassifier, ARMARegressor
    from armagnn.estimators.precompute import precompute_features
    from armagnn.estimators.reservoir import ReservoirARMA, pool_states
    from armagnn.estimators.stored_features import StoredFeatures

__all__ = [
    "ARMAClassifier",
    "ARMAFeatures",
    "ARMARegressor",
    "ReservoirARMA",
    "StoredFeatures",
    "pool_states",
    "precompute_features",
]

lazily(
    __name__,
    {
        "armagnn.estimators.arma_features": "ARMAFeatures",
        "armagnn.estimators.learners": "ARMAClassifier ARMARegressor",
        "armagnn.estimators.precompute": "precompute_features",
        "armagnn.estimators.reservoir": "ReservoirARMA pool_states",
        "armagnn.estimators.stored_features": "StoredFeatures",
    },
)
