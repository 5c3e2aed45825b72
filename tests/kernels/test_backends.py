from __future__ import annotations

import torch

from armagnn.kernels import backends, cpu, reference
from armagnn.kernels.backends import compiled_assembly
from armagnn.kernels.cpu import ordering


def test_backend() -> None:
    assert backends.backend("cpu") is cpu
    assert backends.backend(torch.device("cpu")) is cpu
    assert backends.backend("meta") is reference


def test_plain_tensors_of_the_processor_are_read_by_the_kernels() -> None:
    ids, value = torch.tensor([0, 1]), torch.ones(2)
    assert compiled_assembly(ids, ids.int(), value, value.double()) is ordering
    for other in (value.bfloat16(), value.requires_grad_(), torch.ones(2, device="meta"), ids.short()):
        assert compiled_assembly(ids, other) is None
    seen = []
    torch.func.vmap(lambda x: seen.append(compiled_assembly(ids, x)) or x)(torch.ones(3, 2))
    torch.jit.trace(lambda x: seen.append(compiled_assembly(ids, x)) or x, torch.ones(2), check_trace=False)
    assert seen == [None, None]
