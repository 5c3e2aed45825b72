"""The trials of a configuration: one network per seed, trained as one batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from armagnn.data import NodeDataset
from armagnn.errors import ParameterError
from armagnn.tasks import UNBATCHED, NodeNet, NodeTask, conv_options
from armagnn.training.config import TrainConfig
from armagnn.training.trials import Outcome, Setting, Trials


@dataclass(frozen=True, eq=False)
class Trial:
    """What one seed gave: the restored state, where it was found, and the way there.

    Metrics are "loss" and "accuracy" and, where a node may have many labels, "micro_f1".

    Attributes:
        seed: the seed, which with the configuration determines all the rest (but `seconds`).
        best_epoch: the epoch (from 1) whose weights were restored.
        epochs: how many epochs it was trained.
        val: validation metrics of the restored weights.
        test: their test metrics, looked at once, after training.
        seconds: its share of the time of the batch.
        history: per epoch "train_loss" (under dropout, before the step), "val_loss" and "val_accuracy".
        state: the restored weights, on the CPU.
    """

    seed: int
    best_epoch: int
    epochs: int
    val: dict[str, float]
    test: dict[str, float]
    seconds: float
    history: dict[str, list[float]]
    state: dict[str, Tensor]

    @classmethod
    def of(cls, outcome: Outcome) -> Trial:
        """The record of an outcome; that of a training which diverged from the start is refused."""
        if outcome.best_epoch == 0 or not math.isfinite(outcome.val["loss"]):
            setting = outcome.setting
            raise ParameterError(
                f"Training diverged (seed {setting.seed}): its validation loss was never a finite number. "
                f"Lower lr (now {setting.lr})."
            )
        rest = {name: value for name, value in vars(outcome).items() if name not in ("setting", "beside")}
        return cls(seed=outcome.setting.seed, **rest)


def build_network(config: TrainConfig, dataset: NodeDataset) -> NodeNet:
    """The network of `config` for `dataset`, with new weights from torch's global generator.

    Example:
        >>> from armagnn.data import load
        >>> build_network(TrainConfig(conv="gcn"), load("cora")).conv1
        GCNConv(1433, 16)
    """
    start = {"init": config.init} if config.conv == "arma" else {}
    return NodeNet(
        config.conv,
        dataset.num_features,
        dataset.num_classes,
        hidden=config.hidden,
        act=config.act,
        input_dropout=config.input_dropout,
        hidden_dropout=config.hidden_dropout,
        skip_dropout=config.skip_dropout,
        options=conv_options(config.conv, config.stacks, config.layers) | start,
        last=conv_options(config.conv, config.last_stacks or config.stacks, config.layers),
    )


def batches(config: TrainConfig) -> list[range]:
    """The seeds that are trained together: all of them, or one by one where the layers know no axis of trials.

    Example:
        >>> batches(TrainConfig(seeds=3)), batches(TrainConfig(seeds=2, conv="gat"))
        ([range(0, 3)], [range(0, 1), range(1, 2)])
    """
    seeds = config.all_seeds
    return [range(seed, seed + 1) for seed in seeds] if config.conv in UNBATCHED else [seeds]


def settings(config: TrainConfig, seeds: Sequence[int]) -> list[Setting]:
    """What the trials of `seeds` are trained with."""
    rates = (config.input_dropout, config.hidden_dropout, config.skip_dropout)
    return [Setting(seed, config.lr, config.l2, rates) for seed in seeds]


def make_trials(config: TrainConfig, seeds: Sequence[int], dataset: NodeDataset) -> Trials:
    """The trials of `seeds`, ready to run; `dataset` is on the device of `config`.

    Example:
        >>> from armagnn.data import load
        >>> trials = make_trials(TrainConfig(epochs=2), [0, 1], load("cora"))
        >>> [Trial.of(outcome).epochs for outcome in trials.run()]
        [2, 2]
    """
    device = config.torch_device()
    with torch.random.fork_rng(devices=[]):  # the weights of this one do not matter: leave the generator alone
        task = NodeTask(dataset, build_network(config, dataset).to(device))
    return Trials(
        lambda: build_network(config, dataset),
        task,
        settings(config, seeds),
        epochs=config.epochs,
        patience=config.patience,
        stop_on=config.stop_on,
        device=device,
        batched=config.conv not in UNBATCHED,
    )
