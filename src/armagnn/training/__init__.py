"""Training: all seeds as one batch, early stopping on validation, and the run folder that keeps the results.

A kind of task (nodes, graphs, signals) has its configuration in `node_config` or `task_configs`, and a file here with
what that makes of
its data (`Experiment`) and its predictions. `train` and `predict` serve all kinds.
"""

from typing import TYPE_CHECKING

from armagnn.importing import lazily

if TYPE_CHECKING:
    from armagnn.training.config import Config
    from armagnn.training.description import Description
    from armagnn.training.experiment import predict
    from armagnn.training.fold_runs import has_folds, open_folds, predict_folds, summary_of, train_folds
    from armagnn.training.graph_training import GraphsPrediction
    from armagnn.training.node_config import NodesConfig
    from armagnn.training.node_training import NodesPrediction, NodesValues, TablePrediction
    from armagnn.training.outcome import Outcome, Setting
    from armagnn.training.run_folder import Run
    from armagnn.training.signal_training import SignalsPrediction
    from armagnn.training.task_configs import GraphsConfig, SignalsConfig
    from armagnn.training.trainer import Observer, train
    from armagnn.training.trials import Trials

__all__ = [
    "Config",
    "Description",
    "GraphsConfig",
    "GraphsPrediction",
    "NodesConfig",
    "NodesPrediction",
    "NodesValues",
    "Observer",
    "Outcome",
    "Run",
    "Setting",
    "SignalsConfig",
    "SignalsPrediction",
    "TablePrediction",
    "Trials",
    "has_folds",
    "open_folds",
    "predict",
    "predict_folds",
    "summary_of",
    "train",
    "train_folds",
]

lazily(
    __name__,
    {
        "armagnn.training.config": "Config",
        "armagnn.training.description": "Description",
        "armagnn.training.experiment": "predict",
        "armagnn.training.fold_runs": "has_folds open_folds predict_folds summary_of train_folds",
        "armagnn.training.graph_training": "GraphsPrediction",
        "armagnn.training.node_training": "NodesPrediction NodesValues TablePrediction",
        "armagnn.training.outcome": "Outcome Setting",
        "armagnn.training.run_folder": "Run",
        "armagnn.training.signal_training": "SignalsPrediction",
        "armagnn.training.node_config": "NodesConfig",
        "armagnn.training.task_configs": "GraphsConfig SignalsConfig",
        "armagnn.training.trainer": "Observer train",
        "armagnn.training.trials": "Trials",
    },
)
