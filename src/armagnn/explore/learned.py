"""What every stack of every layer of a trained run does to the spectrum (``armagnn figure learned RUN``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.errors import GraphError, ParameterError
from armagnn.nn.layer_registry import LayerSequence
from armagnn.operators import CSR, GraphOperator
from armagnn.solvers.eigen import MAX_NODES
from armagnn.spectral import band_response, empirical_gain, empirical_response, spectrum, stack_outputs
from armagnn.spectral.plot import new_figure, plot_response, scatter_response
from armagnn.training.experiment import Experiment
from armagnn.training.graph_training import GraphsExperiment
from armagnn.training.node_training import NodesExperiment
from armagnn.training.run_folder import Run

BANDS: Final = 25
MOST_NODES: Final = 2000
"""The most nodes of test graphs that are looked at in a run on graphs; they are one graph of many components."""


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


@dataclass(frozen=True, eq=False)
class Subject:
    """Trained layers in their order, and what they are looked at on: features, edges, nodes and weights of edges."""

    layers: Sequence[tuple[str, Any]]
    x: Tensor | CSR
    edge_index: Tensor
    num_nodes: int
    edge_weight: Tensor | None = None


def learned_responses(run: Run, data: Any = None) -> tuple[Tensor, list[StackResponse]]:
    """Return the frequencies ``mu`` of the run's graph and what every stack of every layer does to its own input.

    The weights are those of the trial that is best on validation; the graph is that of the run's dataset, of several
    the first ones of the test. Layers that have no stacks, as GCN and Chebyshev, are one; layers in one place of the
    network are taken one by one. Data that were in memory are given as `data`.
    """
    return responses_of(subject_of(run, data))


def subject_of(run: Run, data: Any = None) -> Subject:
    """Return the trained layers of a run and what to look at them on; refuse a graph of too many frequencies."""
    experiment = run.config.experiment(data)
    net = experiment.trained(run)
    subject = _on_graphs(experiment, net) if isinstance(experiment, GraphsExperiment) else _on_nodes(experiment, net)
    if subject.num_nodes > MAX_NODES:
        raise GraphError(
            f"{run.config.source} has {subject.num_nodes} nodes: all its frequencies are out of reach, {MAX_NODES} "
            "nodes being the most. Look at a run on a smaller graph."
        )
    return subject


def _on_nodes(experiment: Experiment, net: Any) -> Subject:
    if not isinstance(experiment, NodesExperiment):
        raise ParameterError(
            f"A run on {experiment.config.kind} has no responses to show; take one on nodes or graphs."
        )
    data = experiment.dataset
    part = data if data.graph is None else data.part("test")
    if net.norms or net.residual or net.skips or net.jk != "none":
        raise ParameterError("A network with norms, residual connections or jk has no responses to show.")
    layers = [("conv1", net.conv1), *((f"middle.{n}", each) for n, each in enumerate(net.middle)), ("conv2", net.conv2)]
    return Subject(layers, part.x, part.edge_index, part.num_nodes, part.edge_weight)


def _on_graphs(experiment: GraphsExperiment, net: Any) -> Subject:
    dataset, test = experiment.dataset, experiment.fold().test
    sizes = (dataset.ptr[1:] - dataset.ptr[:-1])[test]
    shown = dataset.select(test[: max(1, int((sizes.cumsum(0) <= MOST_NODES).sum()))])
    layers = [(f"conv{number}", conv) for number, conv in enumerate(net.convs, 1)]
    return Subject(layers, experiment.description.features(shown), shown.edge_index, shown.num_nodes, shown.edge_weight)


def responses_of(subject: Subject) -> tuple[Tensor, list[StackResponse]]:
    """Return the frequencies and what every stack does to its layer's input."""
    graph = subject.edge_index, subject.num_nodes, subject.edge_weight
    mu, U = spectrum(GraphOperator.from_edge_index(*graph, dtype=torch.float64))
    x, found = subject.x, []
    for name, layer in single_layers(subject.layers):
        op = layer.operator(*graph)
        stacks = stack_outputs(layer, x, op)
        output = stacks.mean(0)
        for stack, y in [*(enumerate(stacks, 1) if len(stacks) > 1 else ()), (0, output)]:
            bands = band_response(mu, U, x, y, BANDS)
            response = StackResponse(name, stack, empirical_response(U, x, y), bands, empirical_gain(U, x, y))
            found.append(response)
        x = output
    return mu, found


def single_layers(places: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the layers in their order, those in one place one by one."""
    found = []
    for name, conv in places:
        if isinstance(conv, LayerSequence):
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
            middles, gain = in_bands(mu, each.gain)
            plot_response(place, middles, gain, color="tab:red", label="gain of energy, in bands")
            place.axhline(0, color="black", linewidth=0.5)
            place.set_ylim(*_limits(each.bands[1], gain))
            place.set_title(each.title, fontsize=10)
            place.set_xlabel("λ = 1 − μ", fontsize=9)
        axes[row, 0].set_ylabel("response h̃, and gain", fontsize=9)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9)
    figure.suptitle(title, fontsize=11)
    return figure


def in_bands(mu: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The median of what is known in each band of ``mu``."""
    middles = (torch.arange(BANDS, dtype=mu.dtype) + 0.5) * 2.0 / BANDS - 1.0
    band = ((mu + 1.0) / 2.0 * BANDS).long().clamp(0, BANDS - 1)
    silent = values.new_tensor(torch.nan)
    return middles, torch.stack([torch.cat([values[band == b], silent.view(1)]).nanmedian() for b in range(BANDS)])


def _limits(*lines: Tensor) -> tuple[float, float]:
    """Limits that show the lines in full, whatever single frequencies do."""
    values = torch.cat([lines[0].new_zeros(1), *(line[line.isfinite()] for line in lines)])
    low, high = values.min().item(), values.max().item()
    margin = 0.25 * (high - low or 1.0)
    return low - margin, high + margin
