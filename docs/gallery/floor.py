"""A floor in perspective, antialiased

Towards the horizon, a pixel covers more and more of the texture, and more along one axis than along
the other. The footprint of each pixel is a parallelogram, and antialiasing averages over all of it.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import gridsample

texture = data.checkerboard()[None, None]
x, y = np.meshgrid(np.linspace(-1, 1, 320), np.linspace(0.02, 1, 240))
grid = np.stack([150 * x / y, 150 / y], -1)[None]  # positions on the floor, in pixels
options = {"padding_mode": "wrap", "coords": "pixel"}
bilinear = gridsample.grid_sample(texture, grid, **options)
smooth = gridsample.grid_sample(texture, grid, **options, antialias=True)
plt.imsave("floor.png", np.hstack([bilinear[0, 0], smooth[0, 0]]), cmap="gray")
