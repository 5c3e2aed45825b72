"""QM9: the two files joined, checked against each other, and beside the paper's numbers."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from armagnn.data import GraphsDataset, load, load_graphs, node_features, statistics_of
from armagnn.data.arrays import Arrays, pack_arrays
from armagnn.data.sets.qm9 import TARGETS, parse_qm9, with_bond_orders
from armagnn.errors import DataError

HEADER = "gdb_idx,smiles,mu,alpha,homo,lumo,gap,r2,zpve,u0,cv,u0_atom"
ROWS = ["7,C#C,1,2,3,4,5,6,7,99,9,8", "9,O,.1,.2,.3,.4,.5,.6,.7,99,.9,.8", "12,CCO,-1,0,0,0,0,0,0,0,0,1e-3"]


def table(rows: list[str] = ROWS, header: str = HEADER) -> bytes:
    return gzip.compress("\n".join([header, *rows, ""]).encode(), mtime=0)


def graphs() -> Arrays:
    return {
        "gdb_idx": np.array([7, 9, 12], dtype=np.int32),
        "n_nodes": np.array([2, 1, 3], dtype=np.uint8),
        "n_bonds": np.array([1, 0, 2], dtype=np.uint8),
        "node_Z": np.array([6, 6, 8, 6, 6, 8], dtype=np.uint8),
        "bonds": np.array([[0, 1], [0, 1], [1, 2]], dtype=np.uint8),
        "bond_type": np.array([3, 1, 1], dtype=np.uint8),
    }


def parse(csv: bytes, arrays: Arrays) -> GraphsDataset:
    return parse_qm9(csv, pack_arrays(arrays), name="tiny", source="q.csv.gz", graphs_source="q.npz")


def test_values() -> None:
    data = parse(table(), graphs())
    assert data.targets == TARGETS == ("mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "u0_atom", "cv")
    assert data.y[0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert data.y[:, 7].tolist() == pytest.approx([8, 0.8, 1e-3])
    assert (data.regression, data.num_outputs, data.y.dtype) == (True, 9, torch.float32)
    assert data.ptr.tolist() == [0, 2, 3, 6]
    assert data.edge_index.tolist() == [[0, 1, 3, 4, 4, 5], [1, 0, 4, 3, 5, 4]]
    assert data.edge_labels is not None
    assert data.edge_labels.tolist() == [3, 3, 1, 1, 1, 1]
    found = node_features(data)
    assert found.names == ("label 6", "label 8")  # the element and nothing else
    assert found.x[:, 1].tolist() == [0, 0, 1, 0, 0, 1]


def put(name: str, position: object, value: int) -> Callable[[Arrays], object]:
    return lambda arrays: arrays[name].__setitem__(position, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("gdb_idx", 1, 8), r"q.npz: gdb_idx\[1\] is 8, but line 3 of q.csv.gz has 9"),
        (lambda arrays: arrays.update(gdb_idx=np.array([7, 9])), "q.npz: has 2 molecules, but q.csv.gz has 3"),
        (put("n_nodes", 0, 3), "node_Z has shape"),
        (put("n_nodes", 1, 0), "n_nodes holds"),
        (put("n_bonds", 1, 1), "bonds has shape"),
        (put("bonds", (0, 0), 2), "molecule 0 "),
        (put("bonds", (2, 1), 3), "molecule 2 "),
        (put("node_Z", 0, 0), "node_Z holds"),
        (lambda arrays: arrays.update(n_bonds=np.array([1, 0])), "n_bonds has shape"),
        (lambda arrays: arrays.update(bond_type=np.array([1, 0])), "bond_type has shape"),
        (lambda arrays: arrays.pop("bonds"), "lacks the arrays bonds"),
    ],
)
def test_graphs_that_do_not_fit_are_refused(change: Callable[[Arrays], object], message: str) -> None:
    arrays = graphs()
    change(arrays)
    with pytest.raises(DataError, match=message):
        parse(table(), arrays)


@pytest.mark.parametrize(
    ("csv", "message"),
    [
        (b"damaged", "gzip"),
        (table()[:-9], "gzip"),
        (gzip.compress(b"", mtime=0), "gzip"),
        (table([]), "no molecules"),
        (table([*ROWS[:2], ""]), "blank lines"),
        (table(header=HEADER.replace("lumo", "lomu")), "lacks the columns lumo"),
        (table([ROWS[0], "9,O,nan,.2,.3,.4,.5,.6,.7,99,.9,.8", ROWS[2]]), "line 3"),
        (table([ROWS[0], ROWS[1], "12.5" + ROWS[2][2:]]), "line 4"),
        (table([ROWS[0], ROWS[1], "x" + ROWS[2]]), "x12"),
        (table([ROWS[0], ROWS[1], "12,CCO,1"]), "q.csv.gz: not"),
        (table([ROWS[0], ROWS[1]]), "has 3 molecules"),
        (table([ROWS[0], ROWS[1], ROWS[2].replace("CCO", "CCÖ")]), "q.csv.gz: not"),
    ],
)
def test_tables_that_do_not_fit_are_refused(csv: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse(csv, graphs())


def test_bonds_weigh_what_their_order_is() -> None:
    arrays = graphs()
    arrays["bond_type"] = np.array([3, 4, 2], dtype=np.uint8)
    bare = parse(table(), arrays)
    orders = with_bond_orders(bare)
    assert bare.edge_weight is None
    assert orders.edge_weight.tolist() == [{1: 1.0, 2: 2.0, 3: 3.0, 4: 1.5}[kind] for kind in bare.edge_labels.tolist()]
    assert orders.sha256 != bare.sha256
    assert torch.equal(orders.select([2]).edge_weight, with_bond_orders(bare.select([2])).edge_weight)
    with pytest.raises(DataError, match="types of bonds"):
        with_bond_orders(replace(bare, edge_labels=None))
    with pytest.raises(DataError, match="types of bonds"):
        with_bond_orders(replace(bare, edge_labels=bare.edge_labels + 3))


def test_the_real_files(real: Callable[[str], str]) -> None:
    name = real("qm9")
    start = time.perf_counter()
    data = load_graphs(name)
    assert time.perf_counter() - start < 20  # about 1 s on a free core
    assert repr(data) == "GraphsDataset('qm9', graphs=130831, nodes=1150724, edges=2463748, targets=9)"
    assert data.provenance == "QM9 (97.7 % of molecules)"
    found = node_features(data)
    assert found.names == ("label 6", "label 7", "label 8", "label 9")
    assert bool((found.x.sum(1) == 1).all())
    gap = data.y[:, 4] - (data.y[:, 3] - data.y[:, 2])  # gap = lumo - homo: the columns are where they should be
    assert float(gap.abs().max()) < 2e-4
    with pytest.raises(DataError, match="load_graphs reads it"):
        load(name)
    found_statistics = statistics_of(name, paths=False)
    assert (found_statistics["2 × bonds + nodes, average"], found_statistics["components"]) == (27.63, 130831)
    assert found_statistics["alpha, mean ± deviation"] == "75.281 ± 8.1738"
