"""Shrink without aliasing (moiré)

The wall, rotated and shrunk to an eighth of its size. An output pixel covers 64 pixels; plain
sampling reads four of them, and shows moiré. `antialias=True` averages over the footprint of each
output pixel, with exact gradients.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import gridsample

wall = np.tile(data.brick(), (4, 4))[None, None]
angle = np.deg2rad(25)
theta = np.array([[[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0]]])
bilinear = gridsample.affine_sample(wall, theta, (1, 1, 256, 256), padding_mode="reflection")
smooth = gridsample.affine_sample(
    wall, theta, (1, 1, 256, 256), padding_mode="reflection", antialias=True
)
plt.imsave("antialiasing.png", np.hstack([bilinear[0, 0], smooth[0, 0]]), cmap="gray")
