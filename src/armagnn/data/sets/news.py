"""20news as signals on a graph of words: from raw documents to counts, embeddings and neighbours.

The documents are stripped of headers, footers and quotes, and become words: `original_counts`, the pipeline of
mdeff/cnn_graph, whose code the paper used, or `plain_counts`, an older one of armagnn (``20news-plain``). The nodes are
the 10,000 most frequent words of the training documents, joined with the 16 nearest by the Euclidean distance of their
word2vec embeddings, which are trained on the training documents.
"""

from __future__ import annotations

import gzip
import importlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from armagnn.checks import choice, integer
from armagnn.data.arrays import Arrays, Axes, check_size, gunzip, integers, read_arrays
from armagnn.data.signals import SignalsDataset
from armagnn.errors import DataError
from armagnn.files import sha256_of
from armagnn.operators import knn_graph
from armagnn.randomness import bits

WORDS: Final = 10_000
EMBEDDING: Final = 200
NEIGHBOURS: Final = 16
LEAST: Final = {"train": 20, "test": 5}
"""Words that a document must have: of the vocabulary in `plain_counts`, of any kind in `original_counts`."""
IMAGE: Final = ("ax", 1000)
"""A document with so many of this word is an encoded image."""
EPOCHS: Final = 5
"""Passes of word2vec over the documents; this and the next as gensim has them by default."""
RARE: Final = 5
"""Occurrences that a word needs to be embedded."""

VALIDATION: Final = 10
"""One in this number of training documents is for validation."""
HELD_OUT: Final = 310
"""Purpose of the draw of the documents for validation; see `armagnn.randomness`."""

PREPARED: Final = ("counts_indptr", "counts_indices", "counts_data", "y", "test", "words", "table", "edge_index")
AXES: Final[Axes] = {
    "counts_indptr": (("S", 1),), "counts_indices": ("Z",), "counts_data": ("Z",), "y": ("S",), "test": ("S",),
    "words": ("W",), "table": ("W",), "edge_index": (2,),
}  # fmt: skip
_QUOTE: Final = re.compile(r"writes in|writes:|wrote:|says:|said:|^In article|^Quoted from|^\||^>")
_TOKEN: Final = re.compile(r"[a-z]+")


def strip(text: str) -> str:
    r"""Return a post without its headers, its signature and what it quotes, by the rules of scikit-learn.

    Headers end at the first empty line; a signature is what follows the last line that is empty or dashes.

    Example:
        >>> strip("From: me\nLines: 4\n\nYou wrote:\n> is it?\nIt is.\n--\nme")
        'It is.'
    """
    body = text.partition("\n\n")[2]
    lines = body.strip().split("\n")
    blank = [number for number, line in enumerate(lines) if not line.strip().strip("-")]
    kept = lines[: blank[-1]] if blank and blank[-1] > 0 else body.split("\n")
    return "\n".join(line for line in kept if not _QUOTE.search(line))


def tokens(text: str) -> list[str]:
    """Return the runs of letters, in lower case.

    Example:
        >>> tokens("It's 1993, again")
        ['it', 's', 'again']
    """
    return _TOKEN.findall(text.lower())


def clean(text: str) -> str:
    """Return a text as words of a to z with a blank between them; a number is the word ``num``.

    Example:
        >>> clean("It's $5, in 1993.")
        'it s dollar num in num'
    """
    spelt = re.sub(r"\d+", " NUM ", text).replace("$", " dollar ").lower()
    return " ".join(re.sub("[^a-z]", " ", spelt).split())


class Counts(NamedTuple):
    """What a pipeline makes of documents: which are kept, the vocabulary, their counts (S, N), what word2vec reads."""

    kept: list[int]
    words: list[str]
    counts: csr_matrix
    sentences: list[list[str]]


