from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.errors import DataError, ParameterError, UnknownNameError
from armagnn.sealed import write_sealed
from armagnn.solvers import FixedPoint
from armagnn_paper import convergence

RESULTS = Path(__file__).parents[2] / "results" / "convergence.csv"


@pytest.mark.parametrize("hops", [1, 5])
def test_only_the_first_node_of_a_chain_tells_the_label_of_the_last(hops: int) -> None:
    task = convergence.chain(hops, (4, 2, 2))
    length = hops + 1
    assert task.op.num_nodes == 8 * length
    assert task.op.nnz == 2 * 8 * hops
    known = task.x.nonzero()
    assert known[:, 0].tolist() == [length * k for k in range(8)]
    assert known[:, 1].tolist() == [k % 2 for k in range(8)]
    last = torch.cat([task.idx[split] for split in ("train", "val", "test")])
    assert last.tolist() == [length * k + hops for k in range(8)]
    assert task.y[last].tolist() == [k % 2 for k in range(8)]
    reach, signal = 0, torch.zeros(task.op.num_nodes, 1)
    signal[0] = 1.0
    while signal[hops] == 0:
        signal, reach = task.op @ signal, reach + 1
    assert reach == hops


def test_a_layer_reaches_as_far_as_its_steps_and_a_convergent_one_further() -> None:
    task = replace(convergence.chain(12, (2, 2, 4)), epochs=15)
    short = convergence.train(task, {"num_layers": 10}, 0)
    assert short["accuracy"] == 50.0
    fixed_point = FixedPoint(1e-4, 5000, 0.98)
    far = convergence.train(task, {"fixed_point": fixed_point}, 0)
    assert far["accuracy"] == 100.0
    assert far["val_loss"] < 0.6 < short["val_loss"]
    assert far["contraction"] <= 0.98
    assert far["plain_steps"] > 2 * far["steps"] > 0
    assert far["adjoint_steps"] > 0


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another task and other methods, which are trained in no time."""
    task = replace(convergence.chain(2, (2, 2, 2)), epochs=1)
    methods = {
        ("arma", "T=3"): {"num_layers": 3},
        ("convergent", "c=0.5"): {"fixed_point": FixedPoint(contraction=0.5)},
    }
    monkeypatch.setattr(convergence, "problem", lambda name: task)
    monkeypatch.setattr(convergence, "methods", lambda name: methods)


def test_what_is_in_the_table_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    table = tmp_path / "new" / "table.csv"
    assert len(list(convergence.run(table, ["chain-50"], 1))) == 2
    before = table.read_text()
    assert list(convergence.run(table, ["chain-50"], 1)) == []
    assert table.read_text() == before
    more = list(convergence.run(table, ["chain-50"], 2))
    assert len(more) == 2
    assert all("seed 1" in line for line in more)
    assert table.read_text().startswith(before)
    with table.open() as rows:
        cells = Counter((row["method"], row["protocol"], row["run"]) for row in csv.DictReader(rows))
    assert len(cells) == 4


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    out = tmp_path / "table.csv"
    command = ["reproduce", "convergence", "--dataset", "chain-100", "--runs", "1", "--out", str(out)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "chain-100 convergent c=0.5 seed 0: accuracy" in result.output
    head, first, *_ = out.read_text().splitlines()
    assert head == "dataset,method,protocol,run,seed,metric,value"
    assert first.startswith("chain-100,arma,T=3,0,0,accuracy,")
    for wrong in (["--dataset", "chain-7"], ["--runs", "0"]):
        assert CliRunner().invoke(app, [*command, *wrong]).exit_code == 2


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="chain-50"):
        convergence.problem("chain-5")
    other = tmp_path / "other.csv"
    write_sealed(other, b"a,b\n1,2\n")
    with pytest.raises(DataError, match="another table"):
        list(convergence.run(other))
    with pytest.raises(ParameterError, match="Unknown case"):
        convergence.options_of("T=3")


@pytest.mark.parametrize("case", convergence.CASES)
def test_the_cases_of_the_costs(case: str) -> None:
    options: dict[str, Any] = convergence.options_of(case)
    if case.startswith("T="):
        assert options == {"num_layers": int(case[2:])}
    else:
        number, way = case[2:].split(",")
        assert options["fixed_point"].contraction == float(number)
        assert way in (options["fixed_point"].backward, options["fixed_point"].solver)


def test_the_committed_cells_are_complete() -> None:
    if not RESULTS.exists():
        pytest.skip("results/convergence.csv is not here: armagnn reproduce convergence makes it")
    with RESULTS.open() as rows:
        found = [row for row in csv.DictReader(rows) if row["metric"] == "accuracy"]
    for name in convergence.DATASETS:
        for method, protocol in convergence.methods(name):
            wanted = (name, method, protocol)
            cell = [row["seed"] for row in found if (row["dataset"], row["method"], row["protocol"]) == wanted]
            assert sorted(map(int, cell)) == list(range(10)), wanted


def test_one_rational_layer_reaches_the_end_of_a_chain() -> None:
    options = convergence.methods("chain-50")["rational", "K=1"]
    metrics = convergence.train(convergence.chain(40, (2, 2, 4)), options, 0)
    assert metrics["accuracy"] == 100.0
    assert metrics["steps"] <= 41
    assert ("rational", "K=1") not in convergence.methods("cora")


def test_the_place_of_the_pole_is_judged_without_test_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    task = convergence.chain(6, (2, 2, 4))
    train = convergence.train
    seen: list[int] = []

    def watched(given: convergence.ReachTask, *rest: Any) -> dict[str, float]:
        assert not set(task.idx["test"].tolist()) & set(torch.cat(list(given.idx.values())).tolist())
        seen.append(rest[1])
        return train(given, *rest)

    monkeypatch.setattr(convergence, "problem", lambda name: replace(task, epochs=2))
    monkeypatch.setattr(convergence, "train", watched)
    found = list(convergence.judge("chain-6", (7, 8), ((0.9, 0.05), (0.5, 0.05))))
    assert [place[:2] for place in found] == [(0.9, 0.05), (0.5, 0.05)]
    assert seen == [7, 8, 7, 8]
    assert found[0][2] != found[1][2]
