"""``armagnn partition`` from files to folders, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.distributed.part_folder import GraphPart

RING = np.stack([np.arange(60), (np.arange(60) + 1) % 60])


def call(run: CliRunner, *words: str, code: int = 0) -> str:
    found = run.invoke(app, words)
    assert found.exit_code == code, found.output
    return found.output


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("edges.npy", RING)
    np.save("x.npy", np.random.default_rng(0).normal(size=(60, 3)))
    np.save("y.npy", np.arange(60) % 3)
    lines = ["source,target", *(f"{a},{b}" for a, b in RING.T)]
    Path("edges.csv").write_text("\n".join(lines) + "\n")
    nodes = ["id,age,label", *(f"{n},{n % 7},{'ab'[n % 2]}" for n in range(60))]
    Path("nodes.csv").write_text("\n".join(nodes) + "\n")
    return tmp_path


def test_files_of_arrays(files: Path, run: CliRunner) -> None:
    output = call(run, "partition", "edges.npy", "--parts", "3", "--out", "parts", "--x", "x.npy", "--y", "y.npy")
    assert "Halo: 0.100 rows of others per own row." in output
    assert "sends 0.00 MB" in output
    assert "armagnn train nodes --parts parts" in output
    part = GraphPart.load("parts", range(3))
    assert np.array_equal(part.arrays["y"], np.arange(60) % 3)
    again = call(run, "partition", "edges.npy", "--parts", "3", "--out", "parts", "--x", "x.npy", "--y", "y.npy")
    assert again.splitlines()[-1] == output.splitlines()[-1]


def test_tables_and_datasets(files: Path, run: CliRunner) -> None:
    call(run, "partition", "edges.csv", "--parts", "2", "--out", "edges")
    assert not GraphPart.load("edges", 0).facts.rows
    call(run, "partition", "edges.csv", "--nodes", "nodes.csv", "--parts", "2", "--out", "tables")
    assert GraphPart.load("tables", 1).facts.rows["classes"] == ["a", "b"]
    output = call(run, "partition", "--dataset", "cora", "--parts", "2", "--out", "cora", "--order", "rcm")
    assert "Balance: the largest part has 1.0" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a file of EDGES"),
        (["edges.npy", "--dataset", "cora"], "not both"),
        (["edges.npy", "--x", "x.npy"], "belong together"),
        (["edges.npy", "--x", "x.npy", "--y", "y.npy", "--nodes", "n"], "exclude each other"),
        (["edges.npy", "--nodes", "nodes.csv"], "for a table of edges"),
        (["edges.npy", "--order", "best"], "order of nodes"),
        (["absent.csv"], "cannot be read"),
        (["edges.npy", "--x", "x.npy", "--y", "y.npy", "--features", "rows"], "standardise or none"),
    ],
)
def test_what_is_refused(files: Path, run: CliRunner, arguments: list[str], message: str) -> None:
    assert message in call(run, "partition", *arguments, "--parts", "2", "--out", "parts", code=2)
    assert not Path("parts").exists()
