"""Sums of filters, and odd arguments of every filter: one typed error, whatever a thing is."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.errors import ArmagnnError, DTypeError, UnknownNameError
from armagnn.filters import ARMAFilter, BoundFilter, CayleyFilter, GCNFilter, PolynomialFilter
from armagnn.spectral import spectral_density

mpl.use("Agg")

EDGE = torch.tensor([[0, 1], [1, 0]])


def test_sums_ragged_lists_and_unknown_methods() -> None:
    f, g = ARMAFilter([0.5], [0.5]), PolynomialFilter([0.5, 0.5])
    np.testing.assert_allclose(sum([f, g]).response([0.2]), f.response([0.2]) + g.response([0.2]))  # type: ignore[union-attr]
    with pytest.raises(DTypeError, match="list of numbers"):
        PolynomialFilter([[1.0], [1.0, 2.0]])
    with pytest.raises(UnknownNameError, match="exact"):
        f.bind(GraphOperator.from_edge_index(EDGE), "exactly")


class Hostile:
    """Whatever is asked of it, it raises something of its own."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise KeyError("hostile")


ODD: dict[str, Any] = {
    "text": "abc",
    "hostile": Hostile(),
    "nested": torch.nested.nested_tensor([torch.ones(1, 2), torch.ones(2, 2)]),
    "complex": torch.ones(3, 2).cfloat(),
    "a class": torch.Tensor,
}


@pytest.mark.parametrize("name", ODD)
def test_odd_arguments(name: str) -> None:
    odd, f, op, x = ODD[name], ARMAFilter([0.5], [1.0]), GraphOperator.from_edge_index(EDGE), torch.ones(2, 2)
    for call in (
        lambda: f.plot(color=odd),
        lambda: f.plot(mu=odd),
        lambda: f.plot(ax=odd),
        lambda: spectral_density(op).plot(color=odd),
        lambda: f.filter(op, x, tol=odd),
        lambda: f.filter(op, x, max_iter=odd),
        lambda: f.filter(op, x, statistics=odd),
        lambda: f.filter(op, x, statistics=()),
        lambda: CayleyFilter([1.0, 0.5]).filter(op, x, statistics=()),
        lambda: f.filter(op, x, "eigen", spectrum=odd),
        lambda: BoundFilter(odd, op),
        lambda: GCNFilter().on_regular(odd, 2.0),
        lambda: GCNFilter().on_regular(x, odd),
    ):
        with pytest.raises(ArmagnnError):
            call()


def test_frequencies_of_any_shape_are_drawn() -> None:
    for mu, count in ((0.5, 1), ([0.5, 0.7], 2), (torch.rand(2, 3, 2), 12)):
        marks = PolynomialFilter([0.5, 0.5]).plot(mu=mu).lines[1]
        assert len(marks.get_xdata()) == count  # type: ignore[arg-type]
