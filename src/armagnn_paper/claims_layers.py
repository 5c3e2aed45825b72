"""Claims about what happens in a layer: many of them, the skip connections, and weight decay.

Depth (Section 4.2): the skip connections allow stacking many layers without over-smoothing. Both places of the paper's
network on Cora are made deeper together: T steps of ARMA (K = 2), T layers of GCN, or a Chebyshev filter that reaches T
hops (T + 1 terms, up to 16 hops: its weights grow with T). Only the input is dropped (0.5) so that depth is not
confused with a chain of dropouts; Adam, L2 5e-4, at most 200 epochs, patience 50 on validation loss. Smoothness is
measured on the hidden units H, the output of the first place: the Dirichlet energy tr(H'LH) / tr(H'H), the mean
frequency lambda in [0, 2], 0 being constant on every component (after D^-1/2); and the mean cosine distance between the
hidden vectors of two nodes, 0 if all point the same way.

Diversity and norms (Section 4.1): skip dropout makes the stacks differ, and weight decay takes the place of ||W|| < 1.
The paper's network on Cora with K = 3 stacks of T = 2 steps (with T = 1 a stack has no W), all else as in the paper.
The stacks of the first layer are compared by the cosine of their outputs (1: the same), by linear CKA (1: the same up
to a rotation), and by how far their gains over frequency lie apart. Spectral norms are looked at every 10 epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.operators import GraphOperator
from armagnn.spectral import spectrum, stack_outputs
from armagnn.spectral.plot import new_figure
from armagnn.tasks import NodeNet, conv_options
from armagnn.training.outcome import Setting
from armagnn.training.trials import Trials
from armagnn_paper.claims import (
    METHODS,
    Claim,
    ClaimRow,
    Measurement,
    accuracy,
    config,
    cora,
    draw_line,
    draw_methods,
    restored,
    train_all,
)

# ---------------------------------------------------------------------------------------------------------------- depth

DEPTHS: Final = (1, 2, 4, 8, 16, 32, 64)
MOST_HOPS: Final = {"arma": 64, "gcn": 64, "chebyshev": 16}
METRICS: Final = ("accuracy", "dirichlet", "distance")


class DeepNet(NodeNet):
    """The network of two places of which only the input is dropped, however many layers they hold."""

    def set_rates(self, input: float | Tensor, hidden: float | Tensor, skip: float | Tensor) -> None:
        """Set the drop rate of the input."""
        self.input_dropout, self.hidden_dropout = input, 0.0


def measure_depth(method: str, depth: int, runs: int, epochs: int = 200) -> list[ClaimRow]:
    """Train a method at a depth, and measure accuracy and smoothness."""
    dataset = cora()
    options = conv_options(method, depth + 1 if method == "chebyshev" else 2, depth)

    def build() -> NodeNet:
        return DeepNet(method, dataset.num_features, dataset.num_classes, options=options)

    settings = [Setting(seed, 0.01, 5e-4, (0.5, 0.0, 0.0)) for seed in range(runs)]
    outcomes = train_all(build, dataset, settings, epochs=epochs, patience=50)
    laplacian, rows = dataset.operator("laplacian"), []
    for run, outcome in enumerate(outcomes):
        net = restored(build, outcome)
        op = net.conv1.operator(dataset.edge_index, dataset.num_nodes)
        with torch.no_grad():
            hidden = net.conv1(dataset.x, op)
        values = (
            accuracy(net, dataset.x, op, dataset.y, dataset.test_idx),
            dirichlet_energy(laplacian, hidden),
            mean_distance(hidden),
        )
        rows += [
            ClaimRow(method, "depth", str(depth), run, metric, value)
            for metric, value in zip(METRICS, values, strict=True)
        ]  # fmt: skip
    return rows


def dirichlet_energy(laplacian: GraphOperator, h: Tensor) -> float:
    """Return tr(H'LH) / tr(H'H), the mean frequency lambda of a signal; NaN if it is zero.

    Example:
        >>> pair = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="laplacian")
        >>> dirichlet_energy(pair, torch.tensor([[1.0], [-1.0]])), dirichlet_energy(pair, torch.ones(2, 1))
        (2.0, 0.0)
    """
    energy = h.square().sum()
    return ((h * (laplacian @ h)).sum() / energy).item() if energy > 0 else torch.nan


def mean_distance(h: Tensor) -> float:
    """Return the mean of 1 - cos over all pairs of nodes whose vectors are not zero; NaN if there is none.

    Example:
        >>> mean_distance(torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))
        1.0
    """
    unit = h[h.norm(dim=1) > 0].double()
    count = len(unit)
    if count < 2:
        return torch.nan
    unit = unit / unit.norm(dim=1, keepdim=True)
    total: float = unit.sum(0).square().sum().item()  # of the cosines of all pairs, each with itself too
    return 1.0 - (total - count) / (count * (count - 1))


def draw_depth(rows: Sequence[ClaimRow]) -> Any:
    """Accuracy and smoothness against depth."""
    figure, axes = new_figure(11, 3.6, 1, 3)
    titles = ("test accuracy on Cora, %", "Dirichlet energy of the hidden units", "mean cosine distance of nodes")
    for place, metric, title in zip(axes[0], METRICS, titles, strict=True):
        draw_methods(place, rows, metric, "depth")
        place.set_xscale("log", base=2)
        place.set_xticks(DEPTHS, [str(depth) for depth in DEPTHS])
        place.set(xlabel="T, steps or layers in each of two places", title=title)
    axes[0, 0].legend(fontsize=9)
    return figure


DEPTH: Final = Claim(
    "depth",
    "Can GCS layers be stacked without over-smoothing?",
    [
        Measurement({"method": method, "level": str(depth)}, partial(measure_depth, method, depth))
        for depth in DEPTHS  # the shallow ones first
        for method in METHODS
        if depth <= MOST_HOPS[method]
    ],
    draw_depth,
)


# --------------------------------------------------------------------------------------------------------------- stacks

SKIP_RATES: Final = (0.0, 0.5, 0.75)
DECAYS: Final = (0.0, 5e-4)
BANDS: Final = 20
EPOCHS: Final = 400


def measure_diversity(runs: int, epochs: int = 2000) -> list[ClaimRow]:
    """Train at every skip rate, and compare the stacks of the first layer."""
    dataset, chosen = cora(), replace(config("arma"), stacks=3, layers=2, last_stacks=3)
    build = chosen.experiment(dataset).network
    mu, U = spectrum(dataset.operator(dtype=torch.float64))
    settings = [
        Setting(run, chosen.lr, chosen.l2, (chosen.input_dropout, chosen.hidden_dropout, rate))
        for rate in SKIP_RATES
        for run in range(runs)
    ]
    rows = []
    for setting, outcome in zip(settings, train_all(build, dataset, settings, epochs=epochs), strict=True):
        net = restored(build, outcome)
        op = net.conv1.operator(dataset.edge_index, dataset.num_nodes)
        found = compare_stacks(stack_outputs(net.conv1, dataset.x, op).double(), mu, U)
        found["accuracy"] = accuracy(net, dataset.x, op, dataset.y, dataset.test_idx)
        level = f"{setting.rates[2]:g}"
        rows += [
            ClaimRow("arma", "skip dropout", level, setting.seed, metric, value) for metric, value in found.items()
        ]
    return rows


def compare_stacks(outputs: Tensor, mu: Tensor, U: Tensor) -> dict[str, float]:
    """Return the mean over all pairs of stacks of "cosine", "cka" and "response", from outputs of shape (K, N, F).

    "response" is the root mean square difference between the gains in bands of frequency, each divided by its mean.
    """
    gains = torch.stack([_band_gain(output, mu, U) for output in outputs])
    values: dict[str, list[float]] = {"cosine": [], "cka": [], "response": []}
    for i, j in combinations(range(len(outputs)), 2):
        one, other = outputs[i], outputs[j]
        values["cosine"].append(torch.cosine_similarity(one.flatten(), other.flatten(), dim=0).item())
        values["cka"].append(_cka(one, other))
        values["response"].append((gains[i] - gains[j]).square().mean().sqrt().item())
    return {name: sum(found) / len(found) for name, found in values.items()}


def _cka(one: Tensor, other: Tensor) -> float:
    one, other = one - one.mean(0), other - other.mean(0)
    sizes: float = ((one.T @ one).norm() * (other.T @ other).norm()).item()
    return float((one.T @ other).square().sum()) / sizes


def _band_gain(output: Tensor, mu: Tensor, U: Tensor) -> Tensor:
    """Return the root mean square of the output in bands of ``mu``, divided by its mean over the bands there are."""
    energy: Tensor = (U.T @ output).square().mean(1)
    band = ((mu + 1.0) / 2.0 * BANDS).long().clamp(0, BANDS - 1)
    total, count = torch.zeros(2, BANDS, dtype=energy.dtype).index_add(1, band, torch.stack([energy, energy * 0 + 1]))
    gain: Tensor = (total[count > 0] / count[count > 0]).sqrt()
    scaled: Tensor = gain / gain.mean()
    return scaled


def measure_norms(runs: int, epochs: int = EPOCHS) -> list[ClaimRow]:
    """Train with and without L2 for `epochs` epochs, and keep the spectral norms of all W_k, layer by layer."""
    dataset, chosen = cora(), replace(config("arma"), stacks=3, layers=2, last_stacks=3)
    rates = (chosen.input_dropout, chosen.hidden_dropout, chosen.skip_dropout)
    settings = [Setting(run, chosen.lr, l2, rates) for l2 in DECAYS for run in range(runs)]
    rows: list[ClaimRow] = []

    def look(trials: Trials) -> None:
        if not trials.settings or trials.done % 10:
            return
        for layer in (1, 2):
            name = f"conv{layer}.weight"
            weight = trials.params[name].detach().movedim(trials.axes[name], 0)  # (R, 1, K, F, F)
            norms = torch.linalg.matrix_norm(weight, ord=2).flatten(1)
            for setting, own in zip(trials.settings, norms.tolist(), strict=True):
                variable, level = f"layer {layer}, L2 {setting.l2:g}", str(trials.done)
                rows.append(ClaimRow("arma", variable, level, setting.seed, "largest norm", max(own)))
                rows.append(ClaimRow("arma", variable, level, setting.seed, "mean norm", sum(own) / len(own)))

    # more patience than epochs: nobody stops, and all are seen to the end
    build = chosen.experiment(dataset).network
    outcomes = train_all(build, dataset, settings, epochs=epochs, patience=epochs + 1, look=look)
    for setting, outcome in zip(settings, outcomes, strict=True):
        value = 100.0 * outcome.test["accuracy"]
        rows.append(ClaimRow("arma", f"L2 {setting.l2:g}", "best", setting.seed, "accuracy", value))
    return rows


def draw_diversity(rows: Sequence[ClaimRow]) -> Any:
    """Likeness of the stacks, distance of their gains, and accuracy, against the drop rate of the skip connections."""
    figure, axes = new_figure(11, 3.6, 1, 3)
    likeness, distance, right = axes[0]
    draw_line(likeness, rows, "cosine", "arma", "skip dropout", color="tab:blue", label="cosine of outputs")
    draw_line(likeness, rows, "cka", "arma", "skip dropout", color="tab:purple", label="linear CKA")
    likeness.set(ylim=(0, 1), title="likeness of two stacks (1: the same)")
    likeness.legend(fontsize=9)
    draw_line(distance, rows, "response", "arma", "skip dropout", color="tab:blue")
    distance.set(title="distance of their gains over frequency")
    draw_line(right, rows, "accuracy", "arma", "skip dropout", color="tab:blue")
    right.set(title="test accuracy on Cora, %")
    for place in axes[0]:
        place.set(xlabel="drop rate of the skip connections")
    return figure


def draw_norms(rows: Sequence[ClaimRow]) -> Any:
    """The largest spectral norm of the W_k of a layer, during training."""
    figure, axes = new_figure(10, 3.6, 1, 2, sharey=True)
    for place, layer in zip(axes[0], (1, 2), strict=True):
        for l2, colour in zip(DECAYS, ("tab:red", "tab:blue"), strict=True):
            label = "no weight decay" if l2 == 0 else f"L2 {l2:g}"
            draw_line(
                place, rows, "largest norm", "arma", f"layer {layer}, L2 {l2:g}", color=colour, label=label, marker=""
            )
        place.axhline(1, color="black", linestyle="--", linewidth=0.8)
        place.set(xlabel="epoch", title=f"largest ‖W_k‖₂ of layer {layer}")
    axes[0, 0].set_ylim(bottom=0)
    axes[0, 0].legend(fontsize=9)
    return figure


ARMA: Final = {"method": "arma"}  # all skip rates, and both decays, train as one batch
DIVERSITY: Final = Claim(
    "diversity",
    "Does dropout of the skip connections make the stacks differ?",
    [Measurement(ARMA, measure_diversity)],
    draw_diversity,
)
NORMS: Final = Claim("norms", "Does weight decay keep ‖W_k‖ below 1?", [Measurement(ARMA, measure_norms)], draw_norms)
