"""The paper's own numbers for node classification (Table 1), and the hyperparameters it gives for them (appendix)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DATASETS: Final = ("cora", "citeseer", "pubmed", "ppi")
METHODS: Final = ("arma", "gcn", "chebyshev", "cayley", "gat", "sage", "gin", "mlp")

ACCURACY: Final[dict[str, dict[str, tuple[float, float]]]] = {
    "gat": {"cora": (83.1, 0.6), "citeseer": (70.9, 0.6), "pubmed": (78.5, 0.3), "ppi": (81.3, 0.1)},
    "sage": {"cora": (73.7, 1.8), "citeseer": (65.9, 0.9), "pubmed": (78.5, 0.6), "ppi": (70.0, 0.0)},
    "gin": {"cora": (75.1, 1.7), "citeseer": (63.1, 2.0), "pubmed": (77.1, 0.7), "ppi": (78.1, 2.6)},
    "gcn": {"cora": (81.5, 0.4), "citeseer": (70.1, 0.7), "pubmed": (79.0, 0.5), "ppi": (80.8, 0.1)},
    "chebyshev": {"cora": (79.5, 1.2), "citeseer": (70.1, 0.8), "pubmed": (74.4, 1.1), "ppi": (86.4, 0.1)},
    "cayley": {"cora": (81.2, 1.2), "citeseer": (67.1, 2.4), "pubmed": (75.6, 3.6), "ppi": (84.9, 1.2)},
    "arma": {"cora": (83.4, 0.6), "citeseer": (72.5, 0.4), "pubmed": (78.9, 0.3), "ppi": (90.5, 0.3)},
}
"""Table 1: test accuracy in per cent, mean and deviation, by method and dataset."""


@dataclass(frozen=True)
class Hyperparameters:
    """One row of the table "Hyperparameters for node classification", with the units that Section 6 gives.

    Attributes:
        l2: weight of the L2 penalty.
        dropout: p_drop.
        lr: learning rate.
        hidden: hidden units.
        gcn: L, the layers of a GCN (and GAT, GraphSAGE, GIN) in each of the two places.
        chebyshev: K.
        cayley: (K, T).
        arma: (K, T).
    """

    l2: float
    dropout: float
    lr: float
    hidden: int
    gcn: int
    chebyshev: int
    cayley: tuple[int, int]
    arma: tuple[int, int]

    def order(self, method: str) -> tuple[int, int]:
        """(K, T) of a method: stacks and steps, order and Jacobi iterations, terms and 1; of the others (1, L)."""
        if method == "arma":
            return self.arma
        if method == "cayley":
            return self.cayley
        return (self.chebyshev, 1) if method == "chebyshev" else (1, self.gcn)


HYPERPARAMETERS: Final[dict[str, Hyperparameters]] = {
    "cora": Hyperparameters(5e-4, 0.75, 0.01, 16, gcn=1, chebyshev=2, cayley=(1, 5), arma=(2, 1)),
    "citeseer": Hyperparameters(5e-4, 0.75, 0.01, 16, gcn=1, chebyshev=3, cayley=(1, 5), arma=(3, 1)),
    "pubmed": Hyperparameters(5e-4, 0.25, 0.01, 16, gcn=1, chebyshev=3, cayley=(2, 5), arma=(1, 1)),
    "ppi": Hyperparameters(0.0, 0.25, 0.01, 64, gcn=2, chebyshev=3, cayley=(3, 5), arma=(3, 2)),
}
