"""Folders in TU's format: whatever is written is read back, and whatever is wrong is named with file and line."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn.data import (
    GraphsDataset,
    fetch,
    load_graphs,
    read_tu_folder,
    statistics,
)
from armagnn.data.tu import convert_tu, read_table
from armagnn.errors import DataError, UnknownNameError
from data.draws import graph_sets
from data.tiny import graphs_arrays


def write(data: GraphsDataset, folder: Path, prefix: str = "DS_") -> Path:
    """Write a set of graphs as the folder that it would have come from."""
    rows: dict[str, object] = {
        "A": (data.edge_index.T + 1).tolist(),
        "graph_indicator": (data.graph + 1).unsqueeze(1).tolist(),
        "graph_attributes" if data.regression else "graph_labels": data.y.reshape(len(data), -1).tolist(),
        "node_labels": None if data.node_labels is None else data.node_labels.unsqueeze(1).tolist(),
        "node_attributes": None if data.node_attr is None else data.node_attr.tolist(),
        "edge_labels": None if data.edge_labels is None else data.edge_labels.unsqueeze(1).tolist(),
    }
    for part, table in rows.items():
        if table is not None:
            lines = [", ".join(map(repr, row)) + "\n" for row in table]  # type: ignore[attr-defined]
            (folder / f"{prefix}{part}.txt").write_text("".join(lines))
    return folder


@settings(max_examples=150)
@given(graph_sets(undirected=True), st.sampled_from(["DS_", "my_graphs_", ""]))
def test_what_is_written_is_read_back(data: GraphsDataset, prefix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = read_tu_folder(write(data, Path(folder), prefix))
    for name in ("edge_index", "ptr", "y", "node_labels", "node_attr", "edge_labels"):
        ours, theirs = getattr(found, name), getattr(data, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours, theirs)
    assert (found.num_classes, found.targets) == (data.num_classes, data.targets)
    assert statistics(found)["graphs"] == len(data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Graphs of the nodes 1 2, 3 4 5 and 6."""
    files = {
        "A": "1, 2\n2, 1\n3, 4\n4, 3\n",
        "graph_indicator": "1\n1\n2\n2\n2\n3\n",
        "graph_labels": "5\n-1\n5\n",
        "node_labels": "0\n1\n2\n0\n1\n2\n",
        "node_attributes": "0.5, 1\n1, 1\n2, 1e3\n0, 1\n1, -1\n2, 1\n",
        "edge_labels": "0\n0\n1\n1\n",
    }
    for part, text in files.items():
        (tmp_path / f"DS_{part}.txt").write_text(text)
    return tmp_path


def test_values(folder: Path) -> None:
    data = load_graphs(folder)
    assert (data.y.tolist(), data.class_values, data.num_classes) == ([1, 0, 1], (-1, 5), 2)
    assert data.name == str(folder)
    assert data.provenance == "DS"
    assert data.sha256 == read_tu_folder(folder).sha256
    (folder / "DS_graph_labels.txt").write_text("5\n-1\n-1\n")
    assert data.sha256 != read_tu_folder(folder).sha256


def test_nodes_of_a_graph_are_brought_together(folder: Path) -> None:
    (folder / "DS_graph_indicator.txt").write_text("2\n2\n1\n1\n3\n1\n")
    data = read_tu_folder(folder)
    assert data.ptr.tolist() == [0, 3, 5, 6]
    assert data.node_labels is not None
    assert data.node_labels.tolist() == [2, 0, 2, 0, 1, 1]
    assert data.edge_index.tolist() == [[3, 4, 0, 1], [4, 3, 1, 0]]


