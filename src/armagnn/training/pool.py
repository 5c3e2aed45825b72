"""Several trials at a time, each in a process of its own.

One small trial gains nothing from a second core (its many steps last far less than a millisecond each), two
trials do. A trial depends on its seed alone, so neither their number nor their order changes any result.
"""

from __future__ import annotations

import multiprocessing
import queue
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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
        for worker in workers:
            worker.start()
        left = len(seeds)
        while left:
            try:
                kind, *content = messages.get(timeout=0.2)
            except queue.Empty:
                _check_alive(workers)
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


def _check_alive(workers: Sequence[Any]) -> None:
    dead = [worker.exitcode for worker in workers if worker.exitcode not in (None, 0)]
    if dead:
        raise RunError(
            f"A process that trained a trial died (exit code {dead[0]}). Finished trials are kept: "
            "continue with --resume, with fewer --jobs if memory ran out."
        )


def _worker(config: TrainConfig, tasks: Any, messages: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the parent decides
    last = 0.0

    def tell(*result: Any) -> None:
        nonlocal last
        if time.monotonic() - last > TELL_EVERY:
            last = time.monotonic()
            messages.put(("epoch", *result))

    try:
        for trial in _one_by_one(config, iter(tasks.get, None), tell):
            # Weights travel as bytes: tensors would travel as shared memory, which dies with this process.
            messages.put(("trial", replace(trial, state={}), safetensors.torch.save(trial.state)))
    except ParameterError as error:  # training diverged
        messages.put(("refused", str(error)))
