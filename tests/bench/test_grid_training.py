from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from armagnn.bench import grid_poles, grid_training
from armagnn.bench.grid_filters import RESPONSES
from armagnn.bench.grid_training import Learned, Row, learn_grid, plan
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.filters.polynomial_bases import BASES, basis_terms
from armagnn.sealed import rows_csv
from bench.test_grid_filters import small_grid

DATA = small_grid()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (grid_training, grid_poles):
        monkeypatch.setattr(module, "STEPS", 30)
    monkeypatch.setattr(grid_training, "DEGREE", 90)  # there are 100 pixels in the mask
    monkeypatch.setattr(grid_poles, "RADIUS", 0.75)
    monkeypatch.setattr(grid_poles, "ARMA_STEPS", 5)


def test_all_bases_fit_what_polynomials_can() -> None:
    found = [learn_grid(DATA, basis, "fit", 9).sse for basis in BASES]
    columns = np.stack(basis_terms("chebyshev", lambda x: DATA.matrix @ x, DATA.images, 8))[:, DATA.mask]
    for which, target in enumerate(DATA.targets.values()):
        for image in range(2):
            wanted = target[DATA.mask, image]
            floor = np.linalg.lstsq(columns[:, :, image].T, wanted, rcond=None)[1][0]
            np.testing.assert_allclose([sse[which, image] for sse in found], floor, rtol=1e-3)


@pytest.mark.parametrize("method", [*BASES, "rational"])
def test_no_training_beats_the_fit_of_the_same_filter(method: str) -> None:
    fit, adam = (learn_grid(DATA, method, protocol, 5) for protocol in ("fit", "adam"))
    assert (fit.sse <= adam.sse * (1 + 1e-6)).all()
    assert np.isfinite(adam.sse).all()


@pytest.mark.parametrize("method", ["chebyshev", "rational"])
def test_the_error_is_that_of_the_response(method: str) -> None:
    """Filtered in the eigenvectors of the grid by the learned response."""
    learned = learn_grid(DATA, method, "fit", 9)
    mu, vectors = np.linalg.eigh(DATA.matrix.toarray())
    assert learned.response is not None
    response = learned.response(mu)  # (5, B, S)
    for which, target in enumerate(DATA.targets.values()):
        for image in range(2):
            y = vectors @ (response[which, image] * (vectors.T @ DATA.images[:, image]))
            error = ((y - target[:, image])[DATA.mask] ** 2).sum()
            assert error == pytest.approx(learned.sse[which, image], rel=1e-5, abs=1e-12)


def test_rational_filters_beat_polynomials_with_as_many_coefficients() -> None:
    rational, polynomial = (learn_grid(DATA, method, "fit", 9).sse.mean(1) for method in ("rational", "chebyshev"))
    assert (rational < polynomial).all()


def test_the_plan_and_bad_arguments() -> None:
    cells = list(plan(50))
    assert len(cells) == len(set(cells)) == 39
    assert ("rational", "fit", 13, 50) in cells
    assert all(images == 2 for *_, images in plan(2))
    for arguments in (("rational", "sgd", 9), ("gat", "fit", 9), ("arma", "fit", 9)):
        with pytest.raises(UnknownNameError):
            learn_grid(DATA, *arguments)
    with pytest.raises(ParameterError, match="coefficients"):
        learn_grid(DATA, "gpr", "fit", 2)


# ----------------------------------------------------------------------------------------------------------- the report


def test_rows_table_and_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    learned = [
        Learned("rational", "fit", 9, np.full((5, 2), 1e-6), lambda mu: np.zeros((5, 2, len(mu))), 0.1),
        Learned("arma", "adam", 9, np.full((5, 2), 10.0), None, 2.0),
    ]
    rows = [row for one in learned for row in one.rows()]
    assert {row.dataset for row in rows} == {f"grid/{name}" for name in RESPONSES}
    assert {(row.method, row.protocol) for row in rows} == {("rational", "fit-9"), ("arma", "adam-9")}
    assert [row.run for row in rows[:2]] == [0, 1]
    head = rows_csv(Row, rows, 6).decode().splitlines()[0]
    assert head.startswith("dataset,method,protocol,run,fold,metric,value")
    assert grid_training.table(learned).row_count == 2
    grid_training.draw(learned, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000