def original_counts(texts: Sequence[str], train: Sequence[bool], words: int) -> Counts:
    """Count words as mdeff/cnn_graph does.

    A document for training needs 20 words of any kind, and is no encoded image. The vocabulary has words of two letters
    or more that word2vec has seen often enough, without scikit-learn's English stop words. Every document needs 5 words
    of the vocabulary. Of words that are equally frequent the first in the alphabet comes first: so there are 10,168 and
    7,071 documents, as many as the paper has (numpy's sort, which is not stable, gives 10,167 and 7,069).
    """
    from sklearn.feature_extraction.text import CountVectorizer

    cleaned = [clean(text) for text in texts]
    long = [i for i, text in enumerate(cleaned) if train[i] and len(text.split()) >= LEAST["train"]]
    word, most = IMAGE
    read = [i for i in long if cleaned[i].split().count(word) < most]
    sentences = [cleaned[i].split() for i in read]
    frequency = Counter(word for sentence in sentences for word in sentence)
    counter = CountVectorizer(stop_words="english", vocabulary=None)
    analyse = counter.build_analyzer()
    total = Counter(word for i in read for word in analyse(cleaned[i]))
    known = [word for word in sorted(total) if frequency[word] >= RARE]
    ranked = sorted(known, key=lambda word: (-total[word], word))[:words]
    if not ranked:
        return Counts([], [], csr_matrix((0, 0)), sentences)
    counts = CountVectorizer(vocabulary=ranked).transform(cleaned)
    enough = np.asarray(counts.sum(1)).ravel() >= LEAST["test"]
    tested = [i for i in range(len(texts)) if not train[i]]
    kept = [i for i in sorted([*read, *tested]) if enough[i]]
    return Counts(kept, ranked, csr_matrix(counts[kept]), sentences)


def plain_counts(texts: Sequence[str], train: Sequence[bool], words: int) -> Counts:
    """Count runs of letters, stop words among them, of documents with enough words of the vocabulary."""
    tokenised = [tokens(text) for text in texts]
    sentences = [found for found, learnt in zip(tokenised, train, strict=True) if learnt]
    frequency = Counter(word for found in sentences for word in found)
    frequent = [word for word, count in frequency.items() if count >= RARE]
    ranked = sorted(frequent, key=lambda word: (-frequency[word], word))[:words]
    number = {word: index for index, word in enumerate(ranked)}
    known = [Counter(number[word] for word in found if word in number) for found in tokenised]
    kept = [i for i, each in enumerate(known) if each.total() >= LEAST["train" if train[i] else "test"]]
    places = [(row, word, count) for row, i in enumerate(kept) for word, count in known[i].items()]
    row, column, value = np.array(places, dtype=np.int64).reshape(-1, 3).T
    counts = csr_matrix((value, (row, column)), shape=(len(kept), len(ranked)))
    return Counts(kept, ranked, counts, sentences)


PIPELINES: Final[dict[str, Callable[[Sequence[str], Sequence[bool], int], Counts]]] = {
    "20news": original_counts,
    "20news-plain": plain_counts,
}
"""How the words of each dataset are counted."""


def prepare_news(
    content: bytes,
    source: str,
    *,
    name: str = "20news",
    words: int = WORDS,
    size: int = EMBEDDING,
    seed: int = 0,
    k: int = NEIGHBOURS,
) -> Arrays:
    """Turn the raw documents into the arrays of the prepared file; the same seed gives the same arrays.

    Args:
        content: gzipped JSON lines with ``split``, ``label`` and ``text``.
        source: what to call the file in errors.
        name: of the dataset, one of `PIPELINES`.
        words: nodes of the graph.
        size: of an embedding.
        seed: of word2vec, which runs in one thread.
        k: neighbours of a word.
    """
    documents = read_documents(content, source)
    texts, train = [strip(row["text"]) for row in documents], [row["split"] == "train" for row in documents]
    found = PIPELINES[choice("dataset", name, PIPELINES)](texts, train, words)
    if len(found.words) <= k:
        raise DataError(
            f"{source}: the training documents have {len(found.words)} frequent words, too few for {k} neighbours each."
        )
    table = _embeddings(found.sentences, found.words, size, seed)
    counts, kept = found.counts, [documents[i] for i in found.kept]
    counts.sort_indices()
    edge_index, _ = knn_graph(table, k)
    return {
        "counts_indptr": counts.indptr.astype(np.int32),
        "counts_indices": counts.indices.astype(np.int32),
        "counts_data": np.minimum(counts.data, np.iinfo(np.int16).max).astype(np.int16),
        "y": np.array([row["label"] for row in kept], dtype=np.int8),
        "test": np.array([row["split"] == "test" for row in kept]),
        "words": np.array(found.words),
        "table": table,
        "edge_index": edge_index.numpy().astype(np.int32),
    }


