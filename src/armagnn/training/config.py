"""All that determines a training: the base of the configurations of each kind of task.

A configuration is a frozen dataclass of plain values. It makes its network and its task (`Experiment`), checks itself,
and is what a run folder (`to_json`) and the results store (`stored`) write. `register` makes a kind known by its name.

The help of ``armagnn train`` shows these fields and shall not wait for torch: this file and those of configurations
import torch, and what needs it, in the methods that use it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import Field, asdict, fields
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from armagnn.errors import DeviceError, DTypeError, ParameterError, RunError, UnknownNameError, shown
from armagnn.training.shared_options import MOST_EPOCHS, MOST_PATIENCE, MOST_STEPS, MOST_TRIALS, MOST_UNITS

if TYPE_CHECKING:
    import torch

    from armagnn.training.experiment import Experiment, Prediction
    from armagnn.training.outcome import Setting
    from armagnn.training.run_folder import Run

LONGEST: Final = 4096
"""Characters of the longest name or path."""


def named(typed: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options by name; raise where they are something else."""
    if not isinstance(typed, Mapping) or not all(isinstance(name, str) for name in typed):
        raise ParameterError(f"typed must be a dictionary of options by name, got {shown(typed)}.")
    return typed


class Config:
    """What the configurations of all tasks have in common.

    A subclass is a frozen dataclass whose fields all have defaults. It has at least the fields below, says what its
    fields are called in the results store, and makes its `Experiment`.

    Attributes:
        conv: the layers, a name that `make_conv` knows.
        l2: c of the penalty c ||W||^2 (as Keras has it: its gradient is 2 c W) on every kernel, not on biases.
        lr: learning rate of Adam.
        epochs: most epochs of a trial.
        patience: epochs without improvement after which a trial stops.
        stop_on: "loss" or "accuracy", on validation.
        seed: seed of the first trial; the others follow: seed + 1, ...
        seeds: number of trials.
        device: "cpu", "cuda" or "cuda:1".
    """

    kind: ClassVar[str]
    """What the training learns from: "nodes", "graphs", "signals"."""

    command: ClassVar[str]
    """What to type to train it."""

    RATES: ClassVar[tuple[str, ...]]
    """The fields that are drop rates, as the network's ``set_rates`` takes them; they may differ between trials."""

    LIMITS: ClassVar[Mapping[str, tuple[int, int]]] = {
        "stacks": (1, MOST_STEPS),
        "layers": (1, MOST_STEPS),
        "hidden": (1, MOST_UNITS),
        "epochs": (1, MOST_EPOCHS),
        "patience": (1, MOST_PATIENCE),
        "seed": (0, 2**63 - 1),
        "seeds": (1, MOST_TRIALS),
    }
    """The least and the most of every integer."""

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The fields that have one of a few values."""

    STORED: ClassVar[Mapping[str, str]]
    """The fields that the results store keeps, with their names there. Committed trials are known by them."""

    LATER: ClassVar[Mapping[str, Any]] = {}
    """Fields that came later, and what the older run folders did that do not have them. The results store keeps them
    only where they are not the default, so no old trial is renamed."""

    HELP: ClassVar[str] = ""
    """What the help of the command says first."""

    SHORTCUTS: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Options that stand for several others."""

    NEEDS_DATA: ClassVar[bool] = False
    """The command has no default for the data."""

    OF_DATA: ClassVar[tuple[str, ...]] = ("dataset",)
    """The fields that `load` looks at; the first names the data."""

    PATHS: ClassVar[tuple[str, ...]] = ()
    """Fields that are paths, and nothing else."""

    EXPERIMENT: ClassVar[str] = ""
    """The experiment of this kind, as "module:class", imported when it is made."""

    DESCRIPTION: ClassVar[str] = ""
    """The file of a run folder that describes its data for new ones; empty where there is none."""

    @property
    def described(self) -> bool:
        """Does every run have the file that describes its data? Otherwise it depends on the data."""
        return bool(self.DESCRIPTION)

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    conv: str
    l2: float
    lr: float
    epochs: int
    patience: int
    stop_on: str
    seed: int
    seeds: int
    device: str

    # --------------------------------------------------------------------------------------------------------- checks

    def __post_init__(self) -> None:
        from armagnn.nn.gat_conv import HEADS
        from armagnn.training.outcome import check_stopping

        text("conv", self.conv)  # first: which sizes count depends on it
        for each in fields(self):
            object.__setattr__(self, each.name, self._checked(each.name, type(each.default)))
        for name, known in self.CHOICES.items():
            if getattr(self, name) not in known:
                raise UnknownNameError(name, getattr(self, name), known)
        hidden = getattr(self, "hidden", HEADS)
        if self.conv == "gat" and hidden % HEADS:
            raise ParameterError(f"hidden is {hidden}; gat needs a multiple of {HEADS}, the number of its heads.")
        if self.seed + self.seeds > 2**63:
            raise ParameterError(f"seed is {self.seed}; seeds must lie in 0 .. 2^63 - 1.")
        check_stopping(self.stop_on, self.patience)

    def _checked(self, name: str, kind: type) -> int | float | str:
        """The value of an option, if it is of its kind and in its range."""
        from armagnn.checks import integer, probability, real

        value = getattr(self, name)
        if kind is bool:
            if not isinstance(value, bool):
                raise ParameterError(f"{name} must be true or false, got {shown(value)}.")
            return value
        if kind is int:
            least, most = self.LIMITS[name]
            return integer(name, value, 0 if name in self._unused else least, most)
        if kind is float and name in self.RATES:
            return probability(name, value)
        if kind is float:
            return real(name, value, above=0) if name in ("lr", "residual_scale") else real(name, value, least=0)
        return text(name, value)

    @property
    def _unused(self) -> tuple[str, ...]:
        """Sizes that the layers of `conv` do not have."""
        from armagnn.nn.layer_registry import find_layer

        layer = find_layer(self.conv)
        if layer is None or layer.repeated:
            return ("stacks",)
        return tuple(name for name in ("stacks", "layers") if getattr(layer, name) is None)

    # ----------------------------------------------------------------------------------------------------- experiment

    @classmethod
    def defaults(cls, source: str, conv: str) -> dict[str, Any]:
        """The options that a known dataset and the layers `conv` start from; of other data, the usual ones."""
        return {}

    @classmethod
    def begun(cls, typed: Mapping[str, Any]) -> Self:
        """The configuration of the options that were typed; the others are those that suit the data and the layers."""
        typed, usual = named(typed), {each.name: each.default for each in fields(cls)}
        source, conv = (typed.get(name, usual[name]) for name in (cls.OF_DATA[0], "conv"))
        return cls(**cls.defaults(source, conv) | dict(typed))

    @classmethod
    def is_path(cls, source: str) -> bool:
        """Is the name of data the path of a file or a folder?"""
        return text("source", source).endswith(".npz")

    def load(self) -> Any:
        """The data, by name or path."""
        raise NotImplementedError

    @classmethod
    def experiment_class(cls) -> Any:
        """The class of `EXPERIMENT`."""
        module, _, name = cls.EXPERIMENT.partition(":")
        return getattr(import_module(module), name)

    def of_memory(self, data: Any) -> Self:
        """The configuration that a run keeps when these data, which were in memory, are trained on."""
        return self

    def experiment(self, data: Any = None) -> Experiment:
        """The configuration with its data, loaded unless they are given, and checked."""
        made: Experiment = self.experiment_class()(self, data)
        return made

    def predict(self, run: Run, data: Any = None) -> Prediction:
        """What the best weights of a finished run say about its own data, or about new data."""
        said: Prediction = self.experiment_class().prediction(self, run, data)
        return said

    @property
    def source(self) -> str:
        """The data: a name of the catalogue, or a path."""
        return str(getattr(self, self.OF_DATA[0]))

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        return title_of(self.conv, str(getattr(self, "stacks", 1)), getattr(self, "layers", 1), self.source)

    @property
    def all_seeds(self) -> range:
        """The seeds of the trials, in order."""
        return range(self.seed, self.seed + self.seeds)

    def setting(self, seed: int) -> Setting:
        """What may differ between the trials of a batch."""
        from armagnn.training.outcome import Setting

        return Setting(seed, self.lr, self.l2, tuple(getattr(self, name) for name in self.RATES))

    def torch_device(self) -> torch.device:
        """The device, which must be there and be one that the kernels know."""
        return torch_device(self.device)

    # ------------------------------------------------------------------------------------------------------------ JSON

    def to_json(self) -> dict[str, Any]:
        """The configuration as plain JSON, for a run folder."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: object) -> Self:
        """The inverse of :meth:`to_json`; anything else is a :class:`~armagnn.errors.RunError`."""
        known = {each.name for each in fields(cls)}
        if not isinstance(content, dict) or not content.keys() <= known <= content.keys() | cls.LATER.keys():
            raise RunError("The configuration does not have the options that this version of armagnn knows.")
        try:
            return cls(**{**cls.LATER, **content})
        except ParameterError as error:
            raise RunError(f"The configuration is not valid: {error}") from error

    def differences(self, other: Config) -> list[str]:
        """What `other` changes, one "option: old -> new" each."""
        if not isinstance(other, Config):
            raise DTypeError(f"other must be a Config, got {shown(other)}.")
        if self.kind != other.kind:
            return [f"a run on {self.kind} -> a run on {other.kind}"]
        theirs = other.to_json()
        return [f"{name}: {value} -> {theirs[name]}" for name, value in self.to_json().items() if value != theirs[name]]

    # ----------------------------------------------------------------------------------------------------------- store

    def stored(self) -> dict[str, Any]:
        """The configuration as the results store keeps it: all that determines a trial but its seed and its fold.

        Example:
            >>> from armagnn.training import NodesConfig
            >>> NodesConfig(conv="gcn").stored()["method"], NodesConfig(stacks=3).stored()["last_k"]
            ('gcn', 3)
        """
        found = {stored: getattr(self, name) for name, stored in self.STORED.items()}
        later = {each.name: each.default for each in fields(self) if each.name in self.LATER}
        return found | {name: getattr(self, name) for name, usual in later.items() if getattr(self, name) != usual}

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`stored`; what other names mean (a protocol, say) is not looked at."""
        names = {stored: name for name, stored in cls.STORED.items()} | {name: name for name in cls.LATER}
        if not isinstance(content, Mapping):
            raise DTypeError(f"content must be a dict of options, got {shown(content)}.")
        return cls(**{names[stored]: value for stored, value in content.items() if stored in names})

    def shape(self) -> tuple[Any, ...]:
        """What must be the same in all trials of a batch."""
        free = {self.STORED[name] for name in ("lr", "l2", *self.RATES)}
        return tuple(value for name, value in self.stored().items() if name not in free)


