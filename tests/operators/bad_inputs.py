"""Generated bad inputs, and what refuses them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from armagnn import CSR, GraphOperator
from armagnn.errors import (
    ArmagnnError,
    DTypeError,
)
from armagnn.operators.building import KINDS

GENERATED: Counter[str] = Counter()
"""How many bad inputs the tests of each file generate; each test checks that it reached its share."""


Check = Callable[..., None]


def bad_inputs(number: int, **strategies: st.SearchStrategy[Any]) -> Callable[[Check], Callable[[], None]]:
    """Run a check on this many generated inputs, all of them different, and fail if there were fewer."""

    def decorate(check: Check) -> Callable[[], None]:
        GENERATED[check.__module__] += number

        def test() -> None:
            count = 0

            def run(**drawn: Any) -> None:
                nonlocal count
                check(**drawn)
                count += 1

            run.__name__ = check.__name__
            settings(max_examples=number)(given(**strategies)(run))()
            assert count >= number, f"only {count} of {number} inputs were generated"

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate


def refused(error: type[ArmagnnError], names: str, call: Callable[[], Any]) -> str:
    """Check that the call raises exactly this error, that users can catch it as a built-in one, and what it says."""
    with pytest.raises(ArmagnnError) as caught:
        call()
    raised = caught.value
    assert type(raised) is error, f"{type(raised).__name__} instead of {error.__name__}: {raised}"
    assert isinstance(raised, TypeError if error is DTypeError else ValueError)
    assert re.search(names, str(raised)), f"{str(raised)!r} does not name {names!r}"
    return str(raised)


NODES = 5


node = st.integers(0, NODES - 1)


kinds = st.sampled_from(KINDS)


with_degrees = st.sampled_from(["arma", "gcn", "laplacian"])


RING = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])


FORMS: dict[str, Callable[[Tensor], Any]] = {
    "scipy": lambda a: scipy.sparse.coo_array(a.double().numpy()),
    "torch coo": lambda a: a.to_sparse_coo(),
    "torch csr": lambda a: a.to_sparse_csr(),
    "dense": lambda a: a,
    "numpy": lambda a: a.double().numpy(),
    "nested lists": lambda a: a.tolist(),
}


READERS = {"scipy": "from_scipy", "torch coo": "from_torch_sparse", "torch csr": "from_torch_sparse"}


forms = st.sampled_from(list(FORMS))


def read(form: str, matrix: Tensor, cls: type[CSR] = GraphOperator, **options: Any) -> CSR:
    built: CSR = getattr(cls, READERS.get(form, "from_dense"))(FORMS[form](matrix), **options)
    return built


def from_edges(index: Any, nodes: Any = NODES, weight: Any = None, **options: Any) -> GraphOperator:
    return GraphOperator.from_edge_index(index, nodes, weight, **options)


garbage = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=3),
    st.complex_numbers(),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.sampled_from([object(), np.zeros((2, 3), dtype=int), np.ones(4), torch.float32, int, len]),
)
"""Anything but a tensor, a matrix or a graph."""


not_finite = st.sampled_from([float("nan"), float("inf"), -float("inf")])


wrong_types = st.sampled_from([torch.float16, torch.complex64, torch.complex128, torch.int64, torch.int32, torch.bool])
