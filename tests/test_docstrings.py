"""Every example in a docstring runs and shows what it says."""

from __future__ import annotations

import builtins
import doctest
import importlib
import pkgutil

import pytest
import torch

import armagnn

PRINT = builtins.print
MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(armagnn.__path__, "armagnn.")
    if not name.endswith("__main__")
]  # fmt: skip
WITH_EXAMPLES = {
    "kernels.cpu.compile", "randomness", "kernels.backends", "operators.csr", "operators.graph", "filters.arma",
    "nn.arma_conv", "solvers.conjugate_gradients", "spectral.spectrum", "data.nodes", "tasks.graph_task",
    "training.trials",
}  # fmt: skip


def test_modules_with_examples_are_there() -> None:
    assert {f"armagnn.{name}" for name in WITH_EXAMPLES} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "print", PRINT)  # Ray, once started by another test, puts its own in its place
    if name.startswith("armagnn.kernels."):
        pytest.importorskip(name, exc_type=ModuleNotFoundError)  # Triton is installed beside a GPU only
    torch.manual_seed(0)
    failed, attempted = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0
    if name.removeprefix("armagnn.") in WITH_EXAMPLES:
        assert attempted > 0  # they are really found
