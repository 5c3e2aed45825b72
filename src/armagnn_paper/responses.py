"""Figures 2 and 3: empirical responses of stacks whose parameters are given, and of trained layers; a sweep over gamma.

Figure 2: two GCS stacks with one output, W = a and V = b 1 / F_in, and a stack of GCNs. (The paper writes V = b 1, but
Eq. 20 takes the *mean* over the F_in features of the input, so that V = b 1 gives F_in times the analytic response;
hence the division.) The state starts at X(0) = X V, that is W0 = a V, so that T steps sum the geometric series of Eq.
10 up to its term T, b (1 + a mu + ... + (a mu)^T), which tends to Eq. 11's b / (1 - a mu). Features are Cora's words as
0 and 1; nothing is negative, so ReLU lets everything pass, and the layers are as linear as their analysis.

Figure 3: non-linear ARMA layers with K = 3 stacks, trained to be a high-pass and a band-pass filter. The input is one
signal, the mean of every other word of Cora, scaled to a root mean square of 1. A layer with 16 outputs, T = 5 steps
and leaky ReLU after every one of them learns by Adam that its empirical response (Eq. 20) follows a target; frequencies
count alike, but for those of which the signal has next to nothing. ReLU itself cannot: its outputs are never negative,
and so neither is their mean, of which the lowest frequency cannot be taken away. The mean of the other half of the
words, which training has not seen, tells a filter from a layer that has learned one signal by heart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.checks import choice, integer, real
from armagnn.data import NodeDataset
from armagnn.errors import GraphError, ParameterError, shown
from armagnn.filters import ARMAFilter, ChebyshevFilter
from armagnn.nn import ARMAConv, GCNConv
from armagnn.nn.layer_registry import LayerSequence
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.extremes import extremal_eigenvalues
from armagnn.randomness import seeded
from armagnn.spectral import band_response, components, empirical_response, layer_response, spectrum, stack_outputs
from armagnn.spectral.plot import new_figure, plot_components, plot_response, scatter_response

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
    from matplotlib import colormaps  # slow to import, and needed only here

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


# ------------------------------------------------------------------------------------------------------------- figure 3

TARGETS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "high-pass": lambda mu: torch.sigmoid(-6.0 * mu),
    "band-pass": lambda mu: torch.exp(-6.0 * mu.square()),
}
"""The wanted responses, as functions of mu = 1 - lambda."""

WIDTH: Final = 16
BANDS: Final = 20


@dataclass(frozen=True, eq=False)
class TrainedFilter:
    """A trained layer and the numbers of its panel; every tensor has one value per frequency ``mu``.

    Attributes:
        name: of the target.
        conv: the layer.
        mu: the frequencies.
        target: the wanted response.
        response: the empirical one, on the signal of the training.
        bands: middles of bands of ``mu`` and the response there, and on the signal that was not seen.
        components: of the input, and of the output.
        median: the median of abs(response - target) over the frequencies, on the signal of the training.
        error: root mean square difference to the target in the bands, by signal, "seen" and "unseen".
    """

    name: str
    conv: ARMAConv
    mu: Tensor
    target: Tensor
    response: Tensor
    bands: tuple[Tensor, Tensor, Tensor]
    components: tuple[Tensor, Tensor]
    median: float
    error: Mapping[str, float]


def signals(dataset: NodeDataset) -> tuple[Tensor, Tensor]:
    """The mean of every other feature, and that of the rest, each (N, 1) with a root mean square of 1."""
    x = words(dataset)
    dense = x.to_dense() if isinstance(x, CSR) else x
    means = [dense[:, start::2].mean(1, keepdim=True) for start in (0, 1)]
    seen, unseen = (mean / mean.square().mean().sqrt() for mean in means)
    return seen, unseen


def train_filter(
    name: str, op: GraphOperator, seen: Tensor, unseen: Tensor, *, seed: int = 0, steps: int = 800
) -> TrainedFilter:
    """Train an ARMA layer towards the target `name` on one signal, and measure it on both.

    Args:
        name: a name of `TARGETS`.
        op: the arma operator of the graph, in float64.
        seen: the signal to train on, (N, 1).
        unseen: another one to measure on, (N, 1).
        seed: of the initial weights.
        steps: of Adam.
    """
    mu, U = spectrum(op)
    target = TARGETS[choice("target", name, TARGETS)](mu)
    with seeded(seed):
        conv = ARMAConv(1, WIDTH, num_stacks=3, num_layers=5, act="leaky_relu")
    before = components(U, seen)
    # the square of the response's error, damped where the signal has less than a third of its median component
    weight = (1.0 / (before.square() + 0.1 * before.square().median())).float()
    wanted, basis = (target * before).float(), U.float()
    single, signal = op.to(torch.float32), seen.float()
    optimiser = torch.optim.Adam(conv.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, max(1, 4 * steps // 5), gamma=0.2)
    for _ in range(steps):
        optimiser.zero_grad()
        (((conv(signal, single).mean(1) @ basis) - wanted).square() * weight).mean().backward()
        optimiser.step()
        schedule.step()
    conv = conv.double()
    with torch.no_grad():
        outputs = {"seen": conv(seen, op), "unseen": conv(unseen, op)}
    response = empirical_response(U, seen, outputs["seen"])
    found, error = {}, {}
    middles = mu
    for which, signal in (("seen", seen), ("unseen", unseen)):
        middles, found[which] = band_response(mu, U, signal, outputs[which], BANDS)
        _, ideal = band_response(mu, U, signal, U @ (target[:, None] * (U.T @ signal)), BANDS)
        difference = (found[which] - ideal)[ideal.isfinite()]
        error[which] = difference.square().mean().sqrt().item()
    bands = middles, found["seen"], found["unseen"]
    median = (response - target).abs().nanmedian().item()
    after = components(U, outputs["seen"])
    return TrainedFilter(name, conv, mu, target, response, bands, (before, after), median, error)


def figure3(dataset: NodeDataset, steps: int = 800) -> list[TrainedFilter]:
    """Train the two layers of Figure 3 on a dataset of one graph."""
    check_single(dataset)
    integer("steps", steps, 1)
    seen, unseen = signals(dataset)
    op = dataset.operator(dtype=torch.float64)
    return [train_filter(name, op, seen, unseen, steps=steps) for name in TARGETS]


def parameters(filters: list[TrainedFilter]) -> dict[str, Any]:
    """Errors and all parameters of the layers, as plain numbers: W0, W, V and the bias of every stack."""
    return {
        each.name: {
            "layer": repr(each.conv),
            "median error": each.median,
            "rms error in bands": dict(each.error),
            "stacks": [_stack(each.conv, k) for k in range(each.conv.num_stacks)],
        }
        for each in filters
    }


def _stack(conv: ARMAConv, k: int) -> dict[str, Any]:
    found = {"W": conv.weight[0, k], "W0": conv.initial_weight[0, k]}
    found |= {"V": conv.skip_weight[0, 0, k], "bias": conv.bias[0, k]}
    norm = torch.linalg.matrix_norm(found["W"].detach(), ord=2).item()
    rounded = {name: torch.round(value.detach().double(), decimals=4).tolist() for name, value in found.items()}
    return {"norm of W": round(norm, 4)} | rounded


def draw_figure3(filters: list[TrainedFilter]) -> Any:
    """Figure 3: for each layer its response above, and what it made of the Fourier components below."""
    figure, axes = new_figure(9.5, 6, 2, len(filters))
    for column, each in enumerate(filters):
        above, below = axes[0, column], axes[1, column]
        scatter_response(above, each.mu, each.response, color="tab:blue", label="Eq. 20, each frequency")
        middles, seen, unseen = each.bands
        plot_response(above, each.mu, each.target, color="black", label="target")
        plot_response(above, middles, seen, color="tab:blue", label="in bands")
        plot_response(above, middles, unseen, color="tab:red", linestyle="--", label="in bands, unseen signal")
        above.set_ylim(-0.5, 1.6)
        above.set_title(
            f"({'ab'[column]}) {each.name}, K = {each.conv.num_stacks}: r.m.s. error {each.error['seen']:.3f}",
            fontsize=10,
        )
        above.set_xlabel("λ = 1 − μ")
        above.legend(fontsize=8, markerscale=4, loc="lower right" if column == 0 else "upper right")
        plot_components(below, each.mu, each.components[0], color="black", label="input X")
        plot_components(below, each.mu, each.components[1], color="tab:blue", label="output X̄")
        below.set_xlabel("λ = 1 − μ")
        below.legend(fontsize=8, loc="upper right")
    axes[0, 0].set_ylabel("empirical response h̃")
    axes[1, 0].set_ylabel("|component|, r.m.s. in bands")
    return figure
