"""The seconds of an epoch of every cell: measured once, and kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.errors import DataError, ParameterError
from armagnn.sealed import write_sealed
from armagnn_paper import pace
from armagnn_paper.pace import Pace
from armagnn_paper.table import Cell
from armagnn_paper.tables import NODES, TABLES


def test_paces_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armagnn.training.trials.Trials.probe", lambda self, steps: 2.0)
    path = tmp_path / "new" / pace.PACE
    cells = [Cell("cora", method, "paper") for method in ("gcn", "arma")]
    wanted = [(cell, NODES.config(cell)) for cell in cells]
    assert [found.seconds for found in pace.measure(NODES, wanted[:1], path)] == [0.2]
    assert [found.method for found in pace.measure(NODES, wanted, path)] == ["arma"]
    assert pace.read_paces(path) == [Pace(*cell, "cpu", 10, 0.2) for cell in cells]
    with pytest.raises(ParameterError, match="wanted is empty"):
        list(pace.measure(NODES, [], path))


def test_the_command_leaves_out_cells_without_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armagnn.training.trials.Trials.probe", lambda self, steps: 2.0)
    cells = [Cell("cora", "gcn", "paper"), Cell("ppi", "gat", "none")]
    monkeypatch.setattr("armagnn_paper.pace.cells", lambda table: cells)
    result = CliRunner().invoke(app, ["reproduce", "pace", "node-classification", "--out", str(tmp_path / "p.csv")])
    assert "cora gcn paper: 0.2 s an epoch and training" in result.output
    assert "ppi gat none is left out" in result.output
    result = CliRunner().invoke(app, ["reproduce", "pace", "node-clasification"])
    assert result.exit_code == 2
    assert "node-classification" in result.output


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_is_one_that_the_table_has(name: str) -> None:
    table = TABLES[name]
    cells = pace.cells(table)
    assert len(set(cells)) == len(cells)
    for cell in cells:
        table.check(*cell)
        assert cell.protocol in table.own_protocols(cell.dataset, cell.method)
        assert cell.protocol not in table.beyond_protocols


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / pace.PACE
    assert pace.read_paces(path) == []
    write_sealed(path, pace.to_csv([]) + b"cora,arma,paper,cpu,ten,1\n")
    with pytest.raises(DataError, match=r"not a table of paces .*armagnn reproduce pace"):
        pace.read_paces(path)
