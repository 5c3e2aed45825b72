"""The commands of the claims: what is committed is complete and is not measured again."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.sealed import rows_csv
from armagnn_paper.claims import RUNS, ClaimRow, rows_of
from armagnn_paper.cli.experiments import CLAIMS

COMMITTED = Path(__file__).parents[2] / "results" / "claims"


def test_unknown_claims_are_refused() -> None:
    result = CliRunner().invoke(app, ["figure", "claims", "robustnes"])
    assert result.exit_code == 2
    assert "robustness" in result.output


@pytest.mark.parametrize("name", list(CLAIMS))
def test_committed_rows_are_complete_and_drawn_by_the_command(name: str, tmp_path: Path) -> None:
    path = COMMITTED / f"{name}.csv"
    assert path.exists(), "measure it: armagnn figure claims"
    rows = rows_of(path)
    assert all(job.done(rows, RUNS) for job in CLAIMS[name].jobs)
    arguments = ["figure", "claims", name, "--results", str(COMMITTED), "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert CLAIMS[name].question[:20] in result.output
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert path.read_text() == rows_csv(ClaimRow, rows, 6).decode()  # looked at, not touched
