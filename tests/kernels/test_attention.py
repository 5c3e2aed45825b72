"""Attention over neighbours: all back ends against dense matrices, values and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from armagnn.kernels import backend, cpu_attention, neighbour_attention, threads
from armagnn.kernels.attention import attention_by_torch
from kernels.test_maxima import pattern_of
from strategies import graphs

SLOPE = 0.2


def truth(adjacency: Tensor, z: Tensor, s: Tensor, d: Tensor) -> Tensor:
    score = torch.nn.functional.leaky_relu(s[None] + d[:, None], SLOPE)  # [target, source, head]
    edges = (adjacency != 0) | torch.eye(len(adjacency), dtype=torch.bool)
    return torch.einsum("ijh,jhc->ihc", score.masked_fill(~edges[:, :, None], -torch.inf).softmax(1), z)


def problem(nodes: int, heads: int, width: int, scale: float = 1.0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(nodes + 10 * heads + width)
    shapes = (nodes, heads, width), (nodes, heads), (nodes, heads)
    return [scale * torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def by_torch(there: Any, back: Any, *rest: Any) -> Tensor:
    return attention_by_torch(there, *rest)


@settings(max_examples=30)
@given(graph=graphs(), heads=st.integers(1, 3), width=st.integers(1, 5), scale=st.sampled_from([1.0, 300.0]))
def test_values_and_gradients(graph: Any, heads: int, width: int, scale: float) -> None:
    adjacency = torch.from_numpy(graph.dense())
    rowptr, col, t_rowptr, t_col = pattern_of(adjacency)
    given = [tensor.requires_grad_() for tensor in problem(graph.num_nodes, heads, width, scale)]
    direction = problem(graph.num_nodes, heads, width)[0].flip(0)
    expected = truth(adjacency, *given)
    gradients = torch.autograd.grad((expected * direction).sum(), given)
    for way in (neighbour_attention, by_torch):
        found = way((rowptr, col), (t_rowptr, t_col), *given, SLOPE)
        torch.testing.assert_close(found, expected)
        for one, two in zip(torch.autograd.grad((found * direction).sum(), given), gradients, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-7, atol=1e-9 * scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_narrow_types_and_several_threads(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "num_chunks", lambda work, minimum: 3)
    adjacency = (torch.rand(60, 60, generator=torch.Generator().manual_seed(0)) < 0.1).double()
    rowptr, col, t_rowptr, t_col = pattern_of(adjacency)
    given = [tensor.to(dtype).requires_grad_() for tensor in problem(60, 3, 5)]
    wide = [tensor.detach().double().requires_grad_() for tensor in given]
    found, expected = neighbour_attention((rowptr, col), (t_rowptr, t_col), *given, SLOPE), truth(adjacency, *wide)
    assert found.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 0.05
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)
    gradients = torch.autograd.grad(found.sum(), given), torch.autograd.grad(expected.sum(), wide)
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one.double(), two, rtol=tolerance, atol=4 * tolerance)


def test_it_is_differentiated_once() -> None:
    pair = torch.tensor([0, 1, 2]), torch.tensor([1, 0])
    given = [tensor.requires_grad_() for tensor in problem(2, 1, 3)]
    for index in range(3):
        out = neighbour_attention(pair, pair, *given, SLOPE).square().sum()
        (gradient,) = torch.autograd.grad(out, given[index], create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            gradient.sum().backward()


def test_the_processor_has_a_kernel_of_its_own() -> None:
    assert backend("cpu").attend is cpu_attention.attend


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("heads", "width"), [(1, 1), (8, 8), (3, 7), (8, 121)])
def test_on_a_gpu(dtype: torch.dtype, heads: int, width: int) -> None:
    on_gpu(dtype, heads, width, "cuda")


def on_gpu(dtype: torch.dtype, heads: int, width: int, device: str) -> None:
    from armagnn.kernels import gpu_attention

    adjacency = (torch.rand(40, 40, generator=torch.Generator().manual_seed(0)) < 0.15).double()
    adjacency[3], adjacency[5] = 1, 0
    rowptr, col, t_rowptr, t_col = pattern_of(adjacency)
    z, s, d = (tensor.to(dtype) for tensor in problem(40, heads, width))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-11
    here = cpu_attention.attend(rowptr, col, z, s, d, SLOPE)
    there = gpu_attention.attend(*(part.to(device) for part in (rowptr, col, z, s, d)), SLOPE)
    for one, two in zip(there, here, strict=True):
        torch.testing.assert_close(one.cpu(), two, rtol=tolerance, atol=tolerance)
    g, q, _ = (tensor.to(dtype).flip(0) for tensor in problem(40, heads, width))
    given = t_rowptr, t_col, g, q, s, d, here[1]
    here = cpu_attention.attend_back(*given, SLOPE)
    there = gpu_attention.attend_back(*(part.to(device) for part in given), SLOPE)
    for one, two in zip(there, here, strict=True):
        torch.testing.assert_close(one.cpu(), two, rtol=tolerance, atol=10 * tolerance)
