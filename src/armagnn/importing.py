"""Importing on demand: names of a package that are imported when they are first used, and what follows torch.

torch takes a second to import, numba, scipy and scikit-learn as long again. Those who only ask for ``--version``, or
need a single room, shall not wait for all of them.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def lazily(package: str, modules: Mapping[str, str]) -> None:
    """Let `package` import names on demand: `modules` has the names that each module gives, with blanks between them.

    Type checkers need the same imports once more, below ``if TYPE_CHECKING``.
    """
    module = sys.modules[package]
    places = {name: place for place, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(places[name]), name)
        setattr(module, name, value)  # found without this function the next time
        return value

    def names() -> list[str]:
        return sorted({*vars(module), *places} - {"__getattr__", "__dir__"})

    vars(module).update(__getattr__=get, __dir__=names)


def after_import(name: str, action: Callable[[], object]) -> None:
    """Do something as soon as the module `name` is imported: now if it is, otherwise when anyone imports it.

    It is not done where a module of this package imports `name` for itself: that module has the action's modules
    half imported, and imports what it needs.

    Example:
        >>> done = []
        >>> after_import("sys", lambda: done.append("it is there"))
        >>> done
        ['it is there']
    """
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Watch(name, action))


class _Watch(MetaPathFinder):
    """Finds the module that is waited for as the other finders do, and acts when it has been executed."""

    def __init__(self, name: str, action: Callable[[], object]) -> None:
        self._name, self._action = name, action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)  # so the others find it
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader, execute = spec.loader, spec.loader.exec_module

            def execute_and_act(module: ModuleType) -> None:
                del loader.exec_module  # the loader is as it was
                execute(module)
                if not _importing_ourselves():
                    self._action()

            loader.exec_module = execute_and_act  # type: ignore[method-assign]
        return spec


def _importing_ourselves() -> bool:
    own = (module for name, module in list(sys.modules.items()) if name.startswith(f"{__package__}."))
    return any(getattr(getattr(module, "__spec__", None), "_initializing", False) for module in own)
