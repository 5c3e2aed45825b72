"""A set of graphs: its values, and everything that may be wrong with its file."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn.data import CATALOGUE, GraphsDataset, load, load_graphs, read_graphs_file
from armagnn.data.arrays import Arrays, pack_arrays
from armagnn.data.graphs_file import parse_graphs_file
from armagnn.errors import DataError
from data.tiny import graphs_arrays

TINY = pack_arrays(graphs_arrays())
FIELDS = ("edge_index", "ptr", "y", "node_labels", "node_attr", "edge_labels", "edge_weight", "split")


def parse(content: bytes) -> GraphsDataset:
    return parse_graphs_file(content, name="tiny", source="tiny.npz")


def test_values() -> None:
    data = parse(TINY)
    for name in FIELDS:
        assert getattr(data, name).tolist() == graphs_arrays()[name].tolist()
    assert (len(data), data.num_graphs, data.num_nodes, data.num_classes) == (3, 3, 6, 2)
    assert data.graph.tolist() == [0, 0, 1, 1, 1, 2]
    assert data.node_attr is not None
    assert data.node_attr.dtype == torch.float32
    assert data.to("meta").edge_index.device.type == "meta"


def test_what_may_be_absent() -> None:
    data = parse(pack_arrays({name: graphs_arrays()[name] for name in ("edge_index", "ptr", "y")}))
    assert data.node_labels is data.node_attr is data.edge_labels is data.split is None
    assert data.to("cpu").split is None


def test_targets_and_attributes_must_be_told_apart_by_float32() -> None:
    arrays = graphs_arrays()
    for change in (
        {"y": 1e9 + np.arange(3.0)},
        {"node_attr": np.full((6, 2), 100.0) + 1e-7 * np.arange(12).reshape(6, 2)},
    ):
        content = pack_arrays({**arrays, **change})
        with pytest.raises(DataError, match=r"column 1: varies by"):
            parse(content)
        new = parse_graphs_file(content, name="tiny", source="tiny.npz", labelled=False)
        assert new.y.tolist() == [-1] * 3
        assert new.split is None
    with pytest.raises(DataError, match="shape"):
        parse(pack_arrays({**arrays, "y": np.array(1.5)}))


def test_mutag_is_embedded(own_folder: Path) -> None:
    data = load_graphs("mutag")
    assert repr(data) == "GraphsDataset('mutag', graphs=188, nodes=3371, edges=7442, classes=2)"
    assert data.sha256 == CATALOGUE["mutag"].sha256


def test_a_path_is_a_dataset_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    path.write_bytes(TINY)
    assert load_graphs(path).num_graphs == read_graphs_file(path).num_graphs == 3


def test_the_wrong_loader_names_the_right_one() -> None:
    with pytest.raises(DataError, match="load_graphs reads it"):
        load("mutag")
    with pytest.raises(DataError, match="load reads it"):
        load_graphs("cora")
    with pytest.raises(DataError, match="load_signals reads them"):
        load("mnist")


Change = Callable[[Arrays], object]


def put(name: str, position: object, value: object) -> Change:
    return lambda arrays: arrays[name].__setitem__(position, value)


def swap(name: str, value: object) -> Change:
    return lambda arrays: arrays.__setitem__(name, np.asarray(value))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("ptr", 0, 1), "ptr must rise"),
        (put("ptr", 1, 0), "ptr must rise"),
        (swap("ptr", [0]), "ptr must rise"),
        (put("ptr", 3, 7), "node_labels has shape"),
        (put("edge_index", (0, 0), 6), "edge_index holds"),
        (put("edge_index", (0, 0), 2), "different graphs"),
        (put("y", 0, -1), "without a label"),
        (put("y", 0, 3), "y holds"),
        (swap("y", [0, 1]), "3 graphs"),
        (put("node_attr", (0, 0), np.nan), "NaN"),
        (swap("node_attr", np.ones(6)), "node_attr has shape"),
        (swap("node_labels", np.ones(6)), "node_labels is float64"),
        (swap("edge_labels", [1]), "edge_labels has shape"),
        (put("split", 0, 1), "all of 0, 1, 2"),
        (lambda arrays: arrays.pop("ptr"), "not a graphs file, it lacks the arrays ptr"),
    ],
)
def test_what_is_wrong_is_named(change: Change, message: str) -> None:
    arrays = graphs_arrays()
    change(arrays)
    with pytest.raises(DataError, match=message) as caught:
        parse(pack_arrays(arrays))
    assert str(caught.value).startswith("tiny.npz: ")


def test_a_single_array_is_none() -> None:
    file = io.BytesIO()
    np.save(file, np.arange(3))
    with pytest.raises(DataError, match=r"tiny.npz: not an .npz file"):
        parse(file.getvalue())


def test_a_path_needs_no_catalogue(own_folder: Path, tmp_path: Path) -> None:
    own_folder.mkdir(parents=True, exist_ok=True)
    (own_folder / "catalogue.json").write_text("{")
    (tmp_path / "mine.npz").write_bytes(TINY)
    assert load_graphs(tmp_path / "mine.npz").num_graphs == 3


def test_no_array_hides_behind_a_length() -> None:
    """A length in the archive's directory that has grown by the entry after it would hide that one."""
    entries = [match.start() for match in re.finditer(b"PK\x01\x02", TINY)]
    assert len(entries) == len(graphs_arrays())
    for entry, length in itertools.product(entries[:-1], (30, 32)):  # of extra fields and of comments
        for grown in range(46, 70):
            damaged = bytearray(TINY)
            damaged[entry + length] = grown
            with pytest.raises(DataError):
                parse(bytes(damaged))


@settings(max_examples=400)
@given(position=st.integers(0, len(TINY) - 1), flip=st.integers(1, 255))
def test_damage_never_changes_the_data(position: int, flip: int) -> None:
    damaged = bytearray(TINY)
    damaged[position] ^= flip
    try:
        data = parse(bytes(damaged))
    except DataError:
        return
    for name in FIELDS:
        assert getattr(data, name) is not None  # an optional array does not vanish
        assert getattr(data, name).tolist() == graphs_arrays()[name].tolist()


@settings(max_examples=150)
@given(
    name=st.sampled_from(["edge_index", "ptr", "y", "node_labels", "edge_labels", "split"]),
    position=st.integers(0, 100),
    value=st.integers(-(2**63), 2**63 - 1),
)
def test_any_number_in_any_place_is_data_or_a_data_error(name: str, position: int, value: int) -> None:
    arrays = graphs_arrays()
    arrays[name] = arrays[name].astype(np.int64)
    arrays[name].flat[position % arrays[name].size] = value
    try:
        data = parse(pack_arrays(arrays))
    except DataError:
        return
    assert torch.equal(data.graph[data.edge_index[0]], data.graph[data.edge_index[1]])


@pytest.mark.parametrize(("name", "graphs"), [("enzymes", 600), ("proteins", 1113), ("dd", 1178), ("bench-hard", 1800),
                                              ("bench-hard-small", 300)])  # fmt: skip
def test_the_other_sets(name: str, graphs: int, real: Callable[[str], str]) -> None:
    assert load_graphs(real(name)).num_graphs == graphs
