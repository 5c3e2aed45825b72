"""Tables with digests: no damage is believed, an interrupted writer leaves one that is."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from armagnn import sealed
from armagnn.errors import ArmagnnError, DataError, RunError
from armagnn.sealed import SUMS, read_sealed, read_table, rows_csv, seal, write_sealed
from armagnn_paper.claims import rows_of as read_rows
from armagnn_paper.page import results_page
from armagnn_paper.restore import restore
from armagnn_paper.table import Cell
from armagnn_paper.tables import NODES

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
CHOSEN = ROOT / "src" / "armagnn_paper" / "chosen"

checkout = pytest.mark.skipif(not RESULTS.is_dir(), reason="no results beside the tests: not a checkout")


def damages(content: bytes, count: int) -> list[bytes]:
    """Flipped, lost, doubled and foreign bytes, and ends that are missing; each differs from the content."""
    draw = random.Random(24)
    found = []
    while len(found) < count:
        place, length = draw.randrange(len(content)), draw.randint(1, 40)
        kind, byte = draw.randrange(5), bytes([draw.randrange(256)])
        left, right = content[:place], content[place:]
        damaged = (
            left + byte + right[1:], left + right[length:], left, left + right[:length] + right, left + byte + right
        )[kind]  # fmt: skip
        found += [damaged] if damaged != content else []
    return found


def small(path: Path) -> Path:
    """A copy of a committed table of which the first rows are left, with its digest."""
    rows = (RESULTS / path.name).read_bytes().splitlines(keepends=True)[:200]
    write_sealed(path, b"".join(rows))
    return path


@checkout
@pytest.mark.parametrize("read", [restore, lambda path: results_page(path.parent)], ids=["restore", "page"])
def test_no_damage_is_believed(tmp_path: Path, read: Callable[[Path], object]) -> None:
    for name in ("node-classification.csv", "graph-regression.csv"):
        path = small(tmp_path / Path(name).stem / name)
        right = read(path)
        for file in (path, path.with_name(SUMS)):
            whole = file.read_bytes()
            for damaged in damages(whole, 150):
                file.write_bytes(damaged)
                try:
                    found = read(path)
                except DataError:
                    continue
                assert file.name == SUMS, damaged  # it may lack its last line end, or have one more:
                assert found == right  # the table is as it was
            file.write_bytes(whole)
        path.unlink()


@checkout
def test_the_committed_tables_are_those_that_were_written(tmp_path: Path) -> None:
    for folder in (RESULTS, RESULTS / "claims", RESULTS / "search", CHOSEN):
        tables = [path for path in folder.iterdir() if path.suffix in sealed.SEALED]
        assert tables
        for path in tables:
            assert read_sealed(folder, path.name)
    copy = shutil.copytree(RESULTS, tmp_path / "results")
    assert seal([copy]) == []


@checkout
@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")
def test_sha256sum_reads_the_digests() -> None:
    done = subprocess.run(["sha256sum", "--check", "--strict", SUMS], cwd=RESULTS, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "node-classification.csv: OK" in done.stdout


@checkout
def test_claims_and_choices_have_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = tmp_path / "depth.csv"
    shutil.copy(RESULTS / "claims" / "depth.csv", claim)
    with pytest.raises(DataError, match=r"depth.csv: has no digest in SHA256SUMS.*armagnn results seal .*depth.csv"):
        read_rows(claim)
    seal([claim])
    assert read_rows(claim)
    folder = shutil.copytree(CHOSEN, tmp_path / "chosen")
    monkeypatch.setattr("armagnn_paper.table.resources.files", lambda package: tmp_path)
    before = NODES.config(Cell("cora", "arma", "tuned"))
    path = folder / f"{NODES.name}.json"
    path.write_text(path.read_text().replace('"lr": 0.01', '"lr": 0.02'))
    with pytest.raises(DataError, match="is not what was written"):
        NODES.config(Cell("cora", "arma", "tuned"))
    own = tmp_path / "own.json"
    shutil.copy(path, own)  # a file of the user's own needs no digest
    assert NODES.config(Cell("cora", "arma", "tuned"), chosen=own) != before
    write_sealed(own, own.read_bytes())
    own.write_text("{}")
    with pytest.raises(DataError, match="is not what was written"):
        NODES.config(Cell("cora", "arma", "tuned"), chosen=own)


def test_what_is_sealed_and_still_no_table(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for content, message in (
        (b"a,b\n1,\xff\n", "is no text in UTF-8"),
        (b"a,b\n1\n", "line 2: 2 values are needed"),
        (b"a,b\n1,2,3\n", "line 2: 2 values are needed"),
        (b'a,b\n1,"2\n', "line 1: no CSV"),
        (b"c\n1\n", "its first line must be a,b"),
    ):
        write_sealed(path, content)
        with pytest.raises(DataError, match=message):
            read_table(path, ["a", "b"])
    write_sealed(path, b'a,b\n1,"2\n3"\n')
    assert read_table(path) == [{"a": "1", "b": "2\n3"}]
    path.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        read_table(path)


@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_an_interrupted_writer_leaves_a_table_that_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    path, calls = tmp_path / "table.csv", []
    write_sealed(path, b"a\n1\n")
    write = sealed.write_atomic

    def interrupted(path: Path, content: bytes) -> None:
        if len(calls) == step:
            raise KeyboardInterrupt
        calls.append(path)
        write(path, content)

    monkeypatch.setattr(sealed, "write_atomic", interrupted)
    if step < 3:
        with pytest.raises(KeyboardInterrupt):
            write_sealed(path, b"a\n2\n")
    else:
        write_sealed(path, b"a\n2\n")
    monkeypatch.setattr(sealed, "write_atomic", write)
    assert read_table(path) == [{"a": "1" if step < 2 else "2"}]
    write_sealed(path, b"a\n3\n")
    assert read_table(path) == [{"a": "3"}]
    assert len((tmp_path / SUMS).read_text().splitlines()) == 1


def test_seal_takes_tables_as_they_are(tmp_path: Path) -> None:
    first, second = tmp_path / "a b.csv", tmp_path / "deep" / "c.json"
    for path in (first, second):
        write_sealed(path, b"x\n1\n")
    assert seal([tmp_path]) == []
    first.write_text("x\n2\n")
    (tmp_path / "deep" / SUMS).write_text("damaged")
    with pytest.raises(DataError, match=r"SHA256SUMS: is damaged.*armagnn results seal"):
        read_sealed(second.parent, second.name)
    assert seal([tmp_path]) == [first, second]
    assert read_table(first) == [{"x": "2"}]
    first.unlink()
    write_sealed(tmp_path / "d.csv", b"x\n")
    assert "a b.csv" in (tmp_path / SUMS).read_text()
    seal([tmp_path / "d.csv"])
    assert "a b.csv" not in (tmp_path / SUMS).read_text()
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="has no table"):
        seal([tmp_path / "empty"])
    with pytest.raises(DataError, match="cannot be read"):
        seal([tmp_path / "nothing.csv"])


@dataclass(frozen=True)
class Row:
    name: str
    number: int
    value: float


def test_rows_of_a_dataclass_are_a_table_and_come_back(tmp_path: Path) -> None:
    path, rows = tmp_path / "rows.csv", [Row("a, b", 3, 0.1 + 0.2), Row("", -1, float("inf"))]
    write_sealed(path, rows_csv(Row, rows))
    assert path.read_bytes() == b'name,number,value\n"a, b",3,0.30000000000000004\n,-1,inf\n'
    assert sealed.read_rows(path, Row, "rows") == rows
    assert rows_csv(Row, rows, 2).splitlines()[1] == b'"a, b",3,0.3'
    write_sealed(path, rows_csv(Row, []) + b"a,three,1\n")
    with pytest.raises(DataError, match=r"rows.csv: not rows \(.*three.*\)\. Make them\."):
        sealed.read_rows(path, Row, "rows", "Make them.")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        write_sealed(tmp_path / "file" / "table.csv", b"")
    assert issubclass(RunError, ArmagnnError)


@checkout
@pytest.mark.parametrize("name", ["graph-signal.csv", "search/graph-signal.csv"])
def test_no_page_is_made_of_what_is_left_of_the_tables(tmp_path: Path, name: str) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    (tmp_path / "results" / name).unlink()
    with pytest.raises(DataError, match=f"{name}: is gone"):
        results_page(tmp_path / "results")
    seal([tmp_path / "results"])  # on purpose
    assert results_page(tmp_path / "results")
