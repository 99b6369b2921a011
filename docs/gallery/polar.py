"""Unwrap a disc: polar coordinates

Each row of the result is a ray from the centre of the retina, and each column a distance from it.
Any formula for positions makes a grid, so no special function is needed.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import gridsample

retina = gridsample.interpolate(
    data.retina()[None], (360, 360), mode="bilinear", antialias=True, channel_axis=-1
)
angle, radius = np.mgrid[0 : 2 * np.pi : 360j, 0:180:360j]
grid = np.stack([179.5 + radius * np.cos(angle), 179.5 + radius * np.sin(angle)], -1)[None]
unrolled = gridsample.grid_sample(retina, grid, "bicubic", coords="pixel", channel_axis=-1)
plt.imsave("polar.png", np.concatenate([retina[0], unrolled[0]], 1))
