"""Table 2: the numbers and hyperparameters of the paper, the networks, trials, the command and the page."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.nn import ARMAConv, CayleyConv, ChebConv
from armagnn.nn.stack import Stack
from armagnn.paper import graph_signal as signals
from armagnn.paper.choices import NotTunedError
from armagnn.paper.graph_signal import published_config
from armagnn.paper.jobs import CellTrial
from armagnn.paper.page_signals import signal_section
from armagnn.paper.published_signals import (
    SIGNAL_ACCURACY,
    SIGNAL_METHODS,
    SIGNAL_SETS,
)
from armagnn.paper.sealed import write_sealed
from armagnn.training.record import Record, trial_key
from armagnn.training.store import Store
from tiny_signals import tiny


def test_the_networks_are_the_papers(tiny_data: None) -> None:
    net = signals.signal_config("mnist", "arma").network(tiny())
    first, second = net.convs
    assert isinstance(first, ARMAConv)
    assert (first.in_channels, first.out_channels, second.out_channels) == (1, 32, 64)
    assert (first.num_stacks, first.num_layers, first.dropout) == (5, 10, 0.5)
    assert net.strides == (4, 4)
    assert [layer.out_features for layer in net.head] == [512, 3]
    assert net.hidden_dropout == 0.5
    skipless = signals.signal_config("mnist", "arma", "defferrard").network(tiny())
    assert skipless.convs[0].dropout == 0.0
    assert skipless.hidden_dropout == 0.5
    gcn = signals.signal_config("mnist", "gcn").network(tiny()).convs[0]
    assert isinstance(gcn, Stack)
    assert len(gcn) == 3
    cheb = signals.signal_config("mnist", "chebyshev").network(tiny()).convs[1]
    assert isinstance(cheb, ChebConv)
    assert cheb.order == 25
    cayley = signals.signal_config("mnist", "cayley").network(tiny()).convs[0]
    assert isinstance(cayley, CayleyConv)
    assert (cayley.order, cayley.jacobi) == (12, 11)


@pytest.mark.parametrize("method", SIGNAL_METHODS)
def test_the_readings_of_20news(tiny_data: None, method: str) -> None:
    text = signals.signal_config("20news", method)
    other = signals.signal_config("20news", method, "defferrard")
    filters = 32 if method == "chebyshev" else 16
    letter, scalar = text.network(tiny()), other.network(tiny())
    assert (letter.convs[0].in_channels, scalar.convs[0].in_channels) == (4, 1)
    assert (letter.head[0].in_features, scalar.head[0].in_features) == (filters, 36 * filters)
    assert (text.protocol, other.protocol, text.features, other.features) == ("paper", "defferrard", "table", "tfidf")
    assert (text.reading, other.reading) == ("text", "defferrard")
    assert (text.epochs, text.hidden_dropout, text.l2) == (20, 0.7, 1e-3)
    assert replace(other, protocol="tuned") == published_config("20news", method, "tuned")


def test_stored_trials_of_the_letter_stay_valid() -> None:
    """A key is of all that determines a trial: with another one the trainings would be made again."""
    config = asdict(signals.signal_config("20news", "arma"))
    assert config == {
        "dataset": "20news", "method": "arma", "protocol": "paper", "reading": "text", "features": "table", "k": 1,
        "t": 1, "widths": "16", "stride": 1, "head": 0, "average": True, "hidden_dropout": 0.7, "skip_dropout": 0.7,
        "l2": 0.001, "lr": 0.001, "batch": 128, "epochs": 20,
    }  # fmt: skip
    key = "c1f966f7df03c178262905fea85df69d515049105df1e77726cc06c0b0da61f0"
    assert trial_key("graph-signal", config, 0, 0, "0" * 64) == key


def test_each_cell_has_its_protocols() -> None:
    three = {(data, name) for data in SIGNAL_SETS for name in SIGNAL_METHODS if data == "20news" or name == "arma"}
    for data in SIGNAL_SETS:
        for name in SIGNAL_METHODS:
            wanted = ("paper", "defferrard", "tuned") if (data, name) in three else ("paper", "tuned")
            assert signals.protocols_of(data, name) == wanted
    with pytest.raises(ParameterError, match="--protocol paper or tuned"):
        signals.signal_config("mnist", "gcn", "defferrard")


def test_tuned_reads_the_choice(none_chosen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chosen.json"
    wanted = replace(published_config("20news", "gcn", "tuned"), l2=1e-6, lr=0.002, hidden_dropout=0.25)
    path.write_text(json.dumps({"20news/gcn": asdict(wanted)}))
    assert signals.signal_config("20news", "gcn", "tuned", path) == wanted
    trials = signals.signal_trials("20news", "gcn", "tuned", 3, path)
    assert [(trial.config, trial.run, trial.seed) for trial in trials] == [(wanted, run, run) for run in range(3)]
    with pytest.raises(NotTunedError, match=r"graph-signal-search --dataset 20news --method arma --out chosen\.json"):
        signals.signal_config("20news", "arma", "tuned", path)
    record = Record("graph-signal", "20news", "gcn", "tuned", 0, 0, 0, asdict(wanted), {"accuracy": 60.0})
    chosen_config = signals.chosen_config
    for source, current in ((path, True), (none_chosen, False)):
        monkeypatch.setattr(
            signals, "chosen_config", lambda *a, chosen, source=source: chosen_config(*a, chosen=source)
        )  # fmt: skip
        assert signals.is_current_signal(record) is current
    path.write_text("[1]")
    with pytest.raises(ParameterError, match="not the choices of a search"):
        chosen_config(signals.SignalConfig, "graph-signal", "20news", "gcn", chosen=path)


def invoke(store: Path, *arguments: str) -> str:
    command = ["reproduce", "graph-signal", "--store", str(store), *arguments]
    result = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    assert result.exit_code == 0, (result.output, result.exception)
    return " ".join(result.output.split())


def test_the_command_trains_what_is_missing(
    tiny_data: None, none_chosen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "EPOCHS", 2)
    store, chosen = tmp_path / "runs" / "store.sqlite", tmp_path / "chosen.json"
    tuned = replace(published_config("20news", "arma", "tuned"), lr=0.004, skip_dropout=0.1)
    chosen.write_text(json.dumps({"20news/arma": asdict(tuned)}))
    command = ["--dataset", "20news", "--method", "gcn", "--method", "arma", "--runs", "2", "--chosen"]
    shown = invoke(store, *command, str(chosen))
    assert "no search has chosen their settings yet: gcn on 20news (tuned)." in shown
    with Store(store) as opened:
        records = opened.select(table="graph-signal")
    assert len(records) == 10
    assert {(record.method, record.protocol, record.config["reading"]) for record in records} == {
        ("gcn", "paper", "text"), ("gcn", "defferrard", "defferrard"),
        ("arma", "paper", "text"), ("arma", "defferrard", "defferrard"), ("arma", "tuned", "defferrard"),
    }  # fmt: skip
    for record in records:
        assert set(record.metrics) == {"accuracy", "val_accuracy", "val_loss", "accuracy_last"}
        assert 0 <= record.metrics["accuracy"] <= 100
        assert record.epochs == 2
        if record.protocol == "tuned":
            assert record.config == asdict(tuned)
        else:
            assert signals.is_current_signal(record)
            assert not signals.is_current_signal(replace(record, config=record.config | {"lr": 0.5}))
            assert not signals.is_current_signal(replace(record, config={}))
    before = [asdict(record) for record in records]
    invoke(store, *command, str(chosen))
    with Store(store) as opened:
        assert [asdict(record) for record in opened.select(table="graph-signal")] == before


def test_trials_of_no_cell_are_not_current() -> None:
    config = asdict(signals.signal_config("mnist", "arma"))
    for cell in (("minst", "arma", "paper"), ("mnist", "gat", "paper"), ("mnist", "gcn", "defferrard")):
        assert not signals.is_current_signal(Record("graph-signal", *cell, 0, 0, 0, config, {"accuracy": 1.0}))
    assert signals.is_current_signal(Record("another", "mnist", "gat", "paper", 0, 0, 0, {}, {"accuracy": 1.0}))


def test_a_cell_without_a_choice_is_left_out_or_refused(
    none_chosen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, str]] = []

    def note(trials: list[CellTrial], *others: object, plan: bool) -> None:
        asked.extend((trial.config.dataset, trial.config.method, trial.config.protocol) for trial in trials)

    monkeypatch.setattr("armagnn.cli.reproduce_signals.do_trials", note)
    chosen = ["--chosen", str(none_chosen), "--runs", "1"]
    shown = invoke(tmp_path / "store.sqlite", *chosen)
    assert len(asked) == len(set(asked)) == 13  # 8 cells to the letter, 5 in the other reading
    assert shown.count(" on mnist") == shown.count(" on 20news") == 4
    asked.clear()
    invoke(tmp_path / "store.sqlite", "--protocol", "defferrard", *chosen)
    assert asked == [("mnist", "arma", "defferrard"), *(("20news", name, "defferrard") for name in SIGNAL_METHODS)]
    command = ["reproduce", "graph-signal", "--dataset", "mnist", "--method", "gcn", "--protocol", "tuned", *chosen]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert "No search has been made for gcn on mnist: run armagnn reproduce graph-signal-search" in result.output


def test_the_command_names_what_it_does_not_know() -> None:
    for arguments, message in (
        (["--dataset", "mist"], "mnist"),
        (["--method", "gat"], "arma"),
        (["--protocol", "text"], "defferrard, paper, tuned"),
        (["--runs", "0"], "at least 1"),
        (["--dataset", "mnist", "--method", "gcn", "--protocol", "defferrard"], "--protocol paper or tuned"),
    ):
        result = CliRunner().invoke(app, ["reproduce", "graph-signal", *arguments])
        assert result.exit_code == 2
        assert message in result.output


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="defferrard"):
        signals.signal_config("mnist", "arma", "deferrard")
    with pytest.raises(UnknownNameError, match="mnist"):
        signals.protocols_of("minst", "arma")


def test_the_page_shows_all_published_cells_beside_ours(tmp_path: Path) -> None:
    assert signal_section(tmp_path) == []
    means = {"paper": 90.0, "defferrard": 70.0, "tuned": 50.0}
    lines = ["dataset,method,protocol,run,fold,metric,value,device"]
    for data in SIGNAL_SETS:
        for name in SIGNAL_METHODS:
            for way in signals.protocols_of(data, name):
                for run in range(2):
                    metrics = {"accuracy": means[way] + run, "accuracy_last": means[way] - 10}
                    lines += [f"{data},{name},{way},{run},0,{metric},{value},cpu" for metric, value in metrics.items()]
    write_sealed(tmp_path / "graph-signal.csv", ("\n".join(lines) + "\n").encode())
    (section,) = signal_section(tmp_path)
    for published in SIGNAL_ACCURACY.values():
        for mean, deviation in published.values():
            assert f"{mean:.2f} ± {deviation:.2f}" in section
    head = (
        "| paper | ours, text read literally | ARMA's lead | ours, Defferrard's reading | ARMA's lead | ours, tuned |"
    )
    assert section.count(head) == 2
    assert section.count("90.50 ± 0.71 (2)") == section.count("50.50 ± 0.71 (2)") == 8
    assert section.count("70.50 ± 0.71 (2)") == 5
    assert "| GCN | 98.48 ± 0.20 | 90.50 ± 0.71 (2) | +0.00 (p = 1.000) |  |  | 50.50 ± 0.71 (2) |" in section
    assert "| ARMA | defferrard | 60.00 ± 0.00 (2) |" in section
    assert "--method METHOD --protocol PROTOCOL" in section