KINDS: Final[dict[str, type[Config]]] = {}
"""The configuration of each kind of task that has been imported."""

OURS: Final = {
    "nodes": "armagnn.training.node_config",
    "graphs": "armagnn.training.task_configs",
    "signals": "armagnn.training.task_configs",
    "parts": "armagnn.training.parts_config",
}
"""The modules of the kinds of this package; other packages name theirs as entry points of the group `TASKS`."""

TASKS: Final = "armagnn.tasks"

ConfigT = TypeVar("ConfigT", bound=Config)


def register(config: type[ConfigT]) -> type[ConfigT]:
    """Make a kind of task known: runs on it can be trained, opened, resumed and asked. A decorator of its dataclass.

    A package that offers a kind of task names the module that registers it as an entry point of the group
    ``armagnn.tasks``; the name of the entry point is the kind.
    """
    KINDS[config.kind] = config
    return config


def kinds() -> list[str]:
    """The kinds of tasks: those of this package, and those of packages that are installed."""
    return list(dict.fromkeys([*OURS, *KINDS, *(entry.name for entry in entry_points(group=TASKS))]))


def config_of(kind: object) -> type[Config]:
    """The configuration of a kind of task.

    Example:
        >>> config_of("nodes").command
        'train'
    """
    if isinstance(kind, str) and kind not in KINDS:
        found = {entry.name: entry.value for entry in entry_points(group=TASKS)} | OURS
        if kind in found:
            import_module(found[kind].partition(":")[0])
    if not isinstance(kind, str) or kind not in KINDS:
        raise UnknownNameError("kind of run", kind, {*OURS, *KINDS})
    return KINDS[kind]


