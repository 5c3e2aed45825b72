"""Parts of a set of graphs, against a plain loop; and real targets."""

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

from armagnn.data import CATALOGUE, GraphsDataset, load, load_graphs, read_graphs_file, statistics
from armagnn.data.arrays import Arrays, pack_arrays
from armagnn.data.graph_files import parse_graphs_file
from armagnn.errors import DataError, DTypeError, ParameterError
from data.draws import graph_sets
from data.tiny import graphs_arrays


@given(graph_sets(), st.data())
def test_a_selection_is_what_a_loop_gathers(data: GraphsDataset, draw: st.DataObject) -> None:
    ids = draw.draw(st.lists(st.integers(0, data.num_graphs - 1), min_size=1, max_size=7))
    part = data.select(torch.tensor(ids))
    assert (len(part), part.regression, part.num_outputs) == (len(ids), data.regression, data.num_outputs)
    owner = data.graph[data.edge_index[0]]
    start = edge = 0
    for place, graph in enumerate(ids):
        low, high = int(data.ptr[graph]), int(data.ptr[graph + 1])
        stop = start + high - low
        assert part.ptr[place : place + 2].tolist() == [start, stop]
        edges = data.edge_index[:, owner == graph]
        last = edge + edges.shape[1]
        assert torch.equal(part.edge_index[:, edge:last] - start, edges - low)
        assert torch.equal(part.y[place], data.y[graph])
        for name in ("node_labels", "node_attr"):
            if getattr(data, name) is not None:
                assert torch.equal(getattr(part, name)[start:stop], getattr(data, name)[low:high])
        if data.edge_labels is not None:
            assert torch.equal(part.edge_labels[edge:last], data.edge_labels[owner == graph])
        start, edge = stop, last
    assert (part.num_nodes, part.edge_index.shape[1]) == (start, edge)


def test_selections_tell_themselves_apart() -> None:
    data = load_graphs("mutag")
    assert len({data.sha256, data.select([0, 1]).sha256, data.select([1, 0]).sha256}) == 3
    assert data.select([0, 1]).sha256 == data.select(torch.tensor([0, 1])).sha256


@pytest.mark.parametrize("ids", [[], [188], [-1], [0.5], [[0]], [True]])
def test_impossible_selections_are_refused(ids: list[object]) -> None:
    with pytest.raises(ParameterError, match="ids"):
        load_graphs("mutag").select(ids)  # type: ignore[arg-type]


def regression(y: object) -> GraphsDataset:
    return parse_graphs_file(pack_arrays({**graphs_arrays(), "y": np.asarray(y)}), name="tiny", source="tiny.npz")


def test_real_targets_of_a_file() -> None:
    data = regression([[0.5, 1.0], [2.0, -1.0], [3.5, 0.0]])
    assert (data.regression, data.num_outputs, data.num_classes) == (True, 2, 0)
    assert data.y.dtype == torch.float32
    assert repr(data).endswith("targets=2)")
    assert regression([0.5, 1.0, 2.0]).y.tolist() == [[0.5], [1.0], [2.0]]
    found = statistics(data)
    assert found["targets"] == 2
    assert found["target 0, mean ± deviation"] == "2 ± 1.2247"
    assert "classes" not in found


@pytest.mark.parametrize("y", [[0.5, 1.0], [[[0.5]], [[0.5]], [[0.5]]], [0.5, np.nan, 1.0], np.empty((3, 0))])
def test_bad_targets_are_refused(y: object) -> None:
    with pytest.raises(DataError, match=r"tiny.npz: y has"):
        regression(y)


def test_a_target_that_all_graphs_share_is_refused() -> None:
    with pytest.raises(DataError, match=r"tiny.npz: y, column 2: all graphs have the target 0.5; there is nothing"):
        regression([[0.5, 0.5], [2.0, 0.5], [3.5, 0.5]])


# --------------------------------------------------------------------------------------------------------- one's own


