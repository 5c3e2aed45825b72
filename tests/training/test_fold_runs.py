"""All folds in one call."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from armagnn.errors import ParameterError, RunError
from armagnn.training import GraphsConfig, NodesConfig, open_folds, predict_folds, summary_of, train_folds
from data.tables.small_tables import write_people


def test_every_node_is_predicted_by_the_fold_that_did_not_learn_from_it(tmp_path: Path) -> None:
    nodes, edges = map(str, write_people(tmp_path))
    config = NodesConfig.for_tables(
        nodes=nodes, edges=edges, target="label", ignore="income", folds=3, seeds=1, epochs=10, baselines=False
    )
    runs = train_folds(config, tmp_path / "run")
    assert [run.config.fold for run in runs] == [0, 1, 2]  # type: ignore[attr-defined]
    accuracies = [run.metrics()["test"]["accuracy"]["mean"] for run in runs]
    assert summary_of(runs)["accuracy"]["mean"] == pytest.approx(sum(accuracies) / 3)
    again = open_folds(tmp_path / "run")
    rows = list(csv.DictReader(io.StringIO(predict_folds(again).to_csv())))
    assert sorted(row["split"] for row in rows) == sorted(f"test of fold {n % 3}" for n in range(60))
    new = list(csv.DictReader(io.StringIO(predict_folds(again, (nodes, edges)).to_csv())))
    assert "split" not in new[0]
    assert len(new) == 60


def test_graphs_have_ten_folds(tmp_path: Path) -> None:
    config = GraphsConfig(data="mutag", folds=10, hidden=4, depth=1, epochs=1, seeds=1)
    assert [each.fold for each in config.fold_configs()] == list(range(10))
    with pytest.raises(ParameterError, match="folds is 5"):
        GraphsConfig(folds=5)
    runs = train_folds(config, tmp_path / "run")
    assert len(runs) == 10
    runs[9].path.rename(tmp_path / "away")
    with pytest.raises(RunError, match="fold 9 of 10 is not trained"):
        open_folds(tmp_path / "run")
    assert len(train_folds(config, tmp_path / "run", resume=True)) == 10
