"""Move landmarks: a thin-plate spline

Landmarks say where some points of the result are in the photo, and a thin-plate spline is the
smoothest map through them. Here the eyes grow, the nose shrinks, and the corners stay in place.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import gridsample
from gridsample import fields

photo = data.chelsea()[:, 40:440]
edges = np.array([[x, y] for x in (0, 133, 266, 399) for y in (0, 100, 200, 299)], float)
edges = edges[((edges % [399, 299]) == 0).any(1)]
circle = np.stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)], -1)
points, targets = [edges], [edges]
for centre, radius, size in (((131, 114), 36, 1.4), ((278, 137), 30, 1.4), ((227, 242), 28, 0.6)):
    points.append(centre + radius * size * circle)
    targets.append(centre + radius * circle)
points, targets = np.concatenate(points), np.concatenate(targets)
grid = fields.thin_plate(points, targets).grid(photo.shape[:2])
(warped,) = gridsample.grid_sample(
    photo[None], grid, "bicubic", "border", coords="pixel", channel_axis=-1
)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for axis, image, marks in zip(axes, (photo, warped), (targets, points), strict=True):
    axis.imshow(image)
    axis.plot(*marks.T, ".", color="tab:orange", markersize=4)
    axis.set_axis_off()
figure.savefig("thin_plate.png", dpi=100)
