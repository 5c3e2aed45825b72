from __future__ import annotations

import mmap
import re
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from armagnn.kernels import cpu
from armagnn.kernels.cpu import compile as compiling
from armagnn.kernels.cpu import sparse
from kernels.checks import FUSED, KernelChecks, dtypes, gcs_truth, indices
from oracles import assert_near, numbers
from oracles import sparse as random_sparse

WIDTHS = (1, 2, 3, 5, 8, 13, 16, 31, 32, 50, 64, 65, 100, 127, 128, 129, 192, 200)


@pytest.fixture
def fetching(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(sparse, "LARGE", 1)
    return monkeypatch


def near_and_far(patch: pytest.MonkeyPatch, *args: object) -> tuple[Tensor, Tensor]:
    """The result of the kernel for small graphs, and of that for large ones."""
    seen: list[object] = []
    real = sparse._large_product
    patch.setattr(sparse, "_large_product", lambda *given: seen.append(given) or real(*given))
    patch.setattr(sparse, "LARGE", 1)
    far = cpu.gcs(*args)
    assert len(seen) == 1
    patch.setattr(sparse, "LARGE", 1 << 60)
    near = cpu.gcs(*args)
    assert len(seen) == 1
    patch.setattr(sparse, "_large_product", real)
    return near, far


@pytest.mark.usefixtures("fetching")
class TestLarge(KernelChecks):
    """All that holds of the other kernel, with rows of x fetched ahead."""

    kernels = cpu


@dtypes
@indices
def test_the_same_bits_as_without_fetching(
    dtype: torch.dtype, index: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = random_sparse(40, 30, density=0.4, dtype=dtype, index=index)
    for width in WIDTHS:
        x, skip = numbers(30, width, seed=1, dtype=dtype), numbers(40, width, seed=2, dtype=dtype)
        for act in FUSED:
            args = (a.rowptr, a.col, a.value, x, skip, numbers(width, seed=3, dtype=dtype), act, 0.3)
            near, far = near_and_far(monkeypatch, *args)
            assert torch.equal(near, far), (width, act)
            assert_near(far, gcs_truth(a, x, args[4], args[5], act, 0.3))


@given(st.lists(st.integers(0, 700), min_size=1, max_size=12), st.sampled_from(WIDTHS), st.integers(0, 99))
def test_the_same_bits_for_rows_of_all_lengths(counts: list[int], width: int, seed: int) -> None:
    """Rows without nonzeros, and hubs, whose sums are taken in pieces; the last nonzeros have no later ones."""
    generator = torch.Generator().manual_seed(seed)
    rowptr = torch.tensor([0, *counts]).cumsum(0).int()
    col = torch.randint(0, 50, (sum(counts),), generator=generator, dtype=torch.int32)
    value, x = torch.rand(len(col), generator=generator), torch.rand(50, width, generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        near, far = near_and_far(patch, rowptr, col, value, x, None, None, "none", 0.0)
    assert torch.equal(near, far)
    row = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    truth = torch.zeros(len(counts), width, dtype=torch.float64)
    truth.index_add_(0, row, value.double().unsqueeze(1) * x.double()[col])
    assert_near(far, truth, 1e-5)


def test_the_same_bits_with_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    a = random_sparse(2000, 300, density=0.2, dtype=torch.float32)
    x = numbers(300, 100, dtype=torch.float32)
    args = (a.rowptr, a.col, a.value, x, None, None, "none", 0.0)
    found = []
    before = torch.get_num_threads()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        found += near_and_far(monkeypatch, *args)
    torch.set_num_threads(before)
    assert all(torch.equal(found[0], other) for other in found[1:])


def test_a_large_x_is_fetched_ahead_and_a_small_one_is_not() -> None:
    rows, width = sparse.LARGE // 4 // 64, 64
    assert sparse.is_large(torch.empty(rows, width))
    assert not sparse.is_large(torch.empty(rows - 1, width))
    assert sparse.is_large(torch.empty(2 * rows, width, dtype=torch.bfloat16))
    rows = -(-sparse.LARGE_IN_ONE_BLOCK // 400)
    assert sparse.is_large(torch.empty(rows, 100))  # one block of 100 columns in place of 64 and 36
    assert not sparse.is_large(torch.empty(rows - 1, 100))
    assert not sparse.is_large(torch.empty(rows, 192))


def test_only_the_kernel_for_large_graphs_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    a = random_sparse(4, 4, dtype=torch.float32)
    near_and_far(monkeypatch, a.rowptr, a.col, a.value, numbers(4, 64, dtype=torch.float32), None, None, "none", 0.0)
    # machine code that comes from a file has no listing
    far = numba.njit(error_model="numpy")(sparse._large_rows.py_func)
    far.compile(sparse._large_rows.signatures[0])
    assert "llvm.prefetch" in "".join(far.inspect_llvm().values())
    kinds = [numba.from_dtype(np.dtype(kind)) for kind in next(iter(sparse.PRODUCT._made))]
    near = numba.cfunc(numba.void(*sparse.PRODUCT.types_of(*kinds)), error_model="numpy")(sparse.PRODUCT.function)
    assert "llvm.prefetch" not in near.inspect_llvm()


# --------------------------------------------------------------------------------------------------------------- pages


def flags(address: int) -> str:
    """What the system has been told about the memory at an address."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        bounds = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if bounds:
            inside = int(bounds[1], 16) <= address < int(bounds[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return line
    raise AssertionError("no such memory")


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages are Linux's")
def test_a_large_result_lies_in_huge_pages() -> None:
    if not Path("/sys/kernel/mm/transparent_hugepage").is_dir() or not hasattr(mmap, "MADV_HUGEPAGE"):
        pytest.skip("this system has no huge pages")
    made = compiling.empty(compiling.HUGE // 2, dtype=torch.float32)
    for byte in (0, made.numel() * 2, made.numel() * 4 - 1):
        assert " hg" in flags(made.data_ptr() + byte)


@pytest.mark.parametrize("advise", [None, lambda *args: -1])
def test_results_without_huge_pages(advise: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are none, and where the system refuses."""
    monkeypatch.setattr(compiling, "_advise", lambda: advise)
    made = compiling.empty(compiling.HUGE // 4, 2, dtype=torch.float64)
    made.fill_(1.0)
    assert made.shape == (compiling.HUGE // 4, 2)
    assert made.dtype == torch.float64


def test_small_results_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []
    monkeypatch.setattr(compiling, "_advise", lambda: lambda *args: asked.append(args) or 0)
    compiling.empty(compiling.HUGE // 4 - 1, dtype=torch.float32)
    compiling.empty(0, 5, dtype=torch.float32)
    assert not asked
    made = compiling.empty(compiling.HUGE // 4, dtype=torch.float32)
    ((first, size, how),) = asked
    assert first % mmap.PAGESIZE == 0
    assert first <= made.data_ptr() < first + mmap.PAGESIZE
    assert first + size == made.data_ptr() + compiling.HUGE
    assert how == mmap.MADV_HUGEPAGE
