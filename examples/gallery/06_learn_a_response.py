"""
Learn a response
================

A filter is unknown, but you have signals before and after it. ``RationalConv`` has trained poles and residues, so
it can find the filter.
"""

import torch
from matplotlib import pyplot

from armagnn.filters import SpectralFilter
from armagnn.nn import ChebConv, RationalConv
from armagnn.operators import sensor


def unknown(mu):
    """A narrow peak at λ = 0.7."""
    return 1 / (1 + 60 * (mu - 0.3) ** 2)


op, _ = sensor(200, seed=1, dtype=torch.float64)
x = torch.randn(8, 200, 1, dtype=torch.float64)  # eight signals on one graph
y = SpectralFilter(unknown).filter(op, x)

# %%
# The layer starts as a low-pass filter, and has one input, one output and no non-linearity.

torch.manual_seed(0)
conv = RationalConv(1, 1, order=4, init="low-pass", act=None, bias=False).double()
figure, ax = pyplot.subplots()
conv.plot(ax, target=unknown, label="before training")


def train(layer, graph, steps=120, lr=0.05):
    """Return the mean squared error of each step of Adam."""
    adam, losses = torch.optim.Adam(layer.parameters(), lr=lr), []
    for _ in range(steps):
        adam.zero_grad()
        loss = (layer(x, graph) - y).square().mean()
        loss.backward()
        adam.step()
        losses.append(float(loss.detach()))
    return losses


losses = train(conv, op)
scale = float(conv.weight.detach())  # of the linear map that follows the filter
learned = scale * conv.filter()
learned.plot(ax, label="after training")

# %%
# A Chebyshev layer with as many coefficients sees the same signals. (The unknown filter is rational itself, which
# suits the one layer and not the other.)

laplacian = sensor(200, seed=1, dtype=torch.float64, kind="laplacian")[0]
polynomial = ChebConv(1, 1, order=9, act=None, bias=False).double()
figure, ax = pyplot.subplots()
ax.semilogy(losses, label="RationalConv, 4 poles")
ax.semilogy(train(polynomial, laplacian), label="ChebConv, 9 coefficients")
ax.set(xlabel="step of Adam", ylabel="mean squared error")
ax.legend()

# %%
# The layer returns what it has found as a filter.

learned
