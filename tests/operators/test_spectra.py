"""The spectra of all graphs of a set."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn import GraphOperator
from armagnn.errors import ParameterError, SymmetryError
from armagnn.operators import GraphBatches, spectra
from armagnn.operators.spectra import BlockSpectrum, vectors_pay
from oracles import assert_near


def make(sizes: list[int], dtype: torch.dtype = torch.float64) -> GraphBatches:
    ops = []
    for seed, size in enumerate(sizes):
        once = torch.randint(0, size, (2, 2 * size), generator=torch.Generator().manual_seed(seed))
        edges = torch.cat([once, once.flip(0)], 1)
        ops.append(GraphOperator.from_edge_index(edges, size, kind="laplacian", dtype=dtype))
    return GraphBatches(GraphOperator.block_diagonal(ops), torch.tensor([0, *sizes]).cumsum(0))


def matrices(found: BlockSpectrum) -> list[torch.Tensor]:
    """U diag(λ) Uᵀ of each graph of a batch."""
    ends, blocks = found.vectors.ptr.tolist(), []
    for begin, end, first in zip(ends[:-1], ends[1:], found.vectors.first.tolist(), strict=True):
        size = end - begin
        store = found.vectors.store if first >= 0 else torch.zeros(size**2)
        vectors = store[max(first, 0) :][: size**2].view(size, size).double()
        blocks.append(vectors @ found.frequencies[begin:end].diag() @ vectors.t())
    return blocks


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.data())
def test_a_batch_has_the_spectra_of_its_graphs(sizes: list[int], data: st.DataObject) -> None:
    graphs = make(sizes)
    assert graphs.take([0]).op.blocks is None
    assert graphs.find_spectra() is graphs.find_spectra()
    ids = torch.tensor(data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=5)))
    batch = graphs.take(ids)
    assert batch.op.blocks is not None
    assert_near(torch.block_diag(*matrices(batch.op.blocks)), batch.op.to_dense())
    rows, nonzeros = graphs.measure(ids)
    padded = graphs.take_padded(torch.cat([ids, torch.tensor([len(sizes)])]), rows + 3, nonzeros + 4)
    assert padded.op.blocks is not None
    assert_near(torch.block_diag(*matrices(padded.op.blocks)), padded.op.to_dense())


def test_many_graphs_of_one_size_are_decomposed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectra, "AT_ONCE", 20)
    graphs = make([4, 3, 4, 4, 3])
    graphs.find_spectra()
    batch = graphs.take(range(5))
    assert batch.op.blocks is not None
    assert_near(torch.block_diag(*matrices(batch.op.blocks)), batch.op.to_dense())


def test_narrow_operators_are_decomposed_in_float64() -> None:
    graphs = make([5, 6], torch.float32)
    graphs.find_spectra()
    found = graphs.take([1, 0]).op.blocks
    assert found is not None
    assert (found.frequencies.dtype, found.vectors.store.dtype) == (torch.float64, torch.float32)
    assert_near(torch.block_diag(*matrices(found)).float(), graphs.take([1, 0]).op.to_dense())


def test_what_is_saved_and_moved_has_none(tmp_path: Path) -> None:
    graphs = make([4, 3])
    graphs.find_spectra()
    op = graphs.take([1]).op
    torch.save(op, tmp_path / "op.pt")
    again = torch.load(tmp_path / "op.pt", weights_only=True)
    assert again.blocks is None
    assert_near(again.to_dense(), op.to_dense())
    assert graphs.to(torch.float32).take([1]).op.blocks is None


def test_what_has_no_spectra() -> None:
    directed = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 2]]), kind="adjacency")
    with pytest.raises(SymmetryError, match="symmetric operator"):
        GraphBatches(directed, torch.tensor([0, 3])).find_spectra()
    pair, weight = torch.tensor([[0, 1], [1, 0]]), torch.ones(2).requires_grad_()
    trained = GraphOperator.from_edge_index(pair, 2, weight, kind="laplacian", symmetrize="mean")
    with pytest.raises(ParameterError, match="detach"):
        GraphBatches(trained, torch.tensor([0, 2])).find_spectra()


def test_when_vectors_pay() -> None:
    graphs = make([13] * 4)
    sparse = graphs.op.nnz + graphs.op.num_nodes
    degree = -(-4 * 13**2 // (spectra.RATIO * sparse))
    assert vectors_pay(graphs.op, graphs.ptr, degree)
    assert not vectors_pay(graphs.op, graphs.ptr, degree - 1)


def test_large_graphs_keep_the_recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = make([13] * 4)
    assert vectors_pay(graphs.op, graphs.ptr, 100)
    monkeypatch.setitem(spectra.LONGEST, True, 12)
    assert not vectors_pay(graphs.op, graphs.ptr, 100)
    monkeypatch.setitem(spectra.LONGEST, True, 13)
    monkeypatch.setattr(spectra, "MOST", 4 * 13**2 - 1)
    assert not vectors_pay(graphs.op, graphs.ptr, 100)


def test_very_small_graphs_keep_the_recursion_on_a_processor() -> None:
    graphs = make([11] * 4)
    assert not vectors_pay(graphs.op, graphs.ptr, 100)
