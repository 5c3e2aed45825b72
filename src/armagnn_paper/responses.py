"""Figure 2: the empirical responses of two GCS stacks and of a stack of GCNs; and a sweep over gamma.

Two GCS stacks with one output, W = a and V = b 1 / F_in. (The paper writes V = b 1, but Eq. 20 takes the *mean* over
the F_in features of the input, so that V = b 1 gives F_in times the analytic response; hence the division.) The state
starts at X(0) = X V, that is W0 = a V, so that T steps sum the geometric series of Eq. 10 up to its term T,
b (1 + a mu + ... + (a mu)^T), which tends to Eq. 11's b / (1 - a mu). Features are Cora's words as 0 and 1; nothing is
negative, so ReLU lets everything pass, and the layers are as linear as their analysis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.checks import integer, real
from armagnn.data import NodeDataset
from armagnn.errors import GraphError, ParameterError, shown
from armagnn.filters import ARMAFilter, ChebyshevFilter
from armagnn.nn import ARMAConv, GCNConv
from armagnn.nn.layer_sequence import LayerSequence
from armagnn.operators import CSR
from armagnn.operators.extremes import extremal_eigenvalues
from armagnn.spectral import band_response, components, layer_response, spectrum, stack_outputs
from armagnn.spectral.plot import new_figure, plot_components, plot_response

STACKS: Final = ((0.99, 0.1), (0.7, 0.15))
"""a and b of the two GCS stacks."""
STEPS: Final = (1, 2, 3)
GAMMAS: Final = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
COLOURS: Final = ("tab:blue", "tab:orange", "tab:green")


@dataclass(frozen=True, eq=False)
class Panel:
    """One column of the figure: a layer with T = 1, 2, 3.

    Attributes:
        name: what it is.
        responses: by T, the empirical response at every frequency, shape (N).
        outputs: by T, the components of the output, shape (N).
        analytic: the response of the ARMA_1 filter that the stack tends to, if it is one.
    """

    name: str
    responses: Mapping[int, Tensor]
    outputs: Mapping[int, Tensor]
    analytic: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Figure2:
    """The numbers behind Figure 2: frequencies ``mu`` (N), components of the input (N), and three columns."""

    dataset: str
    mu: Tensor
    inputs: Tensor
    panels: Sequence[Panel]


@dataclass(frozen=True, eq=False)
class GammaSweep:
    """What gamma does to two GCN layers: responses in bands of ``mu``, and two numbers that say low-pass.

    Attributes:
        mu: middles of the bands.
        responses: by gamma, the response in each band, in the eigenbasis of L.
        lowest: by gamma, the smallest eigenvalue of the GCN's operator, -1 being the highest frequency.
        high_to_low: by gamma, the response of the highest tenth of the frequencies over that of the lowest tenth.
    """

    mu: Tensor
    responses: Mapping[float, Tensor]
    lowest: Mapping[float, float]
    high_to_low: Mapping[float, float]


def words(dataset: NodeDataset) -> CSR | Tensor:
    """The features in double precision; sparse ones as 0 and 1, which word is there and which is not."""
    x = dataset.x
    return x.with_value(torch.ones_like(x.value)).to(torch.float64) if isinstance(x, CSR) else x.double()


def check_single(dataset: NodeDataset) -> None:
    """Refuse what is no dataset of one graph."""
    if not isinstance(dataset, NodeDataset):
        raise ParameterError(f"dataset must be a NodeDataset, got {shown(dataset)}. Read one with armagnn.data.load.")
    if dataset.num_graphs > 1:
        raise GraphError(
            f"{dataset.name} has {dataset.num_graphs} graphs; the figure needs a dataset of one, as cora is."
        )


def gcs_stack(in_channels: int, a: float, b: float, steps: int) -> ARMAConv:
    """A GCS stack with one output, W = a, V = b 1 / F_in and X(0) = X V.

    Example:
        >>> gcs_stack(4, 0.9, 0.1, steps=2).weight.item()
        0.9
    """
    conv: ARMAConv = ARMAConv(in_channels, 1, num_layers=steps, bias=False).double()
    with torch.no_grad():
        conv.skip_weight.fill_(b / in_channels)
        conv.initial_weight.fill_(a * b / in_channels)
        if conv.weight is not None:
            conv.weight.fill_(a)
    return conv


def gcn_stack(in_channels: int, layers: int, gamma: float = 0.0) -> LayerSequence:
    """GCN layers with one output whose weights change nothing: the mean of the features, then 1."""
    stack = LayerSequence(GCNConv, in_channels, 1, layers, gamma=gamma, bias=False).double()
    with torch.no_grad():
        for layer in stack:
            layer.weight.fill_(1.0 / layer.in_channels)  # type: ignore[operator]
    return stack


def figure2(dataset: NodeDataset, steps: Sequence[int] = STEPS) -> Figure2:
    """Compute the numbers of Figure 2 on a dataset of one graph."""
    check_single(dataset)
    for t in steps:
        integer("steps", t, 1, 10_000)
    x, op = words(dataset), dataset.operator(dtype=torch.float64)
    mu, U = spectrum(op)
    width = dataset.num_features
    panels = []
    for number, (a, b) in enumerate(STACKS, 1):
        convs = {t: gcs_stack(width, a, b, t) for t in steps}
        analytic = ARMAFilter(a=[a], b=[b]).response(mu)
        panels.append(_panel(f"GCS stack {number}: a = {a:g}, b = {b:g}", convs, x, dataset.edge_index, U, analytic))
    gcns = {t: gcn_stack(width, t) for t in steps}
    panels.append(_panel("GCN stack, γ = 0", gcns, x, dataset.edge_index, U))
    return Figure2(dataset.name, mu, components(U, x), panels)


def _panel(
    name: str, convs: Mapping[int, Any], x: CSR | Tensor, edges: Tensor, U: Tensor, analytic: Tensor | None = None
) -> Panel:
    responses = {t: layer_response(conv, x, edges, U)[0] for t, conv in convs.items()}
    outputs = {t: components(U, stack_outputs(conv, x, edges)[0]) for t, conv in convs.items()}
    return Panel(name, responses, outputs, analytic)


def gamma_sweep(dataset: NodeDataset, gammas: Sequence[float] = GAMMAS, layers: int = 2) -> GammaSweep:
    """Measure GCN layers with self-loops of weight gamma in the eigenbasis of L.

    With gamma > 0 the operator of a GCN has other eigenvectors than L (unless all degrees are equal), so it is no
    filter in the sense of Eq. 1, and single frequencies scatter; bands show what it does on the whole.
    """
    check_single(dataset)
    for gamma in gammas:
        real("gamma", gamma, least=0.0)
    integer("layers", layers, 1, 1000)
    x = words(dataset)
    mu, U = spectrum(dataset.operator(dtype=torch.float64))
    before = components(U, x)
    low, high = mu >= mu.quantile(0.9), mu <= mu.quantile(0.1)
    responses, lowest, ratio = {}, {}, {}
    middles = mu
    for gamma in gammas:
        out = stack_outputs(gcn_stack(dataset.num_features, layers, gamma), x, dataset.edge_index)[0]
        middles, responses[gamma] = band_response(mu, U, x, out, bands=20)
        after = components(U, out)
        top, bottom = ((before[part] @ after[part]) / before[part].square().sum() for part in (high, low))
        ratio[gamma] = (top / bottom).item()
        lowest[gamma] = extremal_eigenvalues(dataset.operator("gcn", gamma=gamma, dtype=torch.float64))[0]
    return GammaSweep(middles, responses, lowest, ratio)


# ------------------------------------------------------------------------------------------------------------- pictures


def draw_figure2(data: Figure2) -> Any:
    """Figure 2 with the paper's panels: responses above (a, b, c), components of the signal below (d, e, f)."""
    figure, axes = new_figure(11, 6.2, 2, 3)
    order = data.mu.argsort()
    for column, panel in enumerate(data.panels):
        above, below = axes[0, column], axes[1, column]
        for colour, (t, h) in zip(COLOURS, panel.responses.items(), strict=False):
            plot_response(above, data.mu, h, color=colour, label=f"T = {t}")
        if panel.analytic is not None:
            plot_response(above, data.mu[order], panel.analytic[order], color="black", label="b / (1 − aμ)")
            top = max(float(h.nan_to_num().max()) for h in panel.responses.values())
            above.set_ylim(0, 1.6 * top)
        above.set_title(f"({'abc'[column]}) {panel.name}", fontsize=10)
        above.legend(fontsize=8, loc="upper right" if panel.analytic is not None else "upper center")
        above.set_xlabel("λ = 1 − μ")
        plot_components(below, data.mu, data.inputs, color="black", label="input X", linewidth=1.4)
        for colour, (t, c) in zip(COLOURS, panel.outputs.items(), strict=False):
            plot_components(below, data.mu, c, color=colour, label=f"T = {t}")
        below.set_title(f"({'def'[column]}) components of X and X̄", fontsize=10)
        below.set_xlabel("λ = 1 − μ")
        below.legend(fontsize=8, loc="lower left")
    axes[1, 1].sharey(axes[1, 0])
    axes[0, 0].set_ylabel("empirical response h̃ (Eq. 20)")
    axes[1, 0].set_ylabel("|component|, r.m.s. in bands")
    return figure


