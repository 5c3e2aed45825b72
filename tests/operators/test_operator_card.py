"""What a notebook shows of a matrix and an operator."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch

from armagnn import CSR, GraphOperator
from armagnn.operators import grid, ring
from armagnn.operators.operator_card import operator_card


def table(text: str) -> dict[str, str]:
    found = ElementTree.fromstring(text)
    return {row[0].text or "": row[1].text or "" for row in found.iter("tr")}


def test_the_numbers_of_an_operator() -> None:
    op = grid(3, 3, dtype=torch.float64)[0]
    assert table(op._repr_html_()) == {
        "size": "9 nodes",
        "nonzeros": "24",
        "direction": "symmetric",
        "type": "float64 on cpu",
        "entries in a row": "2 to 4, mean 2.67",
    }
    heights = [float(bar.get("height", "")) for bar in ElementTree.fromstring(op._repr_html_()).iter("rect")]
    assert heights == [90.0, 90.0, 22.5]  # four corners, four sides, one middle
    assert "kind arma" in op._repr_html_()


def test_other_operators_and_matrices() -> None:
    edges = torch.tensor([[0, 1], [1, 2]])
    assert table(GraphOperator.from_edge_index(edges)._repr_html_())["direction"] == "directed"
    both = torch.tensor([[0, 1], [1, 0]])
    assert table(GraphOperator.from_edge_index(both, lambda_max=1.5)._repr_html_())["shift"] == "-0.25"
    matrix = table(CSR.from_dense(torch.ones(2, 3))._repr_html_())
    assert matrix["size"] == "2 × 3"
    assert "direction" not in matrix


def test_rows_of_one_length_need_no_picture() -> None:
    assert "<svg" not in ring(9)[0]._repr_html_()


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_no_rows_or_no_values_have_no_picture(device: str) -> None:
    op = GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 0)
    matrix = op if device == "cpu" else grid(3)[0].to(device)
    assert "<svg" not in operator_card(matrix)
