"""The paper's own numbers: Tables 1 to 4. Its hyperparameters are in `armagnn.training.hyperparameters`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from armagnn.data.sets.qm9 import TARGETS
from armagnn.training.config import Config

Published = Mapping[str, Mapping[str, tuple[float, float]]]
"""Mean and deviation, by method and dataset."""

ACCURACY: Final[Published] = {
    "gat": {"cora": (83.1, 0.6), "citeseer": (70.9, 0.6), "pubmed": (78.5, 0.3), "ppi": (81.3, 0.1)},
    "sage": {"cora": (73.7, 1.8), "citeseer": (65.9, 0.9), "pubmed": (78.5, 0.6), "ppi": (70.0, 0.0)},
    "gin": {"cora": (75.1, 1.7), "citeseer": (63.1, 2.0), "pubmed": (77.1, 0.7), "ppi": (78.1, 2.6)},
    "gcn": {"cora": (81.5, 0.4), "citeseer": (70.1, 0.7), "pubmed": (79.0, 0.5), "ppi": (80.8, 0.1)},
    "chebyshev": {"cora": (79.5, 1.2), "citeseer": (70.1, 0.8), "pubmed": (74.4, 1.1), "ppi": (86.4, 0.1)},
    "cayley": {"cora": (81.2, 1.2), "citeseer": (67.1, 2.4), "pubmed": (75.6, 3.6), "ppi": (84.9, 1.2)},
    "arma": {"cora": (83.4, 0.6), "citeseer": (72.5, 0.4), "pubmed": (78.9, 0.3), "ppi": (90.5, 0.3)},
}
"""Table 1: test accuracy in per cent, mean and deviation, by method and dataset."""

_SIGNALS: Final[Published] = {
    "gcn": {"mnist": (98.48, 0.2), "20news": (65.45, 0.2)},
    "chebyshev": {"mnist": (99.14, 0.1), "20news": (68.24, 0.2)},
    "cayley": {"mnist": (99.18, 0.1), "20news": (68.84, 0.3)},
    "arma": {"mnist": (99.20, 0.1), "20news": (70.02, 0.1)},
}
READINGS: Final = {"mnist-self": "mnist", "20news-plain": "20news"}
"""Other readings of a dataset of the paper."""

SIGNAL_ACCURACY: Final[Published] = {
    method: {**row, **{name: row[dataset] for name, dataset in READINGS.items()}} for method, row in _SIGNALS.items()
}
"""Table 2: test accuracy in per cent, mean and deviation over 10 runs, by method and dataset."""

_PROPERTIES: Final = tuple(f"qm9/{target}" for target in TARGETS)
_SETS: Final = ("enzymes", "proteins", "dd", "mutag", "bench-hard")
_ACCURACIES: Final = {
    "gat": ((51.7, 4.3), (72.3, 3.1), (70.9, 4.0), (87.3, 5.3), (30.1, 0.7)),
    "sage": ((60.3, 7.1), (70.2, 3.9), (73.6, 4.1), (85.7, 4.7), (71.8, 1.0)),
    "gin": ((45.7, 7.7), (71.4, 4.5), (71.2, 5.4), (86.3, 9.1), (72.1, 1.1)),
    "gcn": ((53.0, 5.3), (71.0, 2.7), (74.7, 3.8), (85.7, 6.6), (71.9, 1.2)),
    "chebyshev": ((57.9, 2.6), (72.1, 3.5), (73.7, 3.7), (82.6, 5.2), (71.3, 1.2)),
    "cayley": ((43.1, 10.7), (65.6, 5.7), (70.3, 11.6), (87.8, 10.0), (70.7, 2.4)),
    "arma": ((60.6, 7.2), (73.7, 3.4), (77.6, 2.7), (91.5, 4.2), (74.1, 0.5)),
}
GRAPH_ACCURACY: Final = {method: dict(zip(_SETS, row, strict=True)) for method, row in _ACCURACIES.items()}
"""Table 3: test accuracy in per cent, mean and deviation, by method and dataset."""

_ERRORS: Final = {
    "gcn": ((0.445, 0.007), (0.141, 0.016), (0.371, 0.030), (0.584, 0.051), (0.650, 0.070), (0.132, 0.005),
            (0.349, 0.022), (0.064, 0.003), (0.192, 0.012)),
    "chebyshev": ((0.433, 0.003), (0.171, 0.008), (0.391, 0.012), (0.528, 0.005), (0.565, 0.015), (0.294, 0.022),
                  (0.358, 0.001), (0.126, 0.017), (0.215, 0.010)),
    "cayley": ((0.442, 0.009), (0.118, 0.005), (0.336, 0.007), (0.679, 0.148), (0.758, 0.106), (0.185, 0.043),
               (0.555, 0.174), (1.493, 1.414), (0.184, 0.009)),
    "arma": ((0.394, 0.005), (0.098, 0.005), (0.326, 0.010), (0.508, 0.011), (0.552, 0.013), (0.119, 0.019),
             (0.338, 0.001), (0.053, 0.004), (0.163, 0.007)),
}  # fmt: skip
GRAPH_MSE: Final = {method: dict(zip(_PROPERTIES, row, strict=True)) for method, row in _ERRORS.items()}
"""Table 4: mean squared error of standardised targets, mean and deviation, by method and property."""


def published_for(config: Config) -> tuple[float, float] | None:
    """Mean and deviation of the test accuracy that the paper has for the task of a configuration, for reports."""
    if config.kind != "nodes":
        return None
    return ACCURACY.get(config.conv, {}).get(config.source)
