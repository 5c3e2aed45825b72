"""A browser and node for the tests of the explorer, and why there is none where there is none."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from armagnn.explore.explorer_page import bundle

SOURCE = Path(__file__).parents[2] / "explore"
PACKAGES = SOURCE / "node_modules"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def needs_node() -> str:
    """Return the path of node; skip the test where there is none."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the explorer's script cannot be run outside a browser")
    return node


def needs_packages() -> str:
    """Return the path of node; skip the test where npm's packages are not installed."""
    node = needs_node()
    if not (PACKAGES / "esbuild").is_dir():
        pytest.skip("explore/node_modules is missing: `make test` installs it where npm has a network")
    return node


def in_node(program: str, argument: Any) -> Any:
    """Run JavaScript after the explorer's script and return what it returns; ``argument`` is ``given``."""
    whole = f"{bundle()}\nconst given = {json.dumps(argument)};\nconst run = () => {{ {program} }};\n"
    whole += "process.stdout.write(JSON.stringify(run()));"
    done = subprocess.run([needs_node(), "-"], input=whole, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def chromium() -> Iterator[Any]:
    """Run Debian's chromium without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed: `make test` installs it where it may")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
