"""What the run machinery knows of a kind of run: its configuration, and its data with the trials on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from armagnn.training.config import RunConfig, TrainConfig
from armagnn.training.description import Description
from armagnn.training.graphs import GraphsProblem
from armagnn.training.graphs_config import GraphsConfig
from armagnn.training.nodes import NodesProblem
from armagnn.training.trials import Trials

CONFIGS: Final[dict[str, type[RunConfig]]] = {config.kind: config for config in (TrainConfig, GraphsConfig)}
"""The configuration of each kind of run."""


class Problem(Protocol):
    """What a configuration asks for, with its data; made, it has refused all that can be refused before training.

    Attributes:
        sha256: checksum of the data.
        description: what the run folder keeps for new graphs; None where there can be none.
        notes: what was done with the user's own data, in sentences.
    """

    sha256: str
    notes: tuple[str, ...]

    @property
    def description(self) -> Description | None:
        """What the run folder keeps for new graphs; None where there can be none."""

    def make_trials(self, seeds: Sequence[int]) -> Trials:
        """The trials of `seeds`, ready to run."""


def load_problem(config: RunConfig) -> Problem:
    """Load and check the data of a configuration.

    Example:
        >>> load_problem(TrainConfig()).sha256[:6]
        '4aa9fd'
    """
    if isinstance(config, GraphsConfig):
        return GraphsProblem(config)
    assert isinstance(config, TrainConfig)
    return NodesProblem(config)
