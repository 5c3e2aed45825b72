"""What a run keeps of its graphs: the features of the task, exactly, and nothing that contradicts itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn.data import GraphsDataset, load_graphs, node_features, read_tu_folder
from armagnn.data.splits import Fold, draw_folds
from armagnn.errors import DataError
from armagnn.tasks import GraphNet, GraphTask
from armagnn.training import Description
from own_graphs import folder_of, rings_and_paths, with_numbers


def described(data: GraphsDataset, fold: int = 0) -> tuple[Description, Fold]:
    chosen = draw_folds(data.y, 0)[fold]
    return Description.of(data, node_features(data), chosen), chosen


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> GraphsDataset:
    return read_tu_folder(folder_of(rings_and_paths(), tmp_path_factory.mktemp("data") / "rings"))


@pytest.fixture(scope="module")
def numbers(rings: GraphsDataset) -> GraphsDataset:
    return replace(with_numbers(rings), targets=("nodes", "edges"), class_values=None)


@pytest.mark.parametrize("name", ["rings", "numbers", "mutag"])
def test_features_and_targets_are_those_of_the_task(name: str, rings: GraphsDataset, numbers: GraphsDataset) -> None:
    data = {"rings": rings, "numbers": numbers}[name] if name != "mutag" else load_graphs("mutag")
    found, fold = described(data, fold=3)
    again = Description.from_json(json.loads(json.dumps(found.to_json())))
    assert again == found
    net = GraphNet("gcn", again.num_features, again.outputs)
    task = GraphTask(data, net, fold, batch_size=8)
    assert torch.equal(again.features(data), task.x)
    assert again.regression == data.regression
    if data.regression:
        torch.testing.assert_close(again.own_units(task.y[:-1]), data.y)
        assert again.targets == ("nodes", "edges")
    assert again.sizes == (len(fold.train), len(fold.val), len(fold.test))
    assert again.largest == max(int(data.ptr.diff()[graph]) for graph in fold.train)


def test_new_graphs_are_described_by_the_training_graphs(rings: GraphsDataset) -> None:
    found, _ = described(rings)
    assert found.classes == (-1, 5)
    assert found.vocabulary == (0, 2, 7)
    few = rings.select([4, 9])
    rows = torch.isin(rings.graph, torch.tensor([4, 9]))
    assert torch.equal(found.features(few), found.features(rings)[rows])
    single = rings.select([0])
    assert single.node_labels is not None
    only = replace(single, node_labels=torch.full_like(single.node_labels, 7))  # one label of three: three columns
    assert found.features(only).shape == (3, found.num_features)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"node_labels": None}, "has no node labels, but the data that the run was trained on has some"),
        ({"node_labels": 3}, r"graph 2 \(counted from 1\) has a node with label 3; .* are 0, 2, 7\."),
        ({"node_attr": None}, "has 0 node attributes, .* has 2"),
        ({"node_attr": torch.zeros(7, 3)}, "has 3 node attributes, .* has 2"),
        ({"edge_weight": torch.ones(14)}, "has edge weights, but the data that the run was trained on has none"),
    ],
    ids=["no labels", "unknown label", "no attributes", "other attributes", "weights"],
)
def test_graphs_of_another_kind_are_refused(rings: GraphsDataset, change: dict[str, Any], said: str) -> None:
    few = rings.select([0, 6])
    assert few.node_labels is not None
    if change.get("node_labels") == 3:
        labels = few.node_labels.clone()
        labels[5] = 3
        change = {"node_labels": labels}
    with pytest.raises(DataError, match=said) as caught:
        described(rings)[0].features(replace(few, **change))
    assert "\n" not in str(caught.value)


def test_labels_that_the_run_does_not_know_are_refused(rings: GraphsDataset) -> None:
    found, _ = described(replace(rings, node_labels=None, node_attr=None))
    assert found.kinds == ("degree", "clustering")
    with pytest.raises(DataError, match=r"has node labels, but .* has none"):
        found.features(rings)


# ------------------------------------------------------------------------------------------------------------- damage

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "kind": ({"kinds": ["degree", "colour"]}, "kinds"),
    "order of kinds": ({"kinds": ["labels", "degree", "clustering", "attributes"]}, "kinds"),
    "no kinds": ({"kinds": []}, "kinds"),
    "text": ({"kinds": "degree"}, "kinds is not a list of str"),
    "vocabulary": ({"vocabulary": [0, 7, 2]}, "vocabulary"),
    "twice": ({"vocabulary": [0, 2, 2]}, "vocabulary"),
    "no vocabulary": ({"vocabulary": []}, "vocabulary"),
    "real label": ({"vocabulary": [0, 2, 7.0]}, "vocabulary is not a list of int"),
    "large label": ({"vocabulary": [0, 2, 2**63]}, "vocabulary"),
    "attributes": ({"attributes": 3}, "one number for each feature"),
    "no attributes": ({"attributes": 0}, "attributes"),
    "negative": ({"attributes": -1}, "attributes"),
    "short mean": ({"mean": [0.0]}, "one number for each feature"),
    "null": ({"mean": None}, "mean is not a list"),
    "infinite": ({"mean": [float("inf")] * 7}, "mean"),
    "zero deviation": ({"deviation": [0.0] * 7}, "not positive"),
    "no classes": ({"classes": []}, "classes or targets"),
    "class twice": ({"classes": [5, 5]}, "classes"),
    "both": ({"targets": ["t"]}, "classes or targets"),
    "targets without scale": ({"classes": [], "targets": ["t"]}, "one number for each target"),
    "sizes": ({"sizes": [3, 4]}, "sizes"),
    "largest": ({"largest": 0}, "largest"),
    "true": ({"largest": True}, "largest is not int"),
    "another entry": ({"new": 1}, "entries"),
}


@pytest.mark.parametrize("case", WRONG)
def test_contradictions_are_named(rings: GraphsDataset, case: str) -> None:
    change, said = WRONG[case]
    content = json.loads(json.dumps(described(rings)[0].to_json()))
    with pytest.raises(ValueError, match=said):
        Description.from_json(content | change)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(entry=st.data(), value=anything)
def test_any_json_is_a_description_or_a_value_error(rings: GraphsDataset, entry: st.DataObject, value: object) -> None:
    content = json.loads(json.dumps(described(rings)[0].to_json()))
    content[entry.draw(st.sampled_from(sorted(content)))] = value
    try:
        found = Description.from_json(content)
    except ValueError:
        return
    assert json.loads(json.dumps(found.to_json())) == content
    assert found.own_units(torch.zeros(2, len(found.targets))).shape == (2, len(found.targets))
