"""Claims: skip dropout makes the stacks differ, and weight decay takes the place of ||W|| < 1 (Section 4.1).

The paper's network on Cora with K = 3 stacks of T = 2 steps (with T = 1 a stack has no W), all else as in the paper.
The stacks of the first layer are compared by the cosine of their outputs (1: the same), by linear CKA (1: the same up
to a rotation), and by how far their gains over frequency lie apart. Spectral norms are looked at every 10 epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.spectral import spectrum, stack_outputs
from armagnn.spectral.plot import new_figure
from armagnn.training.outcome import Setting
from armagnn.training.trials import Trials
from armagnn_paper.claims_rows import ClaimRow, Measurement, draw_line, line_of
from armagnn_paper.claims_training import accuracy, config, cora, restored, train_all

SKIP_RATES: Final = (0.0, 0.5, 0.75)
DECAYS: Final = (0.0, 5e-4)
BANDS: Final = 20
EPOCHS: Final = 400


def diversity_jobs() -> list[Measurement]:
    """All skip rates train as one batch."""
    return [Measurement({"method": "arma"}, measure_diversity)]


def norm_jobs() -> list[Measurement]:
    """Both decays train as one batch."""
    return [Measurement({"method": "arma"}, measure_norms)]


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
    """Train with and without L2 for so many epochs, and keep the spectral norms of all W_k, layer by layer."""
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
            levels, mean, deviation = line_of(rows, "largest norm", "arma", f"layer {layer}, L2 {l2:g}")
            epochs = [int(level) for level in levels]
            place.plot(epochs, mean, color=colour, label="no weight decay" if l2 == 0 else f"L2 {l2:g}")
            band = [(m - d, m + d) for m, d in zip(mean, deviation, strict=True)]
            place.fill_between(epochs, [low for low, _ in band], [high for _, high in band], color=colour, alpha=0.15)
        place.axhline(1, color="black", linestyle="--", linewidth=0.8)
        place.set(xlabel="epoch", title=f"largest ‖W_k‖₂ of layer {layer}")
    axes[0, 0].set_ylim(bottom=0)
    axes[0, 0].legend(fontsize=9)
    return figure
