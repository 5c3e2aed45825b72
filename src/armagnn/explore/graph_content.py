"""Graphs with a signal, as the explorer's signal view takes them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from armagnn.checks import instance, real_tensor
from armagnn.errors import DTypeError, GraphError, ShapeError, shown
from armagnn.operators import GraphOperator

MOST_NODES: Final = 5000
"""Of a larger graph the page would be slow to open, and no picture could show its nodes."""
KINDS: Final = ("arma", "gcn")


def graph_contents(graphs: Mapping[str, tuple[GraphOperator, Any, Any]]) -> list[dict[str, Any]]:
    """Return graphs as the explorer takes them; ``graphs`` maps a name to an operator, a signal (N) and places (N, 2).

    Example:
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> (path,) = graph_contents({"a path": (op, [1.0, 0.0, 2.0], [[0, 0], [1, 0], [2, 0]])})
        >>> path["name"], path["size"]
        ('a path', 3)
    """
    instance("graphs", graphs, Mapping, "a mapping from names to (operator, signal, places)")
    return [_content(str(name), each) for name, each in graphs.items()]


def _content(name: str, parts: Any) -> dict[str, Any]:
    if not isinstance(parts, tuple) or len(parts) != 3:
        raise DTypeError(f"graphs[{name!r}] must be (operator, signal, places), got {shown(parts)}.")
    op = instance(f"the operator of {name!r}", parts[0], GraphOperator, "a GraphOperator")
    size = op.num_nodes
    if not 0 < size <= MOST_NODES:
        raise GraphError(f"{name!r} has {size} nodes; the explorer shows graphs of 1 to {MOST_NODES}.")
    if op.kind not in KINDS:
        raise GraphError(f"{name!r} is an operator of kind {op.kind!r}; filters act on kind 'arma'.")
    op.require_symmetric("the explorer")
    x, places = (_array(f"{what} of {name!r}", part) for what, part in zip(("x", "places"), parts[1:], strict=True))
    if x.shape != (size,) or places.shape != (size, 2):
        raise ShapeError(
            f"{name!r} has {size} nodes: the signal must have the shape ({size},) and the places ({size}, 2), "
            f"got {x.shape} and {places.shape}."
        )
    matrix = op.to("cpu").to(torch.float64).to_scipy().tocoo()
    once = matrix.row <= matrix.col
    low = places.min(0)
    # screens count y from the top
    place = (places - low) / ((places.max(0) - low).max() or 1.0)
    place[:, 1] = place[:, 1].max() - place[:, 1]
    return {
        "name": name,
        "note": f"{size} nodes, {op.nnz} entries of the operator.",
        "size": size,
        "rows": _packed(matrix.row[once], "<u2"),
        "columns": _packed(matrix.col[once], "<u2"),
        "values": _packed(matrix.data[once], "<f8"),
        "x": _packed(x, "<f4"),
        "pos": _packed(place * 65535, "<u2"),
        "noise": float(0.5 * x.std()),
    }


def _array(name: str, values: Any) -> npt.NDArray[Any]:
    tensor = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values, dtype=np.float64))
    array: npt.NDArray[Any] = real_tensor(name, tensor, "(...)").detach().cpu().double().numpy()
    if not np.isfinite(array).all():
        raise DTypeError(f"{name} must hold finite numbers.")
    return array


def _packed(values: npt.NDArray[Any], dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode()
