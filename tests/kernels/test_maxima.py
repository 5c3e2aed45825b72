"""The maximum over neighbours: all back ends against dense loops, values and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from armagnn.kernels import backend, neighbour_max, reference
from armagnn.kernels.cpu import aggregation_rows, threads
from strategies import graphs

BACKENDS = [reference, aggregation_rows]


def pattern_of(adjacency: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    found = []
    for matrix in (adjacency, adjacency.T):
        row, col = matrix.nonzero().unbind(1)
        counts = torch.bincount(row, minlength=len(matrix))
        found += [torch.nn.functional.pad(counts.cumsum(0), (1, 0)).int(), col.int()]
    return tuple(found)  # type: ignore[return-value]


def truth(adjacency: Tensor, x: Tensor) -> Tensor:
    rows = [x[row != 0].amax(0) if (row != 0).any() else torch.zeros_like(x[0]) for row in adjacency]
    return torch.stack(rows)


def check(way: Any, adjacency: Tensor, x: Tensor) -> None:
    rowptr, col, t_rowptr, t_col = pattern_of(adjacency)
    x = x.requires_grad_()
    expected = truth(adjacency, x) + 0 * x.sum()  # a gradient also where there is no edge
    most, ties = way.row_max(rowptr, col, x.detach())
    assert torch.equal(most, expected)
    direction = torch.randn_like(expected)
    (gradient,) = torch.autograd.grad((expected * direction).sum(), x)  # amax shares out among equal ones as well
    found = way.row_max_back(t_rowptr, t_col, x.detach(), most, direction / ties)
    if x.dtype == torch.bfloat16:  # sums of numbers with three digits
        assert (found - gradient).abs().max() < 0.02 * gradient.abs().max()
    else:
        torch.testing.assert_close(found, gradient)


@settings(max_examples=30)
@given(graph=graphs(), width=st.integers(1, 9), levels=st.integers(1, 5))
def test_values_and_gradients_with_many_equal_numbers(graph: Any, width: int, levels: int) -> None:
    adjacency = torch.from_numpy(graph.dense())
    generator = torch.Generator().manual_seed(width)
    x = torch.randint(-levels, levels, (graph.num_nodes, width), generator=generator).double()
    for way in BACKENDS:
        check(way, adjacency, x.clone())


@pytest.mark.parametrize("way", BACKENDS, ids=["torch", "cpu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_types_and_several_threads(way: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "num_chunks", lambda work, minimum: 3)
    monkeypatch.setattr(reference, "SLICE", 64)  # a few columns at a time
    generator = torch.Generator().manual_seed(0)
    adjacency = (torch.rand(60, 60, generator=generator) < 0.1).double()
    check(way, adjacency, torch.randint(0, 4, (60, 17), generator=generator).to(dtype))


@pytest.mark.parametrize("way", BACKENDS, ids=["torch", "cpu"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_nan_stays(way: Any, place: int) -> None:
    x = torch.tensor([[1.0], [2.0], [3.0]])
    x[place] = torch.nan
    most, _ = way.row_max(torch.tensor([0, 3, 4]), torch.tensor([0, 1, 2, (place + 1) % 3]), x)
    assert most.isnan().flatten().tolist() == [True, False]


def test_the_operation_is_differentiated_once() -> None:
    generator = torch.Generator().manual_seed(0)
    adjacency = (torch.rand(12, 12, generator=generator) < 0.3).double()
    x = torch.randn(12, 3, generator=generator, dtype=torch.float64).requires_grad_()
    given = pattern_of(adjacency)
    assert torch.autograd.gradcheck(lambda x: neighbour_max(*given, x), (x,))
    assert torch.equal(neighbour_max(*given, x.t().contiguous().t()), truth(adjacency, x))
    (gradient,) = torch.autograd.grad(neighbour_max(*given, x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        gradient.sum().backward()
    (gradient,) = torch.autograd.grad((neighbour_max(*given, x) * x).sum() + x.pow(3).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(gradient.sum(), x)


def test_the_processor_has_a_kernel_of_its_own() -> None:
    assert backend("cpu").row_max is aggregation_rows.row_max


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [1, 7, 50, 300])
def test_on_a_gpu(dtype: torch.dtype, width: int) -> None:
    on_gpu(dtype, width, "cuda")


def on_gpu(dtype: torch.dtype, width: int, device: str) -> None:
    from armagnn.kernels import gpu_aggregation

    generator = torch.Generator().manual_seed(0)
    adjacency = (torch.rand(60, 60, generator=generator) < 0.1).double()
    adjacency[3] = 1
    adjacency[5] = 0
    x = torch.randint(-2, 3, (60, width), generator=generator).to(dtype)
    x[7, 0] = torch.nan
    rowptr, col, t_rowptr, t_col = (part.to(device) for part in pattern_of(adjacency))
    most, ties = gpu_aggregation.row_max(rowptr, col, x.to(device))
    expected = reference.row_max(rowptr.cpu(), col.cpu(), x)
    known = ~expected[0].isnan()
    assert torch.equal(most.cpu().isnan(), ~known)
    assert torch.equal(most.cpu()[known], expected[0][known])
    assert torch.equal(ties.cpu()[known], expected[1][known])
    most, expected = most.nan_to_num(), (expected[0].nan_to_num(), expected[1])
    shares = torch.randn(60, width, generator=generator).to(dtype)
    found = gpu_aggregation.row_max_back(t_rowptr, t_col, x.to(device), most, shares.to(device))
    truth = reference.row_max_back(t_rowptr.cpu(), t_col.cpu(), x, expected[0], shares)
    torch.testing.assert_close(found.cpu(), truth, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-2)
