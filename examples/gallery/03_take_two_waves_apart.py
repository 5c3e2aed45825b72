"""
Take two waves apart
====================

Sensors measure a slow wave plus noise, which changes fast. A filter takes them apart, without eigenvectors.
"""

import torch
from matplotlib import pyplot

from armagnn.filters import ARMAFilter
from armagnn.operators import sensor
from armagnn.spectral import components, plot_signal, spectrum

op, places = sensor(400, seed=3, dtype=torch.float64)
slow = (5 * places[:, 0]).sin()
fast = torch.randn(400, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 0.5
signal = (slow + fast).unsqueeze(1)  # (400, 1)

low = ARMAFilter.design(lambda mu: 1.0 * (mu > 0.8), order=4)
smooth = low.filter(op, signal)
rest = signal - smooth

figure, axes = pyplot.subplots(1, 3, figsize=(9, 3))
for ax, x, name in zip(axes, (signal, smooth, rest), ("measured", "low frequencies", "the rest"), strict=True):
    plot_signal(op, x, places, ax, title=name, vmin=-2, vmax=2, size=14, colorbar=False)

# %%
# This graph is small enough to compute all its frequencies. The filter keeps those below λ = 0.2; the red line is its
# response, on the right axis.

mu, U = spectrum(op)
figure, ax = pyplot.subplots()
ax.vlines(1 - mu, 0, components(U, signal).abs(), color="0.7", label="measured")
ax.plot(1 - mu, components(U, smooth).abs(), ".", markersize=4, label="low frequencies")
low.plot(ax.twinx(), color="tab:red").set_ylim(0, 1.4)
ax.set(xlabel="λ = 1 − μ", ylabel="|component|", ylim=(0, None))
ax.legend()

# %%
# The correlation of the smooth part with the slow wave:

print(f"{float(torch.corrcoef(torch.stack([smooth[:, 0], slow]))[0, 1]):.3f}")
