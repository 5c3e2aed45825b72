from __future__ import annotations

import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.bench import grid_arma, grid_rational, grid_report, grid_training
from armagnn.bench.grid_arma import relu_stacks
from armagnn.bench.grid_filters import RESPONSES, reduce_loss
from armagnn.bench.grid_rational import MaskedFit
from armagnn.bench.grid_training import Row, learn_grid, plan
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.filters.polynomial_bases import BASES, basis_terms
from armagnn.nn import ARMAConv
from armagnn.sealed import rows_csv
from bench.test_grid_filters import small_grid

DATA = small_grid()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (grid_training, grid_rational):
        monkeypatch.setattr(module, "STEPS", 30)
    monkeypatch.setattr(grid_training, "DEGREE", 90)  # there are 100 pixels in the mask
    monkeypatch.setattr(grid_rational, "RADIUS", 0.75)
    monkeypatch.setattr(grid_arma, "ARMA_STEPS", 5)


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


def test_columns_of_a_pole_and_their_derivatives() -> None:
    terms = np.concatenate(basis_terms("chebyshev", lambda x: DATA.matrix @ x, DATA.images[:, :1], 89), 1)
    loss = reduce_loss(terms[DATA.mask], DATA.targets["low"][DATA.mask][:, :1])
    problem, w = MaskedFit(loss.r, loss.q[:, 0], 1, 1), np.array([0.4 + 0.3j, -0.6])
    mu, vectors = np.linalg.eigh(DATA.matrix.toarray())
    a = 2 * w / (1 + w * w)
    truth = vectors @ ((vectors.T @ DATA.images[:, :1]) / (1 - mu[:, None] * a))
    found = problem.terms(w)
    np.testing.assert_allclose(found.conj().T @ found, truth[DATA.mask].conj().T @ truth[DATA.mask], rtol=1e-8)
    step = 1e-6
    np.testing.assert_allclose(
        problem.slopes(w), (problem.terms(w + step) - problem.terms(w - step)) / (2 * step), atol=1e-6
    )


def test_stacks_are_those_of_the_layer() -> None:
    edges = torch.from_numpy(np.concatenate([DATA.edges, DATA.edges[:, ::-1]]).T.copy())
    op = GraphOperator.from_edge_index(edges, 144)
    w, v, out = (torch.rand(1, 3, generator=torch.Generator().manual_seed(k)) for k in range(3))
    x = torch.from_numpy(DATA.images.T[:1]).float()
    conv = ARMAConv(1, 1, num_stacks=3, num_layers=10, init="tied", bias=False)
    with torch.no_grad():
        conv.weight.copy_(w.view_as(conv.weight))
        conv.skip_weight.copy_(v.view_as(conv.skip_weight))
        stacks = conv.stacks(x.T, op)  # (K, N, 1)
    torch.testing.assert_close(relu_stacks(op, x, w, v, out)[0], (out.view(3, 1, 1) * stacks).sum(0).squeeze(1))


def test_rows_table_and_picture(tmp_path: object) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    learned = [learn_grid(DATA, method, protocol, 9) for method, protocol in (("rational", "fit"), ("arma", "adam"))]
    rows = [row for one in learned for row in one.rows()]
    assert {row.dataset for row in rows} == {f"grid/{name}" for name in RESPONSES}
    assert {(row.method, row.protocol) for row in rows} == {("rational", "fit-9"), ("arma", "adam-9")}
    assert [row.run for row in rows[:2]] == [0, 1]
    head = rows_csv(Row, rows, 6).decode().splitlines()[0]
    assert head.startswith("dataset,method,protocol,run,fold,metric,value")
    assert grid_report.table(learned).row_count == 2
    grid_report.draw(learned, tmp_path / "picture.png")  # type: ignore[operator]
    assert (tmp_path / "picture.png").stat().st_size > 1000  # type: ignore[operator]


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
