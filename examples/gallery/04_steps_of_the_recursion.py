"""
Steps of the recursion
======================

A layer does not compute the filter exactly; it takes T steps of a recursion (Eq. 8). How close does it come?
"""

import numpy as np
from matplotlib import pyplot

from armagnn.filters import ARMAFilter, PolynomialFilter

a, b = 0.9, 0.1
exact = ARMAFilter([a], [b])

figure, ax = pyplot.subplots()
for steps, shade in zip((1, 2, 4, 8, 16), pyplot.colormaps["viridis"](np.linspace(0.9, 0.1, 5)), strict=True):
    after = PolynomialFilter([b * a**k for k in range(steps + 1)])  # b (1 + aμ + ... + (aμ)^T)
    after.plot(ax, label=f"T = {steps}", color=shade)
exact.plot(ax, label="b / (1 − aμ)", color="black", linestyle="--")

# %%
# Each step multiplies the error by a at λ = 0, and by |aμ| elsewhere. With few steps the lowest frequencies
# are too weak; frequencies in the middle are right at once.

figure, ax = pyplot.subplots()
steps = np.arange(1, 60)
for a in (0.5, 0.8, 0.9, 0.97):
    ax.semilogy(steps, a ** (steps + 1), label=f"a = {a}")
ax.set(xlabel="T", ylabel="relative error at λ = 0", ylim=(1e-4, 1))
ax.legend()

# %%
# For |a| ≥ 1 the recursion grows without end (Eq. 10), though the filter may be a good one. Conjugate gradients apply
# it all the same: ``f.filter(op, x, method="exact")``, which is the default.

from armagnn.errors import ArmagnnError
from armagnn.operators import ring

op, places = ring(50)
steep = ARMAFilter.design("low-pass", order=4)
print("largest |a|:", round(float(steep.a.abs().max()), 2))
print(steep.filter(op, places[:, 0].float())[:3])
try:
    steep.filter(op, places[:, 0].float(), method="recursion")
except ArmagnnError as error:
    print(error)
