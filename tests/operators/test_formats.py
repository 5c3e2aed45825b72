"""A sparse matrix whose arrays lie meets a typed error before any kernel reads them: no foreign memory, no crash."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from armagnn import CSR, GraphOperator
from armagnn.errors import ArmagnnError, GraphError

FAR = 10**9
DENSE = np.array(
    [
        [0.0, 2.0, 0.0, 1.0, 0.0, 0.0],
        [2.0, 0.0, 3.0, 0.0, 0.0, 0.0],
        [0.0, 3.0, 0.0, 0.5, 0.0, 0.0],
        [1.0, 0.0, 0.5, 4.0, 0.0, 7.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 7.0, 0.0, 0.0],
    ]
)
BUILDERS = (CSR, GraphOperator)
FORMATS = ("csr", "csc", "bsr", "dia", "lil", "dok", "coo")


def stored(form: str) -> Any:
    matrix = scipy.sparse.csr_array(DENSE)
    return matrix.tobsr((2, 3)) if form == "bsr" else matrix.asformat(form)


POINTERS: dict[str, Callable[[Any], Any]] = {
    "falls": lambda p: p[::-1].copy(),
    "leads beyond the entries": lambda p: np.append(p[:-1], FAR),
    "leads beyond and returns": lambda p: np.insert(p[1:-1], 0, [0, FAR])[: len(p)],
    "is negative": lambda p: np.append(np.append(p[:1], -FAR), p[2:]),
    "does not start at zero": lambda p: np.append(p[:1] + 1, p[1:]),
    "is short": lambda p: p[:2],
    "is long": lambda p: np.append(p, p[-1]),
    "is empty": lambda p: p[:0],
    "has two axes": lambda p: p[None],
    "is no integer": lambda p: p + 0.5,
    "is missing": lambda p: None,
}


def refused(build: Callable[[Any], Any], matrix: Any) -> str:
    with pytest.raises(ArmagnnError) as caught:
        build(matrix)
    return str(caught.value)


# --------------------------------------------------------------------------------------------------------------- scipy


@pytest.mark.parametrize("cls", BUILDERS)
@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("how", POINTERS)
def test_a_pointer_of_scipy_that_lies(form: str, how: str, cls: type[CSR]) -> None:
    matrix = stored(form)
    matrix.indptr = POINTERS[how](matrix.indptr)
    assert "corrupt, build it again" in refused(cls.from_scipy, matrix)


def other_attributes(form: str) -> dict[str, Callable[[Any], None]]:
    def put(**values: Any) -> Callable[[Any], None]:
        return lambda matrix: [setattr(matrix, name, make(matrix)) for name, make in values.items()] and None

    changes = {
        "csr": {
            "far ids": put(indices=lambda m: m.indices + FAR),
            "negative ids": put(indices=lambda m: m.indices - FAR),
            "few ids": put(indices=lambda m: m.indices[:2]),
            "few values": put(data=lambda m: m.data[:2]),
            "a larger shape": put(_shape=lambda m: (10**6, 10**6)),
        },
        "dia": {
            "few offsets": put(offsets=lambda m: m.offsets[:1]),
            "many offsets": put(offsets=lambda m: np.arange(50)),
            "flat diagonals": put(data=lambda m: m.data.ravel()),
        },
        "lil": {
            "many values": put(data=lambda m: np.array([[1.0] * 10**5] * 6 + [None], dtype=object)[:6]),
            "few lists": put(rows=lambda m: m.rows[:2]),
            "far ids": put(rows=lambda m: np.array([[FAR]] + [[]] * 5, dtype=object)),
            "no list": put(rows=lambda m: np.array([None] * 6, dtype=object)),
            "words": put(rows=lambda m: np.array([["a", "b"], *m.rows[1:]], dtype=object)),
        },
        "dok": {
            "far ids": lambda m: m._dict.update({(FAR, 0): 1.0}),
            "words": lambda m: m._dict.update({"a": 1.0}),
            "a word as value": lambda m: m._dict.update({(0, 0): "x"}),
        },
        "coo": {
            "few values": put(data=lambda m: m.data[:2]),
            "few rows": put(coords=lambda m: (m.coords[0][:2], m.coords[1])),
            "three axes": put(coords=lambda m: (m.coords[0],) * 3),
            "fractions": put(coords=lambda m: (m.coords[0] + 0.5, m.coords[1])),
            "nothing": put(coords=lambda m: None),
        },
    }
    same = changes["csr"]
    changes |= {"csc": same, "bsr": same | {"blocks": put(data=lambda m: m.data[:, :1])}}
    return changes[form]


@pytest.mark.parametrize("cls", BUILDERS)
@pytest.mark.parametrize(
    ("form", "how"),
    [(f, how) for f in FORMATS for how in other_attributes(f)],
)
def test_any_other_attribute_that_lies(form: str, how: str, cls: type[CSR]) -> None:
    matrix = stored(form)
    other_attributes(form)[how](matrix)
    assert "corrupt, build it again" in refused(cls.from_scipy, matrix)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_of_scipy_is_read(form: str) -> None:
    np.testing.assert_array_equal(CSR.from_scipy(stored(form), torch.float64).to_dense().numpy(), DENSE)


def test_what_scipy_allows_is_read() -> None:
    matrix = scipy.sparse.csr_array(DENSE)
    matrix.indices = np.append(matrix.indices, [FAR, -FAR]).astype(np.int32)  # a tail that is not in use
    matrix.data = np.append(matrix.data, [np.nan, 1.0])
    np.testing.assert_array_equal(CSR.from_scipy(matrix, torch.float64).to_dense().numpy(), DENSE)
    matrix.indptr = list(matrix.indptr)
    np.testing.assert_array_equal(CSR.from_scipy(matrix, torch.float64).to_dense().numpy(), DENSE)


@given(st.sampled_from(["csr", "csc", "bsr"]), st.integers(0, 9), st.integers(-20, 20))
def test_one_number_of_a_pointer_changed(form: str, place: int, number: int) -> None:
    """It is read right, as another matrix that scipy allows, or refused."""
    matrix = stored(form)
    place %= len(matrix.indptr)
    assume(matrix.indptr[place] != number)
    matrix.indptr[place] = number
    pointer = matrix.indptr
    if pointer[0] == 0 and pointer[-1] <= len(matrix.indices) and np.all(np.diff(pointer) >= 0):
        assert np.array_equal(CSR.from_scipy(matrix, torch.float64).to_dense().numpy(), matrix.toarray())
    else:
        refused(CSR.from_scipy, matrix)


# --------------------------------------------------------------------------------------------------------------- torch


def compressed(layout: str) -> tuple[Tensor, Tensor, Tensor]:
    dense = torch.from_numpy(DENSE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if layout == "csr":
            m = dense.to_sparse_csr()
            return m.crow_indices(), m.col_indices(), m.values()
        if layout == "csc":
            m = dense.to_sparse_csc()
            return m.ccol_indices(), m.row_indices(), m.values()
        if layout == "bsr":
            m = dense.to_sparse_bsr((2, 3))
            return m.crow_indices(), m.col_indices(), m.values()
        m = dense.to_sparse_bsc((2, 3))
        return m.ccol_indices(), m.row_indices(), m.values()


def unchecked(layout: str, pointer: Tensor, index: Tensor, value: Tensor) -> Tensor | None:
    """Return the tensor, or None where torch itself refuses to make it."""
    kind = getattr(torch, f"sparse_{layout}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.sparse_compressed_tensor(
                pointer, index, value, size=(6, 6), layout=kind, check_invariants=False
            )
    except (RuntimeError, ValueError):
        return None


LAYOUTS = ("csr", "csc", "bsr", "bsc")


@pytest.mark.parametrize("cls", BUILDERS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("how", list(POINTERS)[:7])
def test_a_pointer_of_torch_that_lies(layout: str, how: str, cls: type[CSR]) -> None:
    pointer, index, value = compressed(layout)
    matrix = unchecked(layout, torch.from_numpy(np.array(POINTERS[how](pointer.numpy()))), index, value)
    if matrix is not None:
        assert "corrupt, build it again" in refused(cls.from_torch_sparse, matrix)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pointer_that_ends_before_the_entries(layout: str) -> None:
    pointer, index, value = compressed(layout)
    pointer = torch.minimum(pointer, pointer[-1] - 1)
    matrix = unchecked(layout, pointer, index, value)
    assert matrix is not None
    assert "corrupt, build it again" in refused(CSR.from_torch_sparse, matrix)


@pytest.mark.parametrize("cls", BUILDERS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wild", [FAR, -FAR, -1])
def test_an_id_of_torch_that_lies(layout: str, wild: int, cls: type[CSR]) -> None:
    pointer, index, value = compressed(layout)
    index = index.clone()
    index[0] = wild
    matrix = unchecked(layout, pointer, index, value)
    assert matrix is not None
    assert "corrupt, build it again" in refused(cls.from_torch_sparse, matrix)


def test_ids_of_coordinates_are_checked_before_they_are_merged() -> None:
    """(0, 6) of a 6 × 6 matrix would come out of `coalesce`, which a gradient needs, as (1, 0)."""
    index = torch.tensor([[0, 1], [6, 1]])
    value = torch.ones(2, requires_grad=True)
    matrix = torch.sparse_coo_tensor(index, value, (6, 6), check_invariants=False)
    with pytest.raises(GraphError, match="column ids outside 0 to 5"):
        GraphOperator.from_torch_sparse(matrix)


# --------------------------------------------------------------------------------------------------------- constructors


def parts() -> dict[str, Any]:
    a = CSR.from_dense(torch.from_numpy(DENSE))
    return {"rowptr": a.rowptr, "col": a.col, "value": a.value, "shape": a.shape, "transposed": a._structure()}


WRONG: dict[str, dict[str, Callable[[Any], Any]]] = {
    "rowptr": {
        "beyond": lambda v: torch.cat([v[:-1], torch.tensor([FAR], dtype=v.dtype)]),
        "falls": lambda v: v.flip(0),
        "short": lambda v: v[:-1],
        "wide": lambda v: v.long(),
        "none": lambda v: None,
    },
    "col": {
        "far": lambda v: v + FAR,
        "negative": lambda v: v - FAR,
        "short": lambda v: v[1:],
        "float": lambda v: v / 2,
    },
    "value": {"short": lambda v: v[1:], "complex": lambda v: v.cfloat(), "list": lambda v: v.tolist()},
    "shape": {
        "less": lambda v: (6, 2),
        "more": lambda v: (10**6, 6),
        "one": lambda v: (6,),
        "text": lambda v: "66",
        "negative": lambda v: (-6, 6),
    },
    "transposed": {
        "order": lambda v: (v[0], v[1], v[2] + FAR),
        "pointer": lambda v: (v[0] + 1, v[1], v[2]),
        "ids": lambda v: (v[0], v[1] - FAR, v[2]),
        "two": lambda v: v[:2],
        "text": lambda v: "abc",
    },
}


@pytest.mark.parametrize("cls", BUILDERS)
@pytest.mark.parametrize(("part", "how"), [(part, how) for part, ways in WRONG.items() for how in ways])
def test_constructors_check_their_arrays(part: str, how: str, cls: type[CSR]) -> None:
    good = parts()
    torch.testing.assert_close(cls(**good).to_dense(), torch.from_numpy(DENSE))
    with pytest.raises(ArmagnnError):
        cls(**good | {part: WRONG[part][how](good[part])})


def test_a_rectangle_is_not_symmetric() -> None:
    a = CSR.from_dense(torch.ones(2, 3))
    with pytest.raises(ArmagnnError, match="a symmetric matrix is square"):
        CSR(a.rowptr, a.col, a.value, a.shape, symmetric=True)
    with pytest.raises(ArmagnnError, match="an operator is square"):
        GraphOperator(a.rowptr, a.col, a.value, a.shape)
