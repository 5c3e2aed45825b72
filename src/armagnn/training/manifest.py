"""The manifest of a run folder: which files belong to it, with their checksums.

It is the one point of commitment. A file counts only when the manifest, written after it, names it; so a run
that is killed at any moment is found at its last finished trial. The manifest carries a checksum of itself,
and its bytes must be exactly what armagnn would write, so that no damage to any file passes unseen.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from armagnn.errors import RunError, shown
from armagnn.files import read_plain, write_atomic

FORMAT = "armagnn-run"
VERSION = 2
MANIFEST, CONFIG = "manifest.json", "config.json"
DESCRIPTIONS = ("graphs.json", "tables.json", "description.json")
CHECKPOINT = "checkpoint"  # a folder that the manifest does not answer for
AGAIN = "Train the run again with --overwrite."
LARGEST_JSON = 2**27
"""Bytes of the largest JSON file of a run: the history of a trial of a million epochs has half of them."""
DIGEST = re.compile(r"[0-9a-f]{64}")
# Every file a run may hold. Nothing else is ever read from, or removed with, a run folder.
FILES = re.compile(
    r"(config|graphs|tables|description|metrics|baselines)\.json|weights\.safetensors|curve\.png|report\.html|trials/seed-(0|[1-9]\d{0,18})\.(json|safetensors)"
)


def to_bytes(content: Any) -> bytes:
    """Canonical JSON: one text for one content (and NaN is refused, as it is no JSON)."""
    return (json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def from_bytes(path: Path, content: bytes) -> dict[str, Any]:
    """The JSON object in the file `path`, whose bytes are `content`."""
    try:
        parsed = json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path}: corrupt, truncated or not JSON. {AGAIN}") from error
    if not isinstance(parsed, dict):
        raise RunError(f"{path}: not a JSON object. {AGAIN}")
    return parsed


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def sha256(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def signed(body: dict[str, Any]) -> bytes:
    """Canonical JSON of a body and the checksum of the body."""
    return to_bytes({**body, "sha256": sha256(to_bytes(body))})


@dataclass
class Manifest:
    """The files of a run and their SHA-256; `complete` when all trials are finished."""

    files: dict[str, str] = field(default_factory=dict)
    complete: bool = False

    def to_bytes(self) -> bytes:
        """The bytes of ``manifest.json``."""
        return signed({"format": FORMAT, "version": VERSION, "complete": self.complete, "files": self.files})

    def write(self, folder: Path) -> None:
        """Commit: from here on the folder is what this manifest says."""
        write_atomic(folder / MANIFEST, self.to_bytes())

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read and check ``manifest.json`` (itself, not yet the files it names)."""
        path = folder / MANIFEST
        try:
            content = read_plain(path, LARGEST_JSON)
        except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
            raise RunError(f"{folder}: not a run of armagnn (no readable {MANIFEST}). Check the path.") from error
        parsed = from_bytes(path, content)
        if parsed.get("format") != FORMAT:
            raise RunError(f"{path}: not the manifest of an armagnn run. Check the path.")
        if parsed.get("version") != VERSION:
            raise RunError(
                f"{path}: format version {shown(parsed.get('version'))}, this armagnn reads {VERSION}. "
                "Use the armagnn that wrote it."
            )
        files, complete = parsed.get("files"), parsed.get("complete")
        if not isinstance(files, dict) or not isinstance(complete, bool):
            raise RunError(f"{path}: corrupt (files or complete missing). {AGAIN}")
        for name, digest in files.items():
            if not FILES.fullmatch(name):  # also keeps "../" out
                raise RunError(f"{path}: names a file that no run has: {shown(name)}.")
            if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
                raise RunError(f"{path}: corrupt (the checksum of {name} is {shown(digest)}). {AGAIN}")
        manifest = cls(files, complete)
        if manifest.to_bytes() != content:
            raise RunError(f"{path}: corrupt (checksum mismatch). {AGAIN}")
        return manifest
