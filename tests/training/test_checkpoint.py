"""Manifests: no other bytes are taken for one. Checkpoints: bit-exact, in small files, whole after a kill."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from armagnn.errors import ParameterError, RunError
from armagnn.files import sha256_of
from armagnn.training import checkpoint as module
from armagnn.training.checkpoint import LIMIT, MANIFEST, Checkpoint, Manifest, from_bytes, to_bytes
from broken_writes import broken_write

# One process that has imported torch forks those that are killed: an import takes longer than the training.
TOY = """
import os, sys, time
import numpy as np
import torch
from armagnn.training.checkpoint import Checkpoint

def noise(seed, step, shape):
    return torch.from_numpy(np.random.Generator(np.random.Philox(key=seed, counter=step)).standard_normal(shape))

def train(folder, out, steps, begun):
    checkpoint = Checkpoint(folder, "toy")
    weight = torch.nn.Parameter(noise(1, 0, (300, 300)))
    optimiser = torch.optim.Adam([weight], lr=0.01)
    step, best = 0, float("inf")
    state = checkpoint.load()
    if state is not None:
        step, best = state["step"], state["best"]
        weight.data.copy_(state["weight"])
        optimiser.load_state_dict(state["optimiser"])
    os.write(begun, b"%d" % step)
    while step < steps:
        step += 1
        optimiser.zero_grad()
        loss = ((weight @ noise(2, step, (300, 8))) ** 2).mean()
        loss.backward()
        optimiser.step()
        best = min(best, loss.item())
        if step % 3 == 0:  # kills fall between checkpoints, too
            checkpoint.save({"step": step, "best": best, "weight": weight, "optimiser": optimiser.state_dict()})
    checkpoint.clear()
    with open(out, "wb") as file:
        file.write(weight.detach().numpy().tobytes() + np.float64(best).tobytes())

def attempt(folder, out, kill_after):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            train(folder, out, 120, writer)
            os._exit(0)
        finally:
            os._exit(1)
    began = int(os.read(reader, 100))
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, 9)
    status = os.waitpid(child, 0)[1]
    print(began, os.waitstatus_to_exitcode(status))

torch.set_num_threads(1)
peace, whole, war, killed = sys.argv[1:]
start = time.monotonic()
attempt(peace, whole, None)
span = time.monotonic() - start
for part in np.random.default_rng().uniform(0.02, 0.2, 6):
    attempt(war, killed, part * span)
attempt(war, killed, None)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_killed_at_any_moment_it_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("peace", "whole", "war", "killed")]
    done = subprocess.run([sys.executable, "-c", TOY, *paths], capture_output=True, text=True, timeout=200, check=True)
    began, codes = zip(*(map(int, line.split()) for line in done.stdout.splitlines()), strict=True)
    assert began[0] == codes[0] == codes[-1] == 0
    assert set(codes[1:-1]) <= {-9, 0}
    assert began[1:] == tuple(sorted(began[1:])) or 0 in codes[1:-1]
    assert codes[1] == -9
    assert max(began) > 0  # it did not begin anew
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "war" / "toy").exists()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    monkeypatch.setattr(module, "PIECE", 100)
    old, new = {"x": torch.arange(90.0), "n": 1}, {"x": torch.arange(90.0) + 1, "n": 2}
    loaded = []
    for write in range(6):
        checkpoint = Checkpoint(tmp_path, f"trial-{write}")
        checkpoint.save(old)

        with suppress(KeyboardInterrupt), broken_write(write, after):
            checkpoint.save(new)
        found = checkpoint.load()
        assert found is not None
        loaded.append(found["n"])
        assert same(found, old if found["n"] == 1 else new)
        checkpoint.save(new)
        assert same(checkpoint.load(), new)
        assert len(list(checkpoint.path.iterdir())) == 5  # 4 parts and the manifest: nothing is left over
    assert loaded == [1, 1, 1, 1, 2 if after else 1, 2]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        bits = [t.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for t in (a, b)]
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(*bits)
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and math.isnan(a):
        return isinstance(b, float) and math.isnan(b)
    return type(a) is type(b) and a == b


DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.bool,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
]  # fmt: skip


