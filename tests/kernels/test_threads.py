from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import Sparse, numbers
from torch import Tensor

from armagnn.kernels import cpu, threads

COUNTS = (1, 2, 3, 5)


def large(seed: int = 0) -> Sparse:
    """Enough work for many chunks, most of it in a few rows: the cuts are nowhere even."""
    rng = np.random.default_rng(seed)
    rows, cols = 3000, 2000
    counts = rng.integers(0, 30, rows)
    counts[[5, 6, 2999]] = (0, 1900, 1500)
    row = np.repeat(np.arange(rows), counts)
    col = np.concatenate([np.sort(rng.permutation(cols)[:count]) for count in counts])
    pointer = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))])
    value = rng.standard_normal(len(row)).astype(np.float32)
    return Sparse(
        torch.from_numpy(pointer).int(), torch.from_numpy(col).int(), torch.from_numpy(value), (rows, cols)
    )  # fmt: skip


MATRIX = large()
WIDTH = 131
X = numbers(2000, WIDTH, seed=1, dtype=torch.float32)
SKIP = numbers(3000, WIDTH, seed=2, dtype=torch.float32)
BIAS = numbers(WIDTH, seed=3, dtype=torch.float32)
CALLS: dict[str, Callable[[], Tensor]] = {
    "product": lambda: cpu.gcs(MATRIX.rowptr, MATRIX.col, MATRIX.value, X, None, None, "none", 0.0),
    "step": lambda: cpu.gcs(MATRIX.rowptr, MATRIX.col, MATRIX.value, X, SKIP, BIAS, "leaky_relu", 0.1),
    "bfloat16": lambda: cpu.gcs(MATRIX.rowptr, MATRIX.col, MATRIX.value, X.bfloat16(), SKIP, BIAS, "relu", 0.1),
    "sddmm": lambda: cpu.sddmm(MATRIX.rowptr, MATRIX.col, SKIP, X),
    "dropout": lambda: cpu.dropout(SKIP.repeat(2, 1), torch.tensor([4]), 0.4, 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_same_bits_for_every_number_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    run = threads.run
    monkeypatch.setattr(threads, "run", lambda function, bounds: (used.append(len(bounds) - 1), run(function, bounds)))
    torch.set_num_threads(1)
    alone = CALLS[name]()
    for count in COUNTS:
        torch.set_num_threads(count)
        for _ in range(3):
            assert torch.equal(CALLS[name](), alone)
    assert min(used[4:]) > 1  # the work was shared out wherever there was more than one thread


@pytest.mark.parametrize("name", ["product", "sddmm"])
def test_large_products_are_right(name: str) -> None:
    """The bits agree; here that they are the right ones, in every chunk."""
    torch.set_num_threads(3)
    if name == "product":
        truth = torch.from_numpy(MATRIX.dense()) @ X.double()
    else:
        truth = (SKIP.double() @ X.double().T)[MATRIX.row, MATRIX.col.long()]
    torch.testing.assert_close(CALLS[name]().double(), truth, rtol=1e-4, atol=1e-4)


def test_several_callers_at_once() -> None:
    torch.set_num_threads(2)
    alone = {name: call() for name, call in CALLS.items()}
    with ThreadPoolExecutor(4) as callers:
        results = [(name, callers.submit(call)) for _ in range(3) for name, call in CALLS.items()]
        assert all(torch.equal(future.result(60), alone[name]) for name, future in results)


# ----------------------------------------------------------------------------------------------------------------- run


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20).map(sorted), st.integers(1, 5))
def test_every_row_is_run_once(bounds: list[int], count: int) -> None:
    torch.set_num_threads(count)
    seen: list[int] = []
    lock = Lock()

    def work(lo: int, hi: int) -> None:
        assert lo < hi  # nothing is called for an empty chunk
        with lock:
            seen.extend(range(lo, hi))

    threads.run(work, bounds)
    assert sorted(seen) == list(range(bounds[0], bounds[-1]))


@pytest.mark.parametrize("bad", [0, 7, 15])
def test_an_error_in_a_chunk_reaches_the_caller(bad: int) -> None:
    torch.set_num_threads(4)

    def work(lo: int, hi: int) -> None:
        if lo == bad:
            raise FloatingPointError(str(lo))

    with pytest.raises(FloatingPointError, match=str(bad)):
        threads.run(work, list(range(17)))
    threads.run(lambda lo, hi: None, list(range(17)))  # and the pool goes on


@given(st.integers(0, 10**10), st.integers(1, 10**6), st.integers(1, 64))
def test_num_chunks(work: int, minimum: int, count: int) -> None:
    torch.set_num_threads(count)
    chunks = threads.num_chunks(work, minimum)
    assert 1 <= chunks <= max(1, threads.CHUNKS_PER_THREAD * count)
    if chunks > 1:
        assert work // chunks >= minimum
        assert count > 1
    elif count > 1:
        assert work < 2 * minimum


# ---------------------------------------------------------------------------------------------------------------- fork


def _child(expected: np.ndarray) -> None:
    torch.set_num_threads(2)
    out = CALLS["product"]().numpy()
    raise SystemExit(0 if np.array_equal(out, expected) and threads._pool is not None else 1)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
def test_a_forked_process_works() -> None:
    """A data-loader worker is forked from a process whose pool is running; the pool's threads do not come along."""
    torch.set_num_threads(2)
    expected = CALLS["product"]().numpy()
    assert threads._pool is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: forking with threads may deadlock
        child = multiprocessing.get_context("fork").Process(target=_child, args=(expected,))
        child.start()
    child.join(60)
    alive = child.is_alive()
    if alive:
        child.kill()
    assert not alive, "the forked process hangs"
    assert child.exitcode == 0
    assert np.array_equal(CALLS["product"]().numpy(), expected)  # the parent's pool is still there
