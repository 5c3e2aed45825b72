"""Training: all seeds as one batch, early stopping on validation, and the run folder that keeps the results."""

from typing import TYPE_CHECKING

from armagnn.importing import lazily

if TYPE_CHECKING:
    from armagnn.training.config import RunConfig, TrainConfig
    from armagnn.training.description import Description
    from armagnn.training.experiment import Watcher, train
    from armagnn.training.graphs_config import GraphsConfig
    from armagnn.training.nodes import build_network
    from armagnn.training.predict import Prediction, predict
    from armagnn.training.predict_graphs import GraphsPrediction, predict_graphs
    from armagnn.training.run import Run
    from armagnn.training.setting import Outcome, Setting
    from armagnn.training.stopping import EarlyStopping
    from armagnn.training.trial import Trial
    from armagnn.training.trials import Trials

__all__ = [
    "Description",
    "EarlyStopping",
    "GraphsConfig",
    "GraphsPrediction",
    "Outcome",
    "Prediction",
    "Run",
    "RunConfig",
    "Setting",
    "TrainConfig",
    "Trial",
    "Trials",
    "Watcher",
    "build_network",
    "predict",
    "predict_graphs",
    "train",
]

lazily(
    __name__,
    {
        "armagnn.training.config": "RunConfig TrainConfig",
        "armagnn.training.description": "Description",
        "armagnn.training.experiment": "Watcher train",
        "armagnn.training.graphs_config": "GraphsConfig",
        "armagnn.training.nodes": "build_network",
        "armagnn.training.predict": "Prediction predict",
        "armagnn.training.predict_graphs": "GraphsPrediction predict_graphs",
        "armagnn.training.run": "Run",
        "armagnn.training.setting": "Outcome Setting",
        "armagnn.training.stopping": "EarlyStopping",
        "armagnn.training.trial": "Trial",
        "armagnn.training.trials": "Trials",
    },
)