@pytest.mark.parametrize("part", ["node_labels", "node_attributes", "edge_labels", "graph_labels"])
def test_a_misspelt_part_is_not_passed_over(folder: Path, part: str) -> None:
    for other in ("edge_attributes", "README", "label_readme", "notes", part[:-1]):
        (folder / f"DS_{other}.txt").write_text("anything\n")
        read_tu_folder(folder)  # nothing is missing
    (folder / f"DS_{part}.txt").rename(folder / f"DS_{part}.txt.bak")
    (folder / f"DS_{part[:-1]}.md").write_text("notes\n")
    with pytest.raises(DataError, match=rf"DS_{part[:-1]}.txt: is not read\. .* meant as DS_{part}.txt, or move"):
        read_tu_folder(folder)
    (folder / f"DS_{part[:-1]}.txt").rename(folder / f"ds_{part.title()}.TXT")
    with pytest.raises(DataError, match=rf"ds_{part.title()}.TXT: is not read\. .* meant as DS_{part}.txt"):
        read_tu_folder(folder)
    (folder / f"ds_{part.title()}.TXT").unlink()
    if part != "graph_labels":
        assert read_tu_folder(folder).num_graphs == 3  # .md and .bak are no texts of the set


def test_targets(folder: Path) -> None:
    (folder / "DS_graph_attributes.txt").write_text("0.5, 1\n1.5, 2\n-1, 3\n")
    assert read_tu_folder(folder).num_classes == 2
    data = read_tu_folder(folder, target="attributes")
    assert data.y.tolist() == [[0.5, 1], [1.5, 2], [-1, 3]]
    new = read_tu_folder(folder, target="none")
    assert (new.y.tolist(), new.num_classes) == ([-1, -1, -1], 0)
    assert statistics(new)["graphs a class"] == ""
    (folder / "DS_graph_labels.txt").unlink()
    assert read_tu_folder(folder).regression
    with pytest.raises(DataError, match=r"DS_graph_labels.txt: is missing"):
        read_tu_folder(folder, target="labels")
    with pytest.raises(UnknownNameError, match="Did you mean 'labels'"):
        read_tu_folder(folder, target="label")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("A", "1, 2\n2, 7\n", r"DS_A.txt, line 2: names a node beyond the 6"),
        ("A", "1, 2\n0, 1\n", r"DS_A.txt, line 2: nodes are counted from 1"),
        ("A", "1, 2\n\n2, 1\n", r"DS_A.txt, line 2: has 0 numbers; it must have 2"),
        ("A", "1, 2\n2\n", r"DS_A.txt, line 2: has 1 numbers"),
        ("A", "1\n2\n", r"DS_A.txt, line 1: has 1 numbers"),
        ("A", "1, 2, 3\n", r"DS_A.txt, line 1: has 3 numbers"),
        ("A", "1, 2\n2, x\n", r"DS_A.txt, line 2: 'x' is not an integer"),
        ("A", "1, 2\n2, 1.0\n", r"DS_A.txt, line 2: '1.0' is not an integer"),
        ("A", "1, 2\n2, \n", r"DS_A.txt, line 2: '' is not an integer"),
        ("A", "1, 2\n1, 3\n", r"DS_A.txt, line 2: joins nodes of different graphs"),
        ("A", "1, 2\n2, 99999999999999999999\n", r"DS_A.txt, line 2: '9+' is not an integer of 64 bits"),
        ("A", "1, 2\n2, ²\n", r"DS_A.txt, line 2: has a character"),
        ("A", "1, 2\n2, 1\n", r"DS_edge_labels.txt, line 3: the file has 4 lines for the 2 of .*DS_A.txt"),
        ("A", None, r"has no file that ends in _A.txt"),
        ("graph_indicator", None, r"DS_graph_indicator.txt: is missing"),
        ("graph_indicator", "", r"DS_graph_indicator.txt: is empty; it must have a line for each node"),
        ("graph_labels", "\n", r"DS_graph_labels.txt: is empty; it must have a line for each graph"),
        ("graph_attributes", "", r"DS_graph_attributes.txt: is empty; it must have a line for each graph"),
        ("graph_attributes", "1e9\n1000000001\n1000000002\n", r"attributes.txt, column 1: varies by 0.816 around 1e"),
        ("node_attributes", "1, 5e8\n1, 500000001\n" * 3, r"node_attributes.txt, column 2: varies by 0.5 around 5e"),
        ("graph_indicator", "1\n1\n2\n2\n2\n4\n", r"DS_graph_indicator.txt, line 6: names graph 4; there are 3"),
        ("graph_indicator", "1\n1\n0\n2\n2\n3\n", r"DS_graph_indicator.txt, line 3: graphs are counted from 1"),
        ("graph_indicator", "1\n1\n3\n3\n3\n3\n", r"graph_indicator.txt, line 6: .* graph 2 has no node"),
        ("graph_indicator", "1\n1\n2\n2\n2\n2\n", r"graph_indicator.txt, line 6: .* graph 3 has no node"),
        ("graph_labels", None, r"graph_labels.txt: is missing, and so is .*DS_graph_attributes.txt"),
        ("graph_labels", "1\n2\n", r"graph_indicator.txt, line 6: names graph 3; there are 2"),
        ("graph_labels", "1\n2\n1\n2\n", r"graph_indicator.txt, line 6: .* graph 4 has no node"),
        ("graph_labels", "1\n1\n1\n", r"graph_labels.txt: all graphs are of class 1"),
        ("graph_labels", "1\n1.5\n1\n", r"graph_labels.txt, line 2: '1.5' is not an integer"),
        ("node_labels", "1234567890123456789\n1\nx\n1\n1\n1\n", r"node_labels.txt, line 3: 'x' is not an integer"),
        ("node_labels", "1\n\n1\n1\n1\n1\n1\n", r"node_labels.txt, line 2: has 0 numbers; it must have 1"),
        ("node_labels", f"1\n{'9' * 5000}\n", r"node_labels.txt, line 2: '9{40}' is not an integer of 64 bits"),
        ("node_labels", "", r"node_labels.txt: the file has 0 lines for the 6"),
        ("node_attributes", "", r"node_attributes.txt: the file has 0 lines for the 6"),
        ("node_labels", "1\n1\n", r"node_labels.txt, line 2: the file has 2 lines for the 6"),
        ("node_labels", "1\n1\n1\n1\n1\n1\n1\n", r"node_labels.txt, line 7: the file has 7 lines for the 6"),
        ("node_labels", "1, 2\n" * 6, r"node_labels.txt, line 1: has 2 numbers; it must have 1"),
        ("node_attributes", "1, 2\n" * 5 + "1\n", r"node_attributes.txt, line 6: has 1 numbers; it must have 2"),
        ("node_attributes", "1\n" * 5 + "nan\n", r"node_attributes.txt, line 6: 'nan' is not finite"),
        ("node_attributes", "1\n" * 5 + "1e39\n", r"node_attributes.txt, line 6: '1e39' is not finite"),
        ("node_attributes", "1\n" * 5 + "one\n", r"node_attributes.txt, line 6: 'one' is not a number"),
        ("node_attributes", "1\n" * 5 + "1_0\n", r"node_attributes.txt, line 6: '1_0' is not a number"),
        ("node_attributes", "1\n" * 5, r"node_attributes.txt, line 5: the file has 5 lines for the 6"),
        ("edge_labels", "1\n" * 5, r"edge_labels.txt, line 5: the file has 5 lines for the 4"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_line(part: str, text: str | None, message: str, folder: Path) -> None:
    file = folder / f"DS_{part}.txt"
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_tu_folder(folder, target="attributes" if part == "graph_attributes" else "auto")
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("part", ["graph_labels", "node_labels"])
def test_what_is_there_and_no_file_is_not_passed_over(part: str, folder: Path) -> None:
    file = folder / f"DS_{part}.txt"
    file.unlink()
    file.symlink_to(folder / "nothing")
    with pytest.raises(DataError, match=rf"DS_{part}.txt: cannot be read"):
        read_tu_folder(folder)
    file.unlink()
    file.mkdir()
    with pytest.raises(DataError, match=rf"DS_{part}.txt: cannot be read"):
        read_tu_folder(folder)


@pytest.mark.parametrize("part", ["A", "graph_indicator"])
def test_new_graphs_may_not_be_empty(part: str, folder: Path) -> None:
    (folder / f"DS_{part}.txt").write_text("")
    if part == "A":
        (folder / "DS_edge_labels.txt").unlink()
        assert read_tu_folder(folder, target="none").edge_index.shape == (2, 0)
        return
    with pytest.raises(DataError, match="is empty; it must have a line for each node"):
        read_tu_folder(folder, target="none")


def test_new_graphs_need_not_differ(folder: Path) -> None:
    attributes = "".join(f"100.000000{i % 3}, 1\n" for i in range(6))
    (folder / "DS_node_attributes.txt").write_text(attributes)
    with pytest.raises(DataError, match="column 1: varies by"):
        read_tu_folder(folder)
    found = read_tu_folder(folder, target="none")
    assert found.node_attr is not None
    assert found.node_attr[0, 0] == 100


def test_what_windows_and_macos_add(folder: Path) -> None:
    plain = read_tu_folder(folder)
    for file in folder.iterdir():
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())  # a byte order mark
    (folder / "._DS_A.txt").write_bytes(b"\x00\x05\x16\x07")  # a resource fork
    marked = read_tu_folder(folder)
    assert torch.equal(marked.edge_index, plain.edge_index)
    assert torch.equal(marked.y, plain.y)


