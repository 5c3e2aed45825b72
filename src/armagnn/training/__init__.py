"""Training: all seeds as one batch, early stopping on validation, and the run folder that keeps the results."""

from armagnn.training.config import TrainConfig
from armagnn.training.experiment import Watcher, train
from armagnn.training.predict import Prediction, predict
from armagnn.training.run import Run
from armagnn.training.stopping import EarlyStopping
from armagnn.training.trial import Trial, build_network
from armagnn.training.trials import Outcome, Setting, Trials

__all__ = [
    "EarlyStopping",
    "Outcome",
    "Prediction",
    "Run",
    "Setting",
    "TrainConfig",
    "Trial",
    "Trials",
    "Watcher",
    "build_network",
    "predict",
    "train",
]
