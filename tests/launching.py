"""Programs that run on several ranks of this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

LIMIT = 240  # seconds: the ranks need ten, of which most is spent importing torch


def torchrun(ranks: int, script: Path, *arguments: str) -> str:
    """Run a script on ranks of this machine, within a limit of time, and return what they print."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-addr", "127.0.0.1",
        "--master-port", str(port), str(script), *arguments,
    ]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        # torchrun starts every rank in a session of its own: it must be asked to end them before it is killed
        process.terminate()
        try:
            output, _ = process.communicate(timeout=45)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(f"{ranks} ranks took more than {LIMIT} s:\n{output}") from None
    assert process.returncode == 0, output
    return output
