"""The configuration of trainings on a partition: over ranks that each hold some parts of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from armagnn.errors import ParameterError
from armagnn.training.config import Config, data_name, register, text, title_of
from armagnn.training.hyperparameters import NODES
from armagnn.training.node_config import NodesConfig, table_defaults
from armagnn.training.shared_options import RUN, option

WHOLE_ONLY: Final = ("gat", "sage", "gin")
"""Layers that need the whole graph on every rank."""


@register
@dataclass(frozen=True)
class PartsConfig(NodesConfig):
    """Hyperparameters of a training on a partition, which `armagnn partition` makes; the defaults are those of tables.

    Example:
        >>> PartsConfig(parts="parts", conv="gcn").title
        'gcn (L=1) on parts'
    """

    kind: ClassVar[str] = "parts"
    command: ClassVar[str] = "train nodes"
    EXPERIMENT: ClassVar[str] = "armagnn.distributed.part_training:PartsExperiment"
    OF_DATA: ClassVar[tuple[str, ...]] = ("parts",)
    PATHS: ClassVar[tuple[str, ...]] = ("parts",)
    DESCRIPTION: ClassVar[str] = ""
    LIMITS: ClassVar[Mapping[str, tuple[int, int]]] = {**NodesConfig.LIMITS, "clusters": (0, 2**20)}

    dataset: str = ""
    parts: str = option("", "The folder of a partition (armagnn partition), to train over ranks.", RUN, "none")
    clusters: int = option(
        0,
        "Of a partition, train on minibatches of so many of its parts, joined with the edges between them; in one "
        "process.",
        RUN,
        "all parts at once",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("dataset", "nodes"):
            if getattr(self, name):
                raise ParameterError(f"{name} and parts exclude each other: a partition has its nodes with it.")
        if self.features != "auto":
            raise ParameterError("features of a partition are scaled when it is made: armagnn partition --features.")
        if self.conv in WHOLE_ONLY:
            raise ParameterError(
                f"conv is {self.conv!r}, which needs the whole graph on every rank; over ranks train arma, gcn, "
                "chebyshev, cayley, rational, gpr, bernstein, jacobi or mlp."
            )
        if self.norm == "batch":
            raise ParameterError("norm is 'batch', whose means are over all nodes; over ranks take 'layer'.")

    @property
    def tables(self) -> bool:
        """A partition is none, whatever it was made of."""
        return False

    @property
    def described(self) -> bool:
        """No run has a description."""
        return False

    @property
    def source(self) -> str:
        """The folder of the partition."""
        return self.parts

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        stacks = f"{self.stacks}" + (f" then {self.last_stacks}" if self.last_stacks else "")
        return title_of(self.conv, stacks, self.layers, data_name(self.parts))

    @classmethod
    def is_path(cls, source: str) -> bool:
        """It always is."""
        return True

    @classmethod
    def begun(cls, typed: Mapping[str, Any]) -> PartsConfig:
        """The configuration of what was typed; the rest suits the data of the partition."""
        parts, conv = text("parts", typed.get("parts", "")), text("conv", typed.get("conv", "arma"))
        if not parts:
            raise ParameterError("parts is missing: name the folder of a partition with --parts FOLDER.")
        return cls(**cls.defaults(parts, conv) | dict(typed))

    @classmethod
    def defaults(cls, source: str, conv: str) -> dict[str, Any]:
        """The options of the paper, if the partition is of one of its datasets, or what suits tables."""
        name = cls.experiment_class().data_of(source)
        return super().defaults(name, conv) | {"seeds": 3} if name in NODES else table_defaults(conv)

    def load(self) -> Any:
        """What this rank holds of the partition."""
        return self.experiment_class().load(self.parts)

    def differences(self, other: Config) -> list[str]:
        """What `other` changes; where the partition lies is not looked at: its checksum is."""
        return [each for each in super().differences(other) if not each.startswith("parts: ")]
