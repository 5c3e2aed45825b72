"""Tables 3 and 4: the numbers and hyperparameters of the paper, trials, folds, and the commands."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.cli.groups import Where
from armagnn.cli.tables import do_trials
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.nn import ARMAConv, CayleyConv, ChebConv
from armagnn.nn.stack import Stack
from armagnn.paper import graph_tables as graphs
from armagnn.paper.choices import NotTunedError
from armagnn.paper.jobs import CellTrial, Job, make_jobs, work
from armagnn.paper.published_graphs import (
    CLASSIFICATION,
    CLASSIFIERS,
    REGRESSION,
    REGRESSORS,
)
from armagnn.training.engine import execute
from armagnn.training.store import Store


def test_the_networks_are_the_papers() -> None:
    dataset, features, _ = graphs._load("mutag", "plain")
    for method in CLASSIFIERS:
        net = graphs.graph_config("mutag", method).network(dataset, features)
        assert len(net.convs) == 3
        assert [layer.in_features for layer in net.head] == [32]  # type: ignore[union-attr]
        for conv in net.convs:
            assert conv.out_channels == 32
            if isinstance(conv, ARMAConv):
                assert (conv.num_stacks, conv.num_layers, conv.act) == (4, 4, "relu")
            elif isinstance(conv, ChebConv | CayleyConv):
                assert conv.order == 4
            else:
                assert isinstance(conv, Stack)
                assert len(conv) == 4
    config = graphs.graph_config("qm9/mu", "arma")
    assert (config.hidden, config.depth, config.head, config.batch, config.epochs) == (64, 1, 128, 64, 1000)
    assert (config.slots, config.skip_dropout, config.l2, config.patience) == (9, 0.75, 0.0, 50)


def test_trials_have_their_folds_and_seeds(tmp_path: Path) -> None:
    trials = graphs.graph_trials("mutag", "arma", "paper", 10)
    assert sorted((trial.fold, trial.run) for trial in trials) == [(f, r) for f in range(10) for r in range(10)]
    assert all(trial.seed == trial.run for trial in trials)
    jobs = make_jobs(trials, table=graphs.CLASSIFICATION_TABLE, checkpoints=tmp_path)
    assert [len(job.trials) for job in jobs] == [10] * 10
    assert len({key for job in jobs for key in job.keys}) == 100
    assert len(make_jobs(graphs.graph_trials("mutag", "gat", "paper", 1), table="t", checkpoints=tmp_path)) == 10


def test_three_runs_of_a_property_share_a_fold_and_the_folds_begin_again_after_thirty_runs() -> None:
    trials = graphs.graph_trials("qm9/mu", "gcn", "paper", 64)
    assert [(trial.run, trial.seed) for trial in trials] == [(run, run) for run in range(64)]
    folds = "000111222333444555666777888999" * 2 + "0001"
    assert "".join(str(trial.fold) for trial in trials) == folds


def test_the_properties_of_a_molecule_are_one_batch(real, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    real("qm9")
    trials = [trial for name in REGRESSION for trial in graphs.graph_trials(name, "gcn", "paper", 4)]
    jobs = make_jobs(trials, table=graphs.REGRESSION_TABLE, checkpoints=tmp_path)
    assert [(len(job.trials), job.trials[0].fold) for job in jobs] == [(27, 0), (9, 1)]
    settings = [trial.config.setting(trial.seed) for trial in jobs[0].trials]
    assert sorted({(s.target, s.seed) for s in settings}) == [(t, r) for t in range(9) for r in range(3)]


def short(method: str = "gcn") -> graphs.GraphConfig:
    return replace(graphs.graph_config("mutag", method), epochs=2, hidden=4 if method != "gat" else 8, k=1, t=1)


def test_trials_are_done_and_kept(tmp_path: Path) -> None:
    trials = [CellTrial(short(method), run, run, 3) for method in ("gcn", "arma", "sage") for run in range(2)]
    jobs = make_jobs(trials, table=graphs.CLASSIFICATION_TABLE, checkpoints=tmp_path)
    with Store(tmp_path / "store.sqlite") as store:
        assert execute(jobs, work, store) == 6
        assert execute(jobs, work, store) == 0
        records = store.select()
    assert {record.fold for record in records} == {3}
    for record in records:
        assert set(record.metrics) == {
            "accuracy", "accuracy_loss", "accuracy_last", "accuracy_first", "val_accuracy", "val_loss",
        }  # fmt: skip
        assert 0 <= record.metrics["accuracy_last"] <= 100
        assert not graphs.is_current_graph(record)  # two epochs are not the paper's


def test_each_store_has_checkpoints_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[Job] = []
    monkeypatch.setattr("armagnn.cli.tables.execute", lambda asked, *others: jobs.extend(asked))
    for name in ("a.sqlite", "a.db"):
        do_trials([CellTrial(short(), 0, 0)], "t", Where(tmp_path / "runs" / name))
    one, other = (Path(job.checkpoints) for job in jobs)
    assert one != other
    assert one.parent == other.parent == tmp_path / "runs"


def test_bad_cells_and_choices(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="enzymes"):
        graphs.graph_config("enzyme", "arma")
    with pytest.raises(UnknownNameError, match="cayley"):
        graphs.graph_config("qm9/mu", "gat")
    with pytest.raises(UnknownNameError, match="paper, tuned"):
        graphs.graph_config("mutag", "arma", "tunde")
    chosen = tmp_path / "chosen.json"
    chosen.write_text("{}")
    with pytest.raises(NotTunedError, match="graph-classification-search"):
        graphs.graph_config("mutag", "arma", "tuned", 0, chosen)
    chosen.write_text("[1]")
    with pytest.raises(ParameterError, match="not the choices"):
        graphs.graph_config("mutag", "arma", "tuned", 0, chosen)
    own = replace(short("arma"), protocol="tuned")
    chosen.write_text(json.dumps({"mutag/arma/4": asdict(own)}))
    assert graphs.graph_config("mutag", "arma", "tuned", 4, chosen) == own


def test_the_plan_says_what_there_is_to_do(tmp_path: Path, none_chosen: Path) -> None:
    store = tmp_path / "store.sqlite"
    command = ["reproduce", "graph-classification", "--dataset", "mutag", "--method", "gcn", "--plan", "--runs", "1"]
    command += ["--chosen", str(none_chosen)]
    result = CliRunner().invoke(app, [*command, "--store", str(store)])
    assert result.exit_code == 0
    assert "mutag gcn paper" in result.output
    assert "0/10" in result.output
    assert "10 trainings to do: about " in result.output
    assert not store.exists()
    assert "no search has chosen" in " ".join(result.output.split())
    bad = CliRunner().invoke(app, ["reproduce", "graph-regression", "--runs", "0"])
    assert bad.exit_code == 2
    assert set(REGRESSORS) < set(CLASSIFIERS)
    assert len(CLASSIFICATION) == 6
