"""A real Ctrl-C, and a real kill: --resume ends where the run left in peace ends, bit by bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from armagnn.training import NodesConfig, Run, train

pytestmark = pytest.mark.skipif(os.name == "nt", reason="process groups and signals are those of POSIX")

CONFIG = NodesConfig(hidden=2, stacks=1, epochs=300, patience=40, lr=0.05, seeds=4, act="elu")
FLAGS = ["--hidden", "2", "--stacks", "1", "--epochs", "300", "--patience", "40", "--lr", "0.05", "--seeds", "4"]
EAGER = """
from armagnn.training import trainer
trainer.EVERY = 0.2
from armagnn.cli import main
main()
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "whole"
    train(CONFIG, path)
    return path


def begin(path: Path, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command, "train", "--out", str(path), *FLAGS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(process: subprocess.Popen[str], file: Path) -> None:
    deadline = time.monotonic() + 120
    while not file.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def check_resumed(path: Path, whole: Path) -> None:
    interrupted = Run.open(path)
    assert not interrupted.complete
    state = interrupted.checkpoint.load()
    assert state is not None
    assert 0 < state["trials"]["done"] < 300
    train(CONFIG, path, resume=True)
    assert not interrupted.checkpoint.path.exists()
    for name in ("config.json", "metrics.json", "weights.safetensors", "curve.png"):
        assert (path / name).read_bytes() == (whole / name).read_bytes(), name
    for seed in range(4):
        name = f"trials/seed-{seed}.safetensors"
        assert (path / name).read_bytes() == (whole / name).read_bytes()


def test_ctrl_c_and_resume_give_the_uninterrupted_run(tmp_path: Path, whole: Path) -> None:
    path = tmp_path / "run"
    process = begin(path, "-m", "armagnn.cli")
    try:
        wait_for(process, path / "manifest.json")
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert stdout == ""
    assert f"Continue with: armagnn train --out {path} --resume" in stderr
    assert len(stderr.strip().splitlines()) == 1  # nor a traceback
    check_resumed(path, whole)


def test_kill_9_and_resume_give_the_uninterrupted_run(tmp_path: Path, whole: Path) -> None:
    path = tmp_path / "run"
    process = begin(path, "-c", EAGER)
    try:
        wait_for(process, path / "checkpoint" / "checkpoint.json")
        time.sleep(0.15)
        process.kill()
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGKILL
    check_resumed(path, whole)
