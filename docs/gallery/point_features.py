"""Match point features

Key points lie between pixels, so their descriptors are sampled there: a patch of 11 x 11 points
around each, all in one call. The second photo is the first one, turned and enlarged.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data, feature

import gridsample

moon = data.moon()[None, None] / 255.0
angle, scale = np.deg2rad(8), 0.85
linear = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
theta = np.column_stack([linear, [256, 256] - linear @ [256, 256]])[None]
other = gridsample.affine_sample(moon, theta, moon.shape, "bicubic", "border", coords="pixel")

steps = 2.0 * np.stack(np.meshgrid(np.arange(-5, 6), np.arange(-5, 6)), -1)
found, descriptors = [], []
for image in (moon, other):
    corners = feature.corner_harris(image[0, 0], sigma=3)
    peaks = feature.corner_peaks(corners, min_distance=12, num_peaks=150, exclude_border=70)
    points = feature.corner_subpix(image[0, 0], peaks, window_size=9)[:, ::-1]  # x, y
    points = points[np.isfinite(points).all(1)]
    grid = points[:, None, None] + steps  # (P, 11, 11, 2)
    patches = gridsample.grid_sample(image, grid[None], "bicubic", "border", coords="pixel")
    patches = patches.reshape(len(points), -1)
    patches = patches - patches.mean(1, keepdims=True)
    found.append(points)
    descriptors.append(patches / np.linalg.norm(patches, axis=1, keepdims=True))

alike = descriptors[0] @ descriptors[1].T
best, back = alike.argmax(1), alike.argmax(0)
pairs = [(i, j) for i, j in enumerate(best) if back[j] == i and alike[i, j] > 0.8]
first, second = (found[k][[pair[k] for pair in pairs]] for k in range(2))
errors = np.linalg.norm(second @ linear.T + theta[0, :, 2] - first, axis=1)

figure = plt.figure(figsize=(9, 4.5))
axis = figure.add_axes((0, 0, 1, 1))
axis.imshow(np.hstack([moon[0, 0], other[0, 0]]), cmap="gray", vmin=0.25, vmax=0.65, aspect="auto")
for a, b, error in zip(first, second + np.array([512, 0]), errors, strict=True):
    axis.plot(*np.stack([a, b]).T, ".-", color="tab:orange" if error < 3 else "tab:red", lw=1)
axis.set_axis_off()
figure.savefig("point_features.png", dpi=100)
assert (errors < 3).mean() > 0.8
