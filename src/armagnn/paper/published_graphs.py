"""The numbers of the paper for graph classification (Table 3) and regression (Table 4), and their hyperparameters."""

from __future__ import annotations

from typing import Final

from armagnn.data.qm9 import TARGETS

CLASSIFICATION: Final = ("enzymes", "proteins", "dd", "mutag", "bench-hard", "bench-hard-small")
"""The sets of graphs of Table 3; the small Bench-hard set is beyond the paper."""

REGRESSION: Final = tuple(f"qm9/{target}" for target in TARGETS)
"""The properties of Table 4."""

CLASSIFIERS: Final = ("arma", "gcn", "chebyshev", "cayley", "gat", "sage", "gin", "mlp")
REGRESSORS: Final = ("arma", "gcn", "chebyshev", "cayley", "mlp")
"""The methods of the tables, and a network that sees no edge."""

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
GRAPH_MSE: Final = {method: dict(zip(REGRESSION, row, strict=True)) for method, row in _ERRORS.items()}
"""Table 4: mean squared error of standardised targets, mean and deviation, by method and property."""

ORDERS: Final[dict[str, tuple[float, dict[str, tuple[int, int]]]]] = {
    # p_drop; (K, T) of ARMA, (K, T) of CayleyNets, K of Chebyshev, L of GCN (and GAT, GraphSAGE, GIN)
    "bench-hard": (0.4, {"arma": (1, 2), "cayley": (2, 10), "chebyshev": (2, 1), "gcn": (1, 2)}),
    "enzymes": (0.6, {"arma": (2, 2), "cayley": (2, 10), "chebyshev": (2, 1), "gcn": (1, 2)}),
    "proteins": (0.6, {"arma": (4, 4), "cayley": (4, 10), "chebyshev": (4, 1), "gcn": (1, 4)}),
    "dd": (0.0, {"arma": (4, 4), "cayley": (4, 10), "chebyshev": (4, 1), "gcn": (1, 4)}),
    "mutag": (0.0, {"arma": (4, 4), "cayley": (4, 10), "chebyshev": (4, 1), "gcn": (1, 4)}),
    "qm9": (0.75, {"arma": (3, 3), "cayley": (3, 3), "chebyshev": (3, 1), "gcn": (1, 3)}),
}
"""The appendix's hyperparameters: p_drop of ARMA's skip connections, and the order of each method as (K, T)."""


def graph_order(dataset: str, method: str) -> tuple[int, int]:
    """(K, T) of a method on a dataset: stacks and steps, order and Jacobi iterations, terms and 1; else (1, L).

    Example:
        >>> graph_order("bench-hard-small", "arma"), graph_order("qm9/mu", "cayley"), graph_order("mutag", "gin")
        ((1, 2), (3, 3), (1, 4))
    """
    _, orders = ORDERS[group(dataset)]
    return orders.get(method, orders["gcn"])


def group(dataset: str) -> str:
    """The row of the hyperparameter table that a dataset has.

    Example:
        >>> group("qm9/mu"), group("bench-hard-small"), group("dd")
        ('qm9', 'bench-hard', 'dd')
    """
    return dataset.split("/")[0].removesuffix("-small")
