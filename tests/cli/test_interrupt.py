"""A real Ctrl-C: the whole process group gets SIGINT, as from a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from armagnn.errors import RunError
from armagnn.training import Run, TrainConfig, train

CONFIG = TrainConfig(hidden=2, stacks=1, epochs=60, seeds=6)


def finished(path: Path) -> list[int]:
    try:
        return Run.open(path).finished_seeds
    except RunError:  # not begun
        return []


@pytest.mark.skipif(os.name == "nt", reason="process groups and SIGINT are those of POSIX")
def test_ctrl_c_and_resume_give_the_uninterrupted_run(tmp_path: Path) -> None:
    path = tmp_path / "run"
    flags = ["--hidden", "2", "--stacks", "1", "--epochs", "60", "--seeds", "6", "--jobs", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "armagnn.cli", "train", "--out", str(path), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not finished(path):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert stdout == ""
    assert f"Continue with: armagnn train --out {path} --resume" in stderr
    assert len(stderr.strip().splitlines()) == 1  # nor a traceback, of it or of its workers

    interrupted = Run.open(path)
    assert not interrupted.complete
    assert 1 <= len(interrupted.finished_seeds) < 6
    train(CONFIG, path, resume=True)
    train(CONFIG, tmp_path / "whole")
    for name in ("config.json", "metrics.json", "weights.safetensors", "curve.png"):
        assert (path / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    for seed in range(6):
        name = f"trials/seed-{seed}.safetensors"
        assert (path / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
