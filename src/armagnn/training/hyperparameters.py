"""What a training starts from on a known dataset: the hyperparameters that the paper's appendix gives for it.

The user's data start from those of Cora (nodes) and Enzymes (graphs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

Order = tuple[int, int]
"""(K, T): stacks and steps of ARMA, order and Jacobi iterations of Cayley, terms (poles) and 1; of others (1, L)."""

BEYOND: Final[dict[str, Order]] = {"rational": (4, 1), "gpr": (10, 1), "bernstein": (10, 1), "jacobi": (10, 1)}
"""K of layers that the paper does not have: poles, or (their authors' value) the degree. They have no T."""


def _orders(gcn: int, chebyshev: int, cayley: Order, arma: Order) -> dict[str, Order]:
    """The order of each method; a method that is not here (GAT, GraphSAGE, GIN, ...) has that of GCN."""
    return {"arma": arma, "cayley": cayley, "chebyshev": (chebyshev, 1), "gcn": (1, gcn)} | BEYOND


@dataclass(frozen=True)
class Hyperparameters:
    """One row of the table "Hyperparameters for node classification", with the units that Section 6 gives.

    Attributes:
        l2: weight of the L2 penalty.
        dropout: p_drop.
        lr: learning rate.
        hidden: hidden units.
        orders: (K, T) of each method.
    """

    l2: float
    dropout: float
    lr: float
    hidden: int
    orders: dict[str, Order]


NODES: Final[dict[str, Hyperparameters]] = {
    "cora": Hyperparameters(5e-4, 0.75, 0.01, 16, _orders(1, 2, cayley=(1, 5), arma=(2, 1))),
    "citeseer": Hyperparameters(5e-4, 0.75, 0.01, 16, _orders(1, 3, cayley=(1, 5), arma=(3, 1))),
    "pubmed": Hyperparameters(5e-4, 0.25, 0.01, 16, _orders(1, 3, cayley=(2, 5), arma=(1, 1))),
    "ppi": Hyperparameters(0.0, 0.25, 0.01, 64, _orders(2, 3, cayley=(3, 5), arma=(3, 2))),
}
"""The table "Hyperparameters for node classification"."""

ELU: Final = ("cora", "citeseer", "pubmed")
"""Where ARMA's activation is ELU unless another is asked for; the paper does not say which it has."""

SIGNALS: Final[dict[str, Hyperparameters]] = {
    "mnist": Hyperparameters(5e-4, 0.5, 1e-3, 32, _orders(3, 25, cayley=(12, 11), arma=(5, 10))),
    "20news": Hyperparameters(1e-3, 0.7, 1e-3, 16, _orders(1, 5, cayley=(5, 10), arma=(1, 1))),
}
"""The table "Hyperparameters for graph signal classification"; the units are those of the first convolution."""

GRAPHS: Final[dict[str, tuple[float, dict[str, Order]]]] = {
    "bench-hard": (0.4, _orders(2, 2, cayley=(2, 10), arma=(1, 2))),
    "enzymes": (0.6, _orders(2, 2, cayley=(2, 10), arma=(2, 2))),
    "proteins": (0.6, _orders(4, 4, cayley=(4, 10), arma=(4, 4))),
    "dd": (0.0, _orders(4, 4, cayley=(4, 10), arma=(4, 4))),
    "mutag": (0.0, _orders(4, 4, cayley=(4, 10), arma=(4, 4))),
    "qm9": (0.75, _orders(3, 3, cayley=(3, 3), arma=(3, 3))),
}
"""The appendix's hyperparameters: p_drop of ARMA's skip connections, and the order of each method."""


def graph_order(dataset: str, method: str) -> Order:
    """The order of a method on a dataset of graphs.

    Example:
        >>> graph_order("bench-hard-small", "arma"), graph_order("qm9/mu", "cayley"), graph_order("mutag", "gin")
        ((1, 2), (3, 3), (1, 4))
    """
    _, orders = GRAPHS[group(dataset)]
    return orders.get(method, orders["gcn"])


def group(dataset: str) -> str:
    """The row of the hyperparameter table that a dataset has.

    Example:
        >>> group("qm9/mu"), group("bench-hard-small"), group("dd")
        ('qm9', 'bench-hard', 'dd')
    """
    return dataset.split("/")[0].removesuffix("-small")
