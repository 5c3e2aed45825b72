"""
Design a filter
===============

You want a filter that keeps low frequencies and drops high ones. ``ARMAFilter.design`` finds poles and residues.
"""

from matplotlib import pyplot

from armagnn.filters import ARMAFilter, ChebyshevFilter

arma = ARMAFilter.design("low-pass", order=4)
arma

# %%
# A polynomial with as many coefficients bends more slowly. The ARMA filter is a ratio of polynomials, so it can follow
# the edge.

figure, ax = pyplot.subplots()
arma.plot(ax, target="low-pass", label="ARMA, 8 coefficients")
ChebyshevFilter.design("low-pass", order=8).plot(ax, label="Chebyshev, 8 coefficients")

# %%
# Frequencies are λ from 0 to 2; low ones are signals that change little along edges. A target may also be a function of
# μ = 1 - λ, or samples of one. Here are two humps, and what two and four poles make of them.

import numpy


def humps(mu):
    """Two humps, at λ = 0.4 and λ = 1.4."""
    return numpy.exp(-60 * (mu - 0.6) ** 2) + 0.6 * numpy.exp(-60 * (mu + 0.4) ** 2)


figure, ax = pyplot.subplots()
ARMAFilter.design(humps, order=2).plot(ax, target=humps, label="2 poles")
four = ARMAFilter.design(humps, order=4)
four.plot(ax, label="4 poles", linestyle="--")

# %%
# The report says how good the fit is.

print(four.report)
