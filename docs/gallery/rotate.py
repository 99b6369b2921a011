"""Rotate a photo

A rotation about the centre, as a matrix in pixels. The matrix maps each output pixel to the point
of the photo that it shows, so its angle is the opposite of the rotation that you see. `reflection`
mirrors the photo beyond its edges, so no seam shows.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import gridsample

photo = data.astronaut()
angle, centre = np.deg2rad(30), np.array([255.5, 255.5])
rotation = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
theta = np.column_stack([rotation, centre - rotation @ centre])[None]
size = (1, 3, *photo.shape[:2])
sampling = {"mode": "bicubic", "coords": "pixel", "channel_axis": -1}
(black,) = gridsample.affine_sample(photo[None], theta, size, **sampling)
(rotated,) = gridsample.affine_sample(
    photo[None], theta, size, padding_mode="reflection", **sampling
)
plt.imsave("rotate.png", np.hstack([photo, black, rotated]))
