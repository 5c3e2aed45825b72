"""Plans: seconds and epochs of earlier trainings, and what is assumed; nothing is trained and no dataset is read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.errors import DataError, ParameterError, UnknownNameError
from armagnn.paper import graph_tables as graphs
from armagnn.paper import node_classification as node
from armagnn.paper import pace
from armagnn.paper.jobs import CellTrial, content_of
from armagnn.paper.pace import Pace
from armagnn.paper.plan import SOURCES, assumptions, known_times, plan
from armagnn.paper.restore import CONFIGS
from armagnn.paper.sealed import write_sealed
from armagnn.training.export import to_csv
from armagnn.training.record import Record
from armagnn.training.store import Store

ROOT = Path(__file__).resolve().parents[2]


def record(method: str, protocol: str, device: str, seconds: float, epochs: int, run: int = 0) -> Record:
    config = content_of(node.config_of("cora", method, protocol))
    values = {"accuracy": 80.0, "val_loss": 1.0}
    return Record(
        node.TABLE, "cora", method, protocol, run, 0, run, config, values, epochs, seconds, {}, "0" * 64, device
    )


def export(folder: Path, *records: Record) -> Path:
    write_sealed(folder / f"{node.TABLE}.csv", to_csv(records))
    return folder


def trials(method: str, protocol: str = "paper", count: int = 10) -> list[CellTrial]:
    return [CellTrial(node.config_of("cora", method, protocol), run, run) for run in range(count)]


def line(folder: Path, device: str, *cell: str) -> tuple[float | None, str, float]:
    times = known_times(node.TABLE, folder, ())
    (found,) = plan(trials(*cell), node.TABLE, device, times, ())
    assert set(assumptions([found], times)) == {found.source}
    return None if found.seconds is None else round(found.seconds, 9), found.source, found.epochs


def test_the_surest_source_is_taken(tmp_path: Path) -> None:
    folder = export(
        tmp_path,
        record("arma", "paper", "cpu", 4.0, 300), record("arma", "paper", "x86_64", 2.0, 100, run=1),
        record("arma", "tuned", "NVIDIA H200", 0.5, 500),
        record("gcn", "paper", "NVIDIA H200", 1.0, 100),
        record("gat", "paper", "NVIDIA H200", 2.0, 50),
    )  # fmt: skip
    # 10 trainings of 200 epochs on average, each of 6 s / 400
    assert line(folder, "cpu", "arma") == (30.0, "rows", 200)
    assert line(folder, "cpu", "arma", "tuned") == (10 * 500 * 6 / 400, "like", 500)
    assert line(folder, "cuda", "gcn", "tuned")[2] == 100  # epochs of another protocol
    assert line(folder, "cuda:1", "arma", "tuned") == (5.0, "rows", 500)
    assert line(folder, "cuda", "arma") == (10 * 200 * 0.001, "like", 200)
    # on a processor ARMA takes 0.015 s where it takes 0.001 on a GPU
    assert line(folder, "cpu", "gcn") == (10 * 100 * 0.01 * 15, "scaled", 100)
    assert line(folder, "cpu", "cayley") == (None, "unknown", 2000)
    write_sealed(folder / pace.PACE, pace.to_csv([Pace("cora", "gcn", "paper", "cpu", 10, 0.5)]))
    assert line(folder, "cpu", "gcn") == (500.0, "measured", 100)
    assert line(folder, "cpu", "gcn", "tuned")[1] == "like"
    assert line(folder, "cpu", "gat") == (10 * 50 * 0.04 * (15 + 50) / 2, "scaled", 50)
    texts = assumptions(
        plan(trials("gat"), node.TABLE, "cpu", (times := known_times(node.TABLE, folder, ())), ()), times
    )
    assert "32.5 times as long on a processor as on a GPU, the middle of 15 to 50" in texts["scaled"]


def test_the_properties_of_qm9_take_as_long_as_one_another(tmp_path: Path) -> None:
    config = graphs.graph_config("qm9/mu", "gcn")
    table = graphs.REGRESSION_TABLE
    own = Record(table, "qm9/mu", "gcn", "paper", 0, 0, 0, content_of(config), {"mse": 1.0}, 100, 5.0, {}, "", "cpu")
    write_sealed(tmp_path / f"{table}.csv", to_csv([own]))
    other = [CellTrial(graphs.graph_config("qm9/cv", "gcn"), 0, 0)]
    (found,) = plan(other, table, "cpu", known_times(table, tmp_path, ()), ())
    assert (found.source, found.seconds) == ("like", 0.05 * 100)


def test_a_search_goes_by_the_epochs_of_a_search(tmp_path: Path) -> None:
    folder = export(tmp_path, record("arma", "tuned", "cpu", 4.0, 400))
    times = known_times(f"{node.TABLE}-search", folder, ())
    (found,) = plan(trials("arma", "tuned"), f"{node.TABLE}-search", "cpu", times, ())
    assert found.epochs == 400  # of the reported trainings
    write_sealed(folder / "search" / f"{node.TABLE}.csv", b"dataset,method,epochs\ncora,arma,30\ncora,arma,50\n")
    times = known_times(f"{node.TABLE}-search", folder, ())
    (found,) = plan(trials("arma", "tuned"), f"{node.TABLE}-search", "cpu", times, ())
    assert (found.epochs, found.seconds) == (40, 10 * 40 * 0.01)


def test_what_is_done_is_not_planned_and_tells_the_times(tmp_path: Path) -> None:
    records = [record("arma", "paper", "cpu", 3.0, 100, run=run) for run in range(4)]
    times = known_times(node.TABLE, tmp_path, records)
    (found,) = plan(trials("arma"), node.TABLE, "cpu", times, records)
    assert (found.trainings, found.done, found.seconds) == (10, 4, 18.0)
    other = [Record(**{**vars_of(each), "config": {**each.config, "lr": 7.0}}) for each in records]
    (found,) = plan(trials("arma"), node.TABLE, "cpu", times, other)
    assert found.done == 0


def vars_of(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def test_damaged_tables_are_refused(tmp_path: Path) -> None:
    folder = export(tmp_path, record("arma", "paper", "cpu", 4.0, 300))
    path = folder / f"{node.TABLE}.csv"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"300", b"100"))
    with pytest.raises(DataError, match="is not what was written"):
        known_times(node.TABLE, folder, ())
    write_sealed(path, whole.replace(b"4.000", b"four"))
    with pytest.raises(DataError, match=r"not a table of trials .*armagnn results export"):
        known_times(node.TABLE, folder, ())
    write_sealed(path, whole)
    write_sealed(folder / pace.PACE, b"dataset,method,protocol,device,trainings,seconds\ncora,arma,paper,cpu,ten,1\n")
    with pytest.raises(DataError, match=r"not a table of paces .*armagnn reproduce pace"):
        known_times(node.TABLE, folder, ())


@pytest.mark.parametrize(
    "table",
    [
        "node-classification",
        "graph-signal",
        "graph-classification",
        "graph-regression",
        "graph-signal-search",
        "node-classification-search",
    ],
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_table_is_planned_at_80_columns_without_data(
    table: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("a plan reads no dataset")

    for module in ("node_classification", "graph_signal", "graph_tables"):
        monkeypatch.setattr(f"armagnn.paper.{module}._load", refuse)
    narrow = Console(width=80, force_terminal=True, color_system=None, file=io.StringIO(), markup=False)
    monkeypatch.setattr("armagnn.cli.tables.table_console", lambda: narrow)
    store = tmp_path / "none.sqlite"
    command = ["reproduce", table, "--plan", "--device", device, "--store", str(store)]
    result = CliRunner().invoke(app, [*command, "--results", str(ROOT / "results")])
    assert result.exit_code == 0, result.output
    assert not store.exists()
    shown = narrow.file.getvalue()  # type: ignore[attr-defined]
    assert f"by one worker on {device}" in shown
    assert "trainings to do: about " in shown
    assert "…" not in shown
    assert any(text.split("{")[0] in shown for text in SOURCES.values())


def test_the_command_without_tables_says_that_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["reproduce", "node-classification", "--dataset", "cora", "--method", "gcn", "--protocol", "paper"]
    result = CliRunner().invoke(app, [*command, "--runs", "2", "--plan"])
    assert result.exit_code == 0
    assert (
        "2 trainings to do: about 0 s by one worker on cpu, without the 2 of which nothing is known." in result.output
    )
    with Store(tmp_path / "store.sqlite") as store:
        store.add([record("gcn", "paper", "cpu", 3.0, 100, run=run) for run in range(2)])
    result = CliRunner().invoke(app, [*command, "--runs", "3", "--plan", "--store", "store.sqlite"])
    assert "cora gcn paper" in result.output
    assert "2/3" in result.output
    assert "1 trainings to do: about 3 s by one worker on cpu." in result.output


def test_paces_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armagnn.training.trials.Trials.probe", lambda self, steps: 2.0)
    path = tmp_path / "new" / pace.PACE
    configs = [node.paper_config("cora", "gcn"), node.paper_config("cora", "arma")]
    assert [found.seconds for found in pace.measure(configs[:1], path)] == [0.2]
    assert [found.method for found in pace.measure(configs, path)] == ["arma"]
    assert pace.read_paces(path) == [Pace("cora", name, "paper", "cpu", 10, 0.2) for name in ("gcn", "arma")]
    with pytest.raises(ParameterError, match="configs is empty"):
        list(pace.measure([], path))
    with pytest.raises(UnknownNameError, match="node-classification"):
        pace.cells("node-clasification")
    monkeypatch.setattr("armagnn.cli.pace.room.cells", lambda name: [("cora", "gcn", "paper"), ("ppi", "gat", "none")])
    result = CliRunner().invoke(app, ["reproduce", "pace", "node-classification", "--out", str(tmp_path / "p.csv")])
    assert "cora gcn paper: 0.2 s an epoch and training" in result.output
    assert "ppi gat none is left out" in result.output
    assert CliRunner().invoke(app, ["reproduce", "pace", "no-table"]).exit_code == 2


def test_every_cell_is_one_that_the_tables_have() -> None:
    for name, make in CONFIGS.items():
        for cell in pace.cells(name):
            if cell[2] != "tuned":
                assert make(*cell, 0).protocol == cell[2]
