"""Signals on one graph: MNIST and 20news, from tiny files and, where they are, from the real ones."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from armagnn.data import SignalsDataset, load_graphs, load_signals, make_news, news, statistics, statistics_of
from armagnn.data.arrays import Arrays, pack_arrays
from armagnn.data.entries import CATALOGUE, Entry
from armagnn.data.integrity import verify
from armagnn.data.mnist import grid_graph, parse_mnist
from armagnn.data.news import parse_news, prepare_news, strip, tokens
from armagnn.data.store import user_folder
from armagnn.errors import DataError, DTypeError, GraphError, ParameterError, ShapeError

# ----------------------------------------------------------------------------------------------------------- pictures


def images(train: int = 6, test: int = 2, side: int = 4) -> Arrays:
    rng = np.random.default_rng(0)
    return {
        "x_train": rng.integers(0, 256, (train, side, side)).astype(np.uint8),
        "y_train": (np.arange(train) % 3).astype(np.uint8),
        "x_test": rng.integers(0, 256, (test, side, side)).astype(np.uint8),
        "y_test": np.zeros(test, dtype=np.uint8),
    }


def test_images_are_signals_on_a_grid() -> None:
    arrays = images()
    data = parse_mnist(pack_arrays(arrays), name="tiny", source="tiny.npz")
    assert repr(data) == (
        f"SignalsDataset('tiny', signals=8, nodes=16, edges={grid_graph(4).shape[1]}, classes=3, split=3/3/2)"
    )
    assert torch.equal(data.x[6:], torch.from_numpy(arrays["x_test"].reshape(2, 16)))
    assert data.val_idx.tolist() == [0, 1, 2]
    assert data.test_idx.tolist() == [6, 7]
    assert data.scale == 255.0


def test_the_split_of_mnist(real: Callable[[str], str]) -> None:
    data = load_signals(real("mnist"))
    assert [len(data.idx(split)) for split in ("train", "val", "test")] == [55000, 5000, 10000]
    assert (data.num_nodes, data.num_classes, data.edge_index.shape[1]) == (784, 10, 6396)
    assert data.val_idx[0] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_train": np.zeros((6, 4, 5), dtype=np.uint8), "x_test": np.zeros((2, 4, 5), dtype=np.uint8)}, "side"),
        ({"x_train": np.zeros((6, 4, 4)), "x_test": np.zeros((2, 4, 4))}, "uint8"),
        ({"y_train": np.zeros(5, dtype=np.uint8)}, "labels"),
        ({"y_train": np.full(6, -1, dtype=np.int8)}, "labels"),
    ],
    ids=["oblong", "floats", "few", "negative"],
)
def test_bad_images_are_refused(change: Arrays, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_mnist(pack_arrays(images() | change), name="tiny", source="tiny.npz")


# ---------------------------------------------------------------------------------------------------------- documents

POST = """From: someone@somewhere
Subject: Re: Things

In article <1>, another writes:
> What about things?
>> Old things.
| Older things.
I said:
Things are fine, and 2 more are there!

Really.
--
Someone, Somewhere
"""


def test_headers_quotes_and_signature_are_stripped() -> None:
    assert strip(POST) == "Things are fine, and 2 more are there!\n\nReally."
    assert tokens(strip(POST)) == ["things", "are", "fine", "and", "more", "are", "there", "really"]


def test_stripping_is_that_of_scikit_learn(real: Callable[[str], str]) -> None:
    from sklearn.datasets import _twenty_newsgroups as sklearns

    real("20news")
    lines = gzip.decompress((user_folder() / CATALOGUE["20news"].file).read_bytes()).splitlines()
    for line in lines[::97]:
        text = json.loads(line)["text"]
        expected = sklearns.strip_newsgroup_header(text)
        expected = sklearns.strip_newsgroup_quoting(sklearns.strip_newsgroup_footer(expected))
        assert strip(text) == expected


def documents(count: int = 60) -> bytes:
    """Posts of two groups that use different words."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(count):
        label = number % 2
        words = " ".join(f"w{'abcdefghij'[i]}{'xy'[label]}" for i in rng.integers(0, 10, 30))
        short = number in (4, 51)
        split = "train" if number < 40 else "test"
        text = f"From: me\n\n{'too short' if short else words}\n\n--\nme"
        rows.append({"split": split, "label": label, "text": text, "group": "g", "id": str(number)})
    return gzip.compress("\n".join(map(json.dumps, rows)).encode(), mtime=0)


