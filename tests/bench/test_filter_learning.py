"""Learning filters: the task is what it says, budgets hold, and what is committed is complete."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
import torch

from armagnn import GraphOperator
from armagnn.bench import filter_learning as learning
from armagnn.bench.filter_learning import RESPONSES, filter_data, photographs, pixel_grid
from armagnn.errors import UnknownNameError
from armagnn.sealed import rows_csv

COMMITTED = Path(__file__).parents[2] / "results" / "photograph-filters.csv"
COUNTS = {"train": 1, "val": 1, "test": 2}


def test_the_targets_are_the_images_filtered_exactly() -> None:
    data = filter_data(8, COUNTS)
    op = GraphOperator.from_edge_index(pixel_grid(8), 64, dtype=torch.float64)
    mu, U = torch.linalg.eigh(op.to_dense())
    lam = 1 - mu
    formulas = {
        "low-pass": torch.exp(-10 * lam**2),
        "high-pass": 1 - torch.exp(-10 * lam**2),
        "band-pass": torch.exp(-10 * (lam - 1) ** 2),
        "band-rejection": 1 - torch.exp(-10 * (lam - 1) ** 2),
        "comb": (torch.pi * lam).sin().abs(),
    }
    assert list(formulas) == list(RESPONSES)
    for split, count in COUNTS.items():
        assert data.x[split].shape == (count, 64, 1)
        for number, h in enumerate(formulas.values()):
            wanted = U @ (h[:, None] * (U.T @ data.x[split].double()))
            found = data.y[split][number].double() * data.scale[number]
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(data.y["train"].flatten(1).std(1), torch.ones(5), rtol=1e-4, atol=0)
    assert not any(torch.equal(data.x["train"][0], image) for image in data.x["test"])


def test_photographs_are_pieces_of_both() -> None:
    images = photographs(24)
    assert images.shape == (2 * 4 * 6, 576, 1)
    assert -0.5 <= images.min() < 0 < images.max() <= 0.5
    assert images[::2].mean() != images[1::2].mean()
    corner = pixel_grid(24)
    degree = torch.bincount(corner[0])
    assert (degree.min(), degree.max(), degree.sum()) == (2, 4, 2 * 2 * 24 * 23)


@pytest.mark.parametrize("method", list(learning.OPTIONS))
def test_budgets_hold(method: str) -> None:
    hidden = learning.widest(method)
    assert 0.8 * learning.BUDGET < learning.FilterNet(method, hidden).size <= learning.BUDGET
    assert learning.FilterNet(method, hidden + 1).size > learning.BUDGET


def test_unknown_methods_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="chebyshev"):
        learning.widest("chebyshef")


def test_the_polynomial_layer_is_eq_3() -> None:
    torch.manual_seed(0)
    conv = learning.PolynomialConv(2, 3, degree=2).double()
    op = conv.operator(pixel_grid(3), 9, dtype=torch.float64)
    assert op is not None
    x, dense = torch.randn(4, 9, 2, dtype=torch.float64), op.to_dense()
    terms = (torch.linalg.matrix_power(dense, k) @ x @ conv.weight[:, k] for k in range(3))
    torch.testing.assert_close(conv(x, op), torch.relu(sum(terms) + conv.bias))


def test_learning_in_small() -> None:
    data = filter_data(8, COUNTS)
    results = learning.learn("polynomial", data, seeds=2, epochs=20, budget=100)
    choice = [r for r in results if r.stage == "choice"]
    final = [r for r in results if r.stage == "final"]
    assert len(choice) == 5 * len(learning.RATES)
    assert len(final) == 5 * 2
    assert all(math.isnan(r.r2) for r in choice)  # test images are not looked at for a choice
    assert not {r.seed for r in choice} & {r.seed for r in final}
    for name in RESPONSES:
        errors = {
            lr: sum(r.val_mse for r in choice if (r.filter, r.lr) == (name, lr)) for lr in learning.RATES
        }  # fmt: skip
        assert {r.lr for r in final if r.filter == name} == {min(errors, key=errors.__getitem__)}
    assert all(1 <= r.best_epoch <= 20 for r in results)
    assert learning.table(results).row_count == 5
    rows = list(csv.DictReader(rows_csv(learning.Result, results, 6).decode().splitlines()))
    assert len(rows) == len(results)
    assert float(rows[0]["val_mse"]) == pytest.approx(results[0].val_mse, rel=1e-5)


def test_r2_and_squared_error_are_those_of_an_image() -> None:
    data = filter_data(8, COUNTS)
    task = learning.FilterTask(data, GraphOperator.from_edge_index(pixel_grid(8), 64))
    target = torch.tensor(0)
    truth = data.y["test"][0]
    perfect = task.metrics(lambda x, op: truth, "test", target)
    assert (perfect["r2"], perfect["sse"]) == (1, 0)
    flat = task.metrics(lambda x, op: truth.mean(-2, keepdim=True).expand_as(truth), "test", target)
    assert flat["r2"].item() == pytest.approx(0.0, abs=1e-6)
    off = task.metrics(lambda x, op: truth + 0.5, "test", target)
    assert off["sse"].item() == pytest.approx(64 * 0.25 * data.scale[0].item() ** 2, rel=1e-6)


def test_what_is_committed_is_complete() -> None:
    with COMMITTED.open() as file:
        rows = [row for row in csv.DictReader(file) if row["stage"] == "final"]
    cells = {(row["method"], row["filter"], row["seed"]) for row in rows}
    assert cells == {(m, f, str(s)) for m in learning.OPTIONS for f in RESPONSES for s in range(learning.SEEDS)}
    sizes = {int(row["parameters"]) for row in rows}
    assert max(sizes) <= learning.BUDGET
