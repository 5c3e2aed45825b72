"""Learning filters from pairs of images (``armagnn bench filter-learning``): which layer follows which response?

Every method is the same network: two places of convolutions with ReLU, then a linear map to one number a pixel. All
have about the same number of parameters, and each place reaches 4 hops: K = 2 stacks of T = 4 steps (ARMA), degree 4
(Chebyshev, polynomial), 4 layers (GCN); but Cayley, with degree 2 and 5 Jacobi iterations, reaches 12. The learning
rate is chosen for each method and filter by the validation error, with a seed that is not reported; nothing else is
tuned. Of each training the weights count that were best on validation.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from statistics import fmean, stdev
from typing import Any, Final

import torch
from rich.table import Table
from torch import Tensor, nn
from torch.nn.parameter import Parameter

from armagnn.bench.filter_images import RESPONSES, FilterData
from armagnn.checks import choice, integer
from armagnn.nn import make_conv
from armagnn.nn.conv import Conv, propagate, times
from armagnn.operators import CSR, GraphOperator
from armagnn.training.outcome import Outcome, Setting
from armagnn.training.trials import Trials

BUDGET: Final = 500
RATES: Final = (0.003, 0.01, 0.03)
SEEDS: Final = 5
TUNING_SEED: Final = 1000
EPOCHS: Final = 500
OPTIONS: Final[Mapping[str, Mapping[str, int]]] = {
    "arma": {"num_stacks": 2, "num_layers": 4},
    "chebyshev": {"order": 5},
    "gcn": {"num_layers": 4},
    "cayley": {"order": 2, "jacobi": 5},
    "polynomial": {"degree": 4},
}


class PolynomialConv(Conv):
    r"""The layer :math:`\sigma(\sum_{k=0}^K L^k X W_k + b)`: Eq. 3 with matrices for coefficients."""

    kind = "laplacian"

    def __init__(self, in_channels: int, out_channels: int, degree: int) -> None:
        super().__init__(in_channels, out_channels, "relu", 0.0, True)
        self.weight = Parameter(torch.empty(in_channels, degree + 1, out_channels))
        self.reset_parameters()

    def _filter(self, x: Tensor | CSR, op: GraphOperator | None) -> Tensor:
        assert op is not None
        assert isinstance(x, Tensor)
        terms = [x]
        for _ in range(self.weight.shape[1] - 1):
            terms.append(propagate(op, terms[-1]))
        return times(torch.stack(terms, -1).flatten(2), self.weight.flatten(0, 1))


class FilterNet(nn.Module):
    """y = linear(conv2(conv1(x))), with `hidden` units in both places."""

    def __init__(self, method: str, hidden: int) -> None:
        super().__init__()
        make: Callable[..., Any] = (
            PolynomialConv if method == "polynomial" else lambda *a, **o: make_conv(method, *a, **o)
        )
        self.conv1, self.conv2 = (make(inputs, hidden, **OPTIONS[method]) for inputs in (1, hidden))
        self.head = nn.Linear(hidden, 1)

    def set_rates(self, *rates: float | Tensor) -> None:
        """Nothing is dropped."""

    def trial_axis(self, name: str) -> int:
        """Trials come first."""
        return 0

    def forward(self, x: Tensor, op: GraphOperator) -> Tensor:
        """Return the filtered images (B, N, 1)."""
        out: Tensor = self.head(self.conv2(self.conv1(x, op), op))
        return out

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())


def widest(method: str, budget: int = BUDGET) -> int:
    """The most hidden units with which a method keeps within a budget of parameters.

    Example:
        >>> widest("gcn"), FilterNet("gcn", widest("gcn")).size
        (7, 414)
    """
    choice("method", method, OPTIONS)
    integer("budget", budget, FilterNet(method, 1).size, 2**20)
    hidden = 1
    while FilterNet(method, hidden + 1).size <= budget:
        hidden += 1
    return hidden


class FilterTask:
    """Mean squared error on the images; a trial learns the filter of its ``target``."""

    steps = 1

    def __init__(self, data: FilterData, op: GraphOperator) -> None:
        self.data, self.op = data, op

    def start(self, epoch: int) -> None:
        """No epoch is different from the others."""

    def room(self, step: int) -> tuple[int, ...]:
        """No step is, either."""
        return ()

    def batch(self, step: Tensor | None = None, room: tuple[int, ...] = ()) -> str:
        """All training images."""
        return "train"

    def loss(self, predict: Callable[..., Tensor], batch: str, target: Tensor) -> Tensor:
        """The mean squared error over pixels and images, in units of the target's variance."""
        wanted = self.data.y[batch].index_select(0, target.view(1)).squeeze(0)
        return (predict(self.data.x[batch], self.op) - wanted).square().mean()

    def metrics(self, predict: Callable[..., Tensor], split: str, target: Tensor) -> dict[str, Tensor]:
        """The loss; the sum of squared errors of an image ("sse") and R2, means over the images of a split."""
        wanted = self.data.y[split].index_select(0, target.view(1)).squeeze(0).double()
        errors = (predict(self.data.x[split], self.op).double() - wanted).square()
        spread = (wanted - wanted.mean(-2, keepdim=True)).square().sum((-1, -2))
        sse = errors.sum((-1, -2))
        size = self.data.scale.index_select(0, target.view(1)).squeeze(0).square()
        return {"loss": errors.mean(), "sse": (sse * size).mean(), "r2": (1 - sse / spread).mean()}


