from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.errors import ArmagnnError, DataError, ParameterError, ShapeError, SymmetryError, WriteError
from armagnn.estimators import ARMAFeatures, StoredFeatures, precompute, precompute_features
from armagnn.filters import ARMAFilter, FilterBank
from oracles import random_graph

GRAPH = random_graph(30, 60, seed=4).both_ways().edge_index
OP = GraphOperator.from_edge_index(GRAPH, 30)
X = np.random.default_rng(1).normal(size=(30, 7))
BANK = (0.9, ARMAFilter([0.4 + 0.5j, 0.4 - 0.5j], [0.3 + 0.1j, 0.3 - 0.1j]), -0.5)


def room(columns: int) -> float:
    """Bytes with which so many columns are filtered at a time, in float64."""
    operator = sum(part.numel() * part.element_size() for part in (OP.rowptr, OP.col, OP.value.double()))
    return operator + 4 * precompute.PIECE + (columns + 0.5) * 30 * 8 * FilterBank.of(BANK).numbers_at_peak(True)


def made(folder: Path, x: Any = X, op: Any = OP, **options: Any) -> StoredFeatures:
    options = {"filters": BANK, "dtype": "float64", "memory": room(2), **options}
    return precompute_features(op, x, folder, **options)


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_is_what_the_estimator_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precompute, "PIECE", 200)  # a few rows at a time
    told: list[tuple[str, int, int]] = []
    found = made(tmp_path / "bank", progress=lambda *now: told.append(now))
    expected = ARMAFeatures(OP, filters=BANK).fit_transform(X)
    np.testing.assert_allclose(found.array, expected, rtol=1e-9, atol=1e-10)
    assert found.names == tuple(ARMAFeatures(OP, filters=BANK).fit(X).get_feature_names_out())
    assert [now for now in told if now[0] == "columns"] == [("columns", n, 7) for n in (0, 2, 4, 6, 7)]
    assert [(block["first"], block["stop"]) for block in found.report["blocks"]] == [(0, 2), (2, 4), (4, 6), (6, 7)]
    assert all(block["converged"] and block["residual"] < 1e-11 for block in found.report["blocks"])
    assert set(content(tmp_path / "bank")) == {"plan.json", "done.json", "features.npy"}
    found.verify()
    plain = made(tmp_path / "plain", passthrough=False, memory=None, dtype="float32")
    assert plain.array.dtype == np.float32
    np.testing.assert_allclose(plain.array, expected[:, 7:], rtol=1e-4, atol=1e-5)


