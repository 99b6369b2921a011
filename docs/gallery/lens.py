"""Undistort a photo

The matrix and the coefficients are those of OpenCV's calibration. For each pixel of the straight
picture, `undistort_grid` gives the pixel of the photo that shows the same ray. The photo on the
left was distorted with the same model; on the right, the bricks are straight again.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

from gridsample import cameras, grid_sample

wall = data.brick()[None, None]
lens = np.array([[400.0, 0, 255.5], [0, 400, 255.5], [0, 0, 1]])
distortion = [-0.28, 0.06, 0, 0]
rays = (np.stack(np.meshgrid(np.arange(512), np.arange(512)), -1) - 255.5) / 400
bent = rays
for _ in range(30):  # the inverse of the model, as a fixed point
    bent = bent + rays - cameras.distort_points(bent, distortion)
photo = grid_sample(wall, bent[None] * 280 + 255.5, "bicubic", "reflection", coords="pixel")

new = cameras.optimal_intrinsics((512, 512), lens, distortion, alpha=0)
grid = cameras.undistort_grid((512, 512), lens, distortion, new_intrinsics=new)
straight = grid_sample(photo, grid, "bicubic", coords="pixel")
plt.imsave("lens.png", np.hstack([photo[0, 0], straight[0, 0]]), cmap="gray")
