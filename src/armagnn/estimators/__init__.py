"""Estimators for scikit-learn: a classifier, a regressor, a bank of filters and a random reservoir, all on a graph."""

from typing import TYPE_CHECKING

from armagnn.importing import lazily

if TYPE_CHECKING:
    from armagnn.estimators.arma_features import ARMAFeatures
    from armagnn.estimators.learners import ARMAClassifier, ARMARegressor
    from armagnn.estimators.reservoir import ReservoirARMA, pool_states

__all__ = ["ARMAClassifier", "ARMAFeatures", "ARMARegressor", "ReservoirARMA", "pool_states"]

lazily(
    __name__,
    {
        "armagnn.estimators.arma_features": "ARMAFeatures",
        "armagnn.estimators.learners": "ARMAClassifier ARMARegressor",
        "armagnn.estimators.reservoir": "ReservoirARMA pool_states",
    },
)
