"""What every test shares: a fixed seed, torch's global settings put back, and how hypothesis searches;
the real data and the text of the paper, where they are."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from armagnn.data import CATALOGUE

CHECKOUT = Path(__file__).resolve().parents[1]

# The same examples every time, so that a red run is red again; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# the arrays are small, and pytest-xdist uses the cores; tests of threads set their own number
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # of the commands that tests start
os.environ["ARMAGNN_CACHE"] = str(Path(tempfile.gettempdir(), "armagnn-tests"))  # the spectrum of Cora is in it


@pytest.fixture(autouse=True)
def _fresh_torch() -> Iterator[None]:
    """Seed torch, and put its number of threads and its default dtype back afterwards."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(dtype)
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Make a dataset that the package does not carry loadable by name, or skip."""

    def find(name: str) -> str:
        for folder in (os.environ.get("ARMAGNN_DATA"), CHECKOUT.parent / "shared" / "data"):
            if folder and all((Path(folder) / file).is_file() for file in CATALOGUE[name].files):
                monkeypatch.setenv("ARMAGNN_DATA", str(folder))
                return name
        pytest.skip(f"{CATALOGUE[name].file} is not here: set ARMAGNN_DATA to the folder that holds it")

    return find


@pytest.fixture
def paper() -> str:
    """The text of the paper, or skip."""
    data = os.environ.get("ARMAGNN_DATA")  # the text is beside the data
    for folder in (*([Path(data).parent] if data else []), CHECKOUT.parent / "shared"):
        if (path := folder / "paper" / "arma.tex").is_file():
            return path.read_text()
    pytest.skip("the text of the paper (../shared/paper/arma.tex) is not here")