def prepared() -> Arrays:
    pytest.importorskip("gensim")
    return prepare_news(documents(), "tiny", words=18, size=5, k=3)


def test_documents_become_counts_embeddings_and_neighbours() -> None:
    arrays = prepared()
    data = parse_news(pack_arrays(arrays), name="tiny", source="tiny.npz")
    assert (data.num_signals, data.num_nodes, data.num_classes) == (58, 18, 2), "two were too short"
    assert [len(data.idx(split)) for split in ("train", "val", "test")] == [36, 3, 19]
    assert not set(data.val_idx.tolist()) & set(data.train_idx.tolist())
    assert data.table is not None
    assert data.table.shape == (18, 5)
    first = tokens(strip(json.loads(gzip.decompress(documents()).splitlines()[0])["text"]))
    assert {data.words[i]: int(n) for i, n in enumerate(data.x[0]) if n} == {
        word: first.count(word) for word in data.words if word in first
    }
    totals = data.x[~torch.from_numpy(arrays["test"])].sum(0)
    assert (totals.diff() <= 0).all(), "words are in the order of how often they are there"
    degree = torch.bincount(data.edge_index[1], minlength=18)
    assert int(degree.min()) >= 3


def test_preparing_again_gives_the_same_bytes_and_another_seed_does_not() -> None:
    once, again = pack_arrays(prepared()), pack_arrays(prepared())
    assert once == again
    other = prepare_news(documents(), "tiny", words=18, size=5, k=3, seed=1)
    assert not np.array_equal(other["table"], prepared()["table"])
    with pytest.raises(ParameterError, match="seed"):
        prepare_news(documents(), "tiny", words=18, size=5, k=3, seed=-1)


def test_raw_documents_that_are_none_are_refused() -> None:
    with pytest.raises(DataError, match="Fetch it again"):
        prepare_news(b"no gzip", "tiny")
    with pytest.raises(DataError, match="Fetch it again"):
        prepare_news(gzip.compress(b'{"split": "dev", "text": "", "label": 0}'), "tiny")
    with pytest.raises(DataError, match="too few"):
        prepare_news(documents(2), "tiny")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts_indices": lambda a: a + 99}, "counts"),
        ({"counts_data": lambda a: a * 0}, "counts"),
        ({"counts_indptr": lambda a: a[:-1]}, "counts"),
        ({"edge_index": lambda a: a + 99}, "edge_index"),
        ({"y": lambda a: a[:-1]}, "edge_index, y"),
        ({"table": lambda a: a * np.nan}, "table"),
        ({"words": lambda a: np.arange(len(a))}, "words"),
    ],
    ids=["ids", "zero", "pointer", "edges", "labels", "nan", "names"],
)
def test_a_prepared_file_that_is_damaged_is_refused(change: dict[str, Callable[..., Any]], message: str) -> None:
    arrays = prepared()
    arrays |= {name: make(arrays[name]) for name, make in change.items()}
    with pytest.raises(DataError, match=message):
        parse_news(pack_arrays(arrays), name="tiny", source="tiny.npz")


