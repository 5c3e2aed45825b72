"""Columns as features: what scikit-learn would make of them, from plain JSON, and the same for new nodes."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from armagnn.data.tables.encoding import TableEncoder
from armagnn.data.tables.frame import Frame
from armagnn.errors import ArmagnnError, DataError

NUMBER = st.none() | st.floats(-1e6, 1e6)
COLUMNS = st.fixed_dictionaries(
    {
        "number": st.lists(NUMBER, min_size=8, max_size=8),
        "city": st.lists(st.sampled_from([None, "Rome", "Oslo", "Lima"]), min_size=8, max_size=8),
        "flag": st.lists(st.sampled_from([None, True, False]), min_size=8, max_size=8),
        "day": st.lists(st.sampled_from([None, "2020-01-01", "2021-06-30"]), min_size=8, max_size=8),
    }
)


def dense(x: Any) -> Any:
    return x.toarray() if sp.issparse(x) else x


@settings(max_examples=40, deadline=None)
@given(columns=COLUMNS)
def test_an_encoder_from_json_encodes_as_the_first_one(columns: dict[str, list[Any]]) -> None:
    frame = Frame.of(columns, "nodes")
    encoder = TableEncoder.fit(frame, list(columns), np.arange(6))
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json(), allow_nan=False)))
    assert again == encoder
    x = dense(encoder.transform(frame))
    assert np.array_equal(x, dense(again.transform(frame)))
    assert x.shape == (8, len(encoder.features))
    assert np.isfinite(x).all()
    for row in range(8):  # a node is encoded alone as among others
        one = Frame.of({name: [values[row]] for name, values in columns.items()}, "nodes")
        assert np.array_equal(dense(encoder.transform(one))[0], x[row])


def test_numbers_are_what_scikit_learn_makes_of_them() -> None:
    draw = np.random.default_rng(0)
    values = draw.normal(5, 3, (40, 3))
    values[draw.random((40, 3)) < 0.2] = np.nan
    frame = Frame.of({f"c{n}": values[:, n] for n in range(3)}, "nodes")
    train = np.arange(25)
    x = dense(TableEncoder.fit(frame, ["c0", "c1", "c2"], train).transform(frame))
    imputer = SimpleImputer(add_indicator=True).fit(values[train])
    seen = imputer.transform(values)
    known = [values[train][~np.isnan(values[train, n]), n] for n in range(3)]
    scale = [StandardScaler().fit(each[:, None]).scale_[0] for each in known]
    assert np.allclose(x[:, :3], (seen[:, :3] - imputer.statistics_) / scale, atol=1e-5)
    assert np.array_equal(x[:, 3:], seen[:, 3:])


def test_categories_are_those_of_scikit_learn_and_unseen_ones_are_rare() -> None:
    seen = ["a"] * 5 + ["b"] * 4 + ["c", "d"]
    frame = Frame.of({"k": [*seen, "new", "c"]}, "nodes")
    encoder = TableEncoder.fit(frame, ["k"], np.arange(11))
    assert encoder.features == ["k=a", "k=b", "k=(rare)"]
    truth = OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist").fit(np.array(seen)[:, None])
    expected = truth.transform(np.array([*seen, "new", "c"])[:, None]).toarray()
    assert np.array_equal(dense(encoder.transform(frame)), expected)


def test_text_is_that_of_scikit_learn() -> None:
    texts = ["graphs and networks", "cats and dogs", "graphs of cats", "dogs"]
    frame = Frame.of({"t": texts}, "nodes")
    encoder = TableEncoder.fit(frame, ["t"], np.arange(3), text=["t"], text_by="tfidf")
    truth = TfidfVectorizer().fit(texts[:3])
    assert np.allclose(dense(encoder.transform(frame)), truth.transform(texts).toarray(), atol=1e-6)
    hashed = TableEncoder.fit(frame, ["t"], np.arange(3), text=["t"]).transform(frame)
    assert sp.issparse(hashed)
    assert hashed.shape == (4, 1024)


def test_what_training_nodes_do_not_tell_is_left_out() -> None:
    frame = Frame.of({"same": [1.0, 1.0, 2.0], "none": [None, None, 3.0], "name": ["x", "y", "z"]}, "nodes")
    encoder = TableEncoder.fit(frame, ["same", "none", "name"], np.array([0, 1]))
    assert encoder.columns == ()
    assert np.array_equal(encoder.transform(frame), np.ones((3, 1)))
    assert all(f"column {name!r} left out" in "\n".join(encoder.notes) for name in ("same", "none", "name"))


def test_a_column_that_new_nodes_lack_is_named() -> None:
    encoder = TableEncoder.fit(Frame.of({"age": [1.0, 2.0]}, "nodes"), ["age"], np.array([0, 1]))
    with pytest.raises(DataError, match="new: has no column 'age', which features are made of"):
        encoder.transform(Frame.of({"years": [1.0]}, "new"))
    with pytest.raises(DataError, match="new, row 0, column 'age': 'old' is no number"):
        encoder.transform(Frame.of({"age": ["old"]}, "new"))


def _paths(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return found + [inner for key, value in items for inner in _paths(value, (*path, key))]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damage_is_refused_or_harmless(data: st.DataObject) -> None:
    columns = {"n": [1.0, 2.5, None, 4.0], "c": ["a", "a", "a", "b"], "t": ["one two", "two", "six", "one"]}
    frame = Frame.of(columns, "nodes")
    encoder = TableEncoder.fit(frame, list(columns), np.arange(4), text=["t"], text_by="tfidf")
    content = copy.deepcopy(encoder.to_json())
    content = json.loads(json.dumps(content))
    *way, last = data.draw(st.sampled_from(_paths(content)))
    place = content
    for key in way:
        place = place[key]
    place[last] = data.draw(st.sampled_from([None, -1, 0, 1.5, "x", "", [], [1.0], ["a", "a"], {}, True, 1e400]))
    try:
        x = dense(TableEncoder.from_json(content).transform(frame))
    except ArmagnnError:
        return
    assert np.isfinite(x).all()