def draw_sweep(sweep: GammaSweep) -> Any:
    """What gamma does: responses of two GCN layers on the left, how low-pass they are on the right."""
    from matplotlib import colormaps

    figure, axes = new_figure(10, 3.6, 1, 2)
    left, right = axes[0]
    shades = colormaps["viridis"](torch.linspace(0, 0.9, len(sweep.responses)).tolist())
    for shade, (gamma, h) in zip(shades, sweep.responses.items(), strict=True):
        plot_response(left, sweep.mu, h, color=shade, marker=".", label=f"γ = {gamma:g}")
    left.set(xlabel="λ = 1 − μ", ylabel="response of two GCN layers", title="in bands, eigenbasis of L")
    left.legend(fontsize=8)
    gammas = list(sweep.high_to_low)
    right.plot(gammas, [sweep.high_to_low[g] for g in gammas], marker="o", label="response, highest / lowest tenth")
    right.plot(gammas, [sweep.lowest[g] for g in gammas], marker="s", label="smallest eigenvalue of Â")
    right.axhline(0, color="grey", linewidth=0.6)
    right.set(xlabel="γ, weight of the self-loops", title="how low-pass it is")
    right.legend(fontsize=8)
    return figure


def draw_design() -> Any:
    """The ideal low-pass filter, and what 8 coefficients make of it: rational (K = 4) and Chebyshev (degree 7)."""
    figure, axes = new_figure(6.5, 3.2)
    place, mu = axes[0, 0], torch.linspace(-1, 1, 1001, dtype=torch.float64)
    ideal = (mu >= 0).double()
    plot_response(place, mu, ideal, color="black", label="ideal low-pass")
    designs = (ARMAFilter.design("low-pass", order=4), ChebyshevFilter.design("low-pass", order=8))
    for name, colour, each in zip(("ARMA, K = 4", "Chebyshev, 8 terms"), COLOURS, designs, strict=False):
        h = each.response(mu)
        error = (h - ideal).square().mean().sqrt().item()
        plot_response(place, mu, h, color=colour, label=f"{name}: r.m.s. error {error:.2f}")
    place.set(xlabel="λ = 1 − μ", ylabel="response h")
    place.legend(fontsize=8)
    return figure
