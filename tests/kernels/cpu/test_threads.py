from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from armagnn.kernels import cpu
from armagnn.kernels.cpu import threads
from armagnn.kernels.cpu.compile import compiled
from armagnn.kernels.cpu.threads import Chunk, begin
from oracles import Sparse, numbers

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
WIDTH = 67
X = numbers(2000, WIDTH, seed=1, dtype=torch.float32)
SKIP = numbers(3000, WIDTH, seed=2, dtype=torch.float32)
BIAS = numbers(WIDTH, seed=3, dtype=torch.float32)
CALLS: dict[str, Callable[[], Tensor]] = {
    "product": lambda: cpu.gcs(MATRIX.rowptr, MATRIX.col, MATRIX.value, X, None, None, "none", 0.0),
    "step": lambda: cpu.gcs(MATRIX.rowptr, MATRIX.col, MATRIX.value, X, SKIP, BIAS, "leaky_relu", 0.1),
    "bfloat16": lambda: cpu.gcs(MATRIX.rowptr, MATRIX.col, MATRIX.value, X.bfloat16(), SKIP, BIAS, "relu", 0.1),
    "sddmm": lambda: cpu.sddmm(MATRIX.rowptr, MATRIX.col, SKIP, X),
    "dropout": lambda: cpu.dropout(SKIP.repeat(4, 1), torch.tensor([4]), 0.4, 1),
}


@pytest.fixture(params=["team", "python threads"])
def layer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to share out the work; the second one serves forked processes and machines without OpenMP."""
    if request.param == "team":
        if not threads._has_team():
            pytest.skip("no OpenMP here")
    else:
        monkeypatch.setattr(threads, "_has_team", lambda: False)
    return str(request.param)


@pytest.mark.parametrize("name", CALLS)
def test_the_same_bits_for_every_number_of_threads(name: str, layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks: list[int] = []
    run = threads.run

    def spy(*args: Any) -> None:
        chunks.append(len(args[-1]) - 1)
        run(*args)

    monkeypatch.setattr(threads, "run", spy)
    torch.set_num_threads(1)
    alone = CALLS[name]()
    assert chunks == [1]
    for count in COUNTS:
        torch.set_num_threads(count)
        chunks.clear()
        for _ in range(3):
            assert torch.equal(CALLS[name](), alone)
        assert min(chunks) > 1 or count == 1  # the work was really shared out


@pytest.mark.parametrize("name", ["product", "sddmm"])
def test_large_products_are_right(name: str) -> None:
    """The bits agree; here that they are the right ones, in every chunk."""
    torch.set_num_threads(3)
    if name == "product":
        truth = torch.from_numpy(MATRIX.dense()) @ X.double()
    else:
        truth = (SKIP.double() @ X.double().T)[MATRIX.row, MATRIX.col.long()]
    torch.testing.assert_close(CALLS[name]().double(), truth, rtol=1e-4, atol=1e-4)


def test_several_callers_at_once(layer: str) -> None:
    torch.set_num_threads(2)
    alone = {name: call() for name, call in CALLS.items()}
    with ThreadPoolExecutor(4) as callers:
        results = [(name, callers.submit(call)) for _ in range(3) for name, call in CALLS.items()]
        assert all(torch.equal(future.result(60), alone[name]) for name, future in results)


# ----------------------------------------------------------------------------------------------------------------- run


def ends(chunk: Chunk) -> tuple[int, int]:
    assert chunk.number >= 0, "there is no team"
    return int(chunk.bounds[chunk.number]), int(chunk.bounds[chunk.number + 1])


def mark(chunk: Chunk, seen: list[int], lock: Lock) -> None:
    with lock:
        seen.extend(range(*ends(chunk)))


@given(st.lists(st.integers(0, 50), min_size=2, max_size=20).map(sorted), st.integers(1, 5))
def test_every_row_is_run_once(bounds: list[int], count: int) -> None:
    torch.set_num_threads(count)
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "_has_team", lambda: False)
        threads.run(mark, (seen, Lock()), bounds)
    assert sorted(seen) == list(range(bounds[0], bounds[-1]))


@pytest.mark.parametrize("bad", [0, 7, 15])
def test_an_error_in_a_chunk_reaches_the_caller(bad: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_has_team", lambda: False)

    def work(chunk: Chunk) -> None:
        if ends(chunk)[0] == bad:
            raise FloatingPointError(str(bad))

    with pytest.raises(FloatingPointError, match=str(bad)):
        threads.run(work, (), list(range(17)))
    threads.run(lambda chunk: None, (), list(range(17)))  # and the pool goes on


@compiled()
def refuse_seven(chunk: Any, out: Any) -> None:
    lo, hi = begin(chunk)
    for i in range(lo, hi):
        out[i] += 1
        if i == 7:
            raise ValueError("seven")


def test_an_error_in_a_part_of_compiled_code_reaches_the_caller(layer: str) -> None:
    torch.set_num_threads(2)
    out = np.zeros(20)
    with pytest.raises(ValueError, match="seven"):
        threads.run(refuse_seven, (out,), [0, 6, 12, 20])
    assert out[:8].tolist() == [1] * 8
    assert out.max() == 1
    out[:] = 0
    threads.run(refuse_seven, (out[8:],), [0, 3, 5, 7])
    assert out.tolist() == [0] * 8 + [1] * 7 + [0] * 5


@given(st.integers(0, 10**10), st.integers(1, 10**6), st.integers(1, 64))
def test_num_chunks(work: int, minimum: int, count: int) -> None:
    torch.set_num_threads(count)
    chunks = threads.num_chunks(work, minimum)
    assert 1 <= chunks <= count
    assert chunks == 1 or work // chunks >= minimum
    assert chunks == count or work < (chunks + 1) * minimum  # no thread is idle that could have had its share


# ----------------------------------------------------------------------------------------------------------------- fork


def _child(expected: np.ndarray) -> None:
    torch.set_num_threads(2)
    out = CALLS["product"]().numpy()
    raise SystemExit(0 if np.array_equal(out, expected) and threads._pool is not None else 1)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
def test_a_forked_process_works() -> None:
    """A data-loader worker is forked from a process whose threads are running; they do not come along."""
    torch.set_num_threads(2)
    expected = CALLS["product"]().numpy()
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
    assert np.array_equal(CALLS["product"]().numpy(), expected)  # the parent goes on as before


def test_a_place_without_cache_compiles_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    original = numba.njit

    def refuse(**options: Any) -> Any:
        if options.get("cache"):
            raise RuntimeError("no locator available")
        return original(**options)

    monkeypatch.setattr(numba, "njit", refuse)
    assert compiled()(lambda x: x + 1)(2) == 3


def test_the_callers_number_of_numba_threads_is_put_back() -> None:
    import numba

    torch.set_num_threads(2)
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    CALLS["product"]()
    assert numba.get_num_threads() == 1
    numba.set_num_threads(before)
