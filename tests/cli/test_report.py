"""``armagnn report``: where it writes, and what it refuses."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.training import NodesConfig, Run, train
from cli.quick_run import CONFIG
from data.tables.small_tables import write_people


def test_the_command_writes_it(tmp_path: Path) -> None:
    nodes, edges = write_people(tmp_path)
    config = NodesConfig.for_tables(nodes=str(nodes), edges=str(edges), target="label", epochs=4, seeds=1)
    run = train(config, tmp_path / "run")
    done = CliRunner().invoke(app, ["report", str(run.path), "--no-responses"])
    assert done.exit_code == 0, done.output
    written = run.path / "report.html"
    assert 'id="responses"' not in written.read_text(encoding="utf-8")
    assert Run.open(run.path).complete  # the report is no stranger in the folder
    train(config, tmp_path / "run", overwrite=True)
    assert not written.exists()  # it was that of another run
    out = tmp_path / "a" / "b.html"
    assert CliRunner().invoke(app, ["report", str(run.path), "--out", str(out)]).exit_code == 0
    assert 'id="responses"' in out.read_text(encoding="utf-8")


def test_what_is_no_finished_run_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert (done.exit_code, done.stderr.count("Error:")) == (2, 1)
    Run.create(tmp_path / "half", CONFIG, "0" * 64)
    done = CliRunner().invoke(app, ["report", str(tmp_path / "half")])
    assert done.exit_code == 2
    assert "Continue with" in done.stderr
    assert not (tmp_path / "half" / "report.html").exists()
