"""What a finished run has to show: what it says about its data, how sure it is, and the command that makes it again."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.data import GraphsDataset, NodeDataset, SignalsDataset
from armagnn.training.config import Config
from armagnn.training.experiment import Experiment, split_names
from armagnn.training.graph_training import GraphsExperiment, predict_graphs
from armagnn.training.node_config import IN_MEMORY
from armagnn.training.node_training import NodesPrediction, NodesValues, TablePrediction
from armagnn.training.run_folder import Run

BINS: Final = 10
"""Of the confidence, for calibration."""

MOST_NETWORKS: Final = 10
"""Networks of a run that are asked how far they agree."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """What the best weights of a run say of all nodes, graphs or signals, and what is true.

    Attributes:
        task: "classes", "labels" (several for each) or "numbers".
        names: of the classes, the labels, or the targets.
        ids: of the nodes, graphs or signals.
        split: "train", "val", "test" or nothing for each.
        values: (n, C) probabilities, or (n, T) numbers in their own units.
        truth: (n,) classes, -1 where unknown; (n, C) labels; or (n, T) numbers, NaN where unknown.
        spread: (n, T) deviation of the numbers between the networks of the run; None where there is one network.
    """

    task: str
    names: Sequence[str]
    ids: Sequence[object]
    split: Sequence[str]
    values: Tensor
    truth: Tensor
    spread: Tensor | None = None

    def rows(self, split: str) -> Tensor:
        """The places of a split, with a known truth."""
        return torch.tensor([row for row, name in enumerate(self.split) if name == split], dtype=torch.int64)

    @property
    def guess(self) -> Tensor:
        """The most probable class of each."""
        return self.values.argmax(-1)

    @property
    def confidence(self) -> Tensor:
        """Of classes the largest probability; of labels the largest distance from one half, from 1/2 to 1."""
        if self.task == "classes":
            return self.values.amax(-1)
        return torch.maximum(self.values, 1 - self.values).amin(-1)


def judgement(run: Run, experiment: Experiment) -> Judgement:
    """What a finished run says of its own data."""
    if isinstance(experiment, GraphsExperiment):
        return _of_graphs(run, experiment)
    net = experiment.trained(run)
    said: Any = experiment.predict(net)
    data = experiment.dataset
    count = len(data.y)
    split = split_names(count, data.idx)
    if isinstance(said, TablePrediction):
        names: Sequence[str] = said.schema.classes or said.schema.target
        task = {"number": "numbers"}.get(said.schema.task, said.schema.task)
        spread = _spread(run, experiment, net, said.values) if task == "numbers" else None
        truth = data.y[:, None] if task == "numbers" else data.y
        return Judgement(task, names, list(said.ids), split, said.values, truth, spread)
    if isinstance(said, NodesValues):
        spread = _spread(run, experiment, net, said.values[:, None])
        return Judgement("numbers", ["target"], range(count), split, said.values[:, None], data.y[:, None], spread)
    names = [str(label) for label in range(said.probabilities.shape[1])]
    several = isinstance(said, NodesPrediction) and data.multilabel
    return Judgement("labels" if several else "classes", names, range(count), split, said.probabilities, data.y)


def _of_graphs(run: Run, experiment: GraphsExperiment) -> Judgement:
    data = experiment.dataset
    said = predict_graphs(experiment.config, run, experiment.plain)
    split = split_names(len(data), vars(experiment.fold()).get)
    ids = range(said.first, said.first + len(data))
    known = said.description
    if not known.regression:
        return Judgement("classes", [str(value) for value in known.classes], ids, split, said.values, data.y)
    columns = [data.targets.index(name) for name in known.targets]
    return Judgement("numbers", known.targets, ids, split, said.values, data.y[:, columns])


def _spread(run: Run, experiment: Experiment, net: Any, like: Tensor) -> Tensor | None:
    """The deviation of a number between the networks of a run."""
    seeds = run.finished_seeds[:MOST_NETWORKS]
    if len(seeds) < 2:
        return None
    found = []
    for seed in seeds:
        net.load_state_dict(run.load_trial(seed).state)
        said: Any = experiment.predict(net)
        found.append(said.values.reshape(like.shape))
    return torch.stack(found).std(0)


# ------------------------------------------------------------------------------------------------------------- measures


def confusion(judged: Judgement, split: str = "test") -> Tensor:
    """How often a class (row) is taken for another (column), (C, C)."""
    rows, size = judged.rows(split), len(judged.names)
    pairs = judged.truth[rows] * size + judged.guess[rows]
    return torch.bincount(pairs, minlength=size * size).view(size, size)


@dataclass(frozen=True)
class Bin:
    """What is said with about one confidence: how many, the mean confidence, the share that is right."""

    count: int
    confidence: float
    right: float


def calibration(judged: Judgement, split: str = "test") -> tuple[list[Bin], float]:
    """Bins of the confidence, and the mean distance between confidence and share of right ones (ECE).

    Of labels, each label of each node is one answer.

    Example:
        >>> values = torch.tensor([[0.95, 0.05], [0.85, 0.15], [0.65, 0.35]])
        >>> made = Judgement("classes", "ab", range(3), ["test"] * 3, values, torch.tensor([0, 1, 0]))
        >>> bins, error = calibration(made)
        >>> [(each.count, round(each.right, 2)) for each in bins], round(error, 3)
        ([(1, 1.0), (1, 0.0), (1, 1.0)], 0.417)
    """
    rows = judged.rows(split)
    values = judged.values[rows].double()
    if judged.task == "classes":
        sure, right = values.amax(-1), (judged.guess == judged.truth)[rows]
    else:
        sure = torch.maximum(values, 1 - values).flatten()
        right = ((values > 0.5) == (judged.truth[rows] > 0.5)).flatten()
    place = (sure * BINS).long().clamp(0, BINS - 1)
    bins = []
    for number in range(BINS):
        here = place == number
        if bool(here.any()):
            bins.append(Bin(int(here.sum()), float(sure[here].mean()), float(right[here].double().mean())))
    total = max(1, sum(each.count for each in bins))
    return bins, sum(each.count / total * abs(each.confidence - each.right) for each in bins)


def least_sure(judged: Judgement, most: int) -> list[int]:
    """The rows that the run is least sure of, among those that it was not trained on.

    Of numbers, those whose networks differ most; with one network there is nothing to say.
    """
    if judged.task == "numbers":
        if judged.spread is None:
            return []
        doubt = (judged.spread / judged.values.std(0).clamp(min=1e-12)).amax(-1)
    else:
        doubt = -judged.confidence
    order = torch.argsort(doubt, descending=True, stable=True).tolist()
    return [row for row in order if judged.split[row] not in ("train", "val")][:most]


# ----------------------------------------------------------------------------------------------------------------- data


def data_facts(data: Any) -> list[tuple[str, str]]:
    """What the data are, as pairs of a name and a text."""
    found = [("Data", str(data.provenance or data.name))]
    degree = data.edge_index.shape[1]
    if isinstance(data, GraphsDataset):
        found += [
            ("Graphs", f"{len(data):,}"),
            ("Nodes", f"{data.num_nodes:,}, {data.num_nodes / len(data):.1f} a graph"),
        ]
    elif isinstance(data, SignalsDataset):
        found += [("Signals", f"{len(data.y):,}"), ("Nodes", f"{data.num_nodes:,}")]
    else:
        found += [("Nodes", f"{data.num_nodes:,}")]
    found.append(("Edges", f"{degree // 2:,} (a node has {degree / max(1, data.num_nodes):.1f} neighbours on average)"))
    if isinstance(data, NodeDataset):
        if data.schema is not None and data.schema.directed:
            found[-1] = ("Edges", f"{degree:,}, directed")
        found.append(("Features of a node", f"{data.num_features:,}"))
        if data.num_graphs > 1:
            found.append(("Graphs", f"{data.num_graphs:,}"))
        if data.schema is not None:
            found.append(("Target", ", ".join(data.schema.target)))
            if data.schema.encoder is not None:
                names = data.schema.encoder.features
                found.append(("Columns", ", ".join(names[:12]) + (", …" if len(names) > 12 else "")))
    if getattr(data, "edge_weight", None) is not None:
        found.append(("Weights of edges", "yes"))
    if data.num_classes:
        found.append(("Classes", f"{data.num_classes:,}"))
    return found


# -------------------------------------------------------------------------------------------------------------- command


def train_command(config: Config, out: str = "") -> str | None:
    """The command that makes a run again, with the options that are not what they would be anyway.

    None of data that were in memory: no command has them.

    Example:
        >>> from armagnn.training import GraphsConfig, NodesConfig
        >>> train_command(NodesConfig(conv="gcn", hidden=32, seeds=3), "runs/my run")
        "armagnn train --conv gcn --hidden 32 --stacks 2 --seeds 3 --out 'runs/my run'"
    """
    first = {name: getattr(config, name) for name in (config.OF_DATA[0], *config.PATHS)}
    if str(first[config.OF_DATA[0]]).startswith(IN_MEMORY):
        return None
    usual = {each.name: each.default for each in fields(config)}
    typed = {name: value for name, value in {**first, "conv": config.conv}.items() if value != usual[name]}
    if config.NEEDS_DATA:
        typed[config.OF_DATA[0]] = first[config.OF_DATA[0]]
    begun = type(config).begun(typed)
    words = ["armagnn", *config.command.split(), *(["nodes"] if typed.get("nodes") else [])]
    for each in fields(config):
        value = getattr(config, each.name)
        if not each.metadata["help"] or (each.name not in typed and value == getattr(begun, each.name)):
            continue
        flag = each.metadata.get("flag") or f"--{each.name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag.removeprefix('--')}")
        else:
            words += [flag, _written(value)]
    return shlex.join([*words, *(["--out", out] if out else [])])


def _written(value: object) -> str:
    if isinstance(value, float) and math.isfinite(value) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)
