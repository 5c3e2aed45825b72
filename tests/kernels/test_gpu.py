"""The Triton kernels, on a GPU."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from armagnn.kernels import reference
from kernels.late import late_step

DEVICE = "cuda"
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or importlib.util.find_spec("triton") is None, reason="no GPU, or no triton"
)

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float64: 1e-12}
ACTS = {
    "none": lambda x: x,
    "relu": torch.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "elu": lambda x: F.elu(x, 0.1),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def problem(
    rows: int, cols: int, nonzeros: int, width: int, dtype: torch.dtype, hub: bool = False
) -> tuple[Tensor, ...]:
    """Return rowptr, col, value and x, poison-free, with empty rows; and the dense truth of A in float64."""
    generator = torch.Generator().manual_seed(rows * 31 + width)
    row = torch.randint(0, max(1, rows // 2), (nonzeros,), generator=generator)
    if hub:
        row[nonzeros // 3 :] = rows - 1
    col = torch.randint(0, max(cols, 1), (nonzeros,), generator=generator)
    rowptr, perm = reference.sort_coo(row, col, rows, cols)
    value = torch.randn(nonzeros, generator=generator).to(dtype)[perm]
    dense = torch.zeros(rows, cols, dtype=torch.float64)
    dense.index_put_((row[perm], col[perm]), value.double(), accumulate=True)
    x = torch.randn(cols, width, generator=generator).to(dtype)
    return rowptr.int().to(DEVICE), col[perm].int().to(DEVICE), value.to(DEVICE), x.to(DEVICE), dense


def close(ours: Tensor, truth: Tensor, dtype: torch.dtype) -> None:
    error = (ours.double().cpu() - truth).norm() / truth.norm().clamp(min=1e-30)
    assert error < TOLERANCE[dtype], error


SIZES = [(1, 1, 0), (1, 1, 1), (5, 9, 20), (40, 30, 200)]


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize(("rows", "cols", "nonzeros"), SIZES)
@pytest.mark.parametrize("width", [1, 3, 16, 50, 600])
def test_products(dtype: torch.dtype, rows: int, cols: int, nonzeros: int, width: int) -> None:
    from armagnn.kernels import gpu

    rowptr, col, value, x, dense = problem(rows, cols, nonzeros, width, dtype)
    close(gpu.gcs(rowptr, col, value, x, None, None, "none", 0.0), dense @ x.double().cpu(), dtype)
    close(gpu.gcs(rowptr.long(), col.long(), value, x, None, None, "none", 0.0), dense @ x.double().cpu(), dtype)


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(("p", "width"), [(0.0, 37), (0.4, 37), (0.4, 4), (0.4, 36), (0.4, 600)])
def test_steps(dtype: torch.dtype, act: str, p: float, width: int) -> None:
    from armagnn.kernels import gpu

    rowptr, col, value, x, dense = problem(40, 30, 200, width, dtype)
    skip, bias = torch.randn(40, width).to(dtype).to(DEVICE), torch.randn(width).to(dtype).to(DEVICE)
    seed = torch.tensor([2**40 + 5], device=DEVICE) if p else None
    kept = reference.keep_mask(seed.cpu(), p, 3, (40, width)) / (1 - p) if seed is not None else 1.0
    truth = ACTS[act](dense @ x.double().cpu() + skip.double().cpu() * kept + bias.double().cpu())
    calls = [gpu.gcs(rowptr, col, value, x, skip, bias, act, 0.1, seed, p, 3) for _ in range(2)]
    tolerance = dtype if p == 0 or dtype != torch.float64 else torch.float32  # the mask's 2^-32 grid for p
    close(calls[0], truth, tolerance)
    assert torch.equal(*calls)


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
def test_hubs(dtype: torch.dtype) -> None:
    from armagnn.kernels import gpu

    rowptr, col, value, x, dense = problem(20, 30, 60_000, 37, dtype, hub=True)
    assert (rowptr[1:] - rowptr[:-1]).max() > gpu.HUB
    skip = torch.randn(20, 37).to(dtype).to(DEVICE)
    truth = torch.relu(dense @ x.double().cpu() + skip.double().cpu())
    calls = [gpu.gcs(rowptr, col, value, x, skip, None, "relu", 0.0) for _ in range(2)]
    close(calls[0], truth, dtype)
    assert torch.equal(*calls)
    again = rowptr.clone()
    gpu.cut_rows(again, col.shape[0])
    assert torch.equal(gpu.gcs(again, col, value, x, skip, None, "relu", 0.0), calls[0])


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("width", [1, 37, 130])
def test_sddmm_and_dropout(dtype: torch.dtype, width: int) -> None:
    from armagnn.kernels import gpu

    rowptr, col, _, x, _ = problem(40, 30, 200, width, dtype)
    left = torch.randn(40, width).to(dtype).to(DEVICE)
    row = reference.rows_of(rowptr, 200).long().cpu()
    truth = (left.double().cpu()[row] * x.double().cpu()[col.long().cpu()]).sum(1)
    close(gpu.sddmm(rowptr, col, left, x), truth, dtype)
    seed = torch.tensor([77], device=DEVICE)
    kept = reference.keep_mask(seed.cpu(), 0.25, 1, left.shape)
    ours = gpu.dropout(left, seed, 0.25, 1).cpu()
    assert torch.equal(ours != 0, kept & (left.cpu() != 0))
    close(ours, left.double().cpu() * kept / 0.75, torch.float32 if dtype == torch.float64 else dtype)


def test_the_layer_on_the_gpu_equals_the_layer_on_the_cpu() -> None:
    from armagnn import GraphOperator
    from armagnn.nn import ARMAConv

    index = torch.randint(0, 50, (2, 300))
    op = GraphOperator.from_edge_index(index, 50, dtype=torch.float64)
    for fin, options in ((6, {}), (60, {}), (6, {"dropout": 0.3}), (60, {"init": "tied"}), (6, {"act": "elu"})):
        conv = ARMAConv(fin, 7, 3, 3, **options).double()
        x = torch.randn(4, 50, fin, dtype=torch.float64)
        results = []
        for device in ("cpu", "cuda"):
            layer, signal = conv.to(device), x.to(device).requires_grad_()
            layer.train(not options.get("dropout"))  # the seeds of a mask come from each device's own generator
            out = layer(signal, op.to(device))
            results.append(
                [t.cpu() for t in (out, *torch.autograd.grad(out.square().sum(), [signal, *layer.parameters()]))]
            )
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_gradcheck_compile_vmap_and_repeatability_on_the_gpu() -> None:
    from armagnn import GraphOperator
    from armagnn.nn import ARMAConv

    index = torch.randint(0, 12, (2, 40), device="cuda")
    weight = torch.rand(40, device="cuda", dtype=torch.float64).add(0.1).requires_grad_()
    conv = ARMAConv(3, 2, 2, 2, act="tanh").cuda().double()
    x = torch.randn(12, 3, device="cuda", dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: conv(x, index, w), (x, weight))
    op = GraphOperator.from_edge_index(index, 12, dtype=torch.float64)
    compiled = torch.compile(conv, fullgraph=True)
    torch.testing.assert_close(compiled(x, op), conv(x, op))
    xs = torch.randn(5, 12, 3, device="cuda", dtype=torch.float64)
    torch.testing.assert_close(torch.func.vmap(lambda x: conv(x, op))(xs), conv(xs, op))
    big = GraphOperator.from_edge_index(torch.randint(0, 3000, (2, 90_000), device="cuda"), 3000)
    layer, signal = ARMAConv(20, 33, 3, 3, dropout=0.2).cuda(), torch.randn(3000, 20, device="cuda")
    runs = []
    for _ in range(2):
        torch.manual_seed(0)
        layer.zero_grad()
        layer(signal, big).sum().backward()
        runs.append([p.grad.clone() for p in layer.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_offsets_beyond_32_bits() -> None:
    from armagnn.kernels import gpu

    rows, width = 2**25, 65  # 2.2e9 numbers
    rowptr = torch.zeros(rows + 1, dtype=torch.int32, device="cuda")
    rowptr[-1] = 2
    col = torch.tensor([0, rows - 1], dtype=torch.int32, device="cuda")
    value = torch.tensor([2.0, 3.0], device="cuda")
    x = torch.zeros(rows, width, device="cuda")
    x[0], x[-1] = 1.0, torch.arange(width, device="cuda").float()
    out = gpu.gcs(rowptr, col, value, x, None, None, "none", 0.0)
    assert torch.equal(out[-1], 2 + 3 * torch.arange(width, device="cuda").float())
    assert out[:-1].abs().max() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("rows", "fin", "group", "stacks"), [(1, 1, 1, 1), (300, 50, 64, 3), (129, 64, 7, 2)])
@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize("act", ["relu", "sigmoid"])
def test_the_first_step_in_one_pass(
    dtype: torch.dtype, rows: int, fin: int, group: int, stacks: int, p: float, act: str
) -> None:
    from armagnn.kernels import gpu
    from armagnn.randomness import keep_mask

    def draw(*shape: int) -> Tensor:
        return (torch.randn(shape) / 4).to(DEVICE, dtype)

    x, lx, bias = draw(rows, fin), draw(rows, fin), draw(stacks * group)
    v, w0, w = draw(fin, stacks * group), draw(fin, stacks * group), draw(stacks, group, group)
    seed = torch.tensor([7], device=DEVICE) if p else None
    ours = gpu.early_step(x, lx, v, w0, bias, w, act, 0.0, seed, p, group, True, True)
    assert ours is not None
    x, lx, bias, v, w0, w = (tensor.double().cpu() for tensor in (x, lx, bias, v, w0, w))
    skip = x @ v if p else x @ v + bias
    dropped = skip if seed is None else skip * keep_mask(seed.cpu(), p, 0, skip.shape) / (1 - p) + bias
    state = ACTS[act](dropped + lx @ w0)
    after = torch.einsum("nkf,kfg->nkg", state.view(rows, stacks, group), w).flatten(1)
    for got, truth in zip(ours, (skip, state, after), strict=True):
        close(got, truth, dtype)
    wide = torch.zeros(4, gpu.MOST_CHANNELS + 1, device=DEVICE, dtype=dtype)
    assert gpu.early_step(wide, wide, wide.t(), wide.t(), None, None, act, 0.0, None, 0.0, 4, True, True) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("rows", "stacks", "group"), [(1, 1, 1), (300, 3, 64), (129, 2, 7), (20_000, 5, 32)])
@pytest.mark.parametrize("act", list(ACTS))
@pytest.mark.parametrize("skips", ["no", "whole", "dropped", "layers"])
def test_a_backward_step_in_one_pass(
    dtype: torch.dtype, rows: int, stacks: int, group: int, act: str, skips: str
) -> None:
    from armagnn.kernels import gpu

    def draw(*shape: int) -> Tensor:
        return (torch.randn(shape) / 4).to(dtype)

    stacks, layers = (3 * stacks, 3) if skips == "layers" else (stacks, 1)
    down, skip, w = draw(rows, stacks, group), draw(rows, stacks, group), draw(stacks, group, group)
    below = ACTS[act](torch.randn(rows, stacks, group)).to(dtype)
    seeds, rates = torch.tensor([2**40 + 5, 7, 9])[:layers], torch.tensor([0.0, 0.3, 0.8], dtype=torch.float64)
    drop: Any = {"dropped": (seeds, 0.4, 3), "layers": (seeds, rates, 3)}.get(skips)
    there = drop and tuple(part.to(DEVICE) if isinstance(part, Tensor) else part for part in drop)

    def ours(parts: Tensor | None = None) -> tuple[Tensor, ...]:
        given = [tensor.to(DEVICE, copy=True) for tensor in (down, below, w, skip)]
        added = None if skips == "no" else given[3]
        found = gpu.late_step(*given[:3], act, 0.1, layers, added, there, parts)
        assert found is not None
        return found, given[0], given[3]

    def truth() -> tuple[Tensor, ...]:
        given = [tensor.double() for tensor in (down, below, w, skip)]
        added = None if skips == "no" else given[3]
        return late_step(*given[:3], act, 0.1, layers, added, drop).sum(0), given[0], given[3]

    parts, *changed = ours()
    first = parts.sum(0)
    for got, expected in zip((first, *changed), truth(), strict=True):
        close(got, expected, dtype)
    assert torch.equal(ours()[0].sum(0), first)  # the same bits
    twice, *_ = ours(parts)
    assert twice is parts
    close(twice.sum(0), 2 * truth()[0], dtype)
    wide = torch.zeros(4, 1, gpu.MOST_CHANNELS + 1, device=DEVICE, dtype=dtype)
    assert gpu.late_step(wide, wide, wide[:1], act, 0.1) is None
    apart = torch.zeros(4, 2, 6, device=DEVICE, dtype=dtype)[..., ::2]
    assert gpu.late_step(apart, apart, torch.zeros(2, 3, 3, device=DEVICE, dtype=dtype), act, 0.1) is None
    assert gpu.late_step(*(tensor.double().to(DEVICE) for tensor in (down, below, w)), act, 0.1) is None


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (300, 3, 64, 50), (129, 2, 7, 130), (20_000, 10, 32, 128), (9, 2, 70, 3)]
)
def test_outer_products_of_trials(dtype: torch.dtype, shape: tuple[int, int, int, int]) -> None:
    from armagnn.kernels import gpu

    rows, trials, fan_in, width = shape
    x, g = torch.randn(rows, trials, fan_in).to(dtype), torch.randn(rows, trials, width).to(dtype)
    found = gpu.outer(x.to(DEVICE), g.to(DEVICE))
    assert found.dtype == dtype
    close(found, torch.einsum("nrf,nrc->rfc", x.double(), g.double()), dtype)
    assert torch.equal(found, gpu.outer(x.to(DEVICE), g.to(DEVICE)))
    apart = torch.cat([x, x], 2).to(DEVICE)[..., :fan_in]
    close(gpu.outer(apart, g.to(DEVICE)), torch.einsum("nrf,nrc->rfc", x.double(), g.double()), dtype)


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize(("signals", "stacks", "group"), [(1, 1, 5), (1, 3, 70), (2, 2, 16)])
def test_the_mean_of_the_stacks_in_passing(dtype: torch.dtype, signals: int, stacks: int, group: int) -> None:
    from armagnn.kernels import gpu

    rowptr, col, value, x, dense = problem(40, 30, 6000, signals * stacks * group, dtype, hub=True)
    skip = torch.randn(40, x.shape[1]).to(DEVICE, dtype)
    ours = gpu.gcs(rowptr, col, value, x, skip, None, "relu", 0.0, stacks=stacks, group=group)
    states = torch.relu(dense @ x.double().cpu() + skip.double().cpu())
    close(ours, states.view(40, signals, stacks, group).mean(2).flatten(1), dtype)


def test_inference_equals_training_without_dropout() -> None:
    from armagnn import GraphOperator
    from armagnn.kernels import gpu
    from armagnn.nn import ARMAConv

    op = GraphOperator.from_edge_index(torch.randint(0, 5000, (2, 40_000), device=DEVICE), 5000)
    x = torch.randn(5000, 50, device=DEVICE)
    cached, gpu.CACHED = gpu.CACHED, 0  # so that the mean is taken in passing
    try:
        for steps in (1, 2, 4):
            conv = ARMAConv(50, 64, 3, steps).to(DEVICE)
            kept = conv(x, op)
            with torch.no_grad():
                torch.testing.assert_close(conv(x, op), kept.detach())
    finally:
        gpu.CACHED = cached


# --------------------------------------------------------------------------------------------------------------- trials


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("shape", [(5, 3, 4), (300, 3, 7), (1, 3, 2050), (64, 1, 9)])
def test_dropout_of_trials(dtype: torch.dtype, shape: tuple[int, int, int]) -> None:
    from armagnn.kernels import gpu

    x = torch.randn(shape).to(dtype).add(3).to(DEVICE)
    seed, rates = torch.tensor([5, 2**61, 7])[: shape[1]], torch.tensor([0.3, 0.0, 0.75], dtype=torch.float64)
    fixed = (seed.to(DEVICE), rates[: shape[1]].to(DEVICE), 2)
    out = gpu.dropout_trials(x, *fixed)
    truth = reference.dropout_trials(x.cpu(), seed, rates[: shape[1]], 2)
    assert torch.equal(out.cpu() != 0, truth != 0)
    close(out, truth.double(), dtype)
    assert gpu.dropout_trials(x, *fixed, x) is x
    assert torch.equal(x, out)


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("hub", [False, True])
def test_products_with_values_of_each_trial(dtype: torch.dtype, hub: bool) -> None:
    from armagnn.kernels import gpu

    trials, width = 3, 20
    rowptr, col, _, x, _ = problem(40, 30, 2000 if hub else 200, trials * width, dtype, hub)
    values = torch.randn(trials, col.numel()).to(dtype).to(DEVICE)
    out = gpu.gcs(rowptr, col, values, x, None, None, "none", 0.0)
    for r in range(trials):
        own = slice(r * width, (r + 1) * width)
        alone = gpu.gcs(rowptr, col, values[r].contiguous(), x[:, own].contiguous(), None, None, "none", 0.0)
        close(out[:, own], alone.double().cpu(), dtype)


@pytest.mark.parametrize("sparse", [True, False])
def test_the_layer_of_trials_is_the_layers_of_the_trials(sparse: bool) -> None:
    """Also as a recorded graph, which no wait for the device may interrupt."""
    from armagnn import CSR, GraphOperator
    from armagnn.nn import ARMAConv
    from armagnn.randomness import source

    op = GraphOperator.from_edge_index(torch.randint(0, 50, (2, 300)), 50, dtype=torch.float64).to(DEVICE)
    conv = ARMAConv(6, 5, 2, 2).double().to(DEVICE)
    pattern = CSR.from_dense(torch.randn(50, 6, dtype=torch.float64)).to(DEVICE)
    shape = (3, pattern.nnz) if sparse else (3, 50, 6)
    xs = torch.randn(shape, dtype=torch.float64, device=DEVICE)
    params = {
        name: torch.randn(3, *p.shape, dtype=torch.float64, device=DEVICE, requires_grad=True)
        for name, p in conv.named_parameters()
    }
    seeds = torch.tensor([[1], [2], [3]], device=DEVICE)
    rates = torch.tensor([0.2, 0.0, 0.7], dtype=torch.float64, device=DEVICE)

    def single(params: dict[str, Tensor], x: Tensor, seed: Tensor, rate: Tensor) -> Tensor:
        conv.dropout = rate
        with source(seed):
            return torch.func.functional_call(conv, params, (pattern.with_value(x) if sparse else x, op))

    def gradients() -> tuple[Tensor, ...]:
        # leaves of their own: those of another stream would tie the recording to it
        leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
        out = torch.func.vmap(single)(leaves, xs, seeds, rates)
        return out, *torch.autograd.grad(out.square().sum(), list(leaves.values()))

    ours = gradients()
    alone = [single({n: p[r] for n, p in params.items()}, xs[r], seeds[r], rates[r]) for r in range(3)]
    truth = torch.stack(alone)
    for a, b in zip(ours, (truth, *torch.autograd.grad(truth.square().sum(), list(params.values()))), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        gradients()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = gradients()
    graph.replay()
    torch.cuda.synchronize()
    for a, b in zip(recorded, ours, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_a_rate_that_is_a_tensor_is_not_looked_at_in_evaluation() -> None:
    """So it is when one trial of a batch is left."""
    from armagnn import GraphOperator
    from armagnn.nn import ARMAConv

    op = GraphOperator.from_edge_index(torch.randint(0, 50, (2, 300)), 50).to(DEVICE)
    conv, x = ARMAConv(6, 5, 2, 2, dropout=0.5).to(DEVICE).eval(), torch.randn(50, 6, device=DEVICE)
    expected = conv(x, op)
    conv.dropout = torch.tensor(0.5, dtype=torch.float64, device=DEVICE)
    torch.testing.assert_close(conv(x, op), expected)
