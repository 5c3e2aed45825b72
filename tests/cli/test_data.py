"""``armagnn data``: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.data import CATALOGUE, load, load_graphs
from armagnn.data.arrays import pack_arrays
from armagnn.data.loading import load_any
from data.tiny import node_arrays
from own_graphs import folder_of, rings_and_paths

CORA = Path(load_any.__code__.co_filename).with_name("embedded") / "cora.npz"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("ARMAGNN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "data"


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["data", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_list_names_all_and_where_they_are(folder: Path) -> None:
    code, out, _ = run("list")
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert rows.keys() == {"name", *CATALOGUE}
    assert "embedded" in rows["cora"]
    assert "embedded" in rows["mutag"]
    assert "missing" in rows["ppi"]
    assert "qm9.csv.gz, qm9_graphs.npz" in rows["qm9"]
    assert not set(out) & set("┃│━─\x1b")  # plain where there is no terminal


def test_info_is_beside_the_paper(folder: Path) -> None:
    code, out, _ = run("info", "cora")
    assert code == 0
    rows = {line.split("  ")[0].strip(): line.split() for line in out.splitlines()}
    assert rows["nodes"] == ["nodes", "2708", "2708"]
    assert rows["edges, each once"][-2:] == ["5278", "5429"]
    assert "6.31 ± 1.98 (all pairs)  5.87 ± 1.52" in out
    for text in (CATALOGUE["cora"].sha256, "MIT", "tkipf/gcn"):
        assert text in out
    assert "average shortest path  6" not in run("info", "cora", "--no-paths")[1]


def test_info_of_graphs(folder: Path) -> None:
    out = run("info", "mutag")[1]
    for text in ("17.93", "19.79", "BSD", "GraKeL"):
        assert text in out


def test_bound(folder: Path, tmp_path: Path) -> None:
    code, out, _ = run("bound", "mutag", "--out", str(tmp_path / "bound.csv"))
    assert code == 0
    rows = list(csv.DictReader((tmp_path / "bound.csv").open(newline="")))
    assert [row["seen"] for row in rows] == ["nodes, edges", "edge labels too"]
    assert [row["classes"] for row in rows] == ["175", "188"]
    assert rows[0] | {"seen": ""} == {
        "dataset": "mutag", "seen": "", "classes": "175", "with a twin, %": "12.77",
        "of": "accuracy", "best": "1.000000",
    }  # fmt: skip
    assert "12.77" in out


def test_the_committed_bound_of_qm9(real: Callable[[str], str], tmp_path: Path) -> None:
    code, _, _ = run("bound", real("qm9"), "--out", str(tmp_path / "bound.csv"))
    assert code == 0
    committed = Path(__file__).parents[2] / "results" / "qm9-bound.csv"
    assert (tmp_path / "bound.csv").read_text() == committed.read_text()


def test_make_bench_hard(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "new" / "mine.npz"
    code, out, err = run("make", "bench-hard", "--seed", "5", "--small", "--out", str(file))
    assert code == 0, err
    assert "100/100/100" in out
    data = load_graphs(file)
    assert data.sha256 in out
    assert (data.num_graphs, data.num_classes) == (300, 3)
    assert run("add", str(file), "--name", "bench-5")[0] == 0
    assert load_graphs("bench-5").num_graphs == 300
    again = tmp_path / "again.npz"
    run("make", "bench-hard", "--seed", "5", "--small", "--out", str(again))
    assert again.read_bytes() == file.read_bytes()
    code, _, err = run("make", "bench-hard", "--small", "--out", str(file))
    assert (code, "is there already" in err) == (2, True)


def test_bench_hard_has_a_name_and_stands_beside_the_paper(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run("make", "bench-hard", "--seed", "5")
    assert code == 0, err
    assert load_graphs("bench-hard-5.npz").num_graphs == 1800
    assert "148.32" in out  # nodes of the paper's graphs


def test_verify_says_ok_missing_and_corrupt(folder: Path) -> None:
    code, out, _ = run("verify")
    assert code == 0
    assert out.count(" ok ") == 2
    assert out.count("missing") == len([file for entry in CATALOGUE.values() for file in entry.files]) - 2
    folder.mkdir()
    (folder / "ppi.npz").write_bytes(b"damaged")
    code, out, _ = run("verify")
    assert code == 1
    assert out.count("corrupt") == 1
    assert run("verify", "cora", "mutag")[0] == 0
    assert run("verify", "ppi")[0] == 1


def test_add_then_use(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.npz"
    shutil.copy(CORA, mine)
    code, out, err = run("add", str(mine), "--name", "papers")
    assert code == 0, err
    assert "2708" in out
    assert CATALOGUE["cora"].sha256 in out
    assert load("papers").num_nodes == 2708
    assert "papers" in run("list")[1]
    assert run("verify", "papers")[0] == 0
    assert "10556" in run("info", "papers")[1]


def test_fetch_of_what_is_here(folder: Path) -> None:
    assert run("fetch", "cora") == (0, "cora: embedded/cora.npz\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["info", "coar"], "Did you mean 'cora'?"),
        (["verify", "coar"], "Did you mean 'cora'?"),
        (["fetch", "coar"], "Did you mean 'cora'?"),
        (["info", "ppi"], "armagnn data fetch ppi"),
        (["add", "nowhere.npz"], "cannot be read"),
        (["bound", "nowhere"], "Unknown folder or set of graphs 'nowhere'. Known: bench-hard, bench-hard-small, dd"),
        (["bound", "no/where"], "no/where: is not a folder"),
        (["fetch", "bench-hard"], "Put bench_hard_regenerated.npz into"),
        (["make", "bench-hard", "--out", "mine.txt"], "is written as an .npz file"),
        (["make", "bench-hard", "--seed", "-1", "--out", "mine.npz"], "seed must be an integer"),
        (["info", "qm9"], "armagnn data fetch qm9"),
    ],
)
def test_refusals_are_one_clear_line(arguments: list[str], said: str, folder: Path) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.startswith("Error: ")
    assert len(err.strip().splitlines()) == 1


def test_a_terminal_gets_a_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "│" in run("list")[1]


def test_20news_is_made_and_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(seed: int, *, plain: bool, force: bool) -> tuple[str, dict[str, int]]:
        return f"{folder}/20news-words.npz", {"signals": 17 + seed, "forced": int(force), "plain": int(plain)}

    monkeypatch.setattr("armagnn.data.make_news", make)
    code, out, _ = run("make", "20news", "--seed", "2", "--force")
    assert code == 0
    assert "19" in out
    assert "armagnn train signals --dataset 20news (" in out
    code, out, _ = run("make", "20news", "--plain")
    assert code == 0
    assert "armagnn train signals --dataset 20news-plain (" in out


def test_info_of_a_path(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "[b]mine.npz"
    mine.write_bytes(pack_arrays({**node_arrays(), "edge_index": np.array([[0, 1], [1, 2]])}))
    code, out, err = run("info", str(mine), "--no-paths")
    assert code == 0, err
    assert "[b]mine.npz" in out
    assert "nodes                  6" in out
    assert "2 were listed in one direction; the other direction was added." in out
    assert "divided by their deviation on the 2 training nodes" in out
    graphs = folder_of(rings_and_paths(), tmp_path / "graphs")
    code, out, err = run("info", str(graphs), "--no-paths")
    assert code == 0, err
    assert "graphs                     30" in out


def test_add_and_remove(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.npz"
    shutil.copy(CORA, mine)
    run("add", str(mine), "--name", "papers")
    file = folder / "papers.npz"
    assert file.exists()
    assert run("remove", "papers") == (0, f"papers is removed: {file}\n", "")
    assert not file.exists()
    assert mine.exists()
    assert "papers" not in run("list")[1]
    assert run("remove", "papers")[0] == 2
    assert run("add", str(mine), "--name", "papers")[0] == 0


def test_errors_advise_commands(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    for arguments, said in (
        (["add", str(tmp_path / "x.csv")], "not an .npz file. Datasets are .npz archives of named arrays"),
        (["add", str(tmp_path)], "armagnn train graphs --data"),
        (["bound", "cora"], "`armagnn train --dataset cora`"),
        (["bound", "mnist"], "`armagnn train signals --dataset mnist`"),
        (["remove", "cora"], "is known to armagnn itself"),
        (["remove", "../cora"], "cannot name a dataset"),
        (["info", "no/where"], "no/where: cannot be read"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert said in err
        assert "fetch it again" not in err
    assert "`armagnn train graphs --data mutag`" in CliRunner().invoke(app, ["train", "--dataset", "mutag"]).stderr
