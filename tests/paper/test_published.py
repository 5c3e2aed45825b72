"""The numbers that the package has transcribed are those that are printed in the paper.

``printed.csv`` holds the rows of the paper's tables, as they are printed: the second source, wherever the tests run.
Where the text of the paper is there, too, the file is held against it.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from armagnn.training.hyperparameters import BEYOND
from armagnn.training.hyperparameters import GRAPHS as ORDERS
from armagnn.training.hyperparameters import NODES as HYPERPARAMETERS
from armagnn.training.hyperparameters import SIGNALS as SIGNAL_HYPERPARAMETERS
from armagnn_paper.published import ACCURACY, GRAPH_ACCURACY, GRAPH_MSE, SIGNAL_ACCURACY
from armagnn_paper.tables import GRAPHS, MOLECULAR, NODES, SIGNALS

PRINTED = Path(__file__).with_name("printed.csv")
METHODS = {
    "GAT": "gat", "GraphSAGE": "sage", "GIN": "gin", "GCN": "gcn", "Chebyshev": "chebyshev", "CayleyNet": "cayley",
    "ARMA": "arma",
}  # fmt: skip
LABELS = ("nodecl_res", "gsc_res", "gc_res", "gr_res", "hyper_nc", "hyper_gr", "hyper_gc", "hyper_gsc")
Table = dict[str, list[float]]


def printed() -> dict[str, Table]:
    tables: dict[str, Table] = {}
    with PRINTED.open(newline="") as file:
        for row in csv.DictReader(file):
            tables.setdefault(row["table"], {})[row["row"]] = [float(number) for number in row["numbers"].split()]
    return tables


def test_the_second_source_is_the_paper(paper: str) -> None:
    found: dict[str, Table] = {}
    for table in re.findall(r"\\begin\{table.*?\\end\{table", paper, re.DOTALL):
        label = re.search(r"\\label\{tab:(\w+)\}", table)
        if label is None or label[1] not in LABELS:
            continue
        for line in table.splitlines():
            name, *cells = (cell.strip() for cell in line.replace("\\&", "and").split("&"))
            name = name.replace("\\textbf{", "").replace("\\_", "_").strip("}").strip()
            if cells and re.fullmatch(r"[\w-]+", name) and name not in ("Method", "Property"):
                numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", " ".join(cells))]
                found.setdefault(label[1], {})[name] = numbers
    assert found == printed()


def test_accuracy_on_nodes() -> None:
    table = printed()["nodecl_res"]
    assert {METHODS[name] for name in table} == ACCURACY.keys()
    for name, numbers in table.items():
        assert [number for data in NODES.datasets for number in ACCURACY[METHODS[name]][data]] == numbers


def test_accuracy_on_signals() -> None:
    table = printed()["gsc_res"]
    assert {METHODS[name] for name in table} == SIGNAL_ACCURACY.keys()
    for name, numbers in table.items():
        assert [number for data in SIGNALS.datasets for number in SIGNAL_ACCURACY[METHODS[name]][data]] == numbers


def test_accuracy_on_graphs() -> None:
    table = printed()["gc_res"]
    assert {METHODS[name] for name in table} == GRAPH_ACCURACY.keys()
    for name, numbers in table.items():
        assert tuple(GRAPH_ACCURACY[METHODS[name]]) == GRAPHS.datasets
        assert [number for pair in GRAPH_ACCURACY[METHODS[name]].values() for number in pair] == numbers


def test_errors_on_molecules() -> None:
    table = printed()["gr_res"]
    assert [f"qm9/{name.lower()}" for name in table] == list(MOLECULAR.datasets)
    for name, numbers in table.items():
        ours = [GRAPH_MSE[method][f"qm9/{name.lower()}"] for method in ("gcn", "chebyshev", "cayley", "arma")]
        assert [number for pair in ours for number in pair] == numbers


def numbers_of(orders: dict[str, tuple[int, int]]) -> list[int]:
    """The columns that both tables have: L of GCN, K of Chebyshev, K and T of Cayley and of ARMA."""
    return [orders["gcn"][1], orders["chebyshev"][0], *orders["cayley"], *orders["arma"]]


def test_hyperparameters_of_nodes_and_signals() -> None:
    nodes, signals = printed()["hyper_nc"], printed()["hyper_gsc"]
    assert [name.lower() for name in nodes] == list(HYPERPARAMETERS) == list(NODES.datasets)
    for name, numbers in nodes.items():
        row = HYPERPARAMETERS[name.lower()]
        assert [row.l2, row.dropout, row.lr, *numbers_of(row.orders)] == numbers
    assert [name.lower() for name in signals] == list(SIGNAL_HYPERPARAMETERS)
    for name, numbers in signals.items():  # its columns have another order
        row = SIGNAL_HYPERPARAMETERS[name.lower()]
        assert [row.l2, row.lr, row.dropout, *numbers_of(row.orders)] == numbers


def test_hyperparameters_of_graphs() -> None:
    table = printed()["hyper_gc"] | printed()["hyper_gr"]
    assert {name.lower().replace("dandd", "dd") for name in table} == ORDERS.keys()
    for name, (length, cheb, order, jacobi, p, k, t) in table.items():
        rate, orders = ORDERS[name.lower().replace("dandd", "dd")]
        assert rate == p
        assert {name: orders[name] for name in orders.keys() - BEYOND} == {
            "arma": (k, t),
            "cayley": (order, jacobi),
            "chebyshev": (cheb, 1),
            "gcn": (1, length),
        }


@pytest.mark.parametrize("label", LABELS)
def test_every_table_is_there(label: str) -> None:
    assert len(printed()[label]) == {
        "nodecl_res": 7, "gsc_res": 4, "gc_res": 7, "gr_res": 9, "hyper_nc": 4, "hyper_gr": 1, "hyper_gc": 5,
        "hyper_gsc": 2,
    }[label]  # fmt: skip