def test_folders_that_are_none(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        read_tu_folder(tmp_path / "nowhere")
    (folder / "other_A.txt").write_text("1, 2\n")
    with pytest.raises(DataError, match=r"has DS_A.txt, other_A.txt"):
        read_tu_folder(folder)


@settings(max_examples=150, deadline=None)
@given(
    part=st.sampled_from(["A", "graph_indicator", "graph_labels", "node_labels", "node_attributes", "edge_labels"]),
    text=st.lists(st.text("01237-., eE\n\rx", max_size=6), max_size=8).map("\n".join),
)
def test_any_text_is_data_or_a_data_error(part: str, text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        data = load_graphs("mutag").select([0, 1, 2, 5])
        folder = write(data, Path(name))
        (folder / f"DS_{part}.txt").write_text(text)
        try:
            found = read_tu_folder(folder)
        except DataError:
            return
    assert torch.equal(found.graph[found.edge_index[0]], found.graph[found.edge_index[1]])
    assert found.ptr.diff().min() > 0


def test_windows_line_ends_and_blank_ends() -> None:
    assert read_table(b"1,2\r\n3,4\r\n\r\n", "A.txt", np.int64, 2).tolist() == [[1, 2], [3, 4]]
    assert read_table(b"1\r2\r", "A.txt", np.int64, 1).tolist() == [[1], [2]]
    assert read_table(b"", "A.txt", np.int64, 2).shape == (0, 2)


def test_mutag_round_trips(tmp_path: Path) -> None:
    data = load_graphs("mutag")
    found = load_graphs(write(data, tmp_path, "MUTAG_"))
    for name in ("edge_index", "ptr", "y", "node_labels", "edge_labels"):
        assert torch.equal(getattr(found, name), getattr(data, name))


def tu_zip(name: str) -> bytes:
    arrays = graphs_arrays()
    texts = {
        "A": "".join(f"{u + 1}, {v + 1}\n" for u, v in arrays["edge_index"].T.tolist()),
        "graph_indicator": "1\n1\n2\n2\n2\n3\n",
        "graph_labels": "5\n-1\n5\n",
        "node_labels": "".join(f"{label}\n" for label in arrays["node_labels"]),
        "edge_labels": "".join(f"{label}\n" for label in arrays["edge_labels"]),
        "node_attributes": "".join(f"{a}, {b}\n" for a, b in arrays["node_attr"]),
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for part, text in texts.items():
            archive.writestr(f"{name}/{name}_{part}.txt", text)
    return file.getvalue()


def test_tu_text_files(own_folder: Path) -> None:
    expected = {key: array for key, array in graphs_arrays().items() if key not in ("split", "edge_weight")}
    found = convert_tu("ENZYMES", tu_zip("ENZYMES"))
    assert found.pop("y_raw").tolist() == [5, -1, 5]
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
    fetch("enzymes", get=lambda url: tu_zip("ENZYMES"))
    assert load_graphs("enzymes").num_graphs == 3


@pytest.mark.parametrize("content", [b"", b"no zip", tu_zip("OTHER")])
def test_what_is_no_tu_dataset(content: bytes) -> None:
    with pytest.raises(DataError, match="not a TU dataset"):
        convert_tu("ENZYMES", content)
