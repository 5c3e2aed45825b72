"""A file in the format of the catalogue: its values, and everything that may be wrong with it."""

from __future__ import annotations

import hashlib
import io
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn.data import NodeDataset, load, read_node_file
from armagnn.data.arrays import Arrays, pack_arrays
from armagnn.data.graph_files import parse_graphs_file
from armagnn.data.node_files import NODE_ARRAYS, parse_node_file
from armagnn.data.sets.ppi import parse_multilabel_file
from armagnn.errors import DataError
from armagnn.operators import CSR
from armagnn.tasks import NodeNet, NodeTask
from data.tiny import multilabel_arrays, node_arrays


def pack(arrays: Arrays) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


TINY = pack(node_arrays())


@pytest.fixture
def arrays() -> Arrays:
    return node_arrays()


def parse(content: bytes) -> NodeDataset:
    return parse_node_file(content, name="tiny", source="tiny.npz")


def test_values(arrays: Arrays) -> None:
    data = parse_node_file(pack(arrays), name="tiny", source="tiny.npz", features="rows")
    expected = torch.zeros(6, 4)
    expected[0, 0], expected[0, 3] = 0.25, 0.75
    expected[1, 1] = 1.0
    expected[3, 0], expected[3, 2] = -0.2, 0.8  # |-1| + |4| = 5
    expected[4, 3] = 1.0
    expected[5, 2] = 1.0
    torch.testing.assert_close(data.x.to_dense(), expected)
    assert data.x.dtype == torch.float32
    assert data.y.tolist() == [0, 1, 2, -1, 1, 0]
    assert data.num_classes == 3
    assert data.edge_index.tolist() == arrays["edge_index"].tolist()
    assert data.edge_index.dtype == data.y.dtype == data.test_idx.dtype == torch.int64
    assert (data.train_idx.tolist(), data.val_idx.tolist(), data.test_idx.tolist()) == ([0, 1], [2], [4, 5])


def test_a_path_is_a_dataset_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    path.write_bytes(TINY)
    assert load(str(path)).num_nodes == read_node_file(path).num_nodes == 6
    assert load(str(path)).name == str(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        load(str(tmp_path / "mine.npz"))


Change = Callable[[Arrays], object]


def put(name: str, position: object, value: object) -> Change:
    return lambda arrays: arrays[name].__setitem__(position, value)


def swap(name: str, value: object) -> Change:
    return lambda arrays: arrays.__setitem__(name, np.asarray(value))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("x_data", 0, np.nan), "NaN or infinite"),
        (put("x_data", 3, np.inf), "NaN or infinite"),
        (swap("x_data", np.full(7, 1e300)), "NaN or infinite"),  # does not fit float32
        (swap("x_data", np.ones(6, np.float32)), "x_data"),
        (swap("x_data", np.array(["a"] * 7)), "x_data"),
        (swap("x_data", np.ones(7, np.complex64)), "x_data"),
        (put("x_indices", 0, 4), "x_indices holds 0 .. 4|x_indices holds 1 .. 4"),
        (put("x_indices", 0, -1), "x_indices holds -1"),
        (put("x_indptr", 1, 4), "x_indptr"),
        (put("x_indptr", 0, 1), "x_indptr"),
        (put("x_indptr", 6, 6), "x_indptr"),
        (swap("x_indptr", np.array([], np.int32)), "x_indptr"),
        (swap("x_shape", [6, 4, 1]), "x_shape"),
        (swap("x_shape", [0, 4]), "x_shape"),
        (swap("x_shape", [6, 2**40]), "at most 16777216 features"),
        (swap("x_shape", [6.0, 4.0]), "x_shape is float64"),
        (swap("x_shape", [7, 4]), "x_indptr"),
        (put("edge_index", (0, 0), 6), "edge_index holds 0 .. 6|edge_index holds 1 .. 6"),
        (put("edge_index", (1, 2), -1), "edge_index holds -1"),
        (swap("edge_index", np.zeros((3, 2), np.int64)), r"must be \(2, E\)"),
        (swap("edge_index", np.zeros(4, np.int64)), "edge_index"),
        (swap("edge_index", np.zeros((2, 3))), "edge_index is float64"),
        (put("y", 0, -2), "y holds -2"),
        (put("y", 0, 5), "0 .. C-1"),  # classes 3 and 4 would have no node
        (put("y", 0, 100), "y holds"),
        (swap("y", np.zeros(6, np.int64)), "0 .. C-1"),  # one class only
        (swap("y", np.full(6, -1)), "0 .. C-1"),
        (swap("y", np.zeros(5, np.int64)), "one for each"),
        (swap("y", np.zeros(6, dtype=bool)), "y is bool"),
        (swap("y", np.zeros(6)), "all nodes have the target 0"),
        (put("train_idx", 0, 6), "train_idx holds 1 .. 6"),
        (put("val_idx", 0, -1), "val_idx holds -1"),
        (put("test_idx", 0, 2), "test_idx and val_idx share 1 node"),
        (put("val_idx", 0, 0), "val_idx and train_idx share 1 node"),
        (put("train_idx", 0, 1), "train_idx names a node twice"),
        (put("test_idx", 0, 3), "test_idx holds nodes without a label"),
        (swap("val_idx", np.array([], np.int32)), "val_idx is empty"),
        (swap("val_idx", np.array([True, False])), "val_idx is bool"),
    ],
)
def test_what_is_wrong_is_named(change: Change, message: str, arrays: Arrays) -> None:
    parse(pack(arrays))  # was right before
    change(arrays)
    with pytest.raises(DataError, match=message) as caught:
        parse(pack(arrays))
    assert str(caught.value).startswith("tiny.npz: ")


