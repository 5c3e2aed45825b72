"""
Spread labels
=============

Two members of a karate club are known to be on opposite sides. A first-order ARMA filter spreads these labels along the
edges: this is label propagation.
"""

import networkx as nx
import numpy as np
from matplotlib import pyplot

from armagnn import GraphOperator
from armagnn.filters import ARMAFilter
from armagnn.spectral import plot_signal

club = nx.karate_club_graph()
known = np.zeros(34)
known[0], known[33] = 1.0, -1.0  # the instructor and the president

f = ARMAFilter([0.95], [0.05])
belief = f.filter(club, known)  # a networkx graph and an array, as they are
sides = np.array([1.0 if club.nodes[node]["club"] == "Mr. Hi" else -1.0 for node in club])

op, places = GraphOperator.from_networkx(club), nx.spring_layout(club, seed=4)
figure, axes = pyplot.subplots(1, 3, figsize=(9, 3))
limit = abs(belief).max()
for ax, x, name, most in zip(
    axes, (known, belief, sides), ("known", "spread", "true sides"), (1, limit, 1), strict=True
):
    plot_signal(op, x, places, ax, title=name, colorbar=False, cmap="coolwarm", vmin=-most, vmax=most)

# %%
# The sign of the result predicts the side:

print(f"{(np.sign(belief) == sides).sum()} of 34 members are predicted correctly")

# %%
# How far labels travel depends on a. Personalised PageRank is the same filter between square roots of degrees.

figure, ax = pyplot.subplots()
distance = np.array([nx.shortest_path_length(club, 0, node) for node in club])
one = (np.arange(34) == 0).astype(float)
for a in (0.5, 0.85, 0.95):
    reach = ARMAFilter([a], [1 - a]).filter(club, one)
    ax.semilogy(range(1, 4), [reach[distance == d].mean() for d in range(1, 4)], "o-", label=f"a = {a}")
ax.set(xlabel="steps from the instructor", ylabel="mean of the result", xticks=[1, 2, 3])
ax.legend()
