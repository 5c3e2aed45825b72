"""What recorded code, which skips Python's checks, must not do: read foreign memory, or leave fake tensors behind."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from armagnn import CSR, GraphOperator
from armagnn.errors import GraphError, ShapeError
from armagnn.nn import ARMAConv

DIRECTED = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])


@pytest.mark.parametrize("wrong", [-1, 4, 10**6])
@pytest.mark.parametrize("end", [0, 1])
def test_ids_outside_the_matrix_are_refused_by_the_operator(wrong: int, end: int) -> None:
    index = DIRECTED.clone()
    index[end, 2] = wrong
    with pytest.raises(GraphError, match=rf"node {wrong}, but ids run from 0 to 3"):
        torch.ops.armagnn.sort_coo(*index, 4, 4)


def test_sizes_that_the_ids_cannot_name_are_refused_by_the_operator() -> None:
    with pytest.raises(GraphError, match=r"too large for ids of torch\.int32"):
        torch.ops.armagnn.sort_coo(*DIRECTED.int(), 4, 2**31)


@pytest.mark.parametrize("rows", [0, 3, 5])
def test_too_few_rows_are_refused_by_the_operators(rows: int) -> None:
    op, x = GraphOperator.from_edge_index(DIRECTED), torch.ones(rows, 2)
    with pytest.raises(ShapeError, match="4 rows"):
        torch.ops.armagnn.spmm(*op._arguments(), x)
    with pytest.raises(ShapeError, match="4 rows"):
        torch.ops.armagnn.gcs(*op._arguments(), x, None, None, None, 0.0, 0, "none", 0.0)


def test_compiled_code_does_not_crash_on_ids_that_do_not_exist() -> None:
    torch._dynamo.reset()
    compiled, x = torch.compile(ARMAConv(2, 3), fullgraph=True, backend="aot_eager"), torch.randn(4, 2)
    compiled(x, DIRECTED)
    with pytest.raises(GraphError, match="node 3000000"):
        compiled(x, DIRECTED * 10**6)


class Holder(torch.nn.Module):
    def __init__(self, op: CSR) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: Tensor) -> Tensor:
        return self.op @ x


def test_an_operator_that_was_part_of_an_export_still_works() -> None:
    op, x = GraphOperator.from_edge_index(DIRECTED), torch.randn(4, 2, requires_grad=True)
    program = torch.export.export(Holder(op), (x,))
    for out in (program.module()(x), op @ x):
        (found,) = torch.autograd.grad(out.square().sum(), x)
        torch.testing.assert_close(found, 2 * op.to_dense().t() @ (op.to_dense() @ x.detach()))