def test_20news_is_prepared_once_and_found_by_name(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gensim")
    import hashlib

    raw = documents()
    monkeypatch.setitem(CATALOGUE, "20news", Entry("raw.gz", hashlib.sha256(raw).hexdigest(), "", kind="documents"))
    own_folder.mkdir()
    (own_folder / "raw.gz").write_bytes(raw)
    with pytest.raises(DataError, match="armagnn data make 20news"):
        load_signals("20news")
    path, found = make_news()
    assert found["nodes"] == 20
    data = load_signals("20news")
    assert data.name == "20news"
    assert data.num_signals == 58
    assert statistics_of("20news")["edges, directed"] == data.edge_index.shape[1]
    assert statistics_of("20news-words") == statistics(data)
    assert {check.state for check in verify(["20news-words"])} == {"ok"}
    with pytest.raises(DataError, match="--force"):
        make_news()
    assert make_news(force=True)[0] == path
    monkeypatch.setattr(news.importlib, "import_module", _no_gensim)
    assert load_signals("20news").num_signals == 58, "a machine without gensim can use it"
    with pytest.raises(DataError, match="gensim is needed"):
        make_news(force=True)


def _no_gensim(name: str) -> None:
    raise ImportError(name)


def test_the_wrong_loader_names_the_right_one() -> None:
    with pytest.raises(DataError, match="load or load_graphs reads it"):
        load_signals("cora")
    with pytest.raises(DataError, match="load_signals reads them"):
        load_graphs("mnist")


# ------------------------------------------------------------------------------------------------------ your own arrays

EDGES, X, Y = (
    torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
    torch.arange(18.0).view(6, 3),
    torch.tensor([0, 1, 0, 1, 0, 1]),
)
OWN: dict[str, Any] = {"edge_index": EDGES, "x": X, "y": Y, "train": [0, 1, 2], "val": [3], "test": [4, 5]}


def test_arrays_lists_and_masks_are_taken() -> None:
    masks = [torch.tensor([i in OWN[name] for i in range(6)]) for name in ("train", "val", "test")]
    weight = torch.ones(4)
    plain = SignalsDataset.of(*OWN.values(), edge_weight=weight)
    arrays = SignalsDataset.of(
        EDGES.numpy(), X.numpy(), Y.numpy(), *(mask.numpy() for mask in masks), edge_weight=weight.numpy()
    )
    lists = SignalsDataset.of(EDGES.tolist(), X.tolist(), Y.tolist(), range(3), [3], (4, 5), weight.tolist())
    for found in (arrays, lists):
        for name in ("edge_index", "y", "train_idx", "val_idx", "test_idx", "edge_weight"):
            assert torch.equal(getattr(found, name), getattr(plain, name)), name
        torch.testing.assert_close(found.x, plain.x)
        assert found.num_classes == 2
    strange = SignalsDataset.of(
        EDGES.numpy().astype(np.uint32), X.numpy()[::-1].astype(">f4"), Y.numpy().astype(np.uint16),
        np.arange(3, dtype=np.uint16), np.array([3], dtype=np.uint64), [4, 5],
    )  # fmt: skip
    assert torch.equal(strange.x, X.flip(0))
    assert torch.equal(strange.edge_index, EDGES)
    assert SignalsDataset.of([[], []], X, Y, [0], [1], [2]).edge_index.shape == (2, 0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": X.index_fill(1, torch.tensor([1]), math.nan)}, DataError, "finite"),
        ({"x": torch.zeros(0, 3), "y": torch.zeros(0, dtype=torch.int64)}, ParameterError, "at least one signal"),
        ({"x": [["a"]]}, DTypeError, "x must be a tensor, array or list"),
        ({"x": X.to_sparse()}, DTypeError, "x must be a dense"),
        ({"y": Y * 10**12}, DataError, "integers 0 .. C-1"),
        ({"y": Y - 1}, DataError, "integers 0 .. C-1"),
        ({"y": Y + 0.5}, DataError, "integers 0 .. C-1"),
        ({"y": Y[:4]}, ParameterError, r"y \(S,\)"),
        ({"train": [0, 6]}, DataError, "train holds 0 .. 6; the 6 signals are 0 .. 5"),
        ({"test": [-1]}, DataError, "test holds -1"),
        ({"val": []}, ParameterError, "val must name one signal or more"),
        ({"val": torch.zeros(6, dtype=torch.bool)}, ParameterError, "val must name one signal or more"),
        ({"train": torch.ones(5, dtype=torch.bool)}, DTypeError, r"mask \(6,\)"),
        ({"train": [0.0, 1.0]}, DTypeError, "train must hold integers"),
        ({"test": [2, 4]}, DataError, "train and test share 1 signals"),
        ({"edge_index": EDGES + 1}, GraphError, "names node 3"),
        ({"edge_index": EDGES.float()}, DTypeError, "integers"),
        ({"edge_weight": torch.ones(3)}, ShapeError, "one per edge"),
        ({"edge_weight": torch.full((4,), math.inf)}, GraphError, "NaN or infinite"),
    ],
)
def test_own_arrays_that_are_wrong_are_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SignalsDataset.of(**OWN | change)
