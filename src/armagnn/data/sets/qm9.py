"""QM9: molecules as graphs of their heavy atoms, with nine properties to predict."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from armagnn.checks import instance
from armagnn.data.arrays import Arrays, Axes, gunzip, integers, read_arrays
from armagnn.data.graphs import GraphsDataset
from armagnn.errors import DataError
from armagnn.files import sha256_of

TARGETS: Final = ("mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "u0_atom", "cv")
"""The nine properties, in the order of the columns of y (and of the paper's table)."""
ARRAYS: Final = ("gdb_idx", "n_nodes", "n_bonds", "node_Z", "bonds", "bond_type")

AXES: Final[Axes] = {
    "gdb_idx": ("G",), "n_nodes": ("G",), "n_bonds": ("G",), "node_Z": ("N",), "bonds": ("B", 2), "bond_type": ("B",),
}  # fmt: skip


def parse_qm9(
    table: bytes, graphs: bytes, *, name: str, source: str, graphs_source: str, provenance: str = ""
) -> GraphsDataset:
    """Join the table of properties (gzipped csv) with the graphs (``.npz``) of the same molecules in the same order.

    The dataset has y (G, 9) float32, raw (in the units of the file), the atomic numbers as `node_labels`, and the bond
    types as `edge_labels` (1, 2, 3; 4: aromatic), in both directions. Nodes are described by their element alone:
    ``node_features`` gives four columns, C, N, O and F.

    Example:
        >>> import gzip
        >>> from armagnn.data.arrays import pack_arrays
        >>> rows = "gdb_idx,smiles,mu,alpha,homo,lumo,gap,r2,zpve,cv,u0_atom\\n4,C#C,0,16,0,0,0,60,0,9,-1\\n"
        >>> arrays = {"gdb_idx": [4], "n_nodes": [2], "n_bonds": [1]}
        >>> arrays |= {"node_Z": [6, 6], "bonds": [[0, 1]], "bond_type": [3]}
        >>> packed = pack_arrays({key: np.array(value) for key, value in arrays.items()})
        >>> parse_qm9(gzip.compress(rows.encode()), packed, name="acetylene", source="a.csv.gz", graphs_source="a.npz")
        GraphsDataset('acetylene', graphs=1, nodes=2, edges=2, targets=9)
    """
    ids, targets = _table(table, source)
    arrays = read_arrays(graphs, ARRAYS, graphs_source, what="molecules", axes=AXES)
    ptr, edge_index, kinds, elements = _graphs(arrays, graphs_source)
    own = integers(arrays, "gdb_idx", graphs_source)
    if own.shape != ids.shape:
        raise DataError(f"{graphs_source}: has {own.size} molecules, but {source} has {ids.size}.")
    if (own != ids).any():
        first = int((own != ids).argmax())
        raise DataError(
            f"{graphs_source}: gdb_idx[{first}] is {own[first]}, but line {first + 2} of {source} has {ids[first]}: "
            "the two files must list the same molecules in the same order."
        )
    both = f"{sha256_of(table)} {sha256_of(graphs)}"
    return GraphsDataset(
        name=name,
        edge_index=torch.from_numpy(edge_index),
        ptr=torch.from_numpy(ptr),
        y=torch.from_numpy(targets),
        num_classes=0,
        sha256=hashlib.sha256(both.encode()).hexdigest(),
        node_labels=torch.from_numpy(elements),
        edge_labels=torch.from_numpy(kinds),
        provenance=provenance or name,
        targets=TARGETS,
        feature_kinds=("labels",),
    )


ORDERS: Final = (0.0, 1.0, 2.0, 3.0, 1.5)
"""The order of each type of bond: single, double, triple, aromatic."""


def with_bond_orders(molecules: GraphsDataset) -> GraphsDataset:
    """The same molecules, the edges weighted by the order of the bond: A_ij = 1, 2, 3, or 1.5 in an aromatic ring.

    Example:
        >>> one = torch.tensor([[0, 1], [1, 0]])
        >>> ptr, y, types = torch.tensor([0, 2]), torch.zeros(1, 1), torch.tensor([2, 2])
        >>> ethene = GraphsDataset("ethene", one, ptr, y, num_classes=0, sha256="", edge_labels=types)
        >>> with_bond_orders(ethene).edge_weight
        tensor([2., 2.])
    """
    instance("molecules", molecules, GraphsDataset, "a set of graphs")
    types = molecules.edge_labels
    if types is None or (len(types) and not 1 <= int(types.min()) <= int(types.max()) < len(ORDERS)):
        raise DataError(f"{molecules.name} has no types of bonds (edge_labels 1 to {len(ORDERS) - 1}).")
    weights = torch.tensor(ORDERS, device=types.device)[types]
    return replace(
        molecules,
        edge_weight=weights,
        sha256=hashlib.sha256(f"{molecules.sha256} bond orders".encode()).hexdigest(),
        provenance=f"{molecules.provenance}, edges weighted by bond order",
    )


def _table(content: bytes, source: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the ids (G,) and the nine targets (G, 9) of the csv."""
    try:
        header, *lines = gunzip(content, source).decode("ascii").splitlines()
        names = header.split(",")
        missing = [column for column in ("gdb_idx", *TARGETS) if column not in names]
        if missing:
            raise DataError(f"{source}: lacks the columns {', '.join(missing)}.")
        columns = [names.index(column) for column in ("gdb_idx", *TARGETS)]
        if not lines:
            raise DataError(f"{source}: has no molecules.")
        # no comments: the SMILES of a triple bond has a '#'
        values = np.loadtxt(lines, delimiter=",", comments=None, usecols=columns, ndmin=2)
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{source}: not a gzipped csv of molecules ({error}). Fetch it again.") from error
    if len(values) != len(lines):
        raise DataError(f"{source}: has blank lines.")
    ids, targets = values[:, 0], values[:, 1:].astype(np.float32)
    wrong = ~(np.isfinite(targets).all(axis=1) & (np.abs(ids) < 2**31) & (ids == np.round(ids)))
    if wrong.any():
        raise DataError(f"{source}, line {int(wrong.argmax()) + 2}: gdb_idx must be an integer, the targets finite.")
    return ids.astype(np.int64), np.ascontiguousarray(targets)


def _graphs(
    arrays: Arrays, source: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return ptr (G + 1,), edge_index (2, E) by molecule and both directions, bond types (E,) and elements (N,)."""
    nodes = integers(arrays, "n_nodes", source, within=(1, 2**31))
    bonds = integers(arrays, "n_bonds", source, shape=nodes.shape, within=(0, 2**31))
    elements = integers(arrays, "node_Z", source, shape=(int(nodes.sum()),), within=(1, 119))
    ends = integers(arrays, "bonds", source, 2, shape=(int(bonds.sum()), 2))
    kinds = integers(arrays, "bond_type", source, shape=(len(ends),))
    owner = np.repeat(np.arange(nodes.size), bonds)
    if (ends < 0).any() or (ends >= nodes[owner][:, None]).any():
        worst = int(owner[((ends < 0) | (ends >= nodes[owner][:, None])).any(axis=1).argmax()])
        raise DataError(f"{source}: bonds of molecule {worst} (from 0) name atoms that it does not have.")
    ptr = np.concatenate([[0], np.cumsum(nodes)])
    # each bond's two directions lie side by side, so that the edges of a molecule do, too
    source_target = (ends + ptr[:-1][owner][:, None])[:, [0, 1, 1, 0]].reshape(-1, 2)
    return ptr, np.ascontiguousarray(source_target.T), np.repeat(kinds, 2), elements
