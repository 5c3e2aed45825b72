from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from armagnn.data import CATALOGUE, NodeDataset, load
from armagnn.data.arrays import pack_arrays
from armagnn.data.catalogue import Entry
from armagnn.data.data_folder import fetch
from armagnn.data.sets.heterophily import parse_splits_file
from armagnn.errors import DataError, ParameterError
from armagnn.operators import CSR
from armagnn.training import NodesConfig, train

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data"
SIZES = {
    "chameleon-filtered": (890, 8854, 2325, 5, (409, 287, 194)),
    "squirrel-filtered": (2223, 46998, 2089, 5, (1053, 718, 452)),
    "actor": (7600, 26659, 932, 5, (3648, 2432, 1520)),
    "minesweeper": (10000, 39402, 7, 2, (5000, 2500, 2500)),
    "tolokers": (11758, 519000, 10, 2, (5879, 2939, 2940)),
    "texas": (183, 279, 1703, 5, (87, 59, 37)),
    "cornell": (183, 277, 1703, 5, (87, 59, 37)),
    "wisconsin": (251, 450, 1703, 5, (120, 80, 51)),
}


def arrays() -> dict[str, Any]:
    nodes, splits = 12, 3
    part = (np.arange(nodes)[None] + np.arange(splits)[:, None]) % 3
    return {
        "node_features": np.eye(nodes, 4, dtype=np.float32) + 1, "node_labels": np.arange(nodes) // 2 % 2,
        "edges": np.stack([np.arange(nodes - 1), np.arange(1, nodes)], 1),
        **{f"{name}_masks": part == number for number, name in enumerate(("train", "val", "test"))},
    }  # fmt: skip


def parsed(split: int = 0, **changes: Any) -> NodeDataset:
    return parse_splits_file(pack_arrays(arrays() | changes), name="tiny", source="tiny.npz", split=split)


@pytest.mark.parametrize("split", [0, 1, 2])
def test_a_split_is_a_row_of_the_masks(split: int) -> None:
    data = parsed(split)
    for name in ("train", "val", "test"):
        assert torch.equal(data.idx(name), torch.from_numpy(np.flatnonzero(arrays()[f"{name}_masks"][split])))
    assert data.edge_index.shape == (2, 22)  # both directions
    assert data.operator().symmetric
    assert torch.equal(data.x, torch.from_numpy(arrays()["node_features"]))  # type: ignore[arg-type]
    assert (data.metric, data.features, data.num_classes) == ("roc_auc", "none", 2)
    assert parsed(node_labels=np.arange(12) % 3).metric == "accuracy"
    assert len({parsed(each).sha256 for each in range(3)}) == 3


def test_wide_features_stay_sparse() -> None:
    wide = np.eye(12, 40, dtype=np.float32)
    x = parsed(node_features=wide).x
    assert isinstance(x, CSR)
    assert torch.equal(x.to_dense(), torch.from_numpy(wide))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_masks": np.ones((3, 12), dtype=bool)}, "two parts"),
        ({"val_masks": np.zeros((3, 12), dtype=bool)}, "no node"),
        ({"test_masks": np.ones((3, 12))}, "bools"),
        ({"node_labels": np.full(12, -1)}, "label"),
        ({"edges": np.full((3, 2), 12)}, "edge"),
        ({"node_features": np.full((12, 2), np.nan, dtype=np.float32)}, "node_features"),
    ],
)
def test_files_that_are_damaged(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        parsed(**changes)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A dataset of this kind in the subfolder of a data folder."""
    content = pack_arrays(arrays())
    (tmp_path / "heterophily").mkdir()
    (tmp_path / "heterophily" / "tiny.npz").write_bytes(content)
    monkeypatch.setenv("ARMAGNN_DATA", str(tmp_path))
    entry = Entry("tiny.npz", hashlib.sha256(content).hexdigest(), "here", kind="splits", subfolder="heterophily")
    monkeypatch.setitem(CATALOGUE, "tiny", entry)
    return "tiny"


def test_load_takes_the_number_of_a_split(tiny: str) -> None:
    assert load(tiny).sha256 == load(tiny, split=0).sha256
    assert torch.equal(load(tiny, split=2).train_idx, parsed(2).train_idx)
    for split in (3, -1, True, 1.5):
        with pytest.raises(ParameterError, match="split"):
            load(tiny, split=split)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="one split"):
        load("cora", split=1)
    with pytest.raises(ParameterError, match="seed"):
        load(tiny, split=1, seed=3)


def test_a_run_reports_roc_auc(tiny: str, tmp_path: Path) -> None:
    run = train(NodesConfig(dataset=tiny, epochs=2, seeds=2, norm="batch"), tmp_path / "run")
    assert {"accuracy", "roc_auc"} <= run.metrics()["test"].keys()


def test_fetch_takes_the_original(tiny: str, tmp_path: Path) -> None:
    (tmp_path / "heterophily" / "tiny.npz").unlink()
    asked: list[str] = []

    def get(url: str) -> bytes:
        asked.append(url)
        return pack_arrays(arrays())

    assert fetch(tiny, get=get) == str(tmp_path / "tiny.npz")
    assert asked[0].endswith("heterophilous-graphs/raw/main/data/tiny.npz")
    assert load(tiny, split=1).num_nodes == 12


@pytest.mark.parametrize("name", SIZES)
def test_the_files_have_the_numbers_of_the_benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.environ.get("ARMAGNN_DATA") or FOLDER)
    if not any((folder / sub / CATALOGUE[name].file).is_file() for sub in ("", "heterophily")):
        pytest.skip(f"{CATALOGUE[name].file} is not here: set ARMAGNN_DATA to the folder that holds it")
    monkeypatch.setenv("ARMAGNN_DATA", str(folder))
    nodes, edges, features, classes, parts = SIZES[name]
    data = load(name)
    assert (data.num_nodes, data.edge_index.shape[1], data.num_features) == (nodes, 2 * edges, features)
    assert (data.num_classes, tuple(len(data.idx(part)) for part in ("train", "val", "test"))) == (classes, parts)
    assert data.metric == ("roc_auc" if name in ("minesweeper", "tolokers") else "accuracy")
    assert not torch.equal(load(name, split=9).train_idx, data.train_idx)