@pytest.mark.parametrize("name", NODE_ARRAYS)
def test_a_missing_array_is_named(name: str, arrays: Arrays) -> None:
    del arrays[name]
    with pytest.raises(DataError, match=rf"lacks the arrays {name}\."):
        parse(pack(arrays))


def test_pickled_arrays_are_never_loaded(arrays: Arrays) -> None:
    arrays["y"] = np.array([print] * 6, dtype=object)
    with pytest.raises(DataError, match="pickle"):
        parse(pack(arrays))


def single_array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.arange(3))
    return file.getvalue()


def zip_of_text() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("readme.txt", "hello")
    return file.getvalue()


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x04N.", single_array(), zip_of_text()])
def test_foreign_files(content: bytes) -> None:
    with pytest.raises(DataError, match=r"tiny\.npz"):
        parse(content)


def test_repeated_features_are_added(arrays: Arrays) -> None:
    arrays["x_indices"][1] = 0  # row 0 has feature 0 twice: 1 + 3
    data = parse_node_file(pack(arrays), name="tiny", source="tiny.npz", features="none")
    assert data.x.to_dense()[0].tolist() == [4.0, 0.0, 0.0, 0.0]


CORA = Path(load.__code__.co_filename).with_name("embedded").joinpath("cora.npz").read_bytes()
CORA_SHA256 = load("cora").sha256


def read_cora(content: bytes) -> NodeDataset:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "cora.npz").write_bytes(content)
        return read_node_file(Path(folder, "cora.npz"), sha256=CORA_SHA256)


def test_the_known_file_passes() -> None:
    assert read_cora(CORA).num_nodes == 2708


@settings(max_examples=300, deadline=None)
@given(position=st.integers(0, len(CORA) - 1), flip=st.integers(1, 255))
def test_no_flipped_byte_of_a_known_file_passes(position: int, flip: int) -> None:
    damaged = bytearray(CORA)
    damaged[position] ^= flip
    with pytest.raises(DataError):
        read_cora(bytes(damaged))


@settings(max_examples=200, deadline=None)
@given(length=st.integers(0, len(CORA) - 1))
def test_no_truncation_of_a_known_file_passes(length: int) -> None:
    with pytest.raises(DataError):
        read_cora(CORA[:length])


def same(a: NodeDataset, b: NodeDataset) -> bool:
    return (
        torch.equal(a.x.to_dense(), b.x.to_dense())
        and all(
            torch.equal(getattr(a, name), getattr(b, name))
            for name in ("edge_index", "y", "train_idx", "val_idx", "test_idx")
        )
        and a.num_classes == b.num_classes
    )


