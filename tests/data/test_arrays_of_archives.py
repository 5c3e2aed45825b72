"""Archives that would fill the memory are refused before they are unpacked; pickles are never read."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armagnn.data import arrays as module
from armagnn.data import load, load_graphs
from armagnn.data.arrays import ArrayArchive, check_size, gunzip, limit, opened, pack_arrays, read_arrays
from armagnn.data.graph_files import parse_graphs_file
from armagnn.data.node_files import parse_node_file
from armagnn.data.sets.ppi import parse_multilabel_file
from armagnn.data.sets.qm9 import parse_qm9
from armagnn.data.tu import convert_tu
from armagnn.errors import DataError, ParameterError
from data.tiny import graphs_arrays, multilabel_arrays, node_arrays

PARSE: dict[str, Any] = {"nodes": parse_node_file, "graphs": parse_graphs_file, "multilabel": parse_multilabel_file}
TINY = {"nodes": node_arrays, "graphs": graphs_arrays, "multilabel": multilabel_arrays}


def header(shape: tuple[int, ...], dtype: str = "<i8") -> bytes:
    """The beginning of an .npy file."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def zipped(members: dict[str, bytes], zeros: dict[str, tuple[int, ...]] | None = None) -> bytes:
    """An archive of members as they are, and of int64 arrays of zeros that are declared, but not in it.

    Their real content is a few bytes; what the archive and the array declare is all that may be looked at.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        for name, shape in (zeros or {}).items():
            archive.writestr(f"{name}.npy", header(shape))
    content = bytearray(file.getvalue())
    for name, shape in (zeros or {}).items():  # the uncompressed size, in the local header and in the directory
        size = len(header(shape)) + 8 * int(np.prod(shape))
        own = f"{name}.npy".encode()
        for signature, at, start in ((b"PK\x03\x04", 22, 30), (b"PK\x01\x02", 24, 46)):
            place = 0
            while (place := content.find(signature, place)) >= 0:
                if content[place + start : place + start + len(own)] == own:
                    content[place + at : place + at + 4] = struct.pack("<I", size)
                place += 4
    return bytes(content)


def packed(arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, bytes]:
    """Arrays as members of an archive."""
    found = {}
    for name, array in arrays.items():
        file = io.BytesIO()
        np.save(file, array)
        found[f"{name}.npy"] = file.getvalue()
    return found


def with_zeros(kind: str, name: str, shape: tuple[int, ...]) -> bytes:
    arrays = {key: array for key, array in TINY[kind]().items() if key != name}
    return zipped(packed(arrays), {name: shape})


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("nodes", "x_data"),
        ("nodes", "edge_index"),
        ("graphs", "node_attr"),
        ("graphs", "other"),
        ("multilabel", "split"),
    ],
)
def test_an_archive_that_declares_too_much_is_refused(kind: str, name: str) -> None:
    with pytest.raises(DataError, match=r"2\.0 GiB of memory.*ARMAGNN_MAX_UNPACKED.*such as 3G"):
        PARSE[kind](with_zeros(kind, name, (2**28,)), name="bomb", source="bomb.npz")


@pytest.mark.parametrize(
    ("kind", "name", "shape", "other"),
    [
        ("nodes", "x_data", (2**26,), "x_indices"),
        ("nodes", "x_indices", (2**26,), "x_data"),
        ("nodes", "edge_index", (2**25, 2), ""),
        ("nodes", "edge_index", (2**26,), ""),
        ("nodes", "x_indptr", (2**26,), "y"),
        ("nodes", "y", (2**26,), "x_indptr"),
        ("nodes", "edge_weight", (2**26,), "edge_index"),
        ("nodes", "test_idx", (2**26,), "y"),
        ("graphs", "ptr", (2**26,), "y"),
        ("graphs", "y", (2**26,), "ptr"),
        ("graphs", "node_attr", (2**26, 1), "node_labels"),
        ("graphs", "node_labels", (2**26,), "node_attr"),
        ("graphs", "edge_labels", (2**26,), "edge_index"),
        ("graphs", "split", (2**26,), "ptr"),
        ("multilabel", "label_known", (2**26,), "graph_id"),
        ("multilabel", "features_packed", (2**26, 1), "graph_id"),
    ],
)
def test_a_large_array_has_the_sizes_that_others_imply(
    kind: str, name: str, shape: tuple[int, ...], other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(self: Any, names: Any) -> None:
        raise AssertionError("it is unpacked")

    monkeypatch.setattr(ArrayArchive, "read", never)
    with pytest.raises(DataError, match="one length in common" if other else "not that of edge_index") as caught:
        PARSE[kind](with_zeros(kind, name, shape), name="bomb", source="bomb.npz")
    assert name in str(caught.value)
    assert other in str(caught.value)


def test_a_real_bomb(tmp_path: Path) -> None:
    """16 MiB of zeros in some kilobytes, with the limit lowered to as much as a test can wait for."""
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, **{**node_arrays(), "x_data": np.zeros(2**22, np.float32)})  # type: ignore[arg-type]
    assert path.stat().st_size < 2**16
    with pytest.raises(DataError, match="x_data of shape"):
        load(path)


def test_the_limit_is_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limit() == 2**30
    for text, size in (("5", 5), ("3k", 3072), ("2 MiB", 2**21), ("4G", 2**32), ("1TB", 2**40)):
        monkeypatch.setenv("ARMAGNN_MAX_UNPACKED", text)
        assert limit() == size
    for text in ("much", "-1", "1.5G", "4P"):
        monkeypatch.setenv("ARMAGNN_MAX_UNPACKED", text)
        with pytest.raises(ParameterError, match="such as 4G"):
            limit()
    monkeypatch.setenv("ARMAGNN_MAX_UNPACKED", "100")
    with pytest.raises(DataError, match="limit of 0"):
        check_size(101, 25, "a.npz")
    check_size(400, 100, "a.npz")  # four times its own size is honest
    content = pack_arrays({"y": np.zeros(10_000)})
    with pytest.raises(DataError, match="ARMAGNN_MAX_UNPACKED"):
        read_arrays(content, ["y"], "a.npz")
    monkeypatch.setenv("ARMAGNN_MAX_UNPACKED", "1M")
    assert read_arrays(content, ["y"], "a.npz")["y"].size == 10_000


def test_gzip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT", 2**16)
    two = gzip.compress(b"one") + gzip.compress(b"two")
    assert gunzip(two, "a.gz") == gzip.decompress(two) == b"onetwo"
    assert gunzip(gzip.compress(b""), "a.gz") == b""
    whole = gzip.compress(bytes(range(256)) * 100)
    for length in range(0, len(whole), 7):
        with pytest.raises(DataError, match=r"a\.gz: "):
            gunzip(whole[:length], "a.gz")
    for content in (b"", b"text", whole + b"rest"):
        with pytest.raises(DataError, match=r"a\.gz: "):
            gunzip(content, "a.gz")
    for bomb in (gzip.compress(bytes(2**20)), b"".join(gzip.compress(bytes(2**15)) for _ in range(8))):
        with pytest.raises(DataError, match="ARMAGNN_MAX_UNPACKED"):
            gunzip(bomb, "a.gz")
    with pytest.raises(DataError, match="ARMAGNN_MAX_UNPACKED"):
        parse_qm9(gzip.compress(bytes(2**20)), b"", name="a", source="a.csv.gz", graphs_source="a.npz")


def test_a_zip_of_text_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT", 2**16)
    with pytest.raises(DataError, match="ARMAGNN_MAX_UNPACKED"):
        convert_tu("A", zipped({"A_A.txt": b"1, 2\n" * 2**16}))


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return open, ("/nonexistent/evil", "w")


@pytest.mark.parametrize("name", ["y", "edge_index", "edge_weight", "unknown"])
def test_pickles_are_never_read(name: str) -> None:
    others = packed({key: array for key, array in node_arrays().items() if key != name})
    for content, message in (
        (pickle.dumps(Evil()), "a pickle, which is never read"),
        (pickle.dumps([1]), "a pickle, which is never read"),
        (packed({name: np.array([Evil()], dtype=object)})[f"{name}.npy"], "Python objects, which only pickle"),
        (b"0, 1", "not an array of numpy"),
        (b"", "not an array of numpy"),
    ):
        with pytest.raises(DataError, match=message):
            parse_node_file(zipped({**others, f"{name}.npy": content}), name="a", source="a.npz")


@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("y.npy", header((3,)) + bytes(23), "declares 24 bytes of numbers, but 23 are there"),
        ("y.npy", header((3,)) + bytes(25), "declares 24 bytes of numbers, but 25 are there"),
        ("y.npy", header((-1, -3)) + bytes(24), "corrupt"),
        ("y.npy", header((2**60,), "<U0"), "corrupt"),
        ("y.txt", header((0,)), "no array"),
        ("y.npy", b"\x93NUMPY\x03\x00" + bytes(9), "not read here"),
        ("y.npy", b"\x93NUMPY\x01\x00\x04\x00oops", "not a readable .npz file"),
    ],
)
def test_members_that_are_no_arrays(member: str, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message), opened(zipped({member: content}), "a.npz") as archive:
        archive.read(archive.headers)


def test_other_files_are_told_what_datasets_are(tmp_path: Path) -> None:
    for name, content in {"a.npz": b"a,b\n1,2\n", "b.npz": packed({"y": np.arange(3)})["y.npy"], "c.npz": b""}.items():
        (tmp_path / name).write_bytes(content)
        for read in (load, load_graphs):
            with pytest.raises(DataError, match=r"not an \.npz file\. Datasets are \.npz archives"):
                read(tmp_path / name)


def test_nodes_that_nothing_speaks_of(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays: dict[str, Any] = {"edge_index": np.array([[0], [1]]), "ptr": np.array([0, 2, 2**31]), "y": np.array([0, 1])}
    with pytest.raises(DataError, match="give node_labels"):
        parse_graphs_file(pack_arrays(arrays), name="a", source="a.npz")
    monkeypatch.setattr("armagnn.data.graph_files.MOST_LONE", 3)
    arrays["ptr"] = np.array([0, 2, 33])
    with pytest.raises(DataError, match="give node_labels"):
        parse_graphs_file(pack_arrays(arrays), name="a", source="a.npz")
    arrays["node_labels"] = np.zeros(33, np.int8)
    assert parse_graphs_file(pack_arrays(arrays), name="a", source="a.npz").num_nodes == 33
