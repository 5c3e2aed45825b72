from __future__ import annotations

import torch

from armagnn.kernels import backends, cpu, reference


def test_backend() -> None:
    assert backends.backend("cpu") is cpu
    assert backends.backend(torch.device("cpu")) is cpu
    assert backends.backend("meta") is reference
