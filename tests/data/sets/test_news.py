"""20news as signals on a graph of words, from tiny files and, where it is, from the real one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from armagnn.data import load_signals, make_news, statistics, statistics_of
from armagnn.data.arrays import Arrays, pack_arrays
from armagnn.data.catalogue import CATALOGUE, Entry, user_folder
from armagnn.data.loading import all_entries, verify
from armagnn.data.sets import news
from armagnn.data.sets.news import (
    PIPELINES,
    clean,
    original_counts,
    parse_news,
    prepare_news,
    read_documents,
    strip,
    tokens,
)
from armagnn.errors import DataError, ParameterError

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


def prepared(name: str = "20news") -> Arrays:
    pytest.importorskip("gensim")
    return prepare_news(documents(), "tiny", name=name, words=18, size=5, k=3)


@pytest.mark.parametrize("name", list(PIPELINES))
def test_documents_become_counts_embeddings_and_neighbours(name: str) -> None:
    arrays = prepared(name)
    data = parse_news(pack_arrays(arrays), name="tiny", source="tiny.npz")
    assert (data.num_signals, data.num_nodes, data.num_classes) == (58, 18, 2), "two were too short"
    assert [len(data.idx(split)) for split in ("train", "val", "test")] == [36, 3, 19]
    assert not set(data.val_idx.tolist()) & set(data.train_idx.tolist())
    assert data.table is not None
    assert data.table.shape == (18, 5)
    first = clean(strip(json.loads(gzip.decompress(documents()).splitlines()[0])["text"])).split()
    assert {data.words[i]: int(n) for i, n in enumerate(data.x[0]) if n} == {
        word: first.count(word) for word in data.words if word in first
    }
    totals = data.x[~torch.from_numpy(arrays["test"])].sum(0)
    assert (totals.diff() <= 0).all(), "words are in the order of how often they are there"
    degree = torch.bincount(data.edge_index[1], minlength=18)
    assert int(degree.min()) >= 3


def test_words_are_counted_as_the_original_pipeline_does() -> None:
    """Stop words, single letters and images are left out, numbers are one word; short documents by either count."""
    long = "the apple is a banana " * 10
    texts = [
        f"{long} 12 34 cherry",
        "apple banana " * 9,
        "the is a of " * 20,
        "ax " * 1000 + long,
        "apple " * 5,
        "banana",
    ]
    found = original_counts(texts, [True, True, True, True, False, False], 10)
    assert found.words == ["apple", "banana"], "cherry and num are too rare for word2vec"
    assert found.kept == [0, 4]
    assert found.counts.toarray().tolist() == [[10, 10], [5, 0]]
    assert len(found.sentences) == 2, "the third has enough words of any kind to be read, but none of the vocabulary"
    assert found.sentences[0][-3:] == ["num", "num", "cherry"]


def test_the_original_documents_are_as_many_as_the_papers(real: Callable[[str], str]) -> None:
    real("20news")
    content = (user_folder() / CATALOGUE["20news"].file).read_bytes()
    rows = read_documents(content, "raw")
    train = [row["split"] == "train" for row in rows]
    found = original_counts([strip(row["text"]) for row in rows], train, 10_000)
    assert len(found.words) == 10_000
    assert sum(train[i] for i in found.kept) == 10_168
    assert sum(not train[i] for i in found.kept) == 7_071


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
    assert found["nodes"] == 19, "why is a stop word"
    data = load_signals("20news")
    assert data.name == "20news"
    assert data.num_signals == 58
    assert statistics_of("20news")["edges, directed"] == data.edge_index.shape[1]
    assert statistics_of("20news-prepared") == statistics(data)
    assert {check.state for check in verify(["20news-prepared"])} == {"ok"}
    with pytest.raises(DataError, match="armagnn data make 20news --plain"):
        load_signals("20news-plain")
    monkeypatch.setitem(CATALOGUE, "20news-plain", CATALOGUE["20news"])
    make_news(plain=True)
    assert load_signals("20news-plain").name == "20news-plain"
    assert "20news-words" in all_entries(), "where it was before it had this name"
    with pytest.raises(DataError, match="--force"):
        make_news()
    assert make_news(force=True)[0] == path
    monkeypatch.setattr(news.importlib, "import_module", _no_gensim)
    assert load_signals("20news").num_signals == 58, "a machine without gensim can use it"
    with pytest.raises(DataError, match="gensim is needed"):
        make_news(force=True)


def _no_gensim(name: str) -> None:
    raise ImportError(name)