@settings(max_examples=500, deadline=None)
@given(position=st.integers(0, len(TINY) - 1), flip=st.integers(1, 255))
def test_damage_to_an_unknown_file_never_changes_the_data(position: int, flip: int) -> None:
    # Without a checksum, damage to dates and the like in the zip cannot be seen; but it must not matter either.
    damaged = bytearray(TINY)
    damaged[position] ^= flip
    try:
        data = parse(bytes(damaged))
    except DataError:
        return
    assert same(data, parse(TINY))


@settings(max_examples=200, deadline=None)
@given(length=st.integers(0, len(TINY) - 1))
def test_no_truncation_of_an_unknown_file_passes(length: int) -> None:
    with pytest.raises(DataError):
        parse(TINY[:length])


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(["x_indptr", "x_indices", "x_shape", "edge_index", "y", "train_idx", "val_idx", "test_idx"]),
    position=st.integers(0, 100),
    value=st.integers(-(2**63), 2**63 - 1),
)
def test_any_number_in_any_place_is_data_or_a_data_error(name: str, position: int, value: int) -> None:
    arrays = {key: array.astype(np.int64) if array.dtype.kind == "i" else array for key, array in node_arrays().items()}
    arrays[name].flat[position % arrays[name].size] = value
    try:
        data = parse(pack(arrays))
    except DataError:
        return
    assert data.num_nodes == 6
    assert int(data.edge_index.min()) >= 0
    assert int(data.edge_index.max()) < 6
    ids = torch.cat([data.train_idx, data.val_idx, data.test_idx])
    assert len(ids.unique()) == len(ids)
    assert bool((data.y[ids] >= 0).all())
    assert int(data.y.max()) == data.num_classes - 1


def nodes(edges: Any, weight: Any = None) -> NodeDataset:
    arrays = {**node_arrays(), "edge_index": np.asarray(edges, dtype=np.int64).reshape(2, -1)}
    arrays |= {} if weight is None else {"edge_weight": np.asarray(weight)}
    return parse_node_file(pack_arrays(arrays), name="tiny", source="tiny.npz", features="rows")


def test_a_missing_direction_is_added_and_reported() -> None:
    data = nodes([[0, 1, 1, 4], [1, 0, 2, 4]])
    assert data.edge_index.tolist() == [[0, 1, 1, 4, 2], [1, 0, 2, 4, 1]]
    assert data.notes[1:] == ("edges: 1 were listed in one direction; the other direction was added.",)
    assert data.operator().symmetric


def test_an_edge_that_is_listed_again_counts_once() -> None:
    data = nodes([[0, 1, 0], [1, 0, 1]])
    assert data.edge_index.tolist() == [[0, 1], [1, 0]]
    assert data.notes[1:] == ("edges: 1 were listed again; each counts once.",)


def test_a_node_without_incoming_edges_keeps_its_messages() -> None:
    data = nodes([[0], [1]])  # listed from 0 to 1 only
    assert data.operator().to_dense()[0, 1] == data.operator().to_dense()[1, 0] == 1


