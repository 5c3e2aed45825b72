"""Where files lie: whole, missing or corrupt."""

from __future__ import annotations

from pathlib import Path

import pytest

from armagnn.data import CATALOGUE, load, load_graphs, verify
from armagnn.data.locations import Place
from armagnn.errors import DataError


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if entry.embedded])
def test_a_flipped_byte_of_an_embedded_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = Place.raw
    monkeypatch.setattr(Place, "raw", lambda self: raw(self)[:-1] + bytes([raw(self)[-1] ^ 1]))
    assert [check.state for check in verify([name])] == ["corrupt"]
    with pytest.raises(DataError, match="SHA-256"):
        (load if name == "cora" else load_graphs)(name)


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if not entry.embedded])
def test_every_kind_of_file_must_be_the_catalogues(name: str, own_folder: Path) -> None:
    own_folder.mkdir()
    assert {check.state for check in verify([name])} == {"missing"}
    for file in CATALOGUE[name].files:
        (own_folder / file).write_bytes(b"damaged")
    assert {check.state for check in verify([name])} == {"corrupt"}
