"""Resize a depth map with holes

A measured disparity has no value where only one of the cameras sees the scene. Plain sampling
enlarges every hole. With `missing="ignore"`, each result is the mean of the pixels that are known,
and small holes close.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import gridsample

disparity = data.stereo_motorcycle()[2]
disparity = np.where(np.isfinite(disparity), disparity, np.nan)[None, None]
disparity[np.random.default_rng(0).random(disparity.shape) < 0.1] = np.nan  # and a tenth is lost
options = {"scale_factor": 0.5, "mode": "bilinear", "antialias": True}
spread = gridsample.interpolate(disparity, **options)
closed = gridsample.interpolate(disparity, missing="ignore", **options)
assert np.isnan(closed).mean() < 0.1 < 0.5 < np.isnan(spread).mean()
panels = np.hstack([disparity[0, 0, ::2, ::2], spread[0, 0], closed[0, 0]])
plt.imsave("holes.png", panels, vmin=np.nanmin(panels), vmax=np.nanmax(panels))
