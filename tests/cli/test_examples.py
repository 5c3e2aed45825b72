"""The examples in the docstrings of data, tasks, training run as they are written."""

from __future__ import annotations

import builtins
import doctest
import importlib
import pkgutil

import pytest

PRINT = builtins.print
ROOMS = ("armagnn.data", "armagnn.tasks", "armagnn.training")


def modules() -> list[str]:
    return [
        f"{room}.{module.name}"
        for room in ROOMS
        for module in pkgutil.iter_modules(importlib.import_module(room).__path__)
    ]


@pytest.mark.parametrize("name", modules())
def test_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "print", PRINT)  # Ray, once started by another test, puts its own in its place
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    found = [doctest.DocTestFinder().find(importlib.import_module(name)) for name in modules()]
    assert sum(bool(test.examples) for tests in found for test in tests) >= 8
