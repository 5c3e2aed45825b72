"""The numbers of the paper for graph-signal classification (Table 2), and their hyperparameters."""

from __future__ import annotations

from typing import Final

from armagnn.paper.published import Hyperparameters

SIGNAL_SETS: Final = ("mnist", "20news")
SIGNAL_METHODS: Final = ("arma", "gcn", "chebyshev", "cayley")

SIGNAL_ACCURACY: Final[dict[str, dict[str, tuple[float, float]]]] = {
    "gcn": {"mnist": (98.48, 0.2), "20news": (65.45, 0.2)},
    "chebyshev": {"mnist": (99.14, 0.1), "20news": (68.24, 0.2)},
    "cayley": {"mnist": (99.18, 0.1), "20news": (68.84, 0.3)},
    "arma": {"mnist": (99.20, 0.1), "20news": (70.02, 0.1)},
}
"""Table 2: test accuracy in per cent, mean and deviation over 10 runs, by method and dataset."""

SIGNAL_HYPERPARAMETERS: Final[dict[str, Hyperparameters]] = {
    "mnist": Hyperparameters(5e-4, 0.5, 1e-3, 32, gcn=3, chebyshev=25, cayley=(12, 11), arma=(5, 10)),
    "20news": Hyperparameters(1e-3, 0.7, 1e-3, 16, gcn=1, chebyshev=5, cayley=(5, 10), arma=(1, 1)),
}
"""The table "Hyperparameters for graph signal classification"; the units are those of the first convolution."""
