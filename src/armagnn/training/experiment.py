"""A configuration with its data: what it makes of them, and what its weights say."""

from __future__ import annotations

import csv
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, Protocol, TypeVar

import torch
from torch import nn

from armagnn.arguments import checked
from armagnn.checks import instance
from armagnn.errors import ParameterError, RunError, shown
from armagnn.tasks.contract import Task
from armagnn.training.config import Config
from armagnn.training.outcome import Outcome, Setting, batches
from armagnn.training.run_folder import Run
from armagnn.training.trials import SEEDS_BYTES, Trials

COPIES: Final = 5
"""Of the parameters of a trial: themselves, their gradient, Adam's two means, and the best ones so far."""

Net = TypeVar("Net", bound=nn.Module)


class Experiment(ABC):
    """A configuration with its data. Made, it has refused all that can be refused before training.

    Attributes:
        DATA: the type of the data.
        TRIALS: what trains.
        config: the configuration.
        dataset: the data, given or loaded.
        sha256: checksum of the data.
        notes: what was done with the user's own data, in sentences.
        description: what a run folder keeps to understand new data; None where there is nothing to keep.
    """

    DATA: ClassVar[type]
    TRIALS: ClassVar[type[Trials]] = Trials
    config: Config
    dataset: Any
    description: Any = None

    def __init__(self, config: Any, data: Any = None) -> None:
        self.config = config
        config.torch_device()
        self.dataset = instance("data", config.load() if data is None else data, self.DATA, f"a {self.DATA.__name__}")
        if getattr(self.dataset, "regression", False) and config.stop_on != "loss":
            raise ParameterError(f"stop_on is {config.stop_on!r}, but real targets have no accuracy; use 'loss'.")
        if config.stop_on == "roc_auc" and getattr(self.dataset, "metric", "") != "roc_auc":
            raise ParameterError(
                "stop_on is 'roc_auc', but these data are not judged by it (minesweeper and tolokers are); use 'loss' "
                "or 'accuracy'."
            )
        self.sha256: str = self.dataset.sha256
        self.notes: tuple[str, ...] = getattr(self.dataset, "notes", ())

    @abstractmethod
    def network(self) -> nn.Module:
        """The network, with new weights from torch's global generator."""

    @abstractmethod
    def task(self, net: Any, fold: int | None, device: torch.device) -> Task:
        """What the network is trained for, on a device; the fold is the configuration's own unless one is given."""

    def closed(self, outcome: Outcome) -> Outcome:
        """A finished trial with the metrics that are looked at once, after training."""
        return outcome

    def baselines(self) -> dict[str, Any]:
        """The results of simpler methods on the same data, by name; nothing where there are none."""
        return {}

    @checked
    def trained(self, run: Run) -> Any:
        """The network with the weights of a finished run, which was trained on these data, ready to predict."""
        run.check_data(self.sha256)
        return trained(run, self.network)

    @classmethod
    @checked
    def prediction(cls, config: Any, run: Run, data: Any = None) -> Prediction:
        """What a finished run says about its own data, or about new data."""
        if data is not None:
            raise ParameterError(
                f"{run.path}: is a run on the {config.kind} of {config.source}, which are all it can predict; "
                "new data are for runs on graphs or on tables."
            )
        experiment = cls(config)
        return experiment.predict(experiment.trained(run))

    def predict(self, net: Any) -> Prediction:
        """What a network says about all of the data, on the CPU."""
        raise NotImplementedError

    @property
    @abstractmethod
    def nodes_at_once(self) -> int:
        """How many nodes the network sees at a time."""

    def check_memory(self) -> None:
        """Refuse a training that must take more memory than there is."""
        check_memory(outline(self.network), self.config, self.nodes_at_once)

    def setting(self, seed: int) -> Setting:
        """What may differ between the trials of a batch."""
        return self.config.setting(seed)

    def trials(
        self,
        settings: Sequence[Setting],
        fold: int | None = None,
        device: torch.device | str = "cpu",
        other_rules: Sequence[str] = (),
    ) -> Trials:
        """The trials of some settings, ready to run.

        Example:
            >>> from armagnn.training import NodesConfig
            >>> config = NodesConfig(conv="gcn", epochs=2)
            >>> trials = config.experiment().trials([config.setting(3), config.setting(4)])
            >>> [outcome.epochs for outcome in trials.run()]
            [2, 2]
        """
        device = torch.device(device)
        with torch.random.fork_rng(devices=[]):  # the weights of this one do not matter: leave the generator alone
            task = self.task(self.network().to(device), fold, device)
        config = self.config
        return self.TRIALS(
            self.network, task, settings,
            epochs=config.epochs, patience=config.patience, stop_on=config.stop_on, other_rules=other_rules,
            device=device,
        )  # fmt: skip


