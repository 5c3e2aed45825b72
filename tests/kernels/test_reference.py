from __future__ import annotations

import pytest
import torch

from armagnn.kernels import reference
from kernels.checks import KernelChecks
from oracles import ACTIVATION, assert_near, numbers, sparse


class TestReference(KernelChecks):
    kernels = reference


@pytest.mark.parametrize("act", ACTIVATION)
def test_activate(act: str) -> None:
    z = numbers(50)
    truth = ACTIVATION[act](z.numpy().copy(), 0.3)
    assert_near(reference.activate(z, act, 0.3), truth)


def test_sddmm_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into slices that do not divide the nonzeros, the answer is the same to the last bit."""
    a, left, right = sparse(30, 20), numbers(30, 6, seed=1), numbers(20, 6, seed=2)
    whole = reference.sddmm(a.rowptr, a.col, left, right)
    monkeypatch.setattr(reference, "SLICE", 6 * 7)
    assert a.col.numel() % 7
    assert torch.equal(reference.sddmm(a.rowptr, a.col, left, right), whole)