def data_name(data: str) -> str:
    """The last part of a path, without its ending; or the name of a dataset.

    Example:
        >>> data_name("my/graphs/"), data_name("mine.npz"), data_name("mutag")
        ('graphs', 'mine', 'mutag')
    """
    path = Path(data)
    name = path.name or path.resolve().name
    for ending in (".gz", ".npz", ".csv", ".tsv", ".txt", ".parquet"):
        name = name.removesuffix(ending) or name
    return name or data


def torch_device(name: str) -> torch.device:
    """A device by its name; it must be there and be one that the kernels know.

    Example:
        >>> torch_device("cpu")
        device(type='cpu')
    """
    import torch

    try:
        device = torch.device(name)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ParameterError(f"device is {shown(name)}; use 'cpu', 'cuda' or 'cuda:0'.") from error
    if device.type not in ("cpu", "cuda"):
        raise ParameterError(f"device is {name!r}; use 'cpu', 'cuda' or 'cuda:0'.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise DeviceError(f"device is {name!r}, but torch sees {torch.cuda.device_count()} GPU(s). Use 'cpu'.")
    return device


def text(name: str, value: object) -> str:
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
    from armagnn.nn.layer_registry import find_layer

    data = data.encode(errors="replace").decode()  # a path need not be text, a title is
    sizes, layer = [f"L={layers}"], find_layer(conv)
    if layer is not None and not layer.repeated:
        sizes = [f"K={stacks}"] * (layer.stacks is not None) + [f"T={layers}"] * (layer.layers is not None)
    return f"{'ARMA' if conv == 'arma' else conv} ({', '.join(sizes)}) on {data}"
