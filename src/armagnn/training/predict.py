"""What a trained run says about every node of its graph."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import torch
from torch import Tensor

from armagnn.data import NodeDataset, load
from armagnn.errors import RunError
from armagnn.training.run import Run
from armagnn.training.trial import build_model, eval_logits, seeded


@dataclass(frozen=True, eq=False)
class Prediction:
    """softmax(logits): the probabilities (N, C) of every node of `dataset`."""

    dataset: NodeDataset
    probabilities: Tensor

    def to_csv(self) -> str:
        """One row per node: its id, its split (or nothing), the most probable label, and p_0 .. p_{C-1}."""
        split = [""] * self.dataset.num_nodes
        for name in ("train", "val", "test"):
            for node in getattr(self.dataset, f"{name}_idx").tolist():
                split[node] = name
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(["node", "split", "label", *(f"p_{c}" for c in range(self.dataset.num_classes))])
        labels = self.probabilities.argmax(dim=-1).tolist()
        for node, (label, row) in enumerate(zip(labels, self.probabilities.tolist(), strict=True)):
            writer.writerow([node, split[node], label, *(f"{p:.9g}" for p in row)])  # 9 digits: all of a float32
        return table.getvalue()


def predict(run: Run) -> Prediction:
    """Probabilities from the best weights of a finished run, on the graph it was trained on.

    It runs on the CPU, wherever the run was trained.

    Example:
        >>> predict(Run.open("runs/cora")).probabilities.shape  # doctest: +SKIP
        torch.Size([2708, 7])
    """
    weights = run.weights()
    dataset = load(run.config.dataset)
    if dataset.sha256 != run.dataset_sha256:
        raise RunError(f"{run.path}: was trained on another file of dataset {run.config.dataset!r}.")
    with seeded(run.config.seed, torch.device("cpu")):
        model = build_model(run.config, dataset)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise RunError(f"{run.path}: the weights do not fit the configuration ({error}).") from error
    return Prediction(dataset, torch.softmax(eval_logits(model, dataset, dataset.operator()), dim=-1))
