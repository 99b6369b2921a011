"""Swirl

A rotation whose angle decreases with the distance from the centre. The grid is in pixels; adding
the centre at the end keeps the formula short.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import gridsample

photo = data.coffee()[:, 100:500]
y, x = np.mgrid[-199.5:200, -199.5:200]
angle = 4 * np.exp(-np.hypot(x, y) / 70)
turned = np.stack(
    [x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)], -1
)
(swirled,) = gridsample.grid_sample(
    photo[None], turned[None] + 199.5, "bicubic", coords="pixel", channel_axis=-1
)
plt.imsave("swirl.png", np.hstack([photo, swirled]))
