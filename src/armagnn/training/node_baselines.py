"""What simpler methods say of the same nodes: an MLP ignores the edges, label propagation ignores the features."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from armagnn.tasks.closing_metrics import closing_metrics
from armagnn.tasks.label_propagation import ALPHAS, spread_labels
from armagnn.tasks.node_task import accuracy, micro_f1, regression_metrics, target_scaler
from armagnn.training.outcome import summarise

if TYPE_CHECKING:
    from armagnn.data import NodeDataset
    from armagnn.training.node_training import NodesExperiment

SPLITS = ("val", "test")


def node_baselines(experiment: NodesExperiment, auc: bool) -> dict[str, Any]:
    """The metrics of both baselines on validation and test, mean and deviation over the seeds.

    The MLP has the options and seeds of the run. Label propagation draws nothing; validation chooses its alpha.
    """
    found: dict[str, Any] = {}
    config = experiment.config
    if config.conv != "mlp":
        alone = type(experiment)(replace(config, conv="mlp", stacks=1, layers=1, last_stacks=0), experiment.dataset)
        trials = alone.trials([alone.setting(seed) for seed in config.all_seeds], device=config.torch_device())
        outcomes = sorted((alone.closed(trial.require_converged()) for trial in trials.run()), key=lambda t: t.seed)
        summary = summarise(outcomes, config.stop_on)
        found["mlp"] = {"ignores": "edges", "seeds": len(outcomes), **{split: summary[split] for split in SPLITS}}
    return found | {"label_propagation": {"ignores": "features", "seeds": 1} | propagation(experiment.dataset, auc)}


def propagation(data: NodeDataset, auc: bool) -> dict[str, Any]:
    """The metrics of label propagation, with the alpha that is best on validation."""
    op = data.operator()
    tried = []
    for alpha in ALPHAS:
        scores = spread_labels(op, data.y, data.train_idx, data.num_classes, alpha)
        metrics = {split: _metrics(data, scores, split, auc) for split in SPLITS}
        val = metrics["val"]
        tried.append((val["r2"] if data.regression else val["accuracy"], alpha, metrics))
    _, alpha, metrics = max(tried, key=lambda each: each[0])
    return {"alpha": alpha} | {
        split: {name: {"mean": value, "std": 0.0} for name, value in metrics[split].items()} for split in SPLITS
    }


def _metrics(data: NodeDataset, scores: Tensor, split: str, auc: bool) -> dict[str, float]:
    """The metrics of scores on a split: of probabilities, or of numbers in their own units."""
    ids = data.idx(split)
    scores, y = scores[ids], data.y[ids]
    scaler = target_scaler(data)
    if scaler is not None:
        found = regression_metrics(scaler(scores), scaler(y[:, None]), scaler.deviation)
        return {name: float(value) for name, value in found.items()}
    logits = torch.logit(scores.double(), eps=1e-9) if data.multilabel else scores.double().clamp(min=1e-12).log()
    found = {"accuracy": accuracy(logits, y)} | ({"micro_f1": micro_f1(logits, y)} if data.multilabel else {})
    return {name: float(value) for name, value in found.items()} | closing_metrics(logits, y, auc)


def are_baselines(content: dict[str, Any]) -> bool:
    """Has each method mean and deviation of metrics on validation and test?

    Example:
        >>> are_baselines({"mlp": {split: {"accuracy": {"mean": 0.5, "std": 0.1}} for split in ("val", "test")}})
        True
    """
    for each in content.values():
        splits = [each.get(split) for split in ("val", "test")] if isinstance(each, dict) else [None]
        for split in splits:
            if not isinstance(split, dict):
                return False
            if not all(
                isinstance(m, dict) and type(m.get("mean")) is type(m.get("std")) is float for m in split.values()
            ):
                return False
    return True
