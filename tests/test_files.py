"""Files that cannot be written are refused before the work, and those that can are left as they are."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from armagnn.errors import DataError, DTypeError, RunError
from armagnn.files import check_digest, check_writable, write_atomic


def test_missing_folders_are_made_and_nothing_else(tmp_path: Path) -> None:
    new, old = tmp_path / "a" / "b" / "new.json", tmp_path / "old.json"
    old.write_text("kept")
    check_writable(new, None, old)
    assert old.read_text() == "kept"
    assert not any(new.parent.iterdir())
    write_atomic(new, b"1")
    assert new.read_bytes() == b"1"


def test_what_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, Path(), tmp_path / "file" / "out.json", tmp_path / "file" / "more" / "out.json"):
        with pytest.raises(RunError, match=r"cannot be written .* Choose another file"):
            check_writable(tmp_path / "fine.json", path)
    with pytest.raises(RunError, match="cannot be written"):
        check_writable(tmp_path / ("n" * 300))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_file_must_have_one_of_the_checksums() -> None:
    right = hashlib.sha256(b"content").hexdigest()
    assert check_digest(b"content", "a.npz") == check_digest(b"content", "a.npz", None, "0" * 64, right) == right
    with pytest.raises(DataError, match=r"a\.npz: SHA-256 is .* not 0000"):
        check_digest(b"content", "a.npz", "0" * 64)
    with pytest.raises(DTypeError, match="a checksum in hexadecimal"):
        check_digest(b"content", "a.npz", 3)  # type: ignore[arg-type]
