"""The page of results says what the rows say."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from armagnn.errors import DataError
from armagnn.paper.page import Summary, read_cells, results_page, welch

HEAD = "dataset,method,protocol,run,fold,metric,value,seed,epochs,seconds,device,config_hash\n"


def table(tmp_path: Path, *rows: str) -> Path:
    (tmp_path / "node-classification.csv").write_text(HEAD + "".join(f"{row},0,9,1.0,some GPU,abc\n" for row in rows))
    return tmp_path


def test_cells_and_their_summaries(tmp_path: Path) -> None:
    folder = table(
        tmp_path,
        "cora,arma,paper,0,0,accuracy,80", "cora,arma,paper,1,0,accuracy,84", "cora,arma,paper,0,0,val_accuracy,10",
        "cora,gcn,paper,0,0,accuracy,81", "cora,gcn,paper,1,0,accuracy,82", "ppi,arma,tuned,0,0,accuracy,92",
        "ppi,arma,tuned,0,0,micro_f1,86.8",
    )  # fmt: skip
    cells = read_cells(folder / "node-classification.csv", "accuracy")
    assert str(cells["cora", "arma", "paper"]) == "82.0 ± 2.8 (2)"
    page = results_page(folder)
    assert "| ARMA | 83.4 ± 0.6 | 82.0 ± 2.8 (2) |" in page
    assert "| GCN | 81.5 ± 0.4 | 81.5 ± 0.7 (2) | +0.5 (p = 0.8" in page
    assert "86.8 ± 0.0 (1)" in page
    assert "some GPU" in page
    assert "Citeseer" not in page  # nothing there, nothing shown


def test_welch() -> None:
    def summary(*values: float) -> Summary:
        return Summary(values, frozenset())

    assert welch(summary(1, 2, 3), summary(1, 2, 3)) == pytest.approx(1)
    assert welch(summary(1, 2, 3), summary(101, 102, 103)) < 1e-6
    assert math.isnan(welch(summary(1), summary(2, 3)))


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "node-classification.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="results export"):
        results_page(tmp_path)
