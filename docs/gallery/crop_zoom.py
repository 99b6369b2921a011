"""Crop and zoom

A box in pixels, enlarged four times. `nearest` shows the pixels, `bilinear` blurs them, `bicubic`
and `lanczos3` are sharper.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import gridsample

photo = data.chelsea()[None]
left, top, side, zoom = 135, 75, 80, 4
steps = (np.arange(side * zoom) + 0.5) / zoom - 0.5
grid = np.stack(np.meshgrid(left + steps, top + steps), -1)[None]
modes = ("nearest", "bilinear", "bicubic")
eyes = [
    gridsample.grid_sample(photo, grid, mode, coords="pixel", channel_axis=-1) for mode in modes
]
plt.imsave("crop_zoom.png", np.concatenate([eye[0] for eye in eyes], 1))
