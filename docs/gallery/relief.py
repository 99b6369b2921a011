"""Shade a relief

`grid_gradient` gives the slopes of a digital elevation model at any points, here four times as
dense as its pixels. The slopes are lit from the north-west, and `apply_lut` colours them by height.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cbook, colormaps

import gridsample
from gridsample.operators import apply_lut

heights = cbook.get_sample_data("jacksboro_fault_dem.npz")["elevation"]
heights = heights[None, None, 120:270, 100:300].astype(np.float64)
y, x = np.mgrid[0:149:0.25, 0:199:0.25]
grid = np.stack([x, y], -1)[None]
options = {"mode": "spline3", "padding_mode": "mirror", "coords": "pixel"}
# A pixel is 74 m by 93 m, so that the slopes are exaggerated.
slopes = gridsample.grid_gradient(heights, grid, **options)[0, 0] / 60
fine = gridsample.grid_sample(heights, grid, **options)

normal = np.concatenate([-slopes, np.ones((*x.shape, 1))], -1)
normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
light = np.clip(normal @ (np.array([-1, -1, 1.2]) / np.sqrt(3.44)), 0, 1)
colours = colormaps["gist_earth"](np.linspace(0.3, 0.95, 64))[:, :3].T[None]  # (1, 3, 64)
shown = apply_lut(fine, colours, domain=(heights.min(), heights.max()))[0].transpose(1, 2, 0)
plain = np.repeat(np.repeat(heights[0, 0, :149, :199], 4, 0), 4, 1)
grey = ((plain - plain.min()) / np.ptp(plain))[..., None].repeat(3, -1)
plt.imsave("relief.png", np.hstack([grey, np.clip(1.4 * shown * light[..., None], 0, 1)]))