def test_every_kind_of_value_comes_back(tmp_path: Path) -> None:
    weird = torch.tensor([math.nan, -math.nan, math.inf, -0.0, 5e-324], dtype=torch.float64)
    state = {
        "dtypes": [torch.arange(5).to(dtype) for dtype in DTYPES],
        "shapes": (torch.tensor(3.0), torch.empty(0, 4), torch.ones(2, 3).T, torch.ones(4, 4)[::2], weird),
        "conj": torch.tensor([1 + 2j]).conj().clone(),
        "numbers": {0: 1, 7: 2**100, "inf": math.inf, "nan": math.nan, "tenth": 0.1, "zero": -0.0},
        "plain": [None, True, False, "ä\n", [], {}, ()],
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    checkpoint = Checkpoint(tmp_path / "deep" / "folder", "trial")
    checkpoint.save(state)
    found = checkpoint.load()
    assert same(found, state)
    assert found is not None
    assert math.copysign(1, found["numbers"]["zero"]) == -1


def test_files_are_small(tmp_path: Path) -> None:
    big = torch.randint(0, 2**62, (5 * 2**20,))  # 40 MiB
    checkpoint = Checkpoint(tmp_path, "trial")
    checkpoint.save({"first": torch.ones(3, dtype=torch.uint8), "big": big})
    sizes = [file.stat().st_size for file in checkpoint.path.iterdir()]
    assert len(sizes) == 4
    assert max(sizes) <= LIMIT
    found = checkpoint.load()
    assert found is not None
    assert torch.equal(found["big"], big)


def test_more_than_ten_parts_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", 64)
    checkpoint = Checkpoint(tmp_path, "trial")
    checkpoint.save({"x": torch.arange(200)})
    assert same(checkpoint.load(), {"x": torch.arange(200)})


def test_none_and_cleared(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "trial")
    assert checkpoint.load() is None
    checkpoint.clear()
    checkpoint.save({})
    assert checkpoint.load() == {}
    (checkpoint.path / "notes.txt").write_text("mine")
    checkpoint.save({"x": torch.ones(1)})
    checkpoint.clear()
    assert checkpoint.load() is None
    assert [file.name for file in checkpoint.path.iterdir()] == ["notes.txt"]


def test_no_damaged_byte_passes_unseen(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "trial")
    checkpoint.save({"x": torch.arange(4.0), "n": 3})
    for file in list(checkpoint.path.iterdir()):
        content = file.read_bytes()
        for position in range(0, len(content), 5):
            file.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
            with pytest.raises(RunError):
                checkpoint.load()
        file.write_bytes(content[:-1])
        with pytest.raises(RunError):
            checkpoint.load()
        file.write_bytes(content)
    assert checkpoint.load() is not None
    next(checkpoint.path.glob("*.safetensors")).unlink()
    with pytest.raises(RunError, match="missing"):
        checkpoint.load()


@pytest.mark.parametrize("value", [object(), {1.5: 2}, torch.ones(2).to_sparse(), b"bytes"])
def test_what_cannot_be_kept_is_refused(tmp_path: Path, value: Any) -> None:
    checkpoint = Checkpoint(tmp_path, "trial")
    checkpoint.save({"n": 1})
    with pytest.raises(ParameterError):
        checkpoint.save({"value": value})
    assert checkpoint.load() == {"n": 1}


@pytest.mark.parametrize("key", ["", "..", "a/b", ".hidden"])
def test_the_key_is_a_name(tmp_path: Path, key: str) -> None:
    with pytest.raises(ParameterError, match="key"):
        Checkpoint(tmp_path, key)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_of_a_gpu_come_back_on_the_cpu(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "trial")
    checkpoint.save({"x": torch.ones(3, device="cuda")})
    assert same(checkpoint.load(), {"x": torch.ones(3)})


# ----------------------------------------------------------------------------------------------- the manifest of a run

FILES = {"config.json": sha256_of(b"a"), "trials/seed-3.safetensors": sha256_of(b"b")}


def test_it_comes_back(tmp_path: Path) -> None:
    Manifest(dict(FILES), complete=True).write(tmp_path)
    assert Manifest.read(tmp_path) == Manifest(FILES, complete=True)


def signed(**changes: Any) -> bytes:
    body = {"format": "armagnn-run", "version": 2, "complete": False, "files": FILES} | changes
    return to_bytes({**body, "sha256": sha256_of(to_bytes(body))})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b"[]", "not a JSON object"),
        (signed(format="other"), "not the manifest of an armagnn run"),
        (signed(version=3), "format version 3"),
        (signed(files=[]), "files or complete missing"),
        (signed(files={"../secret": sha256_of(b"")}), "names a file that no run has"),
        (signed(files={"config.json": "abc"}), "the checksum of config.json"),
        (signed()[:-1] + b" \n", "checksum mismatch"),
        (json.dumps(json.loads(signed())).encode(), "checksum mismatch"),
    ],
)
def test_what_is_no_manifest(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(RunError, match=said):
        Manifest.read(tmp_path)


def test_nan_is_no_json() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        to_bytes({"loss": float("nan")})
    with pytest.raises(RunError, match="not JSON"):
        from_bytes(Path("x.json"), b'{"loss": NaN}')
