"""Register two photos

`register` finds the transform between two images without an initial guess. Here one of them is
turned by 50 degrees, shrunk, shifted and darkened. The checkerboard alternates between the aligned
photos.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data
from skimage.color import rgb2gray

import gridsample

moving = rgb2gray(data.astronaut())[::2, ::2]
angle = np.deg2rad(50)
linear = 1.2 * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
theta = np.column_stack([linear, [150, 10] - linear @ [127.5, 20]])[None]
fixed = 0.6 * gridsample.affine_sample(
    moving[None, None], theta, (1, 1, 256, 256), "bicubic", coords="pixel",
    extrapolate=False, fill_value=np.nan,
)[0, 0]  # fmt: skip

result = gridsample.register(fixed, moving, "similarity", "ncc")
assert np.abs(result.matrix[0, :2] - theta[0]).max() < 0.1
y, x = np.indices(fixed.shape) // 32 % 2
aligned = np.where(x == y, fixed / 0.6, result.warped.reshape(fixed.shape))
plt.imsave("registration.png", np.hstack([moving, fixed, aligned]), cmap="gray", vmin=0, vmax=1)
