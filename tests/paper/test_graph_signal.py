"""Table 2: the numbers and hyperparameters of the paper, the networks, trials, the command and the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.data.signals import SignalsDataset
from armagnn.errors import UnknownNameError
from armagnn.nn import ARMAConv, CayleyConv, ChebConv
from armagnn.nn.stack import Stack
from armagnn.operators import knn_graph
from armagnn.paper import graph_signal as signals
from armagnn.paper.page_signals import signal_section
from armagnn.paper.published_signals import (
    SIGNAL_ACCURACY,
    SIGNAL_HYPERPARAMETERS,
    SIGNAL_METHODS,
    SIGNAL_SETS,
)
from armagnn.training.store import Record, Store

NAMES = {"GCN": "gcn", "Chebyshev": "chebyshev", "CayleyNet": "cayley", "ARMA": "arma"}


def test_the_numbers_are_the_papers(paper: str) -> None:
    table = paper[paper.index("Graph signal classification accuracy") : paper.index("label{tab:gsc_res}")]
    found = set()
    for line in table.splitlines():
        numbers = [float(number) for number in re.findall(r"\d+\.\d+", line)]
        method = next((own for name, own in NAMES.items() if re.match(rf"(\\textbf{{)?{name}\b", line)), None)
        if method and len(numbers) == 4:
            found.add(method)
            assert [n for data in SIGNAL_SETS for n in SIGNAL_ACCURACY[method][data]] == numbers
    assert found == set(SIGNAL_METHODS)


def test_the_hyperparameters_are_the_papers(paper: str) -> None:
    table = paper[paper.index("Hyperparameters for graph signal") : paper.index("label{tab:hyper_gsc}")]
    for name, dataset in (("MNIST", "mnist"), ("20news", "20news")):
        line = next(line for line in table.splitlines() if line.startswith(name))
        numbers = [float(cell) for cell in line.replace("\\\\", "").split("&")[1:]]
        row = SIGNAL_HYPERPARAMETERS[dataset]
        assert [row.l2, row.lr, row.dropout, row.gcn, row.chebyshev, *row.cayley, *row.arma] == numbers


def tiny() -> SignalsDataset:
    generator = torch.Generator().manual_seed(0)
    points = torch.cartesian_prod(torch.arange(6.0), torch.arange(6.0))
    y = torch.arange(30) % 3
    x = (torch.rand(30, 36, generator=generator) * 50 * (1 + y[:, None])).to(torch.uint8)
    data = SignalsDataset.of(knn_graph(points, 8)[0], x, y, range(16), range(16, 23), range(23, 30))
    return replace(data, name="tiny", sha256="0" * 64, table=torch.randn(36, 4, generator=generator))


@pytest.fixture
def tiny_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let both datasets of the table be a tiny one."""
    monkeypatch.setattr(signals, "load_signals", lambda name: tiny())
    for cached in (signals._load, signals._places):
        cached.cache_clear()
    yield
    for cached in (signals._load, signals._places):
        cached.cache_clear()


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
    assert (text.protocol, other.protocol, text.features, other.features) == ("paper", "tuned", "table", "tfidf")
    assert (text.batch, text.epochs, text.hidden_dropout, text.l2) == (128, 20, 0.7, 1e-3)


def run(store: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["reproduce", "graph-signal", "--store", str(store), *arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_the_command_trains_what_is_missing(tiny_data: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "EPOCHS", 2)
    monkeypatch.setattr(signals, "BATCH", {"mnist": 8, "20news": 8})
    store = tmp_path / "runs" / "store.sqlite"
    run(store, "--dataset", "20news", "--method", "gcn", "--method", "arma", "--runs", "2")
    with Store(store) as opened:
        records = opened.select(table="graph-signal")
    assert len(records) == 8
    assert {(record.method, record.config["reading"]) for record in records} == {
        (method, reading) for method in ("gcn", "arma") for reading in signals.READINGS
    }
    for record in records:
        assert set(record.metrics) == {"accuracy", "val_accuracy", "val_loss", "accuracy_last"}
        assert 0 <= record.metrics["accuracy"] <= 100
        assert record.epochs == 2
        assert signals.is_current_signal(record)
    assert not signals.is_current_signal(replace(records[0], config=records[0].config | {"lr": 0.5}))
    assert not signals.is_current_signal(replace(records[0], config={}))
    before = [asdict(record) for record in records]
    run(store, "--dataset", "20news", "--method", "gcn", "--method", "arma", "--runs", "2")
    with Store(store) as opened:
        assert [asdict(record) for record in opened.select(table="graph-signal")] == before


def test_the_command_names_what_it_does_not_know(tmp_path: Path) -> None:
    for arguments, message in (
        (["--dataset", "mist"], "mnist"),
        (["--method", "gat"], "arma"),
        (["--reading", "letter"], "text"),
        (["--runs", "0"], "at least 1"),
        (["--dataset", "mnist", "--method", "gcn", "--reading", "defferrard"], "--reading text"),
    ):
        result = CliRunner().invoke(app, ["reproduce", "graph-signal", *arguments])
        assert result.exit_code != 0
        assert message in f"{result.output}{result.exception}"


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="defferrard"):
        signals.signal_config("mnist", "arma", "deferrard")
    with pytest.raises(UnknownNameError, match="mnist"):
        signals.readings_of("minst", "arma")


def test_the_page_shows_all_published_cells_beside_ours(tmp_path: Path) -> None:
    assert signal_section(tmp_path) == []
    rows = [
        Record("graph-signal", data, method, "paper", run, 0, run, {}, {"accuracy": 90.0 + run, "accuracy_last": 80.0})
        for data in SIGNAL_SETS for method in SIGNAL_METHODS for run in range(2)
    ]  # fmt: skip
    lines = ["dataset,method,protocol,run,fold,metric,value,device"]
    lines += [f"{r.dataset},{r.method},paper,{r.run},0,{m},{v},cpu" for r in rows for m, v in r.metrics.items()]
    (tmp_path / "graph-signal.csv").write_text("\n".join(lines) + "\n")
    (section,) = signal_section(tmp_path)
    for published in SIGNAL_ACCURACY.values():
        for mean, deviation in published.values():
            assert f"{mean:.2f} ± {deviation:.2f}" in section
    assert "90.50 ± 0.71 (2)" in section
    assert "80.00 ± 0.00 (2)" in section
