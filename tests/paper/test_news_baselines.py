"""Classifiers that see no graph, on the tf-idf that the networks see."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from armagnn.data import SignalsDataset
from armagnn.errors import DataError
from armagnn.tasks import SignalNet, SignalTask
from armagnn_paper.news_baselines import baselines, read_baselines, write_baselines
from tiny_signals import tiny


def test_they_learn_from_all_documents_but_those_of_the_test(tmp_path: Path) -> None:
    data = tiny()
    found = baselines(data)
    assert [each.documents for each in found] == [7, 7, 7]
    assert all(0 <= each.accuracy <= 100 for each in found)
    shuffled = data.y.clone()
    shuffled[data.test_idx] = (shuffled[data.test_idx] + 1) % 3
    other = SignalsDataset.of(data.edge_index, data.x, shuffled, data.train_idx, data.val_idx, data.test_idx)
    assert [each.accuracy for each in baselines(other)] != [each.accuracy for each in found]
    write_baselines(found, tmp_path / "news-baselines.csv")
    assert read_baselines(tmp_path / "news-baselines.csv") == found
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError):
        read_baselines(tmp_path / "other.csv")


def test_the_weights_of_words_are_those_of_the_task() -> None:
    from sklearn.feature_extraction.text import TfidfTransformer

    data = tiny()
    task = SignalTask(data, SignalNet("gcn", 3, 36), features="tfidf", batch_size=4, dtype=torch.float64)
    scale = TfidfTransformer().fit(data.x[data.train_idx].numpy())
    expected = torch.from_numpy(scale.transform(data.x[data.test_idx].numpy()).toarray())
    torch.testing.assert_close(task.inputs(data.test_idx).squeeze(-1), expected)
