"""Adam of trials on a GPU, beside the reference."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from torch import Tensor

from armagnn.kernels import reference
from kernels.test_gpu import DEVICE, TOLERANCE, close

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or importlib.util.find_spec("triton") is None, reason="no GPU, or no triton"
)


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize(("shape", "axis"), [((3, 3, 5), 0), ((3, 3, 5), 1), ((7, 3), 1), ((3, 2050), 0), ((3, 0), 0)])
def test_adam_of_trials(dtype: torch.dtype, shape: tuple[int, ...], axis: int) -> None:
    from armagnn.kernels import gpu

    def run(kernels: object, device: str, dtype: torch.dtype) -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        param, grad = (torch.randn(shape, generator=generator).to(device, dtype) for _ in range(2))
        mean, square = torch.zeros_like(param), torch.zeros_like(param)
        rates = torch.tensor([0.1, 0.0, 0.01], dtype=torch.float64, device=device)
        for step in (1.0, 2.0, 700.0):
            count = torch.tensor(step, dtype=torch.float64, device=device)
            kernels.adam(param, grad, mean, square, rates, rates, count, axis)  # type: ignore[attr-defined]
        return [param, mean, square]

    for ours, truth in zip(run(gpu, DEVICE, dtype), run(reference, "cpu", dtype), strict=True):
        close(ours, truth.double(), dtype)
