"""The section of the heterophily tables says what the rows say."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from scipy import stats
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.sealed import write_sealed
from armagnn_paper.heterophily_section import draw, heterophily, lead, of_splits, read
from armagnn_paper.page import results_page
from armagnn_paper.summaries import Summary

HEAD = "dataset,method,protocol,run,fold,metric,value,seed,epochs,seconds,device,config_hash\n"


def made(folder: Path, cells: dict[tuple[str, str], list[list[float]]], metric: str = "accuracy") -> Path:
    """The table with these values: for each cell, those of the seeds by split."""
    rows = [
        f"{dataset},{method},tuned,{run},{split},{name},{value},{run},9,1.0,some GPU,abc\n"
        for (dataset, method), splits in cells.items()
        for split, values in enumerate(splits)
        for run, shown in enumerate(values)
        for name, value in ((metric, shown), ("val_loss", 1.0))
    ]
    path = folder / "heterophily.csv"
    write_sealed(path, (HEAD + "".join(rows)).encode())
    return path


def test_seeds_are_averaged_on_each_split() -> None:
    found = of_splits(Summary((1.0, 2.0, 5.0, 3.0), frozenset(["cpu"]), ("10", "10", "2", "0")))
    assert (found.folds, found.values) == (("0", "2", "10"), (3.0, 5.0, 1.5))


def test_a_lead_is_of_splits_and_its_test_knows_that_they_overlap(tmp_path: Path) -> None:
    ours = [[80.0 + split, 82.0 + split] for split in range(10)]
    theirs = [[79.0 + split + split % 2] for split in range(10)]
    cells = read(made(tmp_path, {("texas", "arma"): ours, ("texas", "gcn"): theirs}))
    mean, p = lead(cells, "texas", "arma", "gcn")
    assert mean == pytest.approx(1.5)
    paired = stats.ttest_1samp([2.0, 1.0] * 5, 0.0)
    t = paired.statistic * math.sqrt(0.1 / (0.1 + 0.25))
    assert p == pytest.approx(2 * stats.t.sf(t, 9))
    assert p > paired.pvalue
    assert all(math.isnan(number) for number in lead(cells, "texas", "rational", "gcn"))


def test_the_section(tmp_path: Path) -> None:
    cells = {
        ("texas", "arma"): [[84.0], [86.0]] * 5, ("texas", "gcn"): [[80.0], [81.0]] * 5,
        ("cornell", "rational"): [[70.0], [71.0]] * 4, ("cornell", "gcn"): [[75.0], [76.0]] * 5,
    }  # fmt: skip
    page = heterophily(made(tmp_path, cells), "The text.")
    assert page.startswith("The text.\n\n")
    assert "**85.0 ± 1.1**" in page
    assert "| GCN | 80.5 ± 0.5 | **75.5 ± 0.5** |" in page
    assert "70.5 ± 0.5 (8 splits)" in page
    assert "not behind GCN on 1 of 2 sets; behind on Cornell (ARMA alone on 1, Rational alone on 0" in page
    assert "| GCN | +4.5 (< 0.001) |  |" in page
    assert "Actor" not in page
    assert "some GPU" in page


def test_minesweeper_is_judged_by_roc_auc(tmp_path: Path) -> None:
    path = made(tmp_path, {("minesweeper", "arma"): [[97.0]] * 10}, "roc_auc")
    assert read(path)["minesweeper", "arma"].mean == 97.0
    assert read(made(tmp_path, {("minesweeper", "arma"): [[97.0]] * 10})) == {}
    made(tmp_path, {("minesweeper", "arma"): [[97.0]] * 10}, "roc_auc")
    assert "Heterophily" in results_page(tmp_path)


def test_the_picture_shows_every_lead_over_gcn(tmp_path: Path) -> None:
    path = made(tmp_path, {("texas", "arma"): [[84.0], [86.0]] * 5, ("texas", "gcn"): [[80.0], [81.0]] * 5})
    picture = draw(read(path))
    assert picture.startswith(b"\x89PNG")
    more = made(tmp_path, {("texas", "mlp"): [[84.0], [86.0]] * 5, ("texas", "gcn"): [[80.0], [81.0]] * 5})
    assert draw(read(more)) != picture
    out = tmp_path / "figures" / "heterophily.png"
    result = CliRunner().invoke(app, ["figure", "heterophily", "--results", str(tmp_path), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert out.read_bytes().startswith(b"\x89PNG")
