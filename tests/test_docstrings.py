"""Every example in a docstring runs and shows what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest
import torch

import armagnn

ROOMS = ("errors", "kernels", "operators", "solvers", "filters", "nn", "spectral", "distributed")
MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(armagnn.__path__, "armagnn.")
    if name.split(".")[1] in ROOMS
]  # fmt: skip
WITH_EXAMPLES = {
    "kernels.gather", "kernels.random", "kernels.ops", "operators.csr", "operators.graph", "solvers.conjugate_gradients",
    "filters.arma", "nn.arma", "spectral.spectrum",
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    if name.startswith("armagnn.kernels."):
        pytest.importorskip(name, exc_type=ModuleNotFoundError)  # Triton is installed beside a GPU only
    torch.manual_seed(0)
    failed, attempted = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0
    if name.removeprefix("armagnn.") in WITH_EXAMPLES:
        assert attempted > 0  # they are really found
