"""Attention and the maximum over neighbours: all back ends against dense loops, values and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from armagnn.kernels import added_attention, backend, neighbour_attention, neighbour_max, reference
from armagnn.kernels.aggregation import attention_by_torch
from armagnn.kernels.cpu import aggregation_rows, threads
from strategies import graphs

SLOPE = 0.2


def pattern_of(adjacency: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    found = []
    for matrix in (adjacency, adjacency.T):
        row, col = matrix.nonzero().unbind(1)
        counts = torch.bincount(row, minlength=len(matrix))
        found += [torch.nn.functional.pad(counts.cumsum(0), (1, 0)).int(), col.int()]
    return tuple(found)  # type: ignore[return-value]


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


def shared(nodes: int, groups: int, heads: int, fan_in: int, fan_out: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(nodes + heads + fan_in)
    shapes = (nodes, groups, fan_in), (groups, heads, fan_in, fan_out), (nodes, groups, heads), (nodes, groups, heads)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def added_truth(adjacency: Tensor, x: Tensor, weight: Tensor, s: Tensor, d: Tensor) -> Tensor:
    z = torch.einsum("ngc,ghcf->nghf", x, weight)
    return truth(adjacency, z.flatten(1, 2), s.flatten(1), d.flatten(1)).view(z.shape).sum(2)


@settings(max_examples=30)
@given(graph=graphs(), sizes=st.tuples(*[st.integers(1, 3)] * 4))
def test_added_heads(graph: Any, sizes: tuple[int, ...]) -> None:
    adjacency = torch.from_numpy(graph.dense())
    rowptr, col, t_rowptr, t_col = pattern_of(adjacency)
    given = [tensor.requires_grad_() for tensor in shared(graph.num_nodes, *sizes)]
    expected = added_truth(adjacency, *given)
    found = added_attention((rowptr, col), (t_rowptr, t_col), *given, SLOPE)
    torch.testing.assert_close(found, expected)
    direction = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gradients = (torch.autograd.grad((out * direction).sum(), given) for out in (found, expected))
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dims", [(0, 0, 0, 0), (None, 0, 0, 0), (1, None, 2, 1), (0, 3, None, None)], ids=str)
def test_added_heads_of_many_trials(dims: tuple[int | None, ...]) -> None:
    adjacency = (torch.rand(9, 9, generator=torch.Generator().manual_seed(2)) < 0.4).double()
    rowptr, col, t_rowptr, t_col = pattern_of(adjacency)
    each = [shared(9, 2, 3, 4, 5) for _ in range(3)]
    given = [
        tensors[0] if dim is None else torch.stack([t + r for r, t in enumerate(tensors)], dim)
        for dim, tensors in zip(dims, zip(*each, strict=True), strict=True)
    ]

    def gradients(way: Any) -> Any:
        return torch.func.grad(lambda *tensors: way(*tensors).square().sum(), argnums=(0, 1, 2, 3))

    found = torch.vmap(
        gradients(lambda *tensors: added_attention((rowptr, col), (t_rowptr, t_col), *tensors, SLOPE)), in_dims=dims
    )(*given)
    for r in range(3):
        alone = [t if dim is None else t.select(dim, r) for dim, t in zip(dims, given, strict=True)]
        for one, two in zip(found, gradients(lambda *t: added_truth(adjacency, *t))(*alone), strict=True):
            torch.testing.assert_close(one[r], two, rtol=1e-7, atol=1e-8)


def test_added_heads_in_a_narrow_type() -> None:
    adjacency = (torch.rand(9, 9, generator=torch.Generator().manual_seed(2)) < 0.4).double()
    rowptr, col, t_rowptr, t_col = pattern_of(adjacency)
    given = shared(9, 2, 3, 4, 5)
    found = added_attention((rowptr, col), (t_rowptr, t_col), *(t.bfloat16() for t in given), SLOPE)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), added_truth(adjacency, *given), rtol=0.1, atol=0.2)


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
        with pytest.raises(RuntimeError, match="first derivatives only"):
            gradient.sum().backward()
        for other in given:  # also where torch follows only what leads there
            out = neighbour_attention(pair, pair, *given, SLOPE).square().sum() + other.pow(3).sum()
            (gradient,) = torch.autograd.grad(out, given[index], create_graph=True)
            with pytest.raises(RuntimeError, match="first derivatives only"):
                torch.autograd.grad(gradient.sum(), other)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.func.grad(lambda z: torch.func.grad(lambda z: of_z(z, given).square().sum())(z).sum())(given[0].detach())


def of_z(z: Tensor, given: list[Tensor]) -> Tensor:
    pair = torch.tensor([0, 1, 2]), torch.tensor([1, 0])
    return neighbour_attention(pair, pair, z, *(tensor.detach() for tensor in given[1:]), SLOPE)


def test_added_heads_are_differentiated_once() -> None:
    pair = torch.tensor([0, 1, 2]), torch.tensor([1, 0])
    given = [tensor.requires_grad_() for tensor in shared(2, 1, 2, 3, 3)]
    for one in given:
        for other in given:
            out = added_attention(pair, pair, *given, SLOPE).square().sum() + one.pow(3).sum() + other.pow(3).sum()
            (gradient,) = torch.autograd.grad(out, one, create_graph=True)
            with pytest.raises(RuntimeError, match="first derivatives only"):
                torch.autograd.grad(gradient.sum(), other)


def test_added_heads_of_signals_that_share_their_weights() -> None:
    adjacency = (torch.rand(9, 9, generator=torch.Generator().manual_seed(2)) < 0.4).double()
    rowptr, col, t_rowptr, t_col = pattern_of(adjacency)
    x, weight, s, d = (tensor.requires_grad_() for tensor in shared(9, 4, 3, 2, 5))
    for weights in (1, 2, 4):
        own = weight[:weights]
        truths = added_truth(adjacency, x, own.repeat_interleave(4 // weights, 0), s, d)
        found = added_attention((rowptr, col), (t_rowptr, t_col), x, own, s, d, SLOPE)
        torch.testing.assert_close(found, truths)
        pairs = (torch.autograd.grad(out.square().sum(), [x, weight, s, d]) for out in (found, truths))
        for one, two in zip(*pairs, strict=True):
            torch.testing.assert_close(one, two)


def test_autocast_changes_no_type() -> None:
    adjacency = (torch.rand(9, 9, generator=torch.Generator().manual_seed(2)) < 0.4).double()
    rowptr, col, t_rowptr, t_col = pattern_of(adjacency)
    given = [tensor.float().requires_grad_() for tensor in shared(9, 2, 3, 4, 5)]
    plain = added_attention((rowptr, col), (t_rowptr, t_col), *given, SLOPE)
    expected = torch.autograd.grad(plain.square().sum(), given)
    with torch.autocast("cpu", torch.bfloat16):
        found = added_attention((rowptr, col), (t_rowptr, t_col), *given, SLOPE)
        gradients = torch.autograd.grad(found.square().sum(), given)
    assert torch.equal(found, plain)
    assert all(torch.equal(one, two) for one, two in zip(gradients, expected, strict=True))


def test_the_processor_has_its_own_kernels() -> None:
    assert backend("cpu").attend is aggregation_rows.attend
    assert backend("cpu").row_max is aggregation_rows.row_max


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("heads", "each", "width"), [(1, 1, 1), (8, 1, 8), (3, 1, 7), (8, 1, 121), (40, 8, 50), (6, 3, 7), (16, 16, 121)]
)
def test_on_a_gpu(dtype: torch.dtype, heads: int, each: int, width: int) -> None:
    on_gpu(dtype, heads, each, width, "cuda")


def on_gpu(dtype: torch.dtype, heads: int, each: int, width: int, device: str) -> None:
    from armagnn.kernels import gpu_aggregation

    adjacency = (torch.rand(40, 40, generator=torch.Generator().manual_seed(0)) < 0.15).double()
    adjacency[3], adjacency[5] = 1, 0
    rowptr, col, t_rowptr, t_col = pattern_of(adjacency)
    z, s, d = (tensor.to(dtype) for tensor in problem(40, heads, width))
    z = z[:, ::each].contiguous()  # as many heads share their features
    tolerance = 1e-5 if dtype == torch.float32 else 1e-11
    here = aggregation_rows.attend(rowptr, col, z, s, d, SLOPE)
    there = gpu_aggregation.attend(*(part.to(device) for part in (rowptr, col, z, s, d)), SLOPE)
    for one, two in zip(there, here, strict=True):
        torch.testing.assert_close(one.cpu(), two, rtol=tolerance, atol=tolerance)
    g, q, _ = (tensor.to(dtype).flip(0) for tensor in problem(40, heads, width))
    given = t_rowptr, t_col, g[:, ::each].contiguous(), q, s, d, here[1]
    here = aggregation_rows.attend_back(*given, SLOPE)
    there = gpu_aggregation.attend_back(*(part.to(device) for part in given), SLOPE)
    for one, two in zip(there, here, strict=True):
        torch.testing.assert_close(one.cpu(), two, rtol=tolerance, atol=10 * tolerance)


# ---------------------------------------------------------------------------------------------------------- the maximum


BACKENDS = [reference, aggregation_rows]


def largest(adjacency: Tensor, x: Tensor) -> Tensor:
    rows = [x[row != 0].amax(0) if (row != 0).any() else torch.zeros_like(x[0]) for row in adjacency]
    return torch.stack(rows)


def check(way: Any, adjacency: Tensor, x: Tensor) -> None:
    rowptr, col, t_rowptr, t_col = pattern_of(adjacency)
    x = x.requires_grad_()
    expected = largest(adjacency, x) + 0 * x.sum()  # a gradient also where there is no edge
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
def test_maxima_in_narrow_types_on_threads(way: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_maximum_is_differentiated_once() -> None:
    generator = torch.Generator().manual_seed(0)
    adjacency = (torch.rand(12, 12, generator=generator) < 0.3).double()
    x = torch.randn(12, 3, generator=generator, dtype=torch.float64).requires_grad_()
    given = pattern_of(adjacency)
    assert torch.autograd.gradcheck(lambda x: neighbour_max(*given, x), (x,))
    assert torch.equal(neighbour_max(*given, x.t().contiguous().t()), largest(adjacency, x))
    (gradient,) = torch.autograd.grad(neighbour_max(*given, x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        gradient.sum().backward()
    (gradient,) = torch.autograd.grad((neighbour_max(*given, x) * x).sum() + x.pow(3).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(gradient.sum(), x)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [1, 7, 50, 300])
def test_maxima_on_a_gpu(dtype: torch.dtype, width: int) -> None:
    maxima_on_gpu(dtype, width, "cuda")


def maxima_on_gpu(dtype: torch.dtype, width: int, device: str) -> None:
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
