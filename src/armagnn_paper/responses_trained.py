"""Figure 3: non-linear ARMA layers with K = 3 stacks, trained to be a high-pass and a band-pass filter.

The input is one signal, the mean of every other word of Cora, scaled to a root mean square of 1. A layer with 16
outputs, T = 5 steps and leaky ReLU after every one of them learns by Adam that its empirical response (Eq. 20) follows
a target; frequencies count alike, but for those of which the signal has next to nothing. ReLU itself cannot: its
outputs are never negative, and so neither is their mean, of which the lowest frequency cannot be taken away. The mean
of the other half of the words, which training has not seen, tells a filter from a layer that has learned one signal by
heart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.checks import choice, integer
from armagnn.data import NodeDataset
from armagnn.kernels.random import seeded
from armagnn.nn import ARMAConv
from armagnn.operators import CSR, GraphOperator
from armagnn.spectral import band_response, components, empirical_response, spectrum
from armagnn.spectral.plot import new_figure, plot_components, plot_response, scatter_response
from armagnn_paper.responses import check_single, words

TARGETS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "high-pass": lambda mu: torch.sigmoid(-6.0 * mu),
    "band-pass": lambda mu: torch.exp(-6.0 * mu.square()),
}
"""The wanted responses, as functions of mu = 1 - lambda."""

STACKS: Final = 3
WIDTH: Final = 16
STEPS: Final = 5
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
        conv = ARMAConv(1, WIDTH, num_stacks=STACKS, num_layers=STEPS, act="leaky_relu")
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
    return TrainedFilter(
        name,
        conv,
        mu,
        target,
        response,
        (middles, found["seen"], found["unseen"]),
        (before, components(U, outputs["seen"])),
        (response - target).abs().nanmedian().item(),
        error,
    )


def figure3(dataset: NodeDataset, steps: int = 800) -> list[TrainedFilter]:
    """Train the two layers of Figure 3 on a dataset of one graph."""
    check_single(dataset)
    integer("steps", steps, 1)
    seen, unseen = signals(dataset)
    op = dataset.operator(dtype=torch.float64)
    return [train_filter(name, op, seen, unseen, steps=steps) for name in TARGETS]


def parameters(filters: list[TrainedFilter]) -> dict[str, Any]:
    """Errors and all parameters of the layers, as plain numbers: W0, W, V and the bias of every stack."""
    content: dict[str, Any] = {}
    for each in filters:
        stacks = []
        for k in range(each.conv.num_stacks):
            weight = each.conv.weight[0, k].detach()
            stacks.append(
                {
                    "norm of W": round(torch.linalg.matrix_norm(weight, ord=2).item(), 4),
                    "W": _rounded(weight),
                    "W0": _rounded(each.conv.initial_weight[0, k]),
                    "V": _rounded(each.conv.skip_weight[0, 0, k]),
                    "bias": _rounded(each.conv.bias[0, k]),
                }
            )
        errors = {"median error": each.median, "rms error in bands": dict(each.error)}
        content[each.name] = {"layer": repr(each.conv), **errors, "stacks": stacks}
    return content


def _rounded(values: Tensor) -> Any:
    return torch.round(values.detach().double(), decimals=4).tolist()


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
            f"({'ab'[column]}) {each.name}, K = {STACKS}: r.m.s. error {each.error['seen']:.3f}", fontsize=10
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
