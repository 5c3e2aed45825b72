"""
Design a filter
===============

An ARMA filter keeps low frequencies and drops high ones. A polynomial with as many coefficients bends more slowly.
"""

from matplotlib import pyplot

from armagnn.filters import ARMAFilter, ChebyshevFilter

arma = ARMAFilter.design("low-pass", order=4)
chebyshev = ChebyshevFilter.design("low-pass", order=8)
figure, ax = pyplot.subplots()
arma.plot(ax, label="ARMA, 8 coefficients")
chebyshev.plot(ax, label="Chebyshev, 8 coefficients")
ax.legend()
