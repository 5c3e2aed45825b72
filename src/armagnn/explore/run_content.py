"""What the layers of a trained run do, as the explorer's run view takes it."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.explore.filter_content import filter_content
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
