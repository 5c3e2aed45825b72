"""All that determines a run: what every configuration has, and that of a run on nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, fields
from typing import Any, ClassVar, Final, Self

import torch

from armagnn.arguments import checked
from armagnn.checks import choice, integer, probability, real
from armagnn.data.scaling import FEATURES
from armagnn.errors import DeviceError, ParameterError, RunError, shown
from armagnn.nn.gat import HEADS
from armagnn.training.setting import MOST_TRIALS
from armagnn.training.stopping import MOST_EPOCHS, MOST_PATIENCE, check_stopping

MOST_UNITS: Final = 2**16
"""The most units of a layer, and the most graphs of a batch."""

MOST_STEPS: Final = 1000
"""The most stacks, steps of a recursion, and layers."""

LONGEST: Final = 4096
"""Characters of the longest name or path."""


def torch_device(name: str) -> torch.device:
    """A device by its name; it must be there and be one that the kernels know.

    Example:
        >>> torch_device("cpu")
        device(type='cpu')
    """
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ParameterError(f"device is {shown(name)}; use 'cpu', 'cuda' or 'cuda:0'.") from error
    if device.type not in ("cpu", "cuda"):
        raise ParameterError(f"device is {name!r}; use 'cpu', 'cuda' or 'cuda:0'.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise DeviceError(f"device is {name!r}, but torch sees {torch.cuda.device_count()} GPU(s). Use 'cpu'.")
    return device


class RunConfig:
    """What the configurations of all runs have in common; each is a frozen dataclass whose fields all have defaults.

    Attributes:
        kind: what the run learns from: "nodes" of one graph, or "graphs".
        command: what to type to train it.
        conv: the layers: "arma", "gcn", "chebyshev", "cayley", "gat", "sage", "gin" or "mlp".
        hidden: units of a convolution.
        l2: c of the penalty c ||W||^2 (as Keras has it: its gradient is 2 c W) on every kernel, not on biases.
        lr: learning rate of Adam.
        epochs: most epochs of a trial.
        patience: epochs without improvement after which a trial stops.
        stop_on: "loss" or "accuracy", on validation.
        seed: seed of the first trial; the others follow: seed + 1, ...
        seeds: number of trials.
        device: "cpu", "cuda" or "cuda:1".

    Every value is checked when a configuration is made, from a command or from a file: its type, and its range. What
    only the network knows (the names of layers and activations), the network checks.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    kind: ClassVar[str]
    command: ClassVar[str]
    limits: ClassVar[Mapping[str, tuple[int, int]]] = {
        "hidden": (1, MOST_UNITS),
        "stacks": (1, MOST_STEPS),
        "layers": (1, MOST_STEPS),
        "epochs": (1, MOST_EPOCHS),
        "patience": (1, MOST_PATIENCE),
        "seed": (0, 2**63 - 1),
        "seeds": (1, MOST_TRIALS),
    }
    """The least and the most of every integer."""
    later: ClassVar[Mapping[str, Any]] = {}
    """Options that older run folders do not have, and what those runs did."""
    conv: str
    hidden: int
    l2: float
    lr: float
    epochs: int
    patience: int
    stop_on: str
    seed: int
    seeds: int
    device: str

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, self._checked(field.name, type(field.default)))
        if self.conv == "gat" and self.hidden % HEADS:
            raise ParameterError(f"hidden is {self.hidden}; gat needs a multiple of {HEADS}, the number of its heads.")
        if self.seed + self.seeds > 2**63:
            raise ParameterError(f"seed is {self.seed}; seeds must lie in 0 .. 2^63 - 1.")
        check_stopping(self.stop_on, self.patience)

    def _checked(self, name: str, kind: type) -> int | float | str:
        """The value of an option, if it is of its kind and in its range."""
        value = getattr(self, name)
        if kind is int:
            least, most = self.limits[name]
            return integer(name, value, 0 if name in self._unused else least, most)
        if kind is float and name.endswith("dropout"):
            return probability(name, value)
        if kind is float:
            return real(name, value, above=0) if name == "lr" else real(name, value, least=0)
        return _text(name, value)

    @property
    def _unused(self) -> tuple[str, ...]:
        """Sizes that the layers of `conv` do not have."""
        if self.conv in ("arma", "cayley"):
            return ()
        return ("layers",) if self.conv == "chebyshev" else ("stacks",)

    @property
    def source(self) -> str:
        """The data: a name of the catalogue, or a path."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        raise NotImplementedError

    @property
    def rates(self) -> tuple[float, ...]:
        """The drop rates, as the network's ``set_rates`` takes them."""
        raise NotImplementedError

    @property
    def all_seeds(self) -> range:
        """The seeds of the trials, in order."""
        return range(self.seed, self.seed + self.seeds)

    def torch_device(self) -> torch.device:
        """The device, which must be there and be one that the kernels know."""
        return torch_device(self.device)

    def to_json(self) -> dict[str, Any]:
        """The configuration as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: object) -> Self:
        """The inverse of :meth:`to_json`; anything else is a :class:`~armagnn.errors.RunError`."""
        known = {field.name for field in fields(cls)}
        if not isinstance(content, dict) or not content.keys() <= known <= content.keys() | cls.later.keys():
            raise RunError("The configuration does not have the options that this version of armagnn knows.")
        try:
            return cls(**{**cls.later, **content})
        except ParameterError as error:
            raise RunError(f"The configuration is not valid: {error}") from error

    @checked
    def differences(self, other: RunConfig) -> list[str]:
        """What `other` changes, one "option: old -> new" each."""
        if self.kind != other.kind:
            return [f"a run on {self.kind} -> a run on {other.kind}"]
        theirs = other.to_json()
        return [f"{name}: {value} -> {theirs[name]}" for name, value in self.to_json().items() if value != theirs[name]]


def _text(name: str, value: object) -> str:
    """A name or a path, as a file system can have it."""
    if not isinstance(value, str) or len(value) > LONGEST or "\0" in value:
        raise ParameterError(f"{name} must be a text of at most {LONGEST} characters, got {shown(value)}.")
    try:
        os.fsencode(value)
    except UnicodeEncodeError as error:
        raise ParameterError(f"{name} is {value!a}, which is no text that a file can be named by.") from error
    return value


def title_of(conv: str, stacks: str, layers: int, data: str) -> str:
    """What is trained, in one line: K where the layers have it, and T or L.

    Example:
        >>> title_of("arma", "2", 1, "cora"), title_of("gcn", "2", 3, "mine")
        ('ARMA (K=2, T=1) on cora', 'gcn (L=3) on mine')
    """
    data = data.encode(errors="replace").decode()  # a path need not be text, a title is
    sizes = {"arma": f"K={stacks}, T={layers}", "chebyshev": f"K={stacks}", "cayley": f"K={stacks}, T={layers}"}
    return f"{'ARMA' if conv == 'arma' else conv} ({sizes.get(conv, f'L={layers}')}) on {data}"


@dataclass(frozen=True)
class TrainConfig(RunConfig):
    """Hyperparameters of a run on nodes; the defaults are the paper's for ARMA on Cora, but for early stopping.

    The paper's text stops on validation accuracy with patience 50, the authors' own script on validation loss
    with patience 200. The default is the loss, a smooth measure where accuracy counts 500 nodes, with patience 100.

    Attributes:
        dataset: a name of the catalogue or the path of an ``.npz`` file.
        features: how features are scaled: "rows", "standardise", "none" or "auto"; see
            :data:`armagnn.data.scaling.FEATURES`.
        hidden: units of the hidden layer.
        stacks: K: parallel stacks of ARMA, order of Chebyshev and Cayley filters; the others have none.
        layers: T: recursion steps of ARMA, Jacobi iterations of Cayley. L: layers in each of the two places of
            the network for gcn, gat, sage, gin and mlp. Chebyshev has none.
        last_stacks: K of the second convolution; 0 means that of the first.
        act: activation of the hidden layer.
        init: X(0) of ARMA's recursion: "linear" (X W0), "zero" or "tied" (W0 = V).
        input_dropout: drop rate of the input features.
        hidden_dropout: drop rate of the hidden units.
        skip_dropout: drop rate of ARMA's skip connections X V_k.

    The others are those of :class:`RunConfig`.

    Example:
        >>> TrainConfig(seed=5, seeds=3).all_seeds
        range(5, 8)
        >>> TrainConfig(conv="chebyshev", stacks=3, dataset="citeseer").title
        'chebyshev (K=3) on citeseer'
    """

    kind: ClassVar[str] = "nodes"
    command: ClassVar[str] = "train"
    limits: ClassVar[Mapping[str, tuple[int, int]]] = {**RunConfig.limits, "last_stacks": (0, MOST_STEPS)}
    later: ClassVar[Mapping[str, Any]] = {"features": "kind"}

    dataset: str = "cora"
    features: str = "auto"
    conv: str = "arma"
    hidden: int = 16
    stacks: int = 2
    layers: int = 1
    last_stacks: int = 0
    act: str = "relu"
    init: str = "linear"
    input_dropout: float = 0.75
    hidden_dropout: float = 0.75
    skip_dropout: float = 0.75
    l2: float = 5e-4
    lr: float = 0.01
    epochs: int = 2000
    patience: int = 100
    stop_on: str = "loss"
    seed: int = 0
    seeds: int = 10
    device: str = "cpu"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("scaling of features", self.features, FEATURES)

    @property
    def source(self) -> str:
        """The dataset."""
        return self.dataset

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        stacks = f"{self.stacks}" + (f" then {self.last_stacks}" if self.last_stacks else "")
        return title_of(self.conv, stacks, self.layers, self.dataset)

    @property
    def rates(self) -> tuple[float, ...]:
        """The drop rates of a `NodeNet`."""
        return self.input_dropout, self.hidden_dropout, self.skip_dropout
