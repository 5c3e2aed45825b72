"""The scripts of the folder ``benchmarks``, which is no package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


def script(name: str) -> ModuleType:
    """A script as a module; skips where the folder is not beside the tests."""
    path = SCRIPTS / f"{name}.py"
    if not path.is_file():
        pytest.skip("not a checkout")
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module
