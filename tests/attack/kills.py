"""Trainings that are killed at any moment: resumed, they end with the same bits, and no finished trial is lost.

    python -m attack.kills --count 50 --seed 0               (with PYTHONPATH=src:tests)
    python -m attack.kills --count 10 --command              (the command itself, `armagnn train`, not a fork)

A fork trains with a checkpoint after every few steps and says when a trial is kept; SIGKILL comes at a random moment,
again and again, until the run is finished.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import armagnn.training as training
from armagnn.errors import RunError
from armagnn.training import trainer
from attack.bad_inputs import workplace
from attack.damage import digest
from attack.datasets import node_file, rings
from data.test_tu import write

OFTEN = 0.02
"""Seconds between two checkpoints."""


@dataclass
class Tally:
    """What the kills led to."""

    runs: int = 0
    kills: int = 0
    in_time: int = 0
    lost: int = 0
    different: int = 0
    errors: int = 0

    def __str__(self) -> str:
        return (
            f"{self.runs} runs, {self.kills} kills ({self.in_time} before the first file), {self.lost} lost trials, "
            f"{self.different} other results, {self.errors} errors"
        )

    @property
    def bad(self) -> int:
        return self.lost + self.different + self.errors


class _Telling(training.Observer):
    """Writes a byte for every trial that is kept."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def trial(self, trial: training.Outcome, *, new: bool) -> None:
        os.write(self.pipe, bytes([trial.seed]))


def configurations() -> list[training.Config]:
    """Small trainings on nodes and on graphs."""
    here = Path.cwd()
    own, tu = node_file(here / "own.npz"), here / "tu"
    tu.mkdir(exist_ok=True)
    write(rings(), tu)
    return [
        training.NodesConfig(dataset=str(own), hidden=4, epochs=60, patience=20, seeds=4),
        training.NodesConfig(dataset=str(own), hidden=4, epochs=30, patience=10, seeds=12, conv="gin"),
        training.GraphsConfig(data=str(tu), hidden=4, depth=1, epochs=12, patience=6, seeds=3, batch=8),
    ]


def result(folder: Path) -> str:
    """All weights and metrics of a run that is finished."""
    run = training.Run.open(folder)
    run.require_complete()
    return digest(run.weights(), [vars(trial) | {"seconds": 0} for trial in run.trials()])


def _train(config: training.Config, folder: Path, pipe: int) -> None:
    """Go on with a run, or begin it: one of both must be possible, whenever the last one was killed."""
    trainer.EVERY = OFTEN
    try:
        training.train(config, folder, resume=True, observer=_Telling(pipe))
    except RunError:
        training.train(config, folder, observer=_Telling(pipe))


def killed(config: training.Config, folder: Path, after: float) -> tuple[int | None, set[int]]:
    """Train in a fork and kill it `after` seconds; return its exit code (None if it was killed) and what it told."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.dup2(os.open(os.devnull, os.O_RDWR), 2)
            _train(config, folder, writes)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writes)
    code, end = None, time.monotonic() + after
    while code is None and time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if pid else None
        time.sleep(0.001)
    if code is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    told = set(os.read(reads, 10**6))
    os.close(reads)
    return code, told


def kill_until_done(config: training.Config, truth: str, seconds: float, draw: random.Random, tally: Tally) -> None:
    """Kill one training again and again; its result must be the true one."""
    folder = Path.cwd() / "killed"
    shutil.rmtree(folder, ignore_errors=True)
    kept: set[int] = set()
    tally.runs += 1
    while True:
        code, told = killed(config, folder, draw.uniform(0, 0.7 * seconds))
        kept |= told
        if code is None:
            tally.kills += 1
            tally.in_time += not folder.exists()
            seconds *= 1.15  # so that it ends
            if kept and not kept <= set(training.Run.open(folder).finished_seeds):
                tally.lost += 1
        elif code:
            tally.errors += 1
            return
        else:
            tally.different += result(folder) != truth
            return


def _command(config: Any, out: Path, *more: str) -> list[str]:
    name = ["train", "graphs", "--data", config.data] if isinstance(config, training.GraphsConfig) else ["train"]
    options = {key: value for key, value in config.to_json().items() if key != "data"}
    flags = [text for key, value in options.items() for text in (f"--{key.replace('_', '-')}", str(value))]
    return [sys.executable, "-m", "armagnn.cli", *name, *flags, "--out", str(out), *more]


def kill_commands(config: training.Config, truth: str, draw: random.Random, tally: Tally) -> None:
    """Kill ``armagnn train`` up to three times; ``--resume``, or the same command if nothing had begun, finishes it."""
    folder = Path.cwd() / "killed"
    shutil.rmtree(folder, ignore_errors=True)
    kept: set[int] = set()
    tally.runs += 1
    for number in range(4):
        for more in (["--resume"], []) if number else ([],):
            out = subprocess.DEVNULL
            process = subprocess.Popen(_command(config, folder, *more), stdout=out, stderr=out)
            while process.poll() is None and not folder.exists():
                time.sleep(0.01)
            if number < 3:
                with suppress(subprocess.TimeoutExpired):
                    # a command that goes on with a folder first takes seconds to start
                    process.wait(draw.uniform(0, 2) + (draw.uniform(0, 8) if number else 0))
            else:
                process.wait()
            killed = process.poll() is None
            if killed:
                process.kill()
                process.wait()
                tally.kills += 1
            if killed or process.returncode == 0:
                break
        try:
            found = set(training.Run.open(folder).finished_seeds)
        except RunError:
            found = set()  # it was killed before the manifest
            tally.in_time += 1
        tally.lost += not kept <= found
        kept |= found
        if not killed:
            tally.errors += process.returncode != 0
            tally.different += process.returncode == 0 and result(folder) != truth
            return


def truths(configs: Sequence[training.Config]) -> list[tuple[training.Config, str, float]]:
    """Each configuration with the result of a training that nobody killed, and how long it took."""
    found = []
    every, trainer.EVERY = trainer.EVERY, OFTEN
    try:
        for index, config in enumerate(configs):
            start, folder = time.monotonic(), Path.cwd() / f"whole-{index}"
            training.train(config, folder)
            found.append((config, result(folder), time.monotonic() - start))
    finally:
        trainer.EVERY = every
    return found


def attack(count: int, seed: int, command: bool = False) -> Tally:
    """Kill `count` runs of the configurations in turn."""
    draw, tally = random.Random(seed), Tally()
    known = truths(configurations())
    for number in range(count):
        config, truth, seconds = known[number % len(known)]
        if command:
            kill_commands(config, truth, draw, tally)
        else:
            kill_until_done(config, truth, seconds, draw, tally)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--command", action="store_true")
    options = parser.parse_args()
    with workplace():
        tally = attack(options.count, options.seed, options.command)
    print(tally)
    return min(tally.bad, 1)


if __name__ == "__main__":
    sys.exit(main())
