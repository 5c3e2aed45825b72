"""Plans: seconds and epochs of earlier trainings, and what is assumed; and epochs that are measured once, and kept."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.errors import DataError, ParameterError
from armagnn.sealed import write_sealed
from armagnn.training.record import Record, to_csv
from armagnn.training.results_store import Store
from armagnn_paper import forecast
from armagnn_paper.forecast import SOURCES, Pace, assumptions, known_times, plan
from armagnn_paper.table import Cell, CellTrial
from armagnn_paper.tables import MOLECULAR, NODES, TABLES

ROOT = Path(__file__).resolve().parents[2]


def record(method: str, protocol: str, device: str, seconds: float, epochs: int, run: int = 0) -> Record:
    cell = Cell("cora", method, protocol)
    config = NODES.stored(cell, NODES.config(cell))
    values = {"accuracy": 80.0, "val_loss": 1.0}
    return Record(NODES.name, *cell, run, 0, run, config, values, epochs, seconds, {}, "0" * 64, device)


def export(folder: Path, *records: Record) -> Path:
    write_sealed(folder / f"{NODES.name}.csv", to_csv(records))
    return folder


def trials(method: str, protocol: str = "paper", count: int = 10) -> list[CellTrial]:
    return NODES.trials(Cell("cora", method, protocol), count)


def line(folder: Path, device: str, *cell: str) -> tuple[float | None, str, float]:
    times = known_times(NODES, folder, ())
    (found,) = plan(NODES, trials(*cell), device, times, ())
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
    write_sealed(folder / forecast.PACE, forecast.to_csv([Pace("cora", "gcn", "paper", "cpu", 10, 0.5)]))
    assert line(folder, "cpu", "gcn") == (500.0, "measured", 100)
    assert line(folder, "cpu", "gcn", "tuned")[1] == "like"
    assert line(folder, "cpu", "gat") == (10 * 50 * 0.04 * (15 + 50) / 2, "scaled", 50)
    texts = assumptions(plan(NODES, trials("gat"), "cpu", (times := known_times(NODES, folder, ())), ()), times)
    assert "32.5 times as long on a processor as on a GPU, the middle of 15 to 50" in texts["scaled"]


def test_the_properties_of_qm9_take_as_long_as_one_another(tmp_path: Path) -> None:
    cell = Cell("qm9/mu", "gcn", "paper")
    config = MOLECULAR.stored(cell, MOLECULAR.config(cell))
    own = Record(MOLECULAR.name, *cell, 0, 0, 0, config, {"mse": 1.0}, 100, 5.0, {}, "", "cpu")
    write_sealed(tmp_path / f"{MOLECULAR.name}.csv", to_csv([own]))
    other = MOLECULAR.trials(Cell("qm9/cv", "gcn", "paper"), 1)
    (found,) = plan(MOLECULAR, other, "cpu", known_times(MOLECULAR, tmp_path, ()), ())
    assert (found.source, found.seconds) == ("like", 0.05 * 100)


def test_a_search_goes_by_the_epochs_of_a_search(tmp_path: Path) -> None:
    folder = export(tmp_path, record("arma", "tuned", "cpu", 4.0, 400))
    times = known_times(NODES, folder, (), search=True)
    (found,) = plan(NODES, trials("arma", "tuned"), "cpu", times, (), search=True)
    assert found.epochs == 400  # of the reported trainings
    write_sealed(folder / "search" / f"{NODES.name}.csv", b"dataset,method,epochs\ncora,arma,30\ncora,arma,50\n")
    times = known_times(NODES, folder, (), search=True)
    (found,) = plan(NODES, trials("arma", "tuned"), "cpu", times, (), search=True)
    assert (found.epochs, found.seconds) == (40, 10 * 40 * 0.01)


def test_what_is_done_is_not_planned_and_tells_the_times(tmp_path: Path) -> None:
    records = [record("arma", "paper", "cpu", 3.0, 100, run=run) for run in range(4)]
    times = known_times(NODES, tmp_path, records)
    (found,) = plan(NODES, trials("arma"), "cpu", times, records)
    assert (found.trainings, found.done, found.seconds) == (10, 4, 18.0)
    other = [Record(**{**vars_of(each), "config": {**each.config, "lr": 7.0}}) for each in records]
    (found,) = plan(NODES, trials("arma"), "cpu", times, other)
    assert found.done == 0


def vars_of(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def test_damaged_tables_are_refused(tmp_path: Path) -> None:
    folder = export(tmp_path, record("arma", "paper", "cpu", 4.0, 300))
    path = folder / f"{NODES.name}.csv"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"300", b"100"))
    with pytest.raises(DataError, match="is not what was written"):
        known_times(NODES, folder, ())
    write_sealed(path, whole.replace(b"4.000", b"four"))
    with pytest.raises(DataError, match=r"not a table of trials .*armagnn results export"):
        known_times(NODES, folder, ())
    write_sealed(path, whole)
    write_sealed(
        folder / forecast.PACE, b"dataset,method,protocol,device,trainings,seconds\ncora,arma,paper,cpu,ten,1\n"
    )
    with pytest.raises(DataError, match=r"not a table of paces .*armagnn reproduce pace"):
        known_times(NODES, folder, ())


@pytest.mark.parametrize("name", [*TABLES, *(f"{name}-search" for name in TABLES)])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_table_is_planned_at_80_columns_without_data(
    name: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("a plan reads no dataset")

    monkeypatch.setattr("armagnn_paper.table._data", refuse)
    narrow = Console(width=80, force_terminal=True, color_system=None, file=io.StringIO(), markup=False)
    monkeypatch.setattr("armagnn_paper.cli.reproduce.table_console", lambda: narrow)
    store = tmp_path / "none.sqlite"
    command = ["reproduce", name, "--plan", "--device", device, "--store", str(store)]
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


# ------------------------------------------------------------------------------------------------- measuring an epoch


def test_paces_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armagnn.training.trials.Trials.probe", lambda self, steps: 2.0)
    path = tmp_path / "new" / forecast.PACE
    cells = [Cell("cora", method, "paper") for method in ("gcn", "arma")]
    wanted = [(cell, NODES.config(cell)) for cell in cells]
    assert [found.seconds for found in forecast.measure(NODES, wanted[:1], path)] == [0.2]
    assert [found.method for found in forecast.measure(NODES, wanted, path)] == ["arma"]
    assert forecast.read_paces(path) == [Pace(*cell, "cpu", 10, 0.2) for cell in cells]
    with pytest.raises(ParameterError, match="wanted is empty"):
        list(forecast.measure(NODES, [], path))


def test_the_command_leaves_out_cells_without_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armagnn.training.trials.Trials.probe", lambda self, steps: 2.0)
    cells = [Cell("cora", "gcn", "paper"), Cell("ppi", "gat", "none")]
    monkeypatch.setattr("armagnn_paper.forecast.cells", lambda table: cells)
    result = CliRunner().invoke(app, ["reproduce", "pace", "node-classification", "--out", str(tmp_path / "p.csv")])
    assert "cora gcn paper: 0.2 s an epoch and training" in result.output
    assert "ppi gat none is left out" in result.output
    result = CliRunner().invoke(app, ["reproduce", "pace", "node-clasification"])
    assert result.exit_code == 2
    assert "node-classification" in result.output


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_is_one_that_the_table_has(name: str) -> None:
    table = TABLES[name]
    cells = forecast.cells(table)
    assert len(set(cells)) == len(cells)
    for cell in cells:
        table.check(*cell)
        assert cell.protocol in table.own_protocols(cell.dataset, cell.method)
        assert cell.protocol not in table.beyond_protocols


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / forecast.PACE
    assert forecast.read_paces(path) == []
    write_sealed(path, forecast.to_csv([]) + b"cora,arma,paper,cpu,ten,1\n")
    with pytest.raises(DataError, match=r"not a table of paces .*armagnn reproduce pace"):
        forecast.read_paces(path)
