"""The declarations of Tables 1 to 4: the paper's networks, protocols, batches, and the settings of the searches."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from importlib import resources
from typing import Any

import pytest

from armagnn.data import load
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.nn import ARMAConv, CayleyConv, ChebConv
from armagnn.nn.layer_registry import LayerSequence
from armagnn.training.hyperparameters import NODES as ROWS
from armagnn.training.record import trial_key
from armagnn_paper.cli import TITLES
from armagnn_paper.published import READINGS
from armagnn_paper.table import Cell, Table, experiment_of
from armagnn_paper.tables import GRAPHS, LONG, METHODS, MOLECULAR, NODES, SIGNALS, TABLES, paper_config
from tiny_signals import tiny

PAPERS = {name: table for name, table in TABLES.items() if "paper" in table.protocols}
"""The tables of the paper; `test_heterophily_table` has that beyond it."""
EVERY = [
    (table, dataset) for table in PAPERS.values() for dataset in (*table.datasets, *table.beyond_datasets)
]  # fmt: skip
each_dataset = pytest.mark.parametrize(("table", "dataset"), EVERY, ids=[f"{t.name}-{d}" for t, d in EVERY])
each_table = pytest.mark.parametrize("table", PAPERS.values(), ids=list(PAPERS))


# --------------------------------------------------------------------------------------------------------- all tables


def test_tables_are_known_by_their_names_and_titles() -> None:
    assert list(TABLES) == list(TITLES)
    assert [table.name for table in TABLES.values()] == list(TABLES)


@each_dataset
def test_every_cell_has_a_configuration(table: Table, dataset: str) -> None:
    for method in table.methods:
        for protocol in table.own_protocols(dataset, method):
            if protocol in ("tuned", "grid", "wide"):
                continue
            cell = Cell(dataset, method, protocol)
            content = table.stored(cell, table.config(cell))
            assert (content["dataset"], content["method"], content["protocol"]) == cell
        assert dataset in table.search.budgets
        assert table.usual_runs(dataset, method) >= 1
        assert table.most(table.config(Cell(dataset, method, "paper"))) >= 1
    for method, numbers in table.published.items():
        assert method in table.methods
        assert set(numbers) - set(READINGS) == set(table.datasets)


@each_dataset
def test_protocols_of_a_dataset_are_different_trials(table: Table, dataset: str) -> None:
    for method in table.methods:
        own = [
            way for way in table.protocols if way in table.own_protocols(dataset, method) and way not in table.searched
        ]
        cells = [Cell(dataset, method, way) for way in own]
        assert len({json.dumps(table.stored(cell, table.config(cell))) for cell in cells}) == len(own)


@each_dataset
def test_a_configuration_comes_back_from_the_store(table: Table, dataset: str) -> None:
    for method in table.methods:
        cell = Cell(dataset, method, "tuned")
        for config in table.search.settings(dataset, method, 8):
            content = table.stored(cell, config)
            assert table.stored(cell, table.kind.from_stored(content)) == content
            assert table.kind.from_stored(json.loads(json.dumps(content))) == config


@each_table
def test_every_committed_choice_is_read_as_it_stands(table: Table) -> None:
    text = resources.files("armagnn_paper").joinpath(f"chosen/{table.name}.json").read_text()
    entries = json.loads(text)
    assert entries
    for place, entry in entries.items():
        dataset, fold = place, 0
        if table.by_fold:
            dataset, _, number = dataset.rpartition("/")
            fold = int(number)
        dataset, _, method = dataset.rpartition("/")
        cell = Cell(dataset, method, "tuned")
        assert table.stored(cell, table.config(cell, fold)) == entry, place


# ----------------------------------------------------------------------------------------------- settings of a search


@each_dataset
def test_the_settings_are_the_same_for_all_methods(table: Table, dataset: str) -> None:
    """But for what is a method's own: its sizes, ARMA's skip connections, K of the last layer."""
    spaces = {method: table.search.settings(dataset, method, 12) for method in table.methods}
    count = 3 if dataset == "mnist-self" else 12  # which were named in advance
    own = {"conv", "stacks", "layers", "last_stacks", "skip_dropout", "widths"}
    for method, space in spaces.items():
        assert len(space) == count
        for config, arma in zip(space, spaces["arma"], strict=True):
            for name in (each.name for each in fields(config)):  # type: ignore[arg-type]
                assert name in own or getattr(config, name) == getattr(arma, name), name
            assert (config.stacks, config.layers) == (space[0].stacks, space[0].layers)  # type: ignore[attr-defined]
            skip = config.skip_dropout  # type: ignore[attr-defined]
            assert skip == (arma.skip_dropout if method == "arma" else 0)  # type: ignore[attr-defined]


@each_dataset
def test_a_longer_search_tries_what_a_shorter_one_does(table: Table, dataset: str) -> None:
    for method in ("arma", "gcn"):
        long = table.search.settings(dataset, method, 12)
        assert table.search.settings(dataset, method, 5) == long[:5]
        if method == "arma":
            assert len(set(long)) == (3 if dataset == "mnist-self" else 12)


@each_table
def test_a_dataset_more_changes_no_settings_of_another(table: Table) -> None:
    """What is drawn goes by the name of the dataset, not by its place in a list."""
    before = {dataset: table.search.settings(dataset, "arma", 8) for dataset in table.datasets}
    budget = next(iter(table.search.budgets.values()))
    for place in range(len(table.datasets) + 1):
        datasets = (*table.datasets[:place], "new", *table.datasets[place:])
        budgets = {dataset: table.search.budgets.get(dataset, budget) for dataset in datasets}
        longer = replace(table, datasets=datasets, search=replace(table.search, budgets=budgets))
        for dataset, settings in before.items():
            assert longer.search.settings(dataset, "arma", 8) == settings
    draws = {name: table.search.generator(name).uniform() for name in ("new", "newer")}
    assert len(set(draws.values())) == 2
    assert table.search.generator("new").uniform() == draws["new"]


def test_each_dataset_has_settings_of_its_own() -> None:
    for table in (NODES, SIGNALS, GRAPHS):  # the properties of QM9 are one dataset
        draws = {tuple(c.l2 for c in table.search.settings(name, "gcn", 8)[1:]) for name in table.search.budgets}
        assert len(draws) == len(table.search.budgets)


# ------------------------------------------------------------------------------------------------------------ Table 1


def test_the_paper_protocol_is_the_text() -> None:
    for dataset in NODES.datasets:
        row = ROWS[dataset]
        for method in NODES.methods:
            config = paper_config(dataset, method)
            assert (config.epochs, config.patience, config.stop_on, config.act) == (2000, 50, "accuracy", "relu")
            assert (config.l2, config.lr, config.hidden) == (row.l2, row.lr, row.hidden)
            assert config.input_dropout == config.hidden_dropout == row.dropout
            assert config.skip_dropout == (row.dropout if method == "arma" else 0)
    assert ROWS["ppi"].hidden == 64
    arma = {"cora": (83.4, 0.6), "citeseer": (72.5, 0.4), "pubmed": (78.9, 0.3), "ppi": (90.5, 0.3)}
    assert NODES.published["arma"] == arma


@pytest.mark.parametrize("method", ["gcn", "gat", "sage", "gin"])
def test_every_place_holds_the_stack_that_the_paper_says(method: str) -> None:
    cora = load("cora")
    deep = replace(paper_config("ppi", method), hidden=8).experiment(cora).network()  # L = 2
    for conv in (deep.conv1, deep.conv2):
        assert isinstance(conv, LayerSequence)
        assert len(conv) == 2
    shallow = paper_config("cora", method).experiment(cora).network()  # L = 1
    assert not isinstance(shallow.conv1, LayerSequence)


def test_orders_reach_the_layers() -> None:
    cora = load("cora")

    def network(dataset: str, method: str, **changes: Any) -> Any:
        return replace(paper_config(dataset, method), **changes).experiment(cora).network()

    arma = network("citeseer", "arma")
    assert (arma.conv1.num_stacks, arma.conv1.num_layers) == (3, 1)
    assert network("citeseer", "arma", last_stacks=1).conv2.num_stacks == 1
    assert network("pubmed", "chebyshev").conv2.order == 3
    cayley = network("pubmed", "cayley")
    assert (cayley.conv1.order, cayley.conv1.jacobi) == (2, 5)


def test_wide_is_for_ppi() -> None:
    with pytest.raises(ParameterError, match="ppi"):
        NODES.config(Cell("cora", "arma", "wide"))
    assert NODES.config(Cell("ppi", "arma", "wide")).hidden == 512  # type: ignore[attr-defined]
    with pytest.raises(UnknownNameError, match="cora"):
        paper_config("corra", "arma")


def test_the_search_of_nodes() -> None:
    arma = NODES.search.settings("cora", "arma", 20)
    assert {config.last_stacks for config in arma} == {1, 2}  # type: ignore[attr-defined]
    assert {config.stop_on for config in arma} == {"loss"}
    assert arma[0] == replace(paper_config("cora", "arma"), stop_on="loss", patience=100)  # the first is the paper's
    ppi = NODES.search.settings("ppi", "arma", 8)
    rates = [(c.input_dropout, c.hidden_dropout, c.skip_dropout) for c in ppi]  # type: ignore[attr-defined]
    assert (0, 0, 0) in rates  # PPI needs little regularisation
    assert ppi[2].epochs == 2000
    assert NODES.search.budgets["ppi"].epochs == 1000


# ------------------------------------------------------------------------------------------------------------ Table 2


def signal_net(dataset: str, method: str, protocol: str = "paper") -> Any:
    return SIGNALS.config(Cell(dataset, method, protocol)).experiment(tiny()).network()


def test_the_networks_of_mnist_are_the_papers() -> None:
    net = signal_net("mnist", "arma")
    first, second = net.convs
    assert isinstance(first, ARMAConv)
    assert (first.in_channels, first.out_channels, second.out_channels) == (1, 32, 64)
    assert (first.num_stacks, first.num_layers, first.dropout) == (5, 10, 0.5)
    assert net.strides == (4, 4)
    assert [layer.out_features for layer in net.head] == [512, 3]
    assert net.hidden_dropout == 0.5
    skipless = signal_net("mnist", "arma", "defferrard")
    assert skipless.convs[0].dropout == 0.0
    assert skipless.hidden_dropout == 0.5
    gcn = signal_net("mnist", "gcn").convs[0]
    assert isinstance(gcn, LayerSequence)
    assert len(gcn) == 3
    cheb = signal_net("mnist", "chebyshev").convs[1]
    assert isinstance(cheb, ChebConv)
    assert cheb.order == 25
    cayley = signal_net("mnist", "cayley").convs[0]
    assert isinstance(cayley, CayleyConv)
    assert (cayley.order, cayley.jacobi) == (12, 11)


@pytest.mark.parametrize("method", SIGNALS.methods)
def test_the_readings_of_20news(method: str) -> None:
    text: Any = SIGNALS.config(Cell("20news", method, "paper"))
    other: Any = SIGNALS.config(Cell("20news", method, "defferrard"))
    filters = 32 if method == "chebyshev" else 16
    letter, scalar = signal_net("20news", method), signal_net("20news", method, "defferrard")
    assert (letter.convs[0].in_channels, scalar.convs[0].in_channels) == (4, 1)
    assert (letter.head[0].in_features, scalar.head[0].in_features) == (filters, 36 * filters)
    assert (text.features, other.features) == ("table", "tfidf")
    assert (text.epochs, text.hidden_dropout, text.l2) == (20, 0.7, 1e-3)
    assert SIGNALS.search.settings("20news", method, 1) == [other]


def test_stored_trials_of_the_letter_stay_valid() -> None:
    """A key is of all that determines a trial: with another one the trainings would be made again."""
    cell = Cell("20news", "arma", "paper")
    config = SIGNALS.stored(cell, SIGNALS.config(cell))
    assert config == {
        "dataset": "20news", "method": "arma", "protocol": "paper", "reading": "text", "features": "table", "k": 1,
        "t": 1, "widths": "16", "stride": 1, "head": 0, "average": True, "hidden_dropout": 0.7, "skip_dropout": 0.7,
        "l2": 0.001, "lr": 0.001, "batch": 128, "epochs": 20,
    }  # fmt: skip
    key = "c1f966f7df03c178262905fea85df69d515049105df1e77726cc06c0b0da61f0"
    assert trial_key("graph-signal", config, 0, 0, "0" * 64) == key


def test_each_cell_of_signals_has_its_protocols() -> None:
    for data in (*SIGNALS.datasets, *SIGNALS.beyond_datasets):
        for name in SIGNALS.methods:
            three = data == "20news-plain" or name == "arma"
            wanted = ("paper", "defferrard", "tuned") if three else ("paper", "tuned")
            if data == "20news":
                wanted = ("paper", "defferrard", "all", "tuned")
            assert SIGNALS.own_protocols(data, name) == wanted


def test_all_documents_are_learnt_from_and_nothing_is_chosen() -> None:
    config: Any = SIGNALS.config(Cell("20news", "arma", "all"))
    other: Any = SIGNALS.config(Cell("20news", "arma", "defferrard"))
    assert replace(config, all_signals=False, stop_on="accuracy") == other
    assert SIGNALS.kind.from_stored(SIGNALS.stored(Cell("20news", "arma", "all"), config)) == config
    with pytest.raises(ParameterError, match="all_signals"):
        replace(config, stop_on="accuracy")
    data = tiny()
    experiment = replace(config, features="raw").experiment(data)
    assert experiment.dataset.train_idx.tolist() == sorted([*data.train_idx.tolist(), *data.val_idx.tolist()])
    assert not set(experiment.dataset.train_idx.tolist()) & set(data.test_idx.tolist())


def test_trainings_that_show_a_leak_keep_it_and_no_others() -> None:
    cells = [Cell("20news", "arma", "all"), Cell("20news", "arma", "tuned"), Cell("mutag", "gcn", "leak")]
    for cell in (*cells, Cell("mutag", "gcn", "paper"), Cell("bench-hard", "arma", "split")):
        table = GRAPHS if cell.dataset in GRAPHS.datasets else SIGNALS
        leaks = cell.protocol in table.leaks.get(cell.dataset, ())
        assert leaks == (cell.protocol in ("all", "leak", "split"))


def test_the_split_of_bench_hard_is_one_and_that_of_its_file() -> None:
    trials = GRAPHS.trials(Cell("bench-hard", "arma", "split"), 3)
    assert [(trial.run, trial.fold) for trial in trials] == [(0, 0), (1, 0), (2, 0)]
    config: Any = trials[0].config
    assert config.own_split
    assert replace(config, own_split=False) == GRAPHS.config(Cell("bench-hard", "arma", "paper"))
    with pytest.raises(ParameterError, match="no protocol split"):
        GRAPHS.trials(Cell("mutag", "arma", "split"))
    same = GRAPHS.config(Cell("mutag", "arma", "paper"))
    assert GRAPHS.config(Cell("mutag", "arma", "leak")) == same


@pytest.mark.parametrize("dataset", SIGNALS.datasets)
def test_the_search_of_signals(dataset: str) -> None:
    drawn: list[Any] = SIGNALS.search.settings(dataset, "arma", 40)[1:]
    assert all(0 <= config.hidden_dropout <= 0.9 and 0 <= config.skip_dropout <= 0.9 for config in drawn)
    assert all(1e-7 <= config.l2 <= 1e-3 and 3e-4 <= config.lr <= 5e-3 for config in drawn)
    assert 10 < sum(config.skip_dropout == 0 for config in drawn) < 30
    assert len({*drawn}) == 39


# ------------------------------------------------------------------------------------------------------ Tables 3 and 4


def test_the_networks_of_graphs_are_the_papers() -> None:
    for method in METHODS:
        net: Any = experiment_of(GRAPHS.config(Cell("mutag", method, "paper"))).network()
        assert len(net.convs) == 3
        assert [layer.in_features for layer in net.head] == [32]
        for conv in net.convs:
            assert conv.out_channels == 32
            if isinstance(conv, ARMAConv):
                assert (conv.num_stacks, conv.num_layers, conv.act) == (4, 4, "relu")
            elif isinstance(conv, ChebConv | CayleyConv):
                assert conv.order == 4
            else:
                assert isinstance(conv, LayerSequence)
                assert len(conv) == 4
    config: Any = MOLECULAR.config(Cell("qm9/mu", "arma", "paper"))
    assert (config.hidden, config.depth, config.head, config.batch, config.epochs) == (64, 1, 128, 64, 1000)
    assert (config.slots, config.skip_dropout, config.l2, config.patience) == (9, 0.75, 0.0, 50)
    assert set(MOLECULAR.methods) < set(GRAPHS.methods)
    assert (len(GRAPHS.datasets), len(MOLECULAR.datasets)) == (5, 9)


@pytest.mark.parametrize("dataset", ["proteins", "dd", "qm9/mu"])
def test_large_sets_choose_from_short_trainings_and_train_long(dataset: str) -> None:
    table = MOLECULAR if "/" in dataset else GRAPHS
    whole = LONG if "/" in dataset else table.config(Cell(dataset, "arma", "paper")).epochs
    assert 0 < table.search.budgets[dataset].epochs < whole
    tuned = (table.config(Cell(dataset, "arma", "tuned"), fold) for fold in range(table.search.budgets[dataset].folds))
    assert {config.epochs for config in tuned} == {whole}  # the committed
