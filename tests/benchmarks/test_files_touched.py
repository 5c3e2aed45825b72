"""The files that a training passes through are those whose functions it calls."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from benchmarks.scripts import SCRIPTS, script


def test_files_count_whose_functions_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those that are imported only, nor what they call meanwhile; other threads do count."""
    files = {
        "touched_one": "def used():\n    import touched_three\n",
        "touched_two": "def unused():\n    pass\n",
        "touched_three": "import touched_four\ntouched_four.made()\nclass Body:\n    value = 1\n",
        "touched_four": "def made():\n    pass\n",
        "touched_five": "def threaded():\n    pass\n",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    touched = script("files_touched")
    with touched.Watch(tmp_path) as watch:
        import touched_five
        import touched_one
        import touched_two  # noqa: F401

        touched_one.used()
        thread = threading.Thread(target=touched_five.threaded)
        thread.start()
        thread.join()
    assert sys.getprofile() is None
    assert touched.by_room(tmp_path, watch.called) == {".": ["touched_five", "touched_one"]}


def test_a_training_is_watched() -> None:
    script("files_touched")
    command = [sys.executable, str(SCRIPTS / "files_touched.py"), "--epochs", "1", "--imported"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    head, *lines = done.stdout.splitlines()
    called = int(head.removesuffix(" files whose functions are called"))
    (imported,) = (int(line.split()[0]) for line in lines if line.endswith("that are imported"))
    assert 20 < called < imported
    rooms = {line.split()[0] for line in lines if line.startswith("  ")}
    assert {"cli", "data", "nn", "operators", "training"} <= rooms
