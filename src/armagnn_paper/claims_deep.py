"""Depth with norms and residual connections: L convolutions one after another on Cora.

The claim "depth" makes the paper's two layers deeper by more steps. Here the network has L convolutions (as in
``armagnn train --depth``) of ARMA (K = 2, T = 1), of rational filters (two poles, radius 0.5) or of GCN, 16 units, with
a norm or none, plain or with residual connections h + conv(h) / L. The protocol is
``docs/paper/notes/depth-protocol.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.spectral.plot import new_figure
from armagnn.tasks import NodeNet, NodeTask, conv_options
from armagnn.training.outcome import Setting
from armagnn.training.trials import Trials
from armagnn_paper.claims import Claim, ClaimRow, Measurement, cora, draw_line, restored
from armagnn_paper.claims_layers import mean_distance
from armagnn_paper.summaries import LABELS

DEPTHS: Final = (2, 4, 8, 16, 32, 64)
DEEPEST: Final = {"arma": 64, "rational": 8, "gcn": 64}
"""The most convolutions that were paid: 20 products a layer make rational networks ten times as slow."""
METHODS: Final = {
    "arma": conv_options("arma", 2, 1),
    "rational": conv_options("rational", 2, 1) | {"radius": 0.5},
    "gcn": conv_options("gcn", 1, 1),
}
"""The options of the convolutions, by method."""

FORMS: Final = {
    f"{name}, {'residual / L' if residual else 'plain'}": (norm, residual)
    for residual in (False, True)
    for norm, name in (("none", "no norm"), ("batch", "batch norm"), ("layer", "layer norm"))
}
"""Norm, and whether there are residual connections."""

COLOURS: Final = {"none": "tab:blue", "batch": "tab:orange", "layer": "tab:green"}
EPOCHS: Final = 1000


def network(method: str, form: str, depth: int) -> NodeNet:
    """A network of `depth` convolutions in a form, with new weights.

    Example:
        >>> net = network("gcn", "batch norm, residual / L", 4)
        >>> len(net.convs), net.residual, net.scale
        (4, True, 0.25)
    """
    data, (norm, residual) = cora(), FORMS[form]
    return NodeNet(
        method, data.num_features, data.num_classes, options=METHODS[method], depth=depth, norm=norm,
        residual=residual, residual_scale=1 / depth,
    )  # fmt: skip


def measure_deep(method: str, form: str, depth: int, device: str, runs: int, epochs: int = EPOCHS) -> list[ClaimRow]:
    """Train networks of that depth, and measure accuracy on validation and test data, and how far nodes stay apart."""
    data = cora()
    build = partial(network, method, form, depth)
    settings = [Setting(seed, 0.01, 5e-4, (0.5, 0.5, 0.0)) for seed in range(runs)]
    task = NodeTask(data.to(device), build().to(device))
    trials = Trials(build, task, settings, epochs=epochs, patience=100, stop_on="loss", device=device)
    rows = []
    for outcome in sorted(trials.run(), key=lambda outcome: outcome.setting.seed):
        net = restored(build, outcome)
        found = {
            "validation accuracy": 100 * outcome.val["accuracy"],
            "accuracy": 100 * outcome.test["accuracy"],
            "distance": mean_distance(last_hidden(net)),
        }
        rows += [
            ClaimRow(method, form, str(depth), outcome.setting.seed, metric, value) for metric, value in found.items()
        ]
    return rows


def last_hidden(net: NodeNet) -> Tensor:
    """The units of all nodes of Cora that the last convolution is given, in evaluation."""
    data, seen = cora(), list[Tensor]()
    last = net.convs[-1]
    hook = last.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    with torch.no_grad():
        net(data.x, net.conv1.operator(data.edge_index, data.num_nodes))
    hook.remove()
    return seen[0]


def draw_deep(rows: Sequence[ClaimRow]) -> Any:
    """Test accuracy against depth, a panel for each method."""
    figure, axes = new_figure(11, 3.8, 1, 3, sharey=True)
    for place, method in zip(axes[0], METHODS, strict=True):
        for form, (norm, residual) in FORMS.items():
            if any((row.method, row.variable) == (method, form) for row in rows):
                style = {"color": COLOURS[norm], "linestyle": "-" if residual else ":", "label": form}
                draw_line(place, rows, "accuracy", method, form, **style)
        place.set_xscale("log", base=2)
        place.set_xticks(DEPTHS, [str(depth) for depth in DEPTHS])
        place.set(xlabel="convolutions", title=LABELS[method])
    axes[0, 0].set_ylabel("test accuracy on Cora, %")
    axes[0, 1].legend(fontsize=8, loc="upper right")  # rational networks end early: there is room
    return figure


def jobs_on(device: str) -> list[Measurement]:
    """What is to be measured, trained on a device; the shallow networks first."""
    return [
        Measurement(
            {"method": method, "variable": form, "level": str(depth)},
            partial(measure_deep, method, form, depth, device),
        )
        for depth in DEPTHS
        for form in FORMS
        for method in METHODS
        if depth <= DEEPEST[method]
    ]


DEEP: Final = Claim(
    "deep", "Do norms and residual connections keep 2 to 64 layers trainable?", jobs_on("cpu"), draw_deep, jobs_on
)