def parse_news(content: bytes, *, name: str, source: str, provenance: str = "") -> SignalsDataset:
    """Read a prepared file; a tenth of its training documents, drawn once and for all, is for validation."""
    arrays = read_arrays(content, PREPARED, source, what="prepared documents", axes=AXES)
    words, table = arrays["words"], arrays["table"]
    y, test = arrays["y"].astype(np.int64), arrays["test"].astype(bool)
    if words.dtype.kind != "U" or table.ndim != 2 or len(table) != len(words) or not np.isfinite(table).all():
        raise DataError(f"{source}: words and table must name and describe each node. Make it again.")
    edges = integers(arrays, "edge_index", source, ndim=2, within=(0, len(words)))
    if len(edges) != 2 or y.shape != test.shape:
        raise DataError(f"{source}: edge_index, y or test do not fit the words. Make it again.")
    return SignalsDataset(
        name,
        torch.from_numpy(edges),
        torch.from_numpy(_dense(arrays, len(y), len(words), source)),
        torch.from_numpy(y),
        int(y.max()) + 1,
        *_parts(torch.from_numpy(test)),
        sha256_of(content),
        table=torch.from_numpy(table.astype(np.float32)),
        words=tuple(words.tolist()),
        provenance=provenance,
    )


def _dense(arrays: Arrays, documents: int, words: int, source: str) -> NDArray[np.int16]:
    """Return the counts (S, N); a batch of any documents is then one row selection, on any device."""
    pointer, count = integers(arrays, "counts_indptr", source), integers(arrays, "counts_data", source)
    ids = integers(arrays, "counts_indices", source, within=(0, words))
    fits = pointer.shape == (documents + 1,) and pointer[0] == 0 and pointer[-1] == len(ids) == len(count)
    if not fits or (np.diff(pointer) < 0).any() or (count < 1).any():
        raise DataError(f"{source}: the counts are not those of {documents} documents. Make it again.")
    check_size(2 * documents * words, 0, source)
    dense = np.zeros((documents, words), dtype=np.int16)
    dense[np.repeat(np.arange(documents), np.diff(pointer)), ids] = count
    return dense


def _parts(test: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    train = (~test).nonzero().squeeze(1)
    order = bits(torch.tensor([0]), HELD_OUT, 0, torch.arange(len(train))).argsort(stable=True)
    held = len(train) // VALIDATION
    return train[order[held:]].sort().values, train[order[:held]].sort().values, test.nonzero().squeeze(1)


def read_documents(content: bytes, source: str) -> list[dict[str, Any]]:
    """Return the rows of the raw file, each with its split, label and text."""
    try:
        rows = [json.loads(line) for line in gunzip(content, source).splitlines()]
        if not all(row["split"] in LEAST and isinstance(row["text"], str) and row["label"] >= 0 for row in rows):
            raise ValueError("a row has another split, text or label")
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{source}: not gzipped JSON lines of documents ({error}). Fetch it again.") from error
    return rows


def _embeddings(documents: Sequence[Sequence[str]], words: Sequence[str], size: int, seed: int) -> NDArray[np.float32]:
    """Return the word2vec embeddings of the words, (N, size), trained in one thread on these documents."""
    seed = integer("seed", seed, 0, 2**32 - 1)
    try:
        word2vec: Any = importlib.import_module("gensim.models").Word2Vec
    except ImportError as error:
        raise DataError(
            "gensim is needed to prepare 20news: pip install armagnn[text]; or copy the prepared file, and "
            "catalogue.json, from a machine that has it."
        ) from error
    model = word2vec(documents, vector_size=size, min_count=RARE, workers=1, seed=seed, epochs=EPOCHS)
    return np.stack([model.wv[word] for word in words]).astype(np.float32)


def convert_20news() -> bytes:
    """Get 20news by scikit-learn, which checks the archive's SHA-256, into a fresh folder: no old pickle is read."""
    from sklearn.datasets import fetch_20newsgroups

    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for split in ("train", "test"):
            found = fetch_20newsgroups(data_home=folder, subset=split, shuffle=False)
            for text, label, file in zip(found.data, found.target, found.filenames, strict=True):
                group = found.target_names[label]
                row = {"split": split, "label": int(label), "group": group, "id": Path(str(file)).name, "text": text}
                lines.append(json.dumps(row, ensure_ascii=False))
    return gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)
