"""All that determines a run on whole graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from armagnn.checks import choice
from armagnn.data.folds import FOLDS
from armagnn.errors import ParameterError
from armagnn.training.config import MOST_STEPS, MOST_UNITS, RunConfig, title_of

POOLINGS: Final = ("mean", "padded")
TARGETS: Final = ("auto", "labels", "attributes")


@dataclass(frozen=True)
class GraphsConfig(RunConfig):
    """Hyperparameters of a run on whole graphs; the defaults are the paper's for Enzymes, but without dropout.

    The network is GNN - ... - GNN - average pooling - fully connected. Of the graphs, fold `fold` of ten has a tenth
    for the test, about a tenth for early stopping, and the rest for training. Stopping is on validation loss, for
    classes too: the accuracy on a tenth of one's own graphs is a count of few.

    Attributes:
        data: a folder in TU's format, an ``.npz`` file of graphs, or a name of the catalogue.
        target: what to learn from a folder that has both "labels" (classes) and "attributes" (real targets); "auto"
            takes the labels if there are any.
        hidden: units of each convolution.
        depth: convolutions.
        head: units of a hidden fully connected layer; 0 if there is none.
        stacks: K: parallel stacks of ARMA, order of Chebyshev and Cayley filters; the others have none.
        layers: T: recursion steps of ARMA, Jacobi iterations of Cayley. L: layers in each of the `depth` places for
            gcn, gat, sage, gin and mlp. Chebyshev has none.
        act: activation.
        pooling: "mean" over the nodes of a graph; or "padded": the sum divided by the nodes of the largest training
            graph, so that the size of a graph shows.
        hidden_dropout: drop rate between the layers.
        skip_dropout: drop rate of ARMA's skip connections X V_k.
        batch: graphs of a batch.
        fold: which of the ten folds, 0 .. 9.
        split_seed: seed of the folds; 0 gives those of the package for the sets of the catalogue.

    The others are those of :class:`~armagnn.training.config.RunConfig`.

    Example:
        >>> GraphsConfig(data="my/graphs", conv="gcn").title
        'gcn (L=2) on graphs'
    """

    kind: ClassVar[str] = "graphs"
    command: ClassVar[str] = "train graphs"
    limits: ClassVar[Mapping[str, tuple[int, int]]] = {
        **RunConfig.limits,
        "depth": (1, MOST_STEPS),
        "head": (0, MOST_UNITS),
        "batch": (1, MOST_UNITS),
        "fold": (0, FOLDS - 1),
        "split_seed": (0, 2**63 - 1),
    }

    data: str = "mutag"
    target: str = "auto"
    conv: str = "arma"
    hidden: int = 32
    depth: int = 3
    head: int = 0
    stacks: int = 2
    layers: int = 2
    act: str = "relu"
    pooling: str = "mean"
    hidden_dropout: float = 0.0
    skip_dropout: float = 0.0
    l2: float = 1e-4
    lr: float = 1e-3
    batch: int = 32
    epochs: int = 1000
    patience: int = 50
    stop_on: str = "loss"
    fold: int = 0
    split_seed: int = 0
    seed: int = 0
    seeds: int = 10
    device: str = "cpu"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("pooling", self.pooling, POOLINGS)
        choice("target", self.target, TARGETS)
        if self.conv not in ("arma", "chebyshev", "cayley") and self.depth * self.layers > MOST_STEPS:
            raise ParameterError(
                f"depth is {self.depth} and layers {self.layers}: a network of {self.depth * self.layers} layers, of "
                f"{MOST_STEPS} at most."
            )

    @property
    def source(self) -> str:
        """The data."""
        return self.data

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        return title_of(self.conv, str(self.stacks), self.layers, data_name(self.data))

    @property
    def rates(self) -> tuple[float, ...]:
        """The drop rates of a `GraphNet`."""
        return self.hidden_dropout, self.skip_dropout


def data_name(data: str) -> str:
    """The last part of a path, without ``.npz``; or the name of a dataset.

    Example:
        >>> data_name("my/graphs/"), data_name("mine.npz"), data_name("mutag")
        ('graphs', 'mine', 'mutag')
    """
    path = Path(data)
    return (path.name or path.resolve().name).removesuffix(".npz") or data
