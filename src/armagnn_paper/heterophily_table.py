"""The heterophily tables, beyond the paper: eight graphs with ten fixed splits, ten methods in one network.

The protocol was written down before there were test scores: ``docs/paper/notes/heterophily-protocol.md``. There is no
text to read literally, so ``tuned`` is the only protocol. All splits of a graph are trained at once: the split is the
target of a trial (`armagnn.tasks.split_task`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from armagnn.errors import ParameterError
from armagnn.training import NodesConfig
from armagnn.training.config import Config
from armagnn_paper.search import Budget, Search
from armagnn_paper.table import Cell, Table

METHODS: Final = ("arma", "rational", "gcn", "chebyshev", "gat", "sage", "mlp", "gpr", "bernstein", "jacobi")

LARGE: Final = ("minesweeper", "tolokers")
"""Judged by ROC-AUC; the others by accuracy."""

DATASETS: Final = ("chameleon-filtered", "squirrel-filtered", "actor", *LARGE, "texas", "cornell", "wisconsin")

SPLITS: Final = 10


@dataclass(frozen=True)
class NetFrame:
    """What a setting has in common with those of the other methods, besides its rates.

    Attributes:
        depth: convolutions.
        hidden: units.
        norm: of the hidden layers.
        linear: add x V to the convolution of x.
    """

    depth: int
    hidden: int
    norm: str
    linear: bool


FRAMES: Final = {
    "minesweeper": (
        NetFrame(12, 64, "batch", True),
        NetFrame(2, 64, "batch", True),
        NetFrame(6, 64, "batch", True),
        NetFrame(12, 64, "batch", False),
    ),
    "tolokers": (
        NetFrame(6, 64, "batch", True),
        NetFrame(2, 64, "batch", True),
        NetFrame(4, 64, "batch", True),
        NetFrame(6, 64, "batch", False),
    ),
}
"""The frames of the large sets; setting i has the frame i mod 4."""

SMALL_FRAMES: Final = (
    NetFrame(2, 64, "none", True),
    NetFrame(4, 64, "batch", True),
    NetFrame(2, 64, "none", False),
    NetFrame(2, 256, "layer", True),
)
"""Those of the others."""

LONGEST: Final = {"minesweeper": (700, 200), "tolokers": (400, 100)}
"""Most epochs and patience of the reported runs on the large sets."""

OWN_LINEAR: Final = ("arma", "chebyshev", "sage", "mlp")
"""Layers that have a matrix of their own for x, and need no second one."""

DEEP: Final = 6
"""Convolutions from which on a network is deep, and the layers of some methods reach less far."""

DEGREES: Final = {2: (10, 5), 4: (5, 3), 6: (3, 2), 12: (2, 1)}
"""The two degrees of a polynomial layer, by the depth of the network: depth times degree is 20 to 24, or about half."""


def _own(method: str, frame: NetFrame, turn: int, large: bool) -> dict[str, Any]:
    """What a method alone has, in one of four turns."""
    depth, second = frame.depth, turn % 2
    if method == "arma":
        stacks, layers = ((1, 1), (2, 1), (1, 2), (2, 2))[turn]
        return {"stacks": stacks, "layers": layers}
    if method == "rational":
        radii = (0.5, 0.3) if large else (0.8, 0.5)
        return {"stacks": (4, 2, 2, 4)[turn], "radius": 0.3 if depth >= DEEP else radii[second]}
    if method == "chebyshev":
        terms = (2, 3, 4, 5)[turn]
        return {"stacks": min(terms, 3) if depth >= DEEP else terms}
    return {"stacks": DEGREES[depth][second]} if method in ("gpr", "bernstein", "jacobi") else {"stacks": 1}


def space(cell: Cell, count: int, generator: np.random.Generator) -> list[NodesConfig]:
    """The settings of a search. All methods share frames and rates; what one alone has takes turns with the frames."""
    dataset, method, _ = cell
    large = dataset in LARGE
    found = []
    for index in range(count):
        frame = FRAMES.get(dataset, SMALL_FRAMES)[index % 4]
        hidden, lr = float(generator.choice((0.0, 0.2, 0.5, 0.7))), float(generator.choice((0.003, 0.01)))
        given = float(generator.choice((0.0, 0.5)))
        l2 = float(generator.choice((0.0, 5e-5) if large else (0.0, 5e-5, 5e-4, 5e-3)))
        if index == 0:
            hidden, given, lr, l2 = (0.2, 0.0, 0.01, 0.0) if large else (0.5, 0.5, 0.01, 5e-4)
        given = 0.0 if large else given
        rates: dict[str, Any] = {"input_dropout": given, "hidden_dropout": hidden, "skip_dropout": 0.0}
        shared: dict[str, Any] = {"depth": frame.depth, "hidden": frame.hidden, "norm": frame.norm, "lr": lr, "l2": l2}
        shared["linear_skip"] = frame.linear and method not in OWN_LINEAR
        ends: dict[str, Any] = {"epochs": 500, "patience": 100, "stop_on": "accuracy"}
        if large:
            epochs, patience = LONGEST[dataset]
            ends = {"epochs": epochs, "patience": patience, "stop_on": "roc_auc"}
        own: dict[str, Any] = {"layers": 1} | _own(method, frame, (index + index // 4) % 4, large)
        own["last_stacks"] = own["stacks"]
        found.append(NodesConfig(dataset=dataset, conv=method, **own, **shared, **rates, **ends))
    return found


def _literal(dataset: str, method: str, protocol: str) -> Config:
    raise ParameterError(f"heterophily has no protocol {protocol}: the paper has no such table. Ask for tuned.")


def _most(config: Config) -> int:
    """Trials of a batch."""
    return 10 if config.conv in ("gat", "sage") else 40


HETEROPHILY: Final = Table(
    "heterophily",
    NodesConfig,
    DATASETS,
    METHODS,
    {},
    _literal,
    usual_runs=lambda dataset, method: 1 if dataset in LARGE else 3,
    most=_most,
    search=Search(
        space,
        dict.fromkeys(DATASETS, Budget(4, 1, folds=SPLITS))
        | {"minesweeper": Budget(4, 1, folds=3, epochs=300), "tolokers": Budget(8, 1, folds=1, epochs=150)}
        | {"cornell": Budget(8, 1, folds=SPLITS)},
        ("depth", "hidden", "norm", "linear_skip", "k", "t", "radius", "input_dropout", "hidden_dropout", "l2", "lr"),
        {},
    ),
    protocols=("tuned",),
    places=lambda runs: [(run, split) for split in range(SPLITS) for run in range(runs)],
    metrics=dict.fromkeys(LARGE, "roc_auc"),
    fixed_splits=True,
)
