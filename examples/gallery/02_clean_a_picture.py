"""
Clean a picture
===============

A picture is a signal on the grid of its pixels. Noise has high frequencies, so a low-pass filter takes much of it away.
"""

import matplotlib.cbook as samples
import numpy as np
from matplotlib import pyplot
from PIL import Image

from armagnn.filters import ARMAFilter
from armagnn.operators import grid

with samples.get_sample_data("grace_hopper.jpg") as file:  # U.S. Navy, public domain
    photograph = np.asarray(Image.open(file).convert("L").crop((70, 20, 430, 420)).resize((108, 120))) / 255.0
noisy = photograph + 0.2 * np.random.default_rng(0).standard_normal(photograph.shape)

op, places = grid(*photograph.shape)
op

# %%
# ``ARMAFilter([a], [1 - a])`` is the response (1 - a) / (1 - aμ): 1 at the lowest frequency, and less at higher ones.
# The result minimises a sum of two squares: its distance from the noisy picture, and its differences along edges.

smoother = ARMAFilter([0.8], [0.2])
clean = smoother.filter(op, noisy.flatten()).reshape(noisy.shape)

figure, axes = pyplot.subplots(1, 3, figsize=(8, 3.2))
for ax, picture, name in zip(axes, (photograph, noisy, clean), ("original", "with noise", "filtered"), strict=True):
    error = np.sqrt(((picture - photograph) ** 2).mean())
    ax.imshow(picture, cmap="gray", vmin=0, vmax=1)
    ax.set(title=f"{name}: error {error:.3f}", xticks=[], yticks=[])

# %%
# How strong should the filter be? With a near 1 the noise disappears, but so do the edges of the picture.

strengths = np.linspace(0.0, 0.98, 20)
errors = [
    np.sqrt(((ARMAFilter([a], [1 - a]).filter(op, noisy.flatten()) - photograph.flatten()) ** 2).mean())
    for a in strengths
]
figure, ax = pyplot.subplots()
ax.plot(strengths, errors, "o-")
ax.set(xlabel="a", ylabel="r.m.s. error", ylim=(0, None))
