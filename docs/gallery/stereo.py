"""Depth from two views: a plane sweep

The right view is projected onto planes at 48 depths in front of the left camera, and each pixel
keeps the depth at which both views agree best. This is the cost volume of MVSNet, here with windows
of plain pixels as features.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import uniform_filter
from skimage import data

from gridsample import cameras

left, right, disparity = (image[::2, ::2] for image in data.stereo_motorcycle())
focal, baseline, offset = 994.978 / 2, 0.193, 31.086 / 2  # in pixels, metres, pixels
intrinsics = np.array([[focal, 0, 155.6], [0, focal, 127], [0, 0, 1]])
intrinsics = np.stack([intrinsics, intrinsics])
intrinsics[1, 0, 2] += offset
poses = np.stack([np.eye(4), np.eye(4)])
poses[1, 0, 3] = -baseline  # the right camera
depths = focal * baseline / (np.linspace(5, 30, 48) + offset)
views = [view.transpose(2, 0, 1)[None].astype(np.float32) / 255 for view in (left, right)]
cost = cameras.plane_sweep(views[0], views[1][:, None], (intrinsics, poses), depths)
cost = uniform_filter(cost[0].sum(0), (0, 9, 9))
estimate = np.linspace(5, 30, 48)[cost.argmin(0)]
true = np.where(np.isfinite(disparity), disparity / 2, np.nan)
both = np.hstack([estimate, true])
plt.imsave("stereo.png", both, cmap="turbo", vmin=5, vmax=30)
