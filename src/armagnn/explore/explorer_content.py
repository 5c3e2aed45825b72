"""What the explorer's page is given: the layers of a trained run, filters, and graphs with a signal."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from armagnn.checks import instance, real_tensor
from armagnn.errors import DTypeError, GraphError, ShapeError, shown
from armagnn.explore.learned import BANDS, Subject, single_layers, subject_of
from armagnn.filters import ARMAFilter
from armagnn.nn import ARMAConv
from armagnn.operators import CSR, GraphOperator
from armagnn.spectral import band_response, empirical_gain, empirical_response, spectrum, stack_outputs
from armagnn.training.run_folder import Run

POINTS: Final = 400
"""Single frequencies that are drawn of a response: more would only be a cloud."""


def run_content(run: Run) -> dict[str, Any]:
    """Return the layers of a finished run: responses, energies, norms and, of convergent layers, residuals."""
    config = run.config
    facts = [["task", config.kind], ["data", config.source], ["trials", str(len(run.finished_seeds))]]
    return {"title": config.title, "facts": facts, "layers": layer_contents(subject_of(run))}


@torch.no_grad()
def layer_contents(subject: Subject) -> list[dict[str, Any]]:
    """Return what every stack of every layer does to its layer's input, in lists of numbers; NaN becomes None."""
    graph = subject.edge_index, subject.num_nodes, subject.edge_weight
    mu, U = spectrum(GraphOperator.from_edge_index(*graph, dtype=torch.float64))
    x, found = subject.x, []
    for name, layer in single_layers(subject.layers):
        stacks = stack_outputs(layer, x, layer.operator(*graph))
        output = stacks.mean(0)
        several = len(stacks) > 1
        views = [*(enumerate(stacks, 1) if several else ()), (0, output)]
        found.append(
            {
                "name": name,
                "kind": repr(layer),
                "energy": {"lambda": _middles(), "before": _energy(mu, U, x), "after": _energy(mu, U, output)},
                "stacks": [_stack(number, mu, U, x, y) for number, y in views],
                **_theorem(layer),
                **_filter(layer),
            }
        )
        x = output
    return found


def _stack(number: int, mu: Tensor, U: Tensor, x: Tensor | CSR, y: Tensor) -> dict[str, Any]:
    middles, bands = band_response(mu, U, x, y, BANDS)
    response = empirical_response(U, x, y)
    gain = empirical_gain(U, x, y)
    some = torch.linspace(0, len(mu) - 1, min(POINTS, len(mu))).round().long()
    return {
        "title": f"stack {number}" if number else "output",
        "lambda": _listed(1 - middles),
        "response": _listed(bands),
        "gain": _listed(_medians(mu, gain)),
        "points": {"lambda": _listed(1 - mu[some]), "response": _listed(response[some])},
    }


def _theorem(layer: Any) -> dict[str, Any]:
    """Return the norms of W_k, each step's largest, and of a layer that was iterated until it converged the residuals.

    Theorem 1 asks for a norm below 1.
    """
    if not isinstance(layer, ARMAConv) or layer.weight is None:
        return {}
    weight = layer.weight if layer.fixed_point is None else layer.bounded_weight.unsqueeze(0)
    norms = torch.linalg.matrix_norm(weight.double(), 2).amax(0)
    found: dict[str, Any] = {"norms": _listed(norms)}
    if layer.statistics is not None:
        found["residuals"] = [[float(f"{each:.4g}") for each in trace] for trace in layer.statistics.residuals]
    return found


def _filter(layer: Any) -> dict[str, Any]:
    """Return the filter that the layer is, if it is one, as `RationalConv` is."""
    made = layer.filter() if callable(getattr(layer, "filter", None)) else None
    return {} if not isinstance(made, ARMAFilter) else {"filter": filter_content(made)}


def _middles() -> list[float | None]:
    return _listed((torch.arange(BANDS, dtype=torch.float64) + 0.5) * (2 / BANDS))


def _bands(mu: Tensor) -> Tensor:
    """Return the number of the band of lambda of every frequency."""
    return ((1 - mu) / 2 * BANDS).long().clamp(0, BANDS - 1)


def _energy(mu: Tensor, U: Tensor, x: Tensor | CSR) -> list[float | None]:
    """Return the energy of a signal in each band of lambda, as a share of all of it."""
    dense = x.to_dense() if isinstance(x, CSR) else x
    energy = (U.mT @ dense.to(U.dtype)).square().sum(-1)
    found = torch.zeros(BANDS, dtype=energy.dtype).index_add(0, _bands(mu), energy)
    return _listed(found / found.sum().clamp_min(torch.finfo(found.dtype).tiny))


def _medians(mu: Tensor, values: Tensor) -> Tensor:
    """Return the median of what is known in each band of ``mu``, in the order of `band_response`."""
    band = ((mu + 1) / 2 * BANDS).long().clamp(0, BANDS - 1)
    silent = values.new_tensor([torch.nan])
    return torch.stack([torch.cat([values[band == b], silent]).nanmedian() for b in range(BANDS)])


def _listed(values: Tensor) -> list[float | None]:
    """Return numbers with five digits, None for what is not finite."""
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in values.double().tolist()]


# -------------------------------------------------------------------------------------------------------------- filters


def filter_content(filter: ARMAFilter | None) -> dict[str, Any]:
    """Return a filter as the explorer takes it: real and imaginary parts of a and b.

    Example:
        >>> filter_content(ARMAFilter(a=[0.9], b=[0.1]))
        {'a': [[0.9, 0.0]], 'b': [[0.1, 0.0]]}
    """
    if filter is None:
        return {}
    instance("filter", filter, ARMAFilter, "an ARMAFilter")
    return {"a": _parts(filter.a), "b": _parts(filter.b)}


def _parts(values: Tensor) -> list[list[float]]:
    parts: list[list[float]] = torch.view_as_real(values.detach().cpu().to(torch.complex128)).tolist()
    return parts


# --------------------------------------------------------------------------------------------------------------- graphs


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
