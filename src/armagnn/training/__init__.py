"""Training: one trial per seed, early stopping on validation, and the run folder that keeps the results."""

from armagnn.training.config import TrainConfig
from armagnn.training.experiment import Watcher, train
from armagnn.training.predict import Prediction, predict
from armagnn.training.run import Run
from armagnn.training.stopping import EarlyStopping
from armagnn.training.trial import Trial, build_model, train_trial

__all__ = [
    "EarlyStopping",
    "Prediction",
    "Run",
    "TrainConfig",
    "Trial",
    "Watcher",
    "build_model",
    "predict",
    "train",
    "train_trial",
]
