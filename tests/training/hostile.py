"""Tiny finished runs, and what somebody may put in the place of what they hold."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from armagnn.data.arrays import pack_arrays
from armagnn.training import Config, NodesConfig, train
from armagnn.training.checkpoint import Manifest, to_bytes
from own_graphs import folder_of, quick, rings_and_paths

MISSING, DEEP, ENDLESS = object(), object(), object()
HOSTILE: dict[str, Any] = {
    "missing": MISSING, "null": None, "true": True, "list": [], "object": {}, "list of lists": [[1]], "-1": -1,
    "10^30": 10**30, "nan": float("nan"), "inf": float("inf"), "deep": DEEP, "5000 digits": ENDLESS,
}  # fmt: skip
DEEPLY = {"deep": "[" * 400 + "]" * 400, "5000 digits": "9" * 5000}


def node_file(path: Path) -> Path:
    """24 nodes on a ring, in three classes that their features tell."""
    nodes = np.arange(24)
    edges = np.stack([nodes, (nodes + 1) % 24])
    arrays = {
        "x_indptr": np.arange(25),
        "x_indices": nodes % 3,
        "x_data": np.ones(24, dtype=np.float32),
        "x_shape": np.array([24, 3]),
        "edge_index": np.concatenate([edges, edges[::-1]], 1),
        "y": nodes % 3,
        "train_idx": nodes[:12],
        "val_idx": nodes[12:18],
        "test_idx": nodes[18:],
    }
    path.write_bytes(pack_arrays(arrays))
    return path


def tiny(kind: str, folder: Path) -> Config:
    """A configuration that is trained in a moment; its data go into a folder."""
    if kind == "graphs":
        return quick(folder_of(rings_and_paths(), folder / "graphs"), epochs=2, hidden=2)
    data = node_file(folder / "nodes.npz")
    return NodesConfig(dataset=str(data), hidden=2, stacks=1, epochs=3, seeds=2, hidden_dropout=0.1)


def finished(kind: str, folder: Path) -> Path:
    """A finished run of two trials."""
    train(tiny(kind, folder), folder / "run")
    return folder / "run"


def put(run: Path, name: str, content: bytes, *, signed: bool = True) -> None:
    """Write a file of a run, and its checksum into the manifest: an attacker can do that."""
    (run / name).write_bytes(content)
    if signed:
        sign(run, name, content)


def sign(run: Path, name: str, content: bytes) -> None:
    manifest = Manifest.read(run)
    manifest.files[name] = hashlib.sha256(content).hexdigest()
    manifest.write(run)


def change(run: Path, name: str, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change a file of a run and sign it anew: what an accident cannot do, but another program can."""
    content = json.loads((run / name).read_text())
    edit(content)
    put(run, name, to_bytes(content))


def places(content: Any, most: int, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all that a JSON holds; of a list, to its first items only."""
    items = (
        content.items() if isinstance(content, dict) else enumerate(content[:most]) if isinstance(content, list) else ()
    )
    for key, value in items:
        yield (*path, key)
        yield from places(value, most, (*path, key))


def variants(text: bytes, items: int = 1) -> Iterator[tuple[str, bytes]]:
    """The JSON with one thing in it replaced, in every place by everything; and where and by what."""
    for path in places(json.loads(text), items):
        for what, value in HOSTILE.items():
            content = json.loads(text)
            parent = content
            for key in path[:-1]:
                parent = parent[key]
            if value is MISSING:
                del parent[path[-1]]
            else:
                parent[path[-1]] = f"<{what}>" if what in DEEPLY else value
            written = json.dumps(content)
            for name, long in DEEPLY.items():
                written = written.replace(f'"<{name}>"', long)
            yield f"{'.'.join(map(str, path))} {what}", written.encode()


@contextlib.contextmanager
def no_hang(seconds: int = 60) -> Iterator[None]:
    """End what does not end by itself. An honest answer takes a hundredth of the time."""

    def late(number: int, frame: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
