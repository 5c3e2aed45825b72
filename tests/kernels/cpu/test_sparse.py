"""Sparse products against the truth and plain torch, with small x and with large x, and the same bits every time."""

from __future__ import annotations

import itertools
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

from armagnn.kernels import cpu, reference
from armagnn.kernels.cpu import compile as compiling
from armagnn.kernels.cpu import sparse, threads
from armagnn.kernels.cpu.compile import MIN_PRODUCTS
from kernels.checks import FUSED, KernelChecks, dtypes, gcs_truth, indices
from oracles import TOLERANCE, assert_near, numbers
from oracles import sparse as random_sparse


class TestCPU(KernelChecks):
    kernels = cpu


@dtypes
@pytest.mark.parametrize("act", FUSED)
def test_step_as_in_the_reference(dtype: torch.dtype, act: str) -> None:
    a = random_sparse(40, 30, dtype=dtype)
    for width in (1, 5, 16, 77):
        x, skip = numbers(30, width, seed=1, dtype=dtype), numbers(40, width, seed=2, dtype=dtype)
        args = (a.rowptr, a.col, a.value, x, skip, numbers(width, seed=3, dtype=dtype), act, 0.3)
        tolerance = TOLERANCE[dtype]
        torch.testing.assert_close(cpu.gcs(*args), reference.gcs(*args), rtol=tolerance, atol=10 * tolerance)