@given(graph_sets(undirected=True), st.sampled_from([torch.as_tensor, np.asarray, list]))
def test_own_graphs_are_those_that_were_given(data: GraphsDataset, kind: Callable[[object], object]) -> None:
    parts = ("node_labels", "node_attr", "edge_labels")
    more = {name: getattr(data, name) for name in parts if getattr(data, name) is not None}
    ends = data.edge_index.sort(0).values  # one weight for both directions
    more["edge_weight"] = (ends[0] * 7 + ends[1] * 3) % 5 / 2.0
    given = {name: kind(value.tolist() if kind is list else value) for name, value in more.items()}
    made = GraphsDataset.of(
        *(kind(v.tolist() if kind is list else v) for v in (data.edge_index, data.ptr, data.y)), **given
    )
    for name, value in {"edge_index": data.edge_index, "ptr": data.ptr, "y": data.y, **more}.items():
        assert torch.equal(getattr(made, name), value), name
    assert (made.num_classes, made.regression) == (data.num_classes, data.regression)


def own(**changes: object) -> GraphsDataset:
    return GraphsDataset.of(**({name: array.copy() for name, array in graphs_arrays().items()} | changes))  # type: ignore[arg-type]


def test_own_graphs_tell_themselves_apart_by_what_they_hold() -> None:
    assert own().sha256 == own().sha256
    assert len({own(**change).sha256 for change in ({}, {"y": [0, 0, 1]}, {"edge_labels": None})}) == 3


def test_a_weight_goes_with_the_direction_that_is_added() -> None:
    made = GraphsDataset.of([[0, 2], [1, 3]], [0, 2, 4], [0, 1], edge_weight=[0.5, 0.0])
    assert made.edge_index.tolist() == [[0, 2, 1, 3], [1, 3, 0, 2]]
    assert made.edge_weight is not None
    assert made.edge_weight.tolist() == [0.5, 0.0, 0.5, 0.0]


def test_own_graphs_may_be_new_have_no_edges_and_be_of_types_that_numpy_lacks() -> None:
    new = GraphsDataset.of([[], []], [0, 2, 3], node_attr=torch.ones(3, 2, dtype=torch.bfloat16))
    assert (new.y.tolist(), new.edge_index.shape) == ([-1, -1], (2, 0))
    assert new.node_attr is not None
    assert new.node_attr.dtype == torch.float32
    single = GraphsDataset.of([[0], [1]], [0, 2], torch.tensor([0.5], dtype=torch.bfloat16), edge_weight=[2.0])
    assert single.y.tolist() == [[0.5]]
    assert statistics(single)["edge weights"] == "2 to 2"


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"edge_index": [[0], [9]]}, DataError, "graphs: edge_index holds 0 .. 9"),
        ({"edge_index": [[0], [2]]}, DataError, "joins nodes of different graphs"),
        ({"edge_index": [[0.5], [1.0]]}, DataError, "edge_index is float64"),
        ({"ptr": [0, 2, 2, 6]}, DataError, "ptr must rise"),
        ({"y": [0, 1, 3]}, DataError, "y "),
        ({"y": [0, 1]}, DataError, "2 labels for 3 graphs"),
        ({"y": [0.5, float("nan"), 1.0]}, DataError, "NaN"),
        ({"y": ["a", "b", "a"]}, DTypeError, "y must hold numbers"),
        ({"y": torch.tensor([0, 1, 0]).to_sparse()}, DTypeError, "y must be a dense tensor"),
        ({"node_attr": np.full((6, 2), np.inf)}, DataError, "node_attr has NaN or infinite"),
        ({"node_attr": np.ones((5, 2))}, DataError, "node_attr has shape"),
        ({"edge_weight": np.ones(5)}, DataError, r"edge_weight has shape \(5,\); it must be \(6,\)"),
        ({"edge_weight": np.full(6, -1.0)}, DataError, "must not be negative"),
        ({"edge_weight": np.full(6, np.nan)}, DataError, "NaN or infinite weights"),
        ({"edge_weight": np.full(6, -1e-60)}, DataError, "-1e-60; weights must not be negative"),
        ({"edge_weight": np.full(6, 1e-60)}, DataError, "1e-60, which float32 rounds to 0"),
        ({"ptr": None}, DTypeError, "ptr must hold numbers"),
        ({"edge_weight": [1, 2, 1, 1, 1, 1]}, DataError, "differs where nodes 1 and 0 are listed again"),
    ],
)
def test_what_is_wrong_with_own_graphs_is_said(changes: dict[str, object], error: type[Exception], said: str) -> None:
    if "edge_index" in changes:
        changes = {"edge_labels": None, **changes}
    with pytest.raises(error, match=said):
        own(**changes)


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
    with pytest.raises(DataError, match="load_signals reads it"):
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
