"""Sample a profile along a line

A grid may have any shape: 400 points along a line give a profile. The derivative of the profile,
from `grid_gradient`, shows where the edges of the coins are.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import gridsample

coins = data.coins()[None, None] / 255.0
start, end = np.array([20.0, 50.0]), np.array([370.0, 60.0])  # x, y
points = start + np.linspace(0, 1, 400)[:, None] * (end - start)
profile = gridsample.grid_sample(coins, points[None], "spline3", "mirror", coords="pixel")[0, 0]
slope = gridsample.grid_gradient(coins, points[None], "spline3", "mirror", coords="pixel")[0, 0]
along = slope @ (end - start) / np.linalg.norm(end - start)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
left.imshow(coins[0, 0], cmap="gray")
left.plot(*np.stack([start, end]).T, color="tab:orange")
left.set_axis_off()
right.plot(profile[:120], label="profile")
right.plot(along[:120], label="its derivative", lw=0.8)
right.legend(loc="upper right")
figure.savefig("profile.png", dpi=100)
