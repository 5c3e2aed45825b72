"""The manifest of a run: it comes back as it was written, and no other bytes are taken for one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from armagnn.errors import RunError
from armagnn.training.manifest import MANIFEST, Manifest, from_bytes, sha256, to_bytes

FILES = {"config.json": sha256(b"a"), "trials/seed-3.safetensors": sha256(b"b")}


def test_it_comes_back(tmp_path: Path) -> None:
    Manifest(dict(FILES), complete=True).write(tmp_path)
    assert Manifest.read(tmp_path) == Manifest(FILES, complete=True)


def signed(**changes: Any) -> bytes:
    body = {"format": "armagnn-run", "version": 2, "complete": False, "files": FILES} | changes
    return to_bytes({**body, "sha256": sha256(to_bytes(body))})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b"[]", "not a JSON object"),
        (signed(format="other"), "not the manifest of an armagnn run"),
        (signed(version=3), "format version 3"),
        (signed(files=[]), "files or complete missing"),
        (signed(files={"../secret": sha256(b"")}), "names a file that no run has"),
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