def test_files_give_the_same_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    a, b = made(tmp_path / "a"), made(tmp_path / "b", x=tmp_path / "x.npy", op=GRAPH)
    np.testing.assert_allclose(a.array, b.array, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("width", [1, 2])
def test_it_goes_on_after_an_interruption(
    after: int, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with another budget of memory. Columns that are finished are not filtered again."""
    whole, calls = made(tmp_path / "whole"), list[int]()
    plain = FilterBank.filter

    def counted(self: Any, op: Any, x: Any, *rest: Any) -> Any:
        calls.append(x.shape[1])
        if len(calls) > after:
            raise KeyboardInterrupt
        return plain(self, op, x, *rest)

    monkeypatch.setattr(FilterBank, "filter", counted)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "cut")
    with pytest.raises(DataError, match="not finished"):
        StoredFeatures.open(tmp_path / "cut")
    calls.clear()
    after = 100
    again = made(tmp_path / "cut", memory=room(width))
    assert sum(calls) < 7
    np.testing.assert_allclose(again.array, whole.array, rtol=1e-12, atol=1e-14)
    calls.clear()
    assert made(tmp_path / "cut").report == again.report
    assert not calls


def test_more_blocks_than_a_process_may_have_files_open(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    x = np.random.default_rng(2).normal(size=(30, 80))
    script = (
        "import sys, resource; import numpy as np; import test_precompute as t\n"
        "t.made(t.Path(sys.argv[1]) / 'first')\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))\n"
        "t.precompute.PIECE = 3 * 80 * 4 * 8  # three rows at a time\n"
        "x = np.load(sys.argv[1] + '/x.npy'); t.made(t.Path(sys.argv[1]) / 'bank', x=x, memory=t.room(1))\n"
    )
    np.save(tmp_path / "x.npy", x)
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], env={**os.environ, "PYTHONPATH": paths}, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    found = StoredFeatures.open(tmp_path / "bank")
    found.verify()
    assert len(found.report["blocks"]) == 80
    np.testing.assert_allclose(found.array, made(tmp_path / "whole", x=x).array, rtol=1e-12, atol=1e-14)


def test_killed_at_any_moment_nothing_is_wrong(tmp_path: Path) -> None:
    whole = made(tmp_path / "whole")
    script = (
        f"import sys; sys.path[:0] = {sys.path!r}; from estimators.test_precompute import *; made(Path(sys.argv[1]))"
    )
    script = script.replace("from estimators.test_precompute", "from test_precompute")
    folder = tmp_path / "cut"
    child = subprocess.Popen([sys.executable, "-c", script, str(folder)], cwd=Path(__file__).parent)
    deadline = time.monotonic() + 60
    while not list((folder / "blocks").glob("*.json")) and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    child.wait()
    again = made(folder)
    again.verify()
    np.testing.assert_allclose(again.array, whole.array, rtol=1e-12, atol=1e-14)


def test_another_graph_bank_or_features_are_refused(tmp_path: Path) -> None:
    made(tmp_path / "bank")
    before = content(tmp_path / "bank")
    weighted = GraphOperator.from_edge_index(GRAPH, 30, torch.arange(1, GRAPH.shape[1] + 1) / 7, symmetrize="max")
    changed = X.copy()
    changed[29, 6] += 1e-9
    changes: dict[str, dict[str, Any]] = {
        "another graph": {"op": weighted},
        "other features": {"x": changed},
        "another bank": {"filters": (0.9, 0.5)},
        "passthrough=True": {"passthrough": False},
        "type='float64'": {"dtype": "float32"},
        "tol=None": {"tol": 1e-8},
    }
    for what, options in changes.items():
        with pytest.raises(DataError, match=what):
            made(tmp_path / "bank", **options)
    assert content(tmp_path / "bank") == before
    assert made(tmp_path / "bank", op=OP).shape == made(tmp_path / "bank", op=OP, memory=1e12).shape


def test_a_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="left alone"):
        made(tmp_path)
    (tmp_path / "plan.json").write_text('{"format": "other"}')
    with pytest.raises(DataError, match=r"plan\.json"):
        made(tmp_path)
    with pytest.raises(WriteError):
        made(tmp_path / "mine.txt" / "below")


def test_damage_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bank"
    with monkeypatch.context() as patch:
        patch.setattr(precompute._Job, "join", lambda *_: None)
        with pytest.raises(DataError, match="not finished"):
            made(folder)
    blocks = sorted((folder / "blocks").glob("*.npy"))
    blocks[0].write_bytes(blocks[0].read_bytes()[:-1])  # cut: done again at once
    damaged = bytearray(blocks[1].read_bytes())
    damaged[-1] ^= 1
    blocks[1].write_bytes(damaged)
    with pytest.raises(DataError, match="damaged"):
        made(folder)
    found = made(folder)
    np.testing.assert_allclose(found.array, made(tmp_path / "whole").array, rtol=1e-12, atol=1e-14)
    (folder / "features.npy").write_bytes((tmp_path / "whole" / "features.npy").read_bytes()[:-8])
    with pytest.raises(DataError, match=r"features\.npy"):
        StoredFeatures.open(folder)


def test_a_container_has_less_memory_than_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precompute, "memory_limit", lambda: 2 * room(3))
    found = made(tmp_path, memory=None)
    assert [block["stop"] for block in found.report["blocks"]] == [3, 6, 7]


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match="too little"):
        made(tmp_path / "a", memory=2**20)
    with pytest.raises(ShapeError, match="29 rows"):
        made(tmp_path / "a", x=X[:29])
    with pytest.raises(SymmetryError):
        made(tmp_path / "a", op=GraphOperator.from_edge_index(torch.tensor([[0], [1]]), 30))
    bad: list[dict[str, Any]] = [{"dtype": "int8"}, {"tol": 2.0}, {"max_iter": 0}, {"filters": [2.0]}, {"memory": -1.0}]
    for options in bad:
        with pytest.raises(ArmagnnError):
            made(tmp_path / "a", **options)
    assert not (tmp_path / "a").exists() or os.listdir(tmp_path / "a") == ["plan.json"]
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(WriteError, match="disk"):
        made(tmp_path / "b")
