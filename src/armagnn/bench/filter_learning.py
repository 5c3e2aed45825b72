"""Learning filters from pairs of images (``armagnn bench filter-learning``): which layer follows which response?

Every method is the same network: two places of convolutions with ReLU, then a linear map to one number a pixel. All
have about the same number of parameters, and each place reaches 4 hops: K = 2 stacks of T = 4 steps (ARMA), degree 4
(Chebyshev, polynomial), 4 layers (GCN); but Cayley, with degree 2 and 5 Jacobi iterations, reaches 12. The learning
rate is chosen for each method and filter by the validation error, with a seed that is not reported; nothing else is
tuned. Of each training the weights count that were best on validation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, stdev
from typing import Any, Final

import torch
from rich.table import Table
from torch import Tensor, nn
from torch.nn.parameter import Parameter

from armagnn.checks import choice, integer
from armagnn.errors import ParameterError, shown
from armagnn.filters import SpectralFilter
from armagnn.nn import make_conv
from armagnn.nn.conv import Conv, propagate, times
from armagnn.operators import CSR, GraphOperator
from armagnn.training.outcome import Outcome, Setting
from armagnn.training.trials import Trials

RESPONSES: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "low-pass": lambda mu: torch.exp(-10 * (1 - mu) ** 2),
    "high-pass": lambda mu: 1 - torch.exp(-10 * (1 - mu) ** 2),
    "band-pass": lambda mu: torch.exp(-10 * mu**2),
    "band-rejection": lambda mu: 1 - torch.exp(-10 * mu**2),
    "comb": lambda mu: torch.sin(torch.pi * mu).abs(),
}
"""The responses to learn, of mu = 1 - lambda: exp(-10 λ²), 1 - exp(-10 λ²), exp(-10 (λ - 1)²), its rest, |sin πλ|."""

SIDE: Final = 24
COUNTS: Final = {"train": 2, "val": 2, "test": 8}
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


# --------------------------------------------------------------------------------------------------------------- images


@dataclass(frozen=True, eq=False)
class FilterData:
    """Images and what each filter makes of them.

    Attributes:
        edge_index: the grid of pixels, each joined with its neighbours left, right, above and below.
        x: by split, the images, shape (B, N, 1), grey values in [-1/2, 1/2].
        y: by split, their filtered versions, shape (5, B, N, 1), in the order of `RESPONSES`, divided by `scale`.
        scale: the deviation of the filtered training images, shape (5), so that all filters are learned alike.
    """

    edge_index: Tensor
    x: Mapping[str, Tensor]
    y: Mapping[str, Tensor]
    scale: Tensor


def pixel_grid(side: int) -> Tensor:
    """The edges of a square grid of pixels, both directions, (2, E).

    Example:
        >>> pixel_grid(2).shape
        torch.Size([2, 8])
    """
    integer("side", side, 1, 2**14)
    number = torch.arange(side * side).view(side, side)
    pairs = [
        torch.stack([one.flatten(), other.flatten()])
        for one, other in ((number[:, :-1], number[:, 1:]), (number[:-1], number[1:]))
    ]
    edges = torch.cat(pairs, 1)
    return torch.cat([edges, edges.flip(0)], 1)


def photographs(side: int = SIDE) -> Tensor:
    """Square pieces of the two photographs that scikit-learn ships, in turn, shape (B, N, 1), in [-1/2, 1/2].

    Every 4 by 4 pixels become one, and the colours their mean, which leaves 106 by 160 pixels of each.
    """
    integer("side", side, 1, 106)
    from sklearn.datasets import load_sample_images

    pieces = []
    for image in load_sample_images().images:
        grey = torch.from_numpy(image.copy()).double().mean(2) / 255 - 0.5
        small = torch.nn.functional.avg_pool2d(grey[None, None], 4)[0, 0]
        rows, columns = (length // side for length in small.shape)
        cut = small[: rows * side, : columns * side].view(rows, side, columns, side)
        pieces.append(cut.transpose(1, 2).reshape(rows * columns, side * side))
    return torch.stack(pieces, 1).flatten(0, 1).unsqueeze(-1)  # one of each photograph in turn


def filter_data(side: int = SIDE, counts: Mapping[str, int] = COUNTS) -> FilterData:
    """Cut the photographs into the splits, and filter them exactly (Eq. 1)."""
    images, edges = photographs(side), pixel_grid(side)
    if not isinstance(counts, Mapping) or "train" not in counts:
        raise ParameterError(f"counts must have the number of images of each split, got {shown(counts)}.")

    for split, count in counts.items():
        integer(f"counts[{split!r}]", count, 1, len(images))
    # neighbouring pieces of a photograph go to different splits; the order is one for all times
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    op = GraphOperator.from_edge_index(edges, side * side, dtype=torch.float64)
    x, y, first = {}, {}, 0
    for split, count in counts.items():
        chosen = images[order[first : first + count]]
        first += count
        x[split] = chosen.float()
        y[split] = torch.stack([SpectralFilter(h).filter(op, chosen) for h in RESPONSES.values()])
    scale = y["train"].flatten(1).std(1)
    return FilterData(edges, x, {split: (own / scale.view(-1, 1, 1, 1)).float() for split, own in y.items()}, scale)


# ------------------------------------------------------------------------------------------------------------- networks


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
    targets = range(len(RESPONSES))
    choices = [Setting(TUNING_SEED, lr, 0.0, (), target) for target in targets for lr in RATES]
    tried = _train(method, hidden, data, choices, epochs)
    rates = [_best_rate(tried, target) for target in targets]
    finals = [Setting(seed, rates[target], 0.0, (), target) for target in targets for seed in range(seeds)]
    found = {"choice": tried, "final": _train(method, hidden, data, finals, epochs)}
    return [_result(method, hidden, stage, outcome) for stage, outcomes in found.items() for outcome in outcomes]


def _train(method: str, hidden: int, data: FilterData, settings: Sequence[Setting], epochs: int) -> list[Outcome]:
    op = FilterNet(method, hidden).conv1.operator(data.edge_index, data.x["train"].shape[-2])
    build, task = partial(FilterNet, method, hidden), FilterTask(data, op)
    trials = Trials(build, task, settings, epochs=epochs, patience=epochs, stop_on="loss")
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
