"""A spectrum on disk that cannot be read, for whatever reason, is computed anew."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn.errors import ParameterError
from armagnn.spectral.spectrum import cache_folder, read, write

NODES = 4
MU = torch.arange(4, dtype=torch.float64)
U = torch.eye(4, dtype=torch.float64)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "spectrum.npz"
    write(path, MU, U)
    return path


def assert_missing_or_right(path: Path) -> None:
    found = read(path, NODES)
    assert found is None or (torch.equal(found[0], MU) and torch.equal(found[1], U))


def test_what_is_written_is_read(file: Path) -> None:
    found = read(file, NODES)
    assert found is not None
    assert_missing_or_right(file)


@pytest.mark.parametrize("method", [8, 12, 14, 93, 99, 255])
def test_a_foreign_compression_method(file: Path, method: int) -> None:
    content = bytearray(file.read_bytes())
    with zipfile.ZipFile(file) as archive:
        places = [member.header_offset + 8 for member in archive.infolist()]
    place = content.find(b"PK\x01\x02")
    while place >= 0:
        places.append(place + 10)
        place = content.find(b"PK\x01\x02", place + 1)
    assert len(places) == 4
    for place in places:
        content[place] = method
    file.write_bytes(content)
    assert read(file, NODES) is None


def test_every_byte_may_be_damaged(file: Path) -> None:
    whole = file.read_bytes()

    @settings(max_examples=400)
    @given(st.integers(0, len(whole) - 1), st.integers(1, 255))
    def check(place: int, change: int) -> None:
        content = bytearray(whole)
        content[place] ^= change
        file.write_bytes(content)
        assert_missing_or_right(file)

    check()


def test_every_length_may_be_left(file: Path) -> None:
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert read(file, NODES) is None


def npz(compress: bool = False, **arrays: Any) -> bytes:
    content = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(content, **arrays)
    return content.getvalue()


def test_nothing_is_inflated(file: Path) -> None:
    """Compressed arrays are not ours; of what they would inflate to, nothing is made."""
    file.write_bytes(npz(compress=True, mu=MU.numpy(), U=U.numpy()))
    assert read(file, NODES) is None
    file.write_bytes(npz(compress=True, mu=MU.numpy(), U=np.zeros(10**7)))
    assert read(file, NODES) is None


@pytest.mark.parametrize(
    "arrays",
    [
        {"mu": MU.numpy(), "U": np.zeros((200, 200))},
        {"mu": MU.numpy().astype("U4"), "U": U.numpy()},
        {"mu": MU.numpy(), "U": np.array([{}], dtype=object)},
        {"mu": MU.numpy()},
    ],
    ids=["too large", "words", "objects", "one of two"],
)
def test_other_arrays(file: Path, arrays: dict[str, Any]) -> None:
    file.write_bytes(npz(**arrays))
    assert read(file, NODES) is None


@pytest.mark.parametrize("bad", [None, 3, "", [], 1.5])
def test_a_folder_is_a_path(bad: Any) -> None:
    with pytest.raises(ParameterError, match="cache must be"):
        cache_folder(bad)


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("ARMAGNN_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder() is None


def test_a_path_that_cannot_be(tmp_path: Path) -> None:
    write(tmp_path / "a\0b" / "c", MU, U)
    assert read(tmp_path / "a\0b" / "c", NODES) is None