@dataclass(frozen=True)
class Result:
    """One training: its error on validation, and R2 and summed squared error of an image on test.

    Those that chose the learning rate have stage "choice" and no test error (NaN); the reported ones "final".
    """

    filter: str
    method: str
    parameters: int
    hidden: int
    stage: str
    lr: float
    seed: int
    best_epoch: int
    val_mse: float
    r2: float
    sse: float


def learn(
    method: str, data: FilterData, *, seeds: int = SEEDS, epochs: int = EPOCHS, budget: int = BUDGET
) -> list[Result]:
    """Choose the learning rate of a method for every filter, then train it with every seed; all filters at once."""
    integer("seeds", seeds, 1, 10_000)
    integer("epochs", epochs, 1)
    hidden = widest(method, budget)
    choices = [
        Setting(TUNING_SEED, lr, 0.0, (), target)
        for target in range(len(RESPONSES))
        for lr in RATES
    ]  # fmt: skip
    tried = _train(method, hidden, data, choices, epochs)
    finals = [
        Setting(seed, _best_rate(tried, target), 0.0, (), target)
        for target in range(len(RESPONSES))
        for seed in range(seeds)
    ]  # fmt: skip
    return [
        *(_result(method, hidden, "choice", outcome) for outcome in tried),
        *(_result(method, hidden, "final", outcome) for outcome in _train(method, hidden, data, finals, epochs)),
    ]


def _train(method: str, hidden: int, data: FilterData, settings: Sequence[Setting], epochs: int) -> list[Outcome]:
    op = FilterNet(method, hidden).conv1.operator(data.edge_index, data.x["train"].shape[-2])
    trials = Trials(
        lambda: FilterNet(method, hidden),
        FilterTask(data, op),
        settings,
        epochs=epochs,
        patience=epochs,
        stop_on="loss",
    )
    outcomes = {outcome.setting: outcome for outcome in trials.run()}
    return [outcomes[setting] for setting in settings]


def _best_rate(tried: Sequence[Outcome], target: int) -> float:
    """The learning rate with the lowest validation error; one that diverged (NaN) is none."""
    errors = {o.setting.lr: o.val["loss"] for o in tried if o.setting.target == target}
    return min(RATES, key=lambda lr: errors[lr] if errors[lr] == errors[lr] else float("inf"))


def _result(method: str, hidden: int, stage: str, outcome: Outcome) -> Result:
    setting, size = outcome.setting, FilterNet(method, hidden).size
    r2, sse = (outcome.test["r2"], outcome.test["sse"]) if stage == "final" else (float("nan"), float("nan"))
    name = list(RESPONSES)[setting.target]
    return Result(
        name, method, size, hidden, stage, setting.lr, setting.seed, outcome.best_epoch, outcome.val["loss"], r2, sse
    )


def to_csv(results: Sequence[Result]) -> str:
    """All trainings, one a line."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow([field.name for field in fields(Result)])
    for result in results:
        writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in astuple(result)])
    return table.getvalue()


def table(results: Sequence[Result]) -> Table:
    """R2 (mean ± deviation over seeds) and summed squared error of an image, of the reported trainings."""
    methods = list(dict.fromkeys(result.method for result in results))
    shown = Table("filter", *methods, title="Learning filters: R2 (summed squared error of an image) on test images")
    for name in RESPONSES:
        cells = []
        for method in methods:
            own = [r for r in results if r.stage == "final" and (r.filter, r.method) == (name, method)]
            r2, sse = [r.r2 for r in own], [r.sse for r in own]
            spread = f" ± {stdev(r2):.3f}" if len(r2) > 1 else ""
            cells.append(f"{fmean(r2):.3f}{spread} ({fmean(sse):.2f})" if own else "")
        shown.add_row(name, *cells)
    return shown
