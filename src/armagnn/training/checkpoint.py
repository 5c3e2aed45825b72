"""What a run folder and a checkpoint commit to: a manifest, which names their files with their checksums.

A manifest is written after the files that it names, and is the one point of commitment: a training that is killed at
any moment is found at its last finished trial, and at its previous checkpoint or the new one, whole. A manifest carries
a checksum of itself, and its bytes must be exactly what armagnn would write, so that no damage to any file passes
unseen.

A checkpoint is what a training needs to go on. Its tensors, in order, are one stream of bytes, cut into safetensors
files of at most 16 MiB; its manifest says what the state looks like.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from armagnn import checks
from armagnn.errors import ParameterError, RunError, shown
from armagnn.files import read_plain, sha256_of, write_atomic

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


def signed(body: dict[str, Any]) -> bytes:
    """Canonical JSON of a body and the checksum of the body."""
    return to_bytes({**body, "sha256": sha256_of(to_bytes(body))})


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


# ------------------------------------------------------------------------------------------------------ the checkpoint

LIMIT = 16 * 2**20  # bytes of a file
PIECE = LIMIT - 4096  # bytes of tensors in a file: the rest is for its header
STATE = "checkpoint.json"
STATE_HEAD = {"format": "armagnn-checkpoint", "version": 1}
ANEW = "Remove the folder to begin this trial anew."
PART = re.compile(r"[1-9]\d*-\d+\.safetensors")


class Checkpoint:
    """The checkpoint of the trial `key`, in the folder `folder` / `key`.

    A state is nested dicts (keys are names or integers), lists and tuples of tensors, numbers, texts, True, False and
    None; it comes back bit by bit the same, with its tensors on the CPU. The trial must have one writer at a time
    (:meth:`armagnn.training.results_store.Store.claim` sees to that).

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     checkpoint = Checkpoint(folder, "trial-7")
        ...     before = checkpoint.load()
        ...     checkpoint.save({"epoch": 3, "best": float("inf"), "weight": torch.tensor([1.0, -0.0])})
        ...     before, checkpoint.load()
        (None, {'epoch': 3, 'best': inf, 'weight': tensor([1., -0.])})
    """

    def __init__(self, folder: str | Path, key: str) -> None:
        if not isinstance(key, str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", key):
            raise ParameterError(
                f"key is {shown(key)}; use letters, digits, dashes and dots: it is the name of a folder."
            )
        self.path = checks.path("folder", folder) / key

    def save(self, state: dict[Any, Any]) -> None:
        """Replace the checkpoint by `state`."""
        if not isinstance(state, dict):
            raise ParameterError(f"state must be a dict, got {shown(state)}.")
        tensors: list[Tensor] = []
        try:
            shape = _describe(state, tensors)
        except RecursionError as error:
            raise ParameterError("state is nested too deeply for a checkpoint, or holds itself.") from error
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            numbers = [int(file.name.split("-")[0]) for file in self._parts()]
        except OSError as error:
            raise RunError(f"{self.path}: cannot be made ({error.strerror}).") from error
        stream = torch.cat([_to_bytes(tensor) for tensor in tensors]) if tensors else torch.empty(0, dtype=torch.uint8)
        files: list[list[str]] = []
        for part, start in enumerate(range(0, len(stream), PIECE)):
            name = f"{max(numbers, default=0) + 1}-{part}.safetensors"
            content = safetensors.torch.save({"bytes": stream[start : start + PIECE].clone()})
            write_atomic(self.path / name, content)
            files.append([name, sha256_of(content)])
        content = signed({**STATE_HEAD, "state": shape, "files": files})
        if len(content) > LIMIT:
            raise ParameterError(f"{self.path}: a checkpoint with {len(content)} bytes of plain numbers; use tensors.")
        write_atomic(self.path / STATE, content)
        self._remove_parts(keep={name for name, _ in files})

    def load(self) -> dict[Any, Any] | None:
        """The state that was saved last, or None if there is none."""
        path = self.path / STATE
        try:
            content = read_plain(path, LIMIT)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RunError(f"{path}: cannot be read ({error.strerror}). {ANEW}") from error
        try:
            parsed = from_bytes(path, content)
        except RunError as error:
            raise RunError(f"{path}: corrupt, truncated or not JSON. {ANEW}") from error
        if any(parsed.get(name) != value for name, value in STATE_HEAD.items()):
            raise RunError(f"{path}: no checkpoint that this version of armagnn can read. {ANEW}")
        try:
            body = {name: parsed[name] for name in ("state", "files")}
            if signed({**STATE_HEAD, **body}) != content:
                raise RunError(f"{path}: corrupt (checksum mismatch). {ANEW}")
            pieces = [self._read(name, digest) for name, digest in body["files"]]
            stream = _Stream(torch.cat(pieces) if pieces else torch.empty(0, dtype=torch.uint8))
            state = _rebuild(body["state"], stream)
        except RunError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError) as error:
            raise RunError(f"{path}: corrupt ({error}). {ANEW}") from error
        if not isinstance(state, dict) or stream.left:
            raise RunError(f"{path}: corrupt (not the state that was saved). {ANEW}")
        return state

    def clear(self) -> None:
        """Remove the checkpoint, when the trial is finished (and only its own files)."""
        try:
            (self.path / STATE).unlink(missing_ok=True)  # first: what is left without it is no checkpoint
            self._remove_parts(keep=set())
            if self.path.is_dir() and not any(self.path.iterdir()):
                self.path.rmdir()
        except OSError as error:
            raise RunError(f"{self.path}: cannot be removed ({error.strerror}).") from error

    def _parts(self) -> list[Path]:
        return [file for file in self.path.glob("*") if PART.fullmatch(file.name)]

    def _remove_parts(self, keep: set[str]) -> None:
        drafts = list(self.path.glob(".*.tmp"))  # of a write that was killed
        for file in [*self._parts(), *drafts]:
            if file.name not in keep:
                file.unlink(missing_ok=True)

    def _read(self, name: str, digest: str) -> Tensor:
        if not PART.fullmatch(name):  # also keeps "../" out
            raise RunError(f"{self.path / STATE}: names a file that no checkpoint has: {shown(name)}.")
        try:
            content = read_plain(self.path / name, LIMIT)
            if sha256_of(content) != digest:
                raise RunError(f"{self.path / name}: corrupt or truncated (checksum mismatch). {ANEW}")
            return safetensors.torch.load(content)["bytes"].view(torch.uint8).flatten()
        except (OSError, SafetensorError, KeyError) as error:
            raise RunError(f"{self.path / name}: missing or unreadable ({error}). {ANEW}") from error


class _Stream:
    """The bytes of all tensors, taken from the front."""

    def __init__(self, content: Tensor) -> None:
        self._content, self._at = content, 0

    @property
    def left(self) -> int:
        return len(self._content) - self._at

    def take(self, dtype: torch.dtype, shape: list[int]) -> Tensor:
        size = dtype.itemsize * math.prod(checks.integer("an axis", axis, 0, most=None) for axis in shape)
        if size > self.left:
            raise ValueError("its tensors are not all there")
        piece = self._content[self._at : self._at + size].clone()  # its own memory, aligned for any dtype
        self._at += size
        return piece.view(dtype).reshape(shape)


def _to_bytes(tensor: Tensor) -> Tensor:
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise ParameterError(f"A checkpoint keeps dense tensors, not {tensor.layout}.")
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1).view(torch.uint8)


def _describe(value: Any, tensors: list[Tensor]) -> list[Any]:
    """The shape of a state as JSON: [kind, content]; its tensors go to `tensors`."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return ["tensor", str(value.dtype).removeprefix("torch."), list(value.shape)]
    if isinstance(value, dict):
        if not all(type(key) in (str, int) for key in value):
            raise ParameterError("The keys of a checkpoint's dicts are names or integers.")
        return ["dict", [[key, _describe(item, tensors)] for key, item in value.items()]]
    if isinstance(value, (list, tuple)):
        return ["list" if isinstance(value, list) else "tuple", [_describe(item, tensors) for item in value]]
    if type(value) is float:
        return ["float", value.hex()]  # exact, and there are "inf" and "nan"
    if value is None or type(value) in (bool, int, str):
        return ["plain", value]
    raise ParameterError(f"A checkpoint keeps tensors and plain values, not {type(value).__name__}. Convert it first.")


def _rebuild(described: Any, stream: _Stream) -> Any:
    kind, content, *rest = described
    if kind == "tensor":
        dtype = getattr(torch, content)
        if not isinstance(dtype, torch.dtype) or content.startswith("q"):  # quantised numbers need more than bytes
            raise ValueError(f"no dtype {shown(content)}")
        return stream.take(dtype, *rest)
    if kind == "dict":
        return {key: _rebuild(item, stream) for key, item in content}
    if kind in ("list", "tuple"):
        items = [_rebuild(item, stream) for item in content]
        return items if kind == "list" else tuple(items)
    if kind == "float":
        return float.fromhex(content)
    return content