@given(st.integers(1, 9), st.integers(0, 40), st.integers(0, 99))
def test_patterns_as_in_the_reference(nodes: int, edges: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    row, col = (torch.from_numpy(rng.integers(0, nodes, edges)) for _ in range(2))
    ours, theirs = cpu.sort_coo(row, col, nodes, nodes), reference.sort_coo(row, col, nodes, nodes)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    rowptr, perm = ours
    ours3, theirs3 = (module.transpose(rowptr, col[perm], nodes) for module in (cpu, reference))
    assert all(torch.equal(a, b) for a, b in zip(ours3, theirs3, strict=True))


@pytest.mark.parametrize("threads", [1, 3])
def test_large_trials_give_the_same_bits_with_any_number_of_threads(threads: int) -> None:
    """Cut into chunks: products with values of trials, and Adam."""
    a = random_sparse(400, 300, density=0.3, dtype=torch.float32)
    values, x = numbers(4, a.value.numel(), dtype=torch.float32), numbers(300, 4 * 48, dtype=torch.float32)
    rate = torch.full((4,), 0.01, dtype=torch.float64)
    assert values.numel() * 48 > 3 * MIN_PRODUCTS

    def run() -> list[torch.Tensor]:
        param = numbers(4, 120_000, seed=3, dtype=torch.float32)
        mean, square = torch.zeros_like(param), torch.zeros_like(param)
        cpu.adam(param, x.new_ones(param.shape), mean, square, rate, rate, torch.tensor(1.0))
        product = cpu.gcs(a.rowptr, a.col, values, x, None, None, "none", 0.0)
        return [param, mean, square, product]

    torch.set_num_threads(threads)
    ours = run()
    torch.set_num_threads(1)
    assert all(torch.equal(one, other) for one, other in zip(ours, run(), strict=True))


def test_more_than_2_to_the_31_products() -> None:
    """A full 1024 x 1024 pattern times 2100 columns: 2.2e9 products, whole numbers, so exactly the dense result."""
    n, width = 1024, 2100
    assert n * n * width > 2**31
    generator = torch.Generator().manual_seed(0)
    a = torch.randint(1, 4, (n, n), generator=generator, dtype=torch.int8).float()
    x = torch.randint(-3, 4, (n, width), generator=generator, dtype=torch.int8).float()
    rowptr = torch.arange(0, n * n + 1, n, dtype=torch.int32)
    col = torch.arange(n, dtype=torch.int32).repeat(n)
    truth = a @ x
    assert torch.equal(cpu.gcs(rowptr, col, a.view(-1), x, None, None, "none", 0.0), truth)
    assert torch.equal(cpu.sddmm(rowptr, col, truth % 4, x), ((truth % 4) @ x.T).view(-1))


def test_features_beyond_2_to_the_31_numbers() -> None:
    """Offsets into x are 64 bits wide. The zeros of x are never touched, so the memory is never there."""
    nodes, width = 2**16 + 2, 2**15
    assert (nodes - 1) * width > 2**31
    x = torch.from_numpy(np.zeros((nodes, width), dtype=np.uint16)).view(torch.bfloat16)
    x[-1] = numbers(width, dtype=torch.bfloat16)
    out = cpu.gcs(
        torch.tensor([0, 0, 1], dtype=torch.int32), torch.tensor([nodes - 1], dtype=torch.int32), torch.tensor([2.0]),
        x, None, None, "none", 0.0,
    )  # fmt: skip
    assert torch.equal(out[1], 2 * x[-1])
    assert not out[0].any()


@given(
    st.lists(st.integers(0, 3_000_000), min_size=1, max_size=40),
    st.integers(1, 64),
    st.integers(1, 8),
)
def test_rows_are_cut_in_order_and_evenly(counts: list[int], width: int, count: int) -> None:
    torch.set_num_threads(count)
    rowptr = np.concatenate([[0], np.cumsum(counts)])
    bounds = threads.row_bounds(rowptr, width, MIN_PRODUCTS)
    assert bounds[0] == 0
    assert bounds[-1] == len(counts)
    assert bounds == sorted(bounds)
    work = rowptr + np.arange(len(rowptr))  # one unit a nonzero and one a row
    share = work[-1] / (len(bounds) - 1)
    for lo, hi in itertools.pairwise(bounds):
        assert work[hi] - work[lo] <= share + max(counts) + 2  # never more than its share and one row


def test_few_columns_are_shared_out_as_eight_are(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)
    rows, each = 1000, 300
    rowptr, col = torch.arange(rows + 1) * each, torch.arange(rows * each) % rows
    seen: list[list[int]] = []
    real = threads.run
    monkeypatch.setattr(threads, "run", lambda *given: seen.append(given[-1]) or real(*given))
    value, x = torch.rand(rows * each), torch.rand(rows, 8)
    whole = cpu.gcs(rowptr, col, value, x, None, None, "none", 0.0)
    for width in (1, 3):
        part = cpu.gcs(rowptr, col, value, x[:, :width].contiguous(), None, None, "none", 0.0)
        torch.testing.assert_close(part, whole[:, :width])
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0]) == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_what_decays_becomes_zero_and_never_subnormal(dtype: torch.dtype) -> None:
    tiny = torch.finfo(dtype).tiny
    param = torch.tensor([[1.0, -1.0, 1e6 * tiny, -2 * tiny, 0.0]], dtype=dtype)
    start = param.clone()
    mean, square = torch.full_like(param, 4 * tiny), torch.full_like(param, 4 * tiny)
    lr, decay = torch.tensor([1e-3]), torch.tensor([1e-6])
    for step in range(1, 60):
        cpu.adam(param, torch.zeros_like(param), mean, square, lr, decay, torch.tensor(float(step)))
        for tensor in (param, mean, square):
            assert ((tensor == 0) | (tensor.abs() >= tiny)).all()
    assert not param[0, 2:].any()
    assert (param[0, :2].abs() < start[0, :2].abs()).all()
    assert (param[0, :2].abs() > 0.9).all()
    param[0, 0] = torch.nan
    cpu.adam(param, torch.zeros_like(param), mean, square, lr, decay, torch.tensor(60.0))
    assert param[0, 0].isnan()  # what has diverged is seen to have


# -------------------------------------------------------------------------------------------------------------- large x


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
    for count in (1, 3):
        torch.set_num_threads(count)
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


def test_columns_of_a_large_matrix_are_read_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    rowptr, col = torch.arange(0, 34_001, 2), torch.randint(0, 17_000, (34_000,))
    value = torch.randn(34_000)
    some = torch.randn(17_000, 100)[:, 20:90]  # of more than 4 MiB
    copied = sparse.gcs(rowptr, col, value, some.contiguous(), None, None, "none", 0.0)
    monkeypatch.setattr(np, "ascontiguousarray", None)
    assert torch.equal(sparse.gcs(rowptr, col, value, some, None, None, "none", 0.0), copied)
