"""A part loads alone, joins with its neighbours, and every damage to its files is found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armagnn.data import load
from armagnn.distributed.part_folder import Facts, GraphPart, facts_of, part_path, read_manifest, shares
from armagnn.distributed.partitioning import partition_dataset
from armagnn.errors import ArmagnnError, DataError, ParameterError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    partition_dataset(load("cora"), tmp_path / "parts", 3)
    return tmp_path / "parts"


def test_a_part_loads_alone(folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "elsewhere"
    alone.mkdir()
    part_path(folder, 1).rename(part_path(alone, 1))
    part = GraphPart.load(alone, 1)
    assert part.first == part.facts.starts[1]
    assert part.facts == facts_of(alone) == facts_of(folder)
    assert part.x.shape == (part.nodes, 1433)
    assert part.tensor("weight") is None


def test_parts_join(folder: Path) -> None:
    first, second, both = GraphPart.load(folder, 1), GraphPart.load(folder, 2), GraphPart.load(folder, range(1, 3))
    assert both.first == first.first
    assert both.nodes == first.nodes + second.nodes
    for name, arrays in (("rowptr", "col"), ("x_rowptr", "x_col")):
        assert len(both.arrays[name]) == both.nodes + 1
        assert both.arrays[name][-1] == both.arrays[arrays].size
        assert np.array_equal(
            np.diff(both.arrays[name]), np.concatenate([np.diff(p.arrays[name]) for p in (first, second)])
        )


def test_numbers_of_parts(folder: Path) -> None:
    assert GraphPart.load(folder, np.int64(1)).first == GraphPart.load(folder, 1).first
    for wrong in (range(0, 3, 2), range(2, -1, -1)):
        with pytest.raises(ParameterError, match="parts that follow each other"):
            GraphPart.load(folder, wrong)
    for no_number in (True, 1.5, "1"):
        with pytest.raises(ParameterError, match="or a range of numbers"):
            GraphPart.load(folder, no_number)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="folder must be a path"):
        GraphPart.load("a\0b", 1)


def test_every_damage_is_found(folder: Path) -> None:
    path = part_path(folder, 0)
    for file in sorted(path.iterdir()):
        whole = file.read_bytes()
        for damaged in (whole[:-1], whole[: len(whole) // 2] + b"\x07" + whole[len(whole) // 2 + 1 :], b"", None):
            if damaged is None:
                file.unlink()
            else:
                file.write_bytes(damaged)
            with pytest.raises(DataError, match=file.name):
                GraphPart.load(folder, 0)
        file.write_bytes(whole)
    GraphPart.load(folder, 0)


def test_manifests_of_other_things_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        GraphPart.load(folder, 7)
    with pytest.raises(DataError, match="holds no partition"):
        facts_of(tmp_path)
    with pytest.raises(ParameterError, match="no part"):
        GraphPart.load(folder, range(2, 2))
    manifest = part_path(folder, 0) / "manifest.json"
    content = json.loads(manifest.read_bytes())
    for change in ({"version": 2}, {"part": 1}, {"files": {"../../x.npy": {}}}, {"facts": {}}):
        manifest.write_text(json.dumps(content | change))
        with pytest.raises(DataError, match=r"manifest\.json"):
            read_manifest(folder, 0)
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(DataError, match=r"manifest\.json"):
        facts_of(folder)


def test_parts_of_two_partitions_do_not_mix(folder: Path, tmp_path: Path) -> None:
    partition_dataset(load("cora"), tmp_path / "others", 3, order="rcm")
    part_path(tmp_path / "others", 2).rename(part_path(folder, 3))
    part_path(folder, 2).rename(tmp_path / "away")
    part_path(folder, 3).rename(part_path(folder, 2))
    with pytest.raises(DataError, match="another partition than part 1"):
        GraphPart.load(folder, range(1, 3))


def test_the_checksum_does_not_depend_on_the_number_of_parts(folder: Path, tmp_path: Path) -> None:
    cora = load("cora")
    two = partition_dataset(cora, tmp_path / "two", 2).facts
    other = partition_dataset(cora, tmp_path / "rcm", 3, order="rcm").facts
    assert two.sha256 == facts_of(folder).sha256 != other.sha256


@given(st.integers(1, 40), st.integers(1, 40))
def test_shares_are_runs_of_nearly_one_length(parts: int, ranks: int) -> None:
    if ranks > parts:
        with pytest.raises(ParameterError, match="partition again"):
            shares(parts, ranks)
        return
    found = shares(parts, ranks)
    assert [number for share in found for number in share] == list(range(parts))
    assert max(map(len, found)) - min(map(len, found)) <= 1


@pytest.mark.parametrize("starts", [[0], [1, 3], [0, 4, 2, 3], "0123", [0, 2], [0, None, 3]])
def test_starts_that_do_not_rise(starts: object) -> None:
    content = {"nodes": 3, "starts": starts, "symmetric": True, "weighted": False, "order": "", "edges": "", "rows": {}}
    with pytest.raises(ArmagnnError, match="starts"):
        Facts.from_json(content, Path("manifest.json"))
