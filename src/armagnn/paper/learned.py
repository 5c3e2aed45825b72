"""What every stack of every layer of a trained run does to the spectrum (``armagnn figure learned RUN``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.data import NodeDataset, load
from armagnn.errors import GraphError, RunError
from armagnn.nn.stack import Stack
from armagnn.operators import CSR
from armagnn.solvers.eigen import MAX_NODES
from armagnn.spectral import band_response, empirical_gain, empirical_response, spectrum, stack_outputs
from armagnn.spectral.plot import new_figure, plot_response, scatter_response
from armagnn.training import Run, build_network
from armagnn.training.trials import seeded

BANDS: Final = 25


@dataclass(frozen=True, eq=False)
class StackResponse:
    """What one stack does to its layer's input, at the frequencies ``mu`` (N).

    Attributes:
        layer: the name of the layer, e.g. "conv1".
        stack: its number from 1, or 0 for the mean of the stacks, which is the layer's output.
        response: Eq. 20, shape (N), NaN where the input is silent.
        bands: middles of bands of ``mu``, and Eq. 20 fitted to each.
        gain: the ratio of energies, shape (N), which does not cancel between features of either sign.
    """

    layer: str
    stack: int
    response: Tensor
    bands: tuple[Tensor, Tensor]
    gain: Tensor

    @property
    def title(self) -> str:
        """What it is called in the figure."""
        return f"{self.layer}, " + (f"stack {self.stack}" if self.stack else "output")


def learned_responses(run: Run) -> tuple[Tensor, list[StackResponse]]:
    """Return the frequencies ``mu`` of the run's graph and what every stack of every layer does to its own input.

    The weights are those of the trial that is best on validation; the graph is that of the run's dataset, of several
    those of the test. Layers that have no stacks, as GCN and Chebyshev, are one; layers in one place of the network are
    taken one by one.
    """
    weights = run.weights()
    dataset = load(run.config.dataset)
    if dataset.sha256 != run.dataset_sha256:
        raise RunError(f"{run.path}: was trained on another file of dataset {run.config.dataset!r}.")
    if dataset.graph is not None:
        dataset = dataset.part("test")
    if dataset.num_nodes > MAX_NODES:
        raise GraphError(
            f"{dataset.name} has {dataset.num_nodes} nodes: all its frequencies are out of reach, {MAX_NODES} nodes "
            "being the most. Look at a run on a smaller graph."
        )
    with seeded(run.config.seed):
        net = build_network(run.config, dataset).eval()
    net.load_state_dict(weights)
    return responses_of(net, dataset)


def responses_of(net: Any, dataset: NodeDataset) -> tuple[Tensor, list[StackResponse]]:
    """Return the frequencies and what every stack of a `NodeNet` does to its layer's input."""
    mu, U = spectrum(dataset.operator(dtype=torch.float64))
    x: Tensor | CSR = dataset.x
    found = []
    for name, layer in _layers(net):
        op = layer.operator(dataset.edge_index, dataset.num_nodes)
        stacks = stack_outputs(layer, x, op)
        outputs = list(enumerate(stacks, 1)) if len(stacks) > 1 else []
        with torch.no_grad():
            output = layer(x, op)
        for stack, y in [*outputs, (0, output)]:
            found.append(
                StackResponse(
                    name,
                    stack,
                    empirical_response(U, x, y),
                    band_response(mu, U, x, y, BANDS),
                    empirical_gain(U, x, y),
                )
            )
        x = output
    return mu, found


def _layers(net: Any) -> list[tuple[str, Any]]:
    """The layers of a network in their order, those in one place one by one."""
    found = []
    for name in ("conv1", "conv2"):
        conv = getattr(net, name)
        if isinstance(conv, Stack):
            found += [(f"{name}.{depth}", layer) for depth, layer in enumerate(conv, 1)]
        else:
            found.append((name, conv))
    return found


def draw_learned(mu: Tensor, responses: Sequence[StackResponse], title: str) -> Any:
    """One row of panels per layer: its stacks, then its output."""
    layers = list(dict.fromkeys(each.layer for each in responses))
    columns = max(sum(each.layer == layer for each in responses) for layer in layers)
    figure, axes = new_figure(3.4 * columns + 0.4, 2.6 * len(layers) + 0.5, len(layers), columns)
    for place in axes.ravel():
        place.set_visible(False)
    for row, layer in enumerate(layers):
        for column, each in enumerate(each for each in responses if each.layer == layer):
            place = axes[row, column]
            place.set_visible(True)
            scatter_response(place, mu, each.response, color="tab:grey", alpha=0.25)
            plot_response(place, *each.bands, color="tab:blue", label="h̃ (Eq. 20), in bands")
            middles, gain = _in_bands(mu, each.gain)
            plot_response(place, middles, gain, color="tab:red", label="gain of energy, in bands")
            place.axhline(0, color="black", linewidth=0.5)
            place.set_ylim(*_limits(each.bands[1], gain))
            place.set_title(each.title, fontsize=10)
            place.set_xlabel("λ = 1 − μ", fontsize=9)
    axes[0, 0].legend(fontsize=7)
    figure.suptitle(title, fontsize=11)
    return figure


def _in_bands(mu: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The median of what is known in each band of ``mu``."""
    middles = (torch.arange(BANDS, dtype=mu.dtype) + 0.5) * 2.0 / BANDS - 1.0
    band = ((mu + 1.0) / 2.0 * BANDS).long().clamp(0, BANDS - 1)
    silent = values.new_tensor(torch.nan)
    return middles, torch.stack([torch.cat([values[band == b], silent.view(1)]).nanmedian() for b in range(BANDS)])


def _limits(*lines: Tensor) -> tuple[float, float]:
    """Limits that show the lines in full, whatever single frequencies do."""
    values = torch.cat([line[line.isfinite()] for line in lines])
    low, high = min(0.0, values.min().item()), max(0.0, values.max().item())
    margin = 0.25 * (high - low or 1.0)
    return low - margin, high + margin
