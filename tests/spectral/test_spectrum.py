from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.data import load
from armagnn.errors import GraphError, SymmetryError
from armagnn.spectral import spectrum
from armagnn.spectral.spectrum import cache_folder
from oracles import assert_near, random_graph

NODES = 520
"""Just large enough to be kept."""


@pytest.fixture
def op() -> GraphOperator:
    graph = random_graph(NODES, 900, seed=1, lone=200).both_ways()
    return GraphOperator.from_edge_index(graph.edge_index, NODES, graph.edge_weight())


@pytest.fixture
def decompositions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes that were really decomposed."""
    module = __import__("armagnn.spectral.spectrum", fromlist=["eigh"])
    sizes: list[int] = []
    real = module.eigh

    def eigh(op: GraphOperator, max_nodes: int) -> object:
        sizes.append(op.num_nodes)
        return real(op, max_nodes)

    monkeypatch.setattr(module, "eigh", eigh)
    return sizes


def test_it_is_the_spectrum(op: GraphOperator, tmp_path: Path) -> None:
    mu, U = spectrum(op, cache=tmp_path)
    assert mu.dtype == U.dtype == torch.float64
    assert (mu.diff() >= 0).all()
    assert_near(op.to_dense() @ U, U * mu)
    assert_near(U.T @ U, torch.eye(NODES))


def test_it_is_computed_once(op: GraphOperator, tmp_path: Path, decompositions: list[int]) -> None:
    first, again = spectrum(op, cache=tmp_path), spectrum(op, cache=str(tmp_path))
    assert decompositions == [NODES]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    (file,) = tmp_path.iterdir()
    assert set(np.load(file, allow_pickle=False).files) == {"mu", "U"}


def test_another_operator_is_another_file(op: GraphOperator, tmp_path: Path, decompositions: list[int]) -> None:
    value = op.value.clone()
    value[0] += 1e-12
    heavier = GraphOperator(op.rowptr, op.col, value, op.shape, kind="arma", symmetric=True)
    for one in (op, heavier, op.to(torch.float32)):
        spectrum(one, cache=tmp_path)
    assert len(decompositions) == 3
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("damage", ["truncated", "flipped", "text", "empty", "other arrays", "other shape", "folder"])
def test_a_damaged_file_is_computed_anew(
    op: GraphOperator, tmp_path: Path, decompositions: list[int], damage: str
) -> None:
    truth = spectrum(op, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    if damage == "truncated":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[len(content) // 2] ^= 0x40
        file.write_bytes(content)
    elif damage == "text":
        file.write_text("not a file of numbers")
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "other arrays":
        np.savez(file, mu=np.zeros(NODES))
    elif damage == "other shape":
        np.savez(file, mu=np.zeros(3), U=np.zeros((3, 3)))
    else:
        file.unlink()
        file.mkdir()
    again = spectrum(op, cache=tmp_path)
    assert len(decompositions) == 2
    assert all(torch.equal(a, b) for a, b in zip(truth, again, strict=True))
    assert len(list(tmp_path.iterdir())) == 1  # no drafts are left
    if damage != "folder":
        spectrum(op, cache=tmp_path)
        assert len(decompositions) == 2  # the file is whole again


def test_pickles_are_not_read(op: GraphOperator, tmp_path: Path, decompositions: list[int]) -> None:
    spectrum(op, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    np.savez(file, mu=np.array([object()]), U=np.zeros((NODES, NODES)))
    spectrum(op, cache=tmp_path)
    assert len(decompositions) == 2


def test_a_folder_that_cannot_be_written_to_does_no_harm(op: GraphOperator, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    mu, _ = spectrum(op, cache=tmp_path / "file" / "folder")
    assert len(mu) == NODES


def test_it_can_be_switched_off(
    op: GraphOperator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decompositions: list[int]
) -> None:
    monkeypatch.setenv("ARMAGNN_CACHE", str(tmp_path / "named"))
    spectrum(op, cache=False)
    assert not list(tmp_path.iterdir())
    spectrum(op)
    assert len(list((tmp_path / "named").iterdir())) == 1
    monkeypatch.setenv("ARMAGNN_CACHE", "OFF")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    spectrum(op)
    assert not (tmp_path / "home").exists()
    assert len(decompositions) == 3


@pytest.mark.parametrize(
    ("platform", "expected"),
    [("linux", "cache/armagnn"), ("darwin", "Library/Caches/armagnn"), ("win32", "local/armagnn/cache")],
)
def test_where_files_are_kept(platform: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARMAGNN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", platform)
    assert cache_folder() == tmp_path / expected


def test_small_graphs_are_not_kept(tmp_path: Path) -> None:
    graph = random_graph(9, 20).both_ways()
    spectrum(GraphOperator.from_edge_index(graph.edge_index, 9), cache=tmp_path)
    assert not list(tmp_path.iterdir())


def test_bad_graphs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SymmetryError, match="symmetric"):
        spectrum(GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 2]]), 3))
    with pytest.raises(GraphError, match="no nodes"):
        spectrum(GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 0))
    large = GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 10_001)
    with pytest.raises(GraphError, match=r"10001 nodes.*extremal"):
        spectrum(large, cache=tmp_path)
    assert not list(tmp_path.iterdir())


def test_cora() -> None:
    op = load("cora").operator()
    mu, U = spectrum(op, cache=False)
    assert mu.shape == (2708,)
    assert_near(op.to(torch.float64) @ U, U * mu, 1e-12)
    assert int((mu > 1 - 1e-6).sum()) == 78  # one for each connected component; the values are float32
    assert float(mu[0]) == pytest.approx(-1.0, abs=1e-6)  # some of the small ones are bipartite
