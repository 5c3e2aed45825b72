"""Forecasting a wave on a network whose links come and go: ``python examples/changing_network.py``.

The data is synthetic. Sensors stand at random in the unit square; two of them have a link if they are near to each
other, and every link is up or down at every instant, at random. A damped wave runs over the links that are up:

    v(t+1) = (1 - damping) v(t) - stiffness (u(t) - L(t) u(t)),    u(t+1) = u(t) + v(t+1),

where L(t) is the ``arma`` operator of the instant; now and then a sensor is kicked. Only u is seen, never the velocity
v, so that one instant does not tell the next: a forecast of u(t+1) needs memory and the links of now. ARMA's recursion
over time has both: its state takes one GCS step with X(t) = u(t) at every instant.

Training, validation and test have networks and kicks of their own; the weights with the lowest validation error are
kept. The baselines are persistence, u(t+1) = u(t), the straight line u(t+1) = 2 u(t) - u(t-1), and the same layer
without memory, which starts anew at every instant.
"""

from __future__ import annotations

import argparse
import copy

import torch
from torch import Tensor, nn

from armagnn import GraphOperator
from armagnn.nn import ARMAConv

NODES, RADIUS, UP = 80, 0.2, 0.8
DAMPING, STIFFNESS, KICKS = 0.05, 0.4, 0.01
START = 5
"""Instants that are not scored: nobody can know the velocity at the beginning."""


def network(instants: int, generator: torch.Generator) -> list[GraphOperator]:
    """One operator for each instant: the same sensors, other links."""
    place = torch.rand(NODES, 2, generator=generator)
    near = torch.cdist(place, place).lt(RADIUS).triu(1).nonzero().T
    operators = []
    for _ in range(instants):
        up = near[:, torch.rand(near.shape[1], generator=generator) < UP]
        operators.append(GraphOperator.from_edge_index(torch.cat([up, up.flip(0)], dim=1), NODES))
    return operators


def wave(operators: list[GraphOperator], signals: int, generator: torch.Generator) -> Tensor:
    """u(t) of independent waves on one changing network, shape (instants, signals, nodes, 1)."""
    u = torch.randn(signals, NODES, 1, generator=generator)
    v, seen = torch.zeros_like(u), []
    for op in operators:
        seen.append(u)
        kicked = torch.rand(u.shape, generator=generator) < KICKS
        v = (1 - DAMPING) * v - STIFFNESS * (u - op @ u) + kicked * torch.randn(u.shape, generator=generator)
        u = u + v
    return torch.stack(seen)


class Forecast(nn.Module):
    """u(t+1) = u(t) + readout of the ARMA layer's output at instant t."""

    def __init__(self, memory: bool) -> None:
        super().__init__()
        self.memory = memory
        self.conv = ARMAConv(1, 16, num_stacks=2, num_layers=2, act="tanh")
        self.readout = nn.Linear(16, 1)

    def forward(self, u: Tensor, operators: list[GraphOperator]) -> Tensor:
        """The forecasts of all instants but the first, shape (instants - 1, signals, nodes, 1)."""
        if self.memory:
            hidden = self.conv.sequence(u[:-1], operators[:-1])
        else:
            hidden = torch.stack([self.conv(x, op) for x, op in zip(u[:-1], operators[:-1], strict=True)])
        return u[:-1] + self.readout(hidden)


def error(forecast: Tensor, u: Tensor) -> Tensor:
    """The mean squared error of forecasts of u(1), u(2), ..., from the first instant that is scored."""
    return (forecast - u[1:])[START:].square().mean()


def train(memory: bool, seed: int, data: dict[str, tuple[Tensor, list[GraphOperator]]], epochs: int) -> float:
    """Train once and return the test error of the weights with the lowest validation error."""
    torch.manual_seed(seed)
    net = Forecast(memory)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    best, state = float("inf"), net.state_dict()
    for _ in range(epochs):
        optimizer.zero_grad()
        error(net(*data["train"]), data["train"][0]).backward()
        optimizer.step()
        with torch.no_grad():
            found = float(error(net(*data["val"]), data["val"][0]))
        if found < best:
            best, state = found, copy.deepcopy(net.state_dict())
    net.load_state_dict(state)
    with torch.no_grad():
        return float(error(net(*data["test"]), data["test"][0]))


def main() -> None:
    """Print the test errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--instants", type=int, default=40)
    options = parser.parse_args()
    data = {}
    for number, split in enumerate(("train", "val", "test")):
        generator = torch.Generator().manual_seed(number)
        operators = network(options.instants, generator)
        data[split] = (wave(operators, 8, generator), operators)
    u = data["test"][0]
    print("mean squared error of u(t+1) on the test network")
    print(f"persistence          {float(error(u[:-1], u)):.4f}")
    line = torch.cat([u[:1], 2 * u[1:-1] - u[:-2]])
    print(f"straight line        {float(error(line, u)):.4f}")
    for name, memory in (("ARMA without memory", False), ("ARMA over time", True)):
        errors = torch.tensor([train(memory, seed, data, options.epochs) for seed in range(options.seeds)])
        print(f"{name:20s} {errors.mean():.4f} +- {errors.std(correction=0):.4f} ({options.seeds} seeds)")


if __name__ == "__main__":
    main()
