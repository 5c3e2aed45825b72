"""Bench-hard drawn anew: the recipe's clouds, the published statistics, and the same bits for the same seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from armagnn.data import load_graphs, make_bench_hard, statistics
from armagnn.data.arrays import Arrays, pack_arrays
from armagnn.data.graph_files import parse_graphs_file
from armagnn.data.sets.bench_hard import _blob, _moons, _nearest, _normal, _quantiles
from armagnn.errors import ParameterError

PER_CLASS = 120


@pytest.fixture(scope="module")
def drawn() -> Arrays:
    return make_bench_hard(0, per_class=PER_CLASS)


def joins(arrays: Arrays) -> np.ndarray:
    """For each class, the edges a graph has between two colours: what tells the classes apart, (3, 5, 5)."""
    source, target = arrays["edge_index"].astype(np.int64)
    graph = np.repeat(np.arange(arrays["y"].size), np.diff(arrays["ptr"]))
    found = np.zeros((3, 5, 5))
    label = arrays["node_labels"].astype(np.int64)
    np.add.at(found, (arrays["y"][graph[source]].astype(np.int64), label[source], label[target]), 1)
    return found / np.bincount(arrays["y"])[:, None, None]


def test_it_is_a_file_of_the_catalogue(drawn: Arrays, real: Callable[[str], str]) -> None:
    data = parse_graphs_file(pack_arrays(drawn), name="drawn", source="drawn.npz")
    kept = load_graphs(real("bench-hard"))
    assert statistics(data, paths=False).keys() == statistics(kept, paths=False).keys()
    assert {name: array.dtype for name, array in drawn.items()} == {
        "edge_index": np.int32, "ptr": np.int32, "node_labels": np.int8, "y": np.int8, "split": np.int8,
    }  # fmt: skip


def test_the_published_statistics(drawn: Arrays) -> None:
    graphs = 3 * PER_CLASS
    nodes = np.diff(drawn["ptr"])
    assert (nodes.min() >= 99, nodes.max() <= 198, (nodes % 3).max()) == (True, True, 0)
    assert nodes.mean() == pytest.approx(148.32, abs=3 * 29 / np.sqrt(graphs))  # n is uniform: its deviation is 29
    assert drawn["edge_index"].shape[1] / nodes.sum() == pytest.approx(572.32 / 148.32, abs=0.01)
    assert np.bincount(drawn["y"]).tolist() == [PER_CLASS] * 3
    shares = np.bincount(drawn["split"], minlength=3) / graphs
    np.testing.assert_allclose(shares, [0.81, 0.09, 0.10], atol=3 * 0.4 / np.sqrt(graphs))


def test_the_statistics_of_the_small_set() -> None:
    arrays = make_bench_hard(0, small=True)
    nodes = np.diff(arrays["ptr"])
    assert (len(nodes), nodes.min() >= 39, nodes.max() <= 78) == (300, True, True)
    assert nodes.mean() == pytest.approx(58.64, abs=3 * 11.5 / np.sqrt(300))
    assert arrays["edge_index"].shape[1] / nodes.sum() == pytest.approx(224.95 / 58.64, abs=0.03)


def test_the_colours_meet_as_in_the_original(drawn: Arrays, real: Callable[[str], str]) -> None:
    """Edges between clouds carry the class: they must be as many as in the files, where they are a few a graph."""
    data = load_graphs(real("bench-hard"))
    arrays = {name: getattr(data, name).numpy() for name in ("edge_index", "ptr", "y", "node_labels")}
    ours, theirs = joins(drawn), joins(arrays)
    np.testing.assert_allclose(ours, theirs, rtol=0.1, atol=0.45)
    small = joins(make_bench_hard(1, small=True))
    data = load_graphs(real("bench-hard-small"))
    arrays = {name: getattr(data, name).numpy() for name in ("edge_index", "ptr", "y", "node_labels")}
    np.testing.assert_allclose(small, joins(arrays), rtol=0.15, atol=0.6)


def test_edges_are_undirected_within_graphs_and_simple(drawn: Arrays) -> None:
    source, target = drawn["edge_index"].astype(np.int64)
    nodes = int(drawn["ptr"][-1])
    code = source * nodes + target
    assert (np.diff(code) > 0).all()
    assert np.array_equal(np.sort(target * nodes + source), code)
    assert not (source == target).any()
    assert np.bincount(source, minlength=nodes).min() == 3
    matrix = coo_array((np.ones(source.size), (source, target)), shape=(nodes, nodes))
    assert connected_components(matrix)[0] > 3 * PER_CLASS  # sparse graphs fall apart


def test_a_seed_is_a_set_and_a_smaller_set_is_its_beginning(drawn: Arrays) -> None:
    few, again, other = (make_bench_hard(seed, per_class=3) for seed in (0, 0, 1))
    assert pack_arrays(few) == pack_arrays(again)
    assert pack_arrays(few) != pack_arrays(other)
    for c in range(3):
        ours, theirs = few["ptr"][3 * c : 3 * c + 4], drawn["ptr"][PER_CLASS * c : PER_CLASS * c + 4]
        assert np.array_equal(np.diff(ours), np.diff(theirs))
        labels = drawn["node_labels"][theirs[0] : theirs[3]]
        assert np.array_equal(few["node_labels"][ours[0] : ours[3]], labels)


def test_the_clouds() -> None:
    draws = np.random.default_rng(0).uniform(size=(20001, 4))
    normal = _normal(draws)
    np.testing.assert_allclose([normal.mean(), normal.std(), np.cov(normal.T)[0, 1]], [0, 1, 0], atol=0.03)
    points, colours = _moons(draws)
    for colour, centre, sign in ((0, (0, 0), 1), (1, (1, 0.5), -1)):
        moon = points[colours == colour] - centre
        assert np.linalg.norm(moon, axis=1).mean() == pytest.approx(1, abs=0.01)
        assert np.linalg.norm(moon, axis=1).std() == pytest.approx(0.1, abs=0.01)
        assert (sign * moon[:, 1]).mean() == pytest.approx(2 / np.pi, abs=0.02)  # one opens down, one up
    assert np.bincount(colours).tolist() == [10000, 10001]
    assert 0.4 < (np.diff(colours) != 0).mean() < 0.6  # in random order
    points, colours = _quantiles(draws)
    radius = np.linalg.norm(points, axis=1)
    assert radius[colours == 0].max() <= radius[colours == 1].min()
    assert np.bincount(colours).tolist() == [10000, 10001]
    np.testing.assert_allclose(points.var(axis=0), 0.2, atol=0.01)
    points, colours = _blob(draws)
    np.testing.assert_allclose(points.std(axis=0), 0.4, atol=0.01)
    assert set(colours.tolist()) == {0}


def test_neighbours_are_the_nearest_also_among_points_in_one_place() -> None:
    points = np.random.default_rng(1).standard_normal((60, 2))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    oracle = np.zeros((60, 60), dtype=bool)
    oracle[np.arange(60)[:, None], distance.argsort(axis=1)[:, :3]] = True
    assert np.array_equal(_nearest(points), np.stack((oracle | oracle.T).nonzero()))
    source, target = _nearest(np.zeros((10, 2)))
    assert np.bincount(source).min() >= 3
    assert not (source == target).any()


@pytest.mark.parametrize("options", [{"seed": -1}, {"seed": 0.5}, {"per_class": 0}, {"per_class": True}])
def test_what_cannot_be_drawn(options: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        make_bench_hard(**{"seed": 0, **options})  # type: ignore[arg-type]