def trained(run: Run, build: Callable[[], Any]) -> Any:
    """The network that `build` makes, with the weights of a finished run, ready to predict.

    The network takes no memory before its shapes are known to be those of the weights.
    """
    weights = run.weights()
    try:
        net = outline(build)
    except ParameterError as error:
        raise RunError(f"{run.path}: the configuration makes no network ({error}).") from error
    expected = net.state_dict()
    for name in sorted(expected.keys() | weights.keys()):
        sides = [(tuple(w.shape), w.dtype) if w is not None else None for w in (weights.get(name), expected.get(name))]
        if sides[0] != sides[1]:
            has, wants = (f"of shape {side[0]} and {side[1]}" if side else "missing" for side in sides)
            raise RunError(
                f"{run.path}: the weights do not fit the configuration ({shown(name)} is {has} in the run, {wants} in "
                "the network)."
            )
    net.load_state_dict(weights, assign=True)
    return net.eval()


class Prediction(Protocol):
    """What a run says about nodes, graphs or signals."""

    @property
    def what(self) -> str:
        """What is predicted: "nodes", "graphs", ..."""

    def to_csv(self) -> str:
        """One row for each, with a header."""


def csv_text(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV; of a float, nine digits: all of a float32.

    Example:
        >>> csv_text(["node", "p"], [[0, 1 / 3]])
        'node,p\\n0,0.333333333\\n'
    """
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    return table.getvalue()


def split_names(count: int, split: Any) -> list[str]:
    """Of each of `count` nodes or signals, the split that it is in: "train", "val", "test" or nothing."""
    names = [""] * count
    for name in ("train", "val", "test"):
        for number in split(name).tolist():
            names[number] = name
    return names


def predict(run: Run, data: Any = None) -> Prediction:
    """What the best weights of a finished run predict for new data, or by default for all the data of the run.

    A run on graphs takes new ones: a folder in TU's format, an ``.npz`` file (neither needs labels) or a name of the
    catalogue; the data that the run was trained on are not needed then. A run on tables takes a pair of new tables,
    ``(nodes, edges)``, in any form that `NodeDataset.from_tables` reads: a graph of their own, or, where an edge names
    a node of the run, new nodes in the graph of the run. A run on data in memory takes the same data. It runs on the
    CPU, wherever the run was trained.

    Example:
        >>> predict(Run.open("runs/cora")).probabilities.shape  # doctest: +SKIP
        torch.Size([2708, 7])
        >>> predict(Run.open("runs/mine"), "new/graphs").labels()[:3]  # doctest: +SKIP
        [1, -1, 1]
    """
    if not isinstance(run, Run):
        raise ParameterError(f"run must be a run that is open, as Run.open(path) gives it, got {shown(run)}.")
    return run.config.predict(run, data)


# ---------------------------------------------------------------------------------------------------------------- sizes


def outline(build: Callable[[], Net]) -> Net:
    """The network that `build` makes, with the shapes of its parameters but no memory behind them.

    Example:
        >>> outline(lambda: nn.Linear(10**6, 10**6)).weight.shape
        torch.Size([1000000, 1000000])
    """
    with torch.device("meta"):
        return build()


def check_memory(net: nn.Module, config: Config, nodes: int) -> None:
    """Refuse a training that must take more memory than there is.

    Args:
        net: the network, or its outline.
        config: of the training.
        nodes: that the network sees at a time.
    """
    width = getattr(config, "hidden", 1) * (getattr(config, "stacks", 1) if config.conv == "arma" else 1)
    numbers = COPIES * sum(param.numel() for param in net.parameters()) + nodes * width
    trial = 4 * numbers + 8 * 3 * config.epochs + SEEDS_BYTES
    needed, there = trial * len(batches(config)[0]), _memory(config.torch_device())
    if needed > there:
        raise ParameterError(
            f"epochs is {config.epochs}, seeds {config.seeds}: this training takes at least {needed / 2**30:.0f} GiB "
            f"of memory, and there are {there / 2**30:.0f}. Choose fewer, or fewer units (hidden), stacks and layers."
        )


def _memory(device: torch.device) -> int:
    """Bytes of the device, or of the machine; where that cannot be asked, more than any has."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**63
