"""Several trials at a time, each in a process of its own.

One small trial gains nothing from a second core (its many steps last far less than a millisecond each), two
trials do. A trial depends on its seed alone, so neither their number nor their order changes any result.
"""

from __future__ import annotations

import multiprocessing
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import safetensors.torch

from armagnn.data import load
from armagnn.errors import ParameterError, RunError
from armagnn.training.config import TrainConfig
from armagnn.training.trial import Trial, train_trial

OnEpoch = Callable[[int, int, float, float], None]  # seed, epoch, validation loss, validation accuracy
TELL_EVERY = 0.1  # seconds between two reports of a worker


def train_trials(config: TrainConfig, seeds: Sequence[int], jobs: int, on_epoch: OnEpoch) -> Iterator[Trial]:
    """Train the trials of `seeds`, `jobs` at a time, and yield each when it is finished."""
    jobs = min(jobs, len(seeds))
    return _in_processes(config, seeds, jobs, on_epoch) if jobs > 1 else _one_by_one(config, seeds, on_epoch)


def _one_by_one(config: TrainConfig, seeds: Iterable[int], on_epoch: OnEpoch) -> Iterator[Trial]:
    dataset = load(config.dataset).to(config.torch_device())
    op = dataset.operator()
    for seed in seeds:
        yield train_trial(config, seed, dataset, op, lambda *result, seed=seed: on_epoch(seed, *result))


def _in_processes(config: TrainConfig, seeds: Sequence[int], jobs: int, on_epoch: OnEpoch) -> Iterator[Trial]:
    context = multiprocessing.get_context("spawn")  # forking a process that has threads (torch's, rich's) can hang
    tasks, messages = context.Queue(), context.Queue()
    for task in [*seeds, *[None] * jobs]:
        tasks.put(task)
    workers = [context.Process(target=_worker, args=(config, tasks, messages), daemon=True) for _ in range(jobs)]
    try:
        with _deaf_to_interrupts():
            for worker in workers:
                worker.start()
        left = len(seeds)
        while left:
            _check_alive(workers)
            try:
                kind, *content = messages.get(timeout=0.2)
            except queue.Empty:
                continue
            if kind == "epoch":
                on_epoch(*content)
            elif kind == "trial":
                trial, weights = content
                yield replace(trial, state=safetensors.torch.load(weights))
                left -= 1
            else:
                raise ParameterError(content[0])
    finally:  # also after Ctrl-C, or when the caller stops listening
        for worker in workers:
            if worker.pid is not None:
                worker.terminate()
                worker.join()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let processes that start inside ignore Ctrl-C from birth: it reaches all of them, and the parent decides."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may, or is interrupted
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _check_alive(workers: Sequence[Any]) -> None:
    dead = [worker.exitcode for worker in workers if worker.exitcode not in (None, 0)]
    if dead:
        raise RunError(
            f"A process that trained a trial died (exit code {dead[0]}). Finished trials are kept: "
            "continue with --resume, with fewer --jobs if memory ran out."
        )


def _worker(config: TrainConfig, tasks: Any, messages: Any) -> None:
    parent, last = multiprocessing.parent_process(), 0.0

    def tell(*result: Any) -> None:
        nonlocal last
        if time.monotonic() - last > TELL_EVERY:
            last = time.monotonic()
            if parent is not None and not parent.is_alive():
                raise SystemExit(1)  # it was killed: nobody will keep what this process finds
            messages.put(("epoch", *result))

    try:
        for trial in _one_by_one(config, iter(tasks.get, None), tell):
            # Weights travel as bytes: tensors would travel as shared memory, which dies with this process.
            messages.put(("trial", replace(trial, state={}), safetensors.torch.save(trial.state)))
    except ParameterError as error:  # training diverged
        messages.put(("refused", str(error)))