def test_weights_are_used() -> None:
    data = nodes([[0, 1], [1, 2]], [4.0, 1.0])
    assert data.edge_weight is not None
    assert data.edge_weight.tolist() == [4.0, 1.0, 4.0, 1.0]
    assert data.notes[-1] == "edges: weights are used, 1 to 4."
    # D^-1/2 A D^-1/2 with degrees 4, 5, 1
    expected = torch.zeros(6, 6)
    expected[0, 1] = expected[1, 0] = 4 / 20**0.5
    expected[1, 2] = expected[2, 1] = 1 / 5**0.5
    torch.testing.assert_close(data.operator().to_dense(), expected)
    task = NodeTask(data, NodeNet("arma", 4, 3, hidden=2))
    assert task.parts["train"].op is not None
    torch.testing.assert_close(task.parts["train"].op.to_dense(), expected)
    assert data.to("meta").edge_weight.device.type == "meta"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0], r"edge_weight has shape \(1,\)"),
        ([1.0, -1.0], "must not be negative"),
        ([1.0, np.nan], "NaN or infinite weights"),
        ([1.0, 2.0], "differs where nodes 1 and 0 are listed again"),
    ],
)
def test_bad_weights_are_named(weight: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        nodes([[0, 1], [1, 0]], weight)


def test_only_a_change_of_the_graph_changes_the_checksum() -> None:
    """Runs of armagnn 0.1 went by the edges as they are listed: they are known by the checksum of the file alone."""

    def same(edges: Any, weight: Any = None) -> bool:
        arrays = {**node_arrays(), "edge_index": np.array(edges)}
        content = pack_arrays(arrays if weight is None else {**arrays, "edge_weight": np.array(weight)})
        data = parse_node_file(content, name="tiny", source="tiny.npz", features="kind")
        return data.sha256 == hashlib.sha256(content).hexdigest()

    assert same([[0, 1, 1, 2, 3], [1, 0, 2, 1, 3]])
    assert not same([[0, 1], [1, 2]])
    assert not same([[0, 1, 0], [1, 0, 1]])
    assert not same([[0, 1], [1, 0]], [1.0, 1.0])


EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


@given(EDGES, st.booleans())
def test_nodes_and_graphs_have_one_rule(pairs: list[tuple[int, int]], weighted: bool) -> None:
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    weight = np.array([1 + a * b for a, b in pairs], dtype=np.float32) if weighted else None
    one = nodes(edges, weight)
    arrays = {"edge_index": edges, "ptr": np.array([0, 6]), "y": np.array([0.5])}
    arrays |= {} if weight is None else {"edge_weight": weight}
    other = parse_graphs_file(pack_arrays(arrays), name="graph", source="graph.npz")
    assert torch.equal(one.edge_index, other.edge_index)
    assert (one.edge_weight is None) == (other.edge_weight is None)
    if one.edge_weight is not None and other.edge_weight is not None:
        assert torch.equal(one.edge_weight, other.edge_weight)
    assert one.notes[1:] == other.notes
    listed = {tuple(pair) for pair in one.edge_index.T.tolist()}
    assert listed == {*pairs, *((b, a) for a, b in pairs)}
    assert len(listed) == one.edge_index.shape[1]


def test_weights_of_many_graphs_follow_their_edges() -> None:
    arrays = {**multilabel_arrays(), "edge_weight": np.array([2.0, 3.0, 4.0, 5.0, 6.0])}
    data = parse_multilabel_file(pack_arrays(arrays), name="many", source="many.npz")
    part = data.part("test")  # nodes 5 and 6, an edge of weight 5 and a loop of weight 6
    assert part.edge_weight is not None
    weights = {tuple(e): w for e, w in zip(part.edge_index.T.tolist(), part.edge_weight.tolist(), strict=True)}
    assert weights == {(0, 1): 5.0, (1, 0): 5.0, (1, 1): 6.0}


def test_edges_lie_side_by_side_in_memory() -> None:
    for data in (load("cora"), nodes([[0, 1], [1, 2]]), load("cora").with_random_split(0)):
        assert data.edge_index.is_contiguous()
    many = parse_multilabel_file(pack_arrays(multilabel_arrays()), name="many", source="many.npz")
    assert many.part("train").edge_index.is_contiguous()
    assert isinstance(load("cora").x, CSR)


def test_to_moves_every_tensor(cora: NodeDataset) -> None:
    moved = cora.to("meta")
    assert {t.device.type for t in (moved.x.value, moved.edge_index, moved.y, moved.train_idx)} == {"meta"}
    assert {t.device.type for t in (moved.val_idx, moved.test_idx)} == {"meta"}
    assert cora.y.device.type == "cpu"


def test_the_operator_is_the_normalised_adjacency(cora: NodeDataset) -> None:
    op = cora.operator()
    degree = torch.bincount(cora.edge_index[0], minlength=cora.num_nodes).float()
    # D^-1/2 A D^-1/2 has the eigenvector sqrt(degree) with eigenvalue 1.
    root = degree.sqrt().unsqueeze(1)
    torch.testing.assert_close(op @ root, root, rtol=1e-5, atol=1e-5)
