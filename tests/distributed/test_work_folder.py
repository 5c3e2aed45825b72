"""A folder of work is for one at a time, and says of a damaged step what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from armagnn.distributed.work_folder import alone, read_json, sizes
from armagnn.errors import DataError, WriteError


def test_another_process_is_kept_out(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    program = (
        "import sys; from pathlib import Path; from armagnn.distributed.work_folder import alone\n"
        "with alone(Path(sys.argv[1])): pass"
    )
    call = [sys.executable, "-c", program, str(tmp_path / "work")]
    with alone(tmp_path / "work"):
        found = subprocess.run(call, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "DataError" in found.stderr
    assert "another process is writing a partition there" in found.stderr
    assert subprocess.run(call, check=False).returncode == 0


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"{")
    with pytest.raises(WriteError, match="Choose another folder"), alone(tmp_path / "file" / "work"):
        pass
    with pytest.raises(DataError, match="Remove the folder"):
        read_json(tmp_path / "file")
    assert sizes(tmp_path.glob("f*"), sync=True) == sizes(tmp_path.glob("f*")) == {"file": 1}
