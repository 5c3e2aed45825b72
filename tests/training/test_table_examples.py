"""The examples that train on tables run, and say what they say."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TOLOKERS = Path(__file__).parents[3] / "shared" / "data" / "heterophily" / "tolokers.npz"

pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="not a checkout")


@pytest.fixture(params=[""])
def example(request: pytest.FixtureRequest) -> Iterator[Any]:
    name = request.param
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


@pytest.mark.parametrize("example", ["cora_from_tables"], indirect=True)
def test_cora_from_two_csv_files_is_the_catalogues_to_the_last_bit(example: Any, tmp_path: Path) -> None:
    tables, catalogue = example.main(tmp_path, seeds=2, epochs=20)
    assert tables == catalogue


@pytest.mark.parametrize("example", ["digits_from_tables"], indirect=True)
def test_digits(example: Any, tmp_path: Path) -> None:
    found = example.main(tmp_path, seeds=1, epochs=60)
    assert found["unlabelled"] > 0.85  # the labels of a tenth of the images are in the files
    assert found.keys() == {"unlabelled", "test", "mlp", "label_propagation"}


@pytest.mark.parametrize("example", ["diabetes_from_tables"], indirect=True)
def test_diabetes(example: Any, tmp_path: Path) -> None:
    found = example.main(tmp_path, folds=2, seeds=1, epochs=60)
    assert 0.2 < found["network"] < 0.7
    assert found.keys() == {"network", "mlp", "label_propagation"}


@pytest.mark.skipif(not TOLOKERS.is_file(), reason="the data of Platonov et al. are not in ../shared/data/heterophily")
@pytest.mark.parametrize("example", ["tolokers_from_tables"], indirect=True)
def test_tolokers(example: Any, tmp_path: Path) -> None:
    found = example.main(tmp_path, TOLOKERS, seeds=1, epochs=3)
    assert found.keys() == {"network", "mlp", "label_propagation"}
    assert 0.5 < found["label_propagation"] < 0.9


@pytest.mark.parametrize("example", ["bank_of_filters"], indirect=True)
def test_bank_of_filters(
    example: Any, tmp_path: Path, real: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filtered columns tell more than the plain ones; the same folder is opened again, not made again."""
    real("tolokers")
    heads = {name: (make, settings[:1]) for name, (make, settings) in example.HEADS.items() if name == "linear"}
    monkeypatch.setattr(example, "HEADS", heads)
    found = example.main(tmp_path, seeds=1, networks=1, epochs=2)
    (plain,), (filtered,), (network,) = found.values()
    assert found.keys() == {"features alone, linear", "bank, linear", "end to end"}
    assert filtered > plain + 2 > 65
    assert 40 < network < 90
    before = (tmp_path / "bank" / "features.npy").stat().st_mtime_ns
    assert example.main(tmp_path, seeds=1, networks=0)["bank, linear"] == [filtered]
    assert (tmp_path / "bank" / "features.npy").stat().st_mtime_ns == before
