"""Sets of graphs from files: edges as undirected ones, every pair of nodes once in either direction."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given

from armagnn import GraphOperator
from armagnn.data import GraphsDataset, read_graphs_file, read_tu_folder
from armagnn.data.arrays import pack_arrays
from data.draws import graph_sets
from data.test_tu import write

Read = Callable[[GraphsDataset, Path], GraphsDataset]


def as_folder(data: GraphsDataset, folder: Path) -> GraphsDataset:
    return read_tu_folder(write(data, folder))


def as_file(data: GraphsDataset, folder: Path) -> GraphsDataset:
    arrays = {"edge_index": data.edge_index.numpy(), "ptr": data.ptr.numpy(), "y": data.y.numpy()}
    if data.edge_labels is not None:
        arrays["edge_labels"] = data.edge_labels.numpy()
    (folder / "drawn.npz").write_bytes(pack_arrays(arrays))
    return read_graphs_file(folder / "drawn.npz")


@pytest.mark.parametrize("read", [as_folder, as_file])
@given(data=graph_sets())
def test_every_direction_is_there_once(read: Read, data: GraphsDataset) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = read(data, Path(folder))
    listed = list(map(tuple, data.edge_index.T.tolist()))
    got = list(map(tuple, found.edge_index.T.tolist()))
    once = list(dict.fromkeys(listed))
    assert got[: len(once)] == once  # in their order
    assert len(got) == len(set(got))
    assert set(got) == set(listed) | {(b, a) for a, b in listed}
    if data.edge_labels is not None and found.edge_labels is not None:
        first = dict(reversed(list(zip(listed, data.edge_labels.tolist(), strict=True))))  # of repeated ones the first
        for (a, b), label in zip(got, found.edge_labels.tolist(), strict=True):
            assert label == first[(a, b) if (a, b) in first else (b, a)]


def test_a_repeated_line_does_not_change_the_operator(tmp_path: Path) -> None:
    edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    operators = []
    for extra in (edges[:, :0], edges[:, :1]):  # without, and with, a line listed again
        shown = torch.from_numpy(np.concatenate([edges, extra], axis=1))
        data = GraphsDataset("path", shown, torch.tensor([0, 3, 4]), torch.tensor([0, 1]), 2, "0" * 64)
        operators.append(GraphOperator.from_edge_index(as_file(data, tmp_path).edge_index, num_nodes=4).to_dense())
    assert torch.equal(operators[0], operators[1])
    assert torch.equal(operators[1], operators[1].T)
