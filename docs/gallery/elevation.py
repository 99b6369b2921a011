"""Rotate a GeoTIFF with nodata

A digital elevation model of Jacksboro, Tennessee, with a strip that was not surveyed. The boundary
`missing` makes everything outside the map unknown rather than sea level, so the edges do not
darken.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cbook

import gridsample

heights = cbook.get_sample_data("jacksboro_fault_dem.npz")["elevation"].astype(np.float32)
heights[150:180, 60:260] = np.nan
angle = np.deg2rad(20)
theta = 1.2 * np.array([[[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0]]])
size = (1, 1, *heights.shape)
turned = gridsample.affine_sample(
    heights[None, None], theta, size, padding_mode="missing", missing="ignore", antialias=True
)
both = np.hstack([heights, turned[0, 0]])
plt.imsave("elevation.png", both, cmap="gist_earth", vmin=0, vmax=np.nanmax(heights))
