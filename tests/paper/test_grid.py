"""The grid of Table 1: its settings, its re-splits, its two stages, and what it chooses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from armagnn.data import NodeDataset, load
from armagnn.errors import DataError, ParameterError
from armagnn_paper import grid
from armagnn_paper.grid import FINALISTS, STAGES, Grid, Score, named, read_scores, resplits, scores_csv, settings
from armagnn_paper.table import Cell
from armagnn_paper.tables import GRIDDED, GRIDDED_METHODS, NODES


def test_settings_are_the_papers_but_for_what_the_text_leaves_open() -> None:
    for dataset in GRIDDED:
        for method in GRIDDED_METHODS:
            found, paper = settings(dataset, method), NODES.config(Cell(dataset, method, "paper"))
            assert len(set(found)) == len(found)
            for config in found:
                same = ("stacks", "layers", "hidden", "l2", "lr", "epochs")
                assert [getattr(config, name) for name in same] == [getattr(paper, name) for name in same]
                assert (config.stop_on, config.patience) == ("loss", 100)
    with pytest.raises(ParameterError):
        settings("ppi", "arma")
    with pytest.raises(ParameterError):
        settings("cora", "gat")


@pytest.mark.parametrize("dataset", ["cora"])
def test_re_splits_know_the_labels_of_the_public_training_and_validation_nodes_alone(dataset: str) -> None:
    data = load(dataset)
    again = resplits(data, range(5))
    assert again.split_parts is not None
    hidden = torch.ones(data.num_nodes, dtype=torch.bool)
    hidden[torch.cat([data.train_idx, data.val_idx])] = False
    assert bool((again.y[hidden] == -1).all())
    assert bool((again.split_parts[:, hidden] == -1).all())
    assert torch.equal(again.y[~hidden], data.y[~hidden])
    assert not len(again.test_idx)
    for part in again.split_parts:
        assert torch.bincount(data.y[part == 0]).tolist() == [20] * data.num_classes
        assert int((part == 1).sum()) == 500
    assert len({tuple(part.tolist()) for part in again.split_parts}) == 5
    assert torch.equal(resplits(data, [3]).split_parts[0], again.split_parts[3])  # type: ignore[index]


def scored(setting: tuple[str, ...], stage: int, accuracy: float, loss: float = 1.0) -> list[Score]:
    return [Score(("cora", "gcn"), stage, setting, number, accuracy, loss, 9) for number in STAGES[stage]]


def test_stage_1_sends_the_best_to_stage_2_which_decides(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    names = [named("cora", "gcn", config) for config in settings("cora", "gcn")]
    first = [score for place, name in enumerate(names) for score in scored(name, 1, 80.0 + place)]
    path.write_bytes(scores_csv(first[:-1]))
    assert Grid("cora", "gcn", path).finalists() == []
    path.write_bytes(scores_csv(first))
    found = Grid("cora", "gcn", path)
    assert found.finalists() == names[: -FINALISTS - 1 : -1]
    assert found.chosen() is None
    assert len(found.missing(2)) == FINALISTS * len(STAGES[2])
    second = [score for name in names[-FINALISTS:] for score in scored(name, 2, 70.0)]
    better = [replace(score, loss=0.5) if score.setting == names[-3] else score for score in second]
    path.write_bytes(scores_csv(first + better))
    assert Grid("cora", "gcn", path).chosen() == settings("cora", "gcn")[-3]
    assert Grid("cora", "mlp", path).found == []
    assert sorted(read_scores(path), key=repr) == sorted(first + better, key=repr)


def test_scores_are_kept_and_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "scores.csv"
    few = [replace(config, epochs=2) for config in settings("cora", "mlp")][:2]
    monkeypatch.setattr(grid, "settings", lambda dataset, method: few)
    monkeypatch.setattr(grid, "STAGES", {1: range(2), 2: range(100, 101)})
    data, said = load("cora"), list[str]()
    first = Grid("cora", "mlp", path)
    first.train(data, 1, "cpu", said.append)
    assert len(said) == 1
    known = path.read_bytes()
    again = Grid("cora", "mlp", path)
    assert sorted(again.found, key=repr) == sorted(first.found, key=repr)  # to the bit: ties are decided the same
    again.train(data, 1, "cpu", said.append)
    assert len(said) == 1
    again.train(data, 2, "cpu", said.append)
    assert again.chosen() in few
    assert set(known.splitlines()) < set(path.read_bytes().splitlines())


def test_a_trial_of_a_re_split_is_that_of_its_own_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch of all re-splits gives what one training on one re-split gives."""
    few = [replace(config, epochs=3) for config in settings("cora", "gcn")][:1]
    monkeypatch.setattr(grid, "settings", lambda dataset, method: few)
    data = load("cora")
    found = Grid("cora", "gcn", tmp_path / "scores.csv")
    found.train(data, 1, "cpu", lambda text: None)
    alone = _alone(resplits(data, [2]))
    (outcome,) = few[0].experiment(alone).trials([few[0].setting(grid.FIRST_SEED + 2)]).run()
    (score,) = [score for score in found.found if score.resplit == 2]
    assert score.accuracy == pytest.approx(100 * outcome.val["accuracy"])
    assert score.loss == pytest.approx(outcome.val["loss"], rel=1e-4)


def _alone(data: NodeDataset) -> NodeDataset:
    assert data.split_parts is not None
    train, val = ((data.split_parts[0] == part).nonzero().squeeze(1) for part in (0, 1))
    return replace(data, split_parts=None, train_idx=train, val_idx=val, test_idx=val)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="not the scores of the grid"):
        read_scores(path)
