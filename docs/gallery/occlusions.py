"""Forward warping and occlusions

`splat` is the exact transpose of sampling: it adds each pixel of the left view at its place in the
right one. `normalize=True` divides by the sum of the weights. Black is where nothing lands: there
the right camera sees what the left one does not.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import gridsample

left, right, disparity = data.stereo_motorcycle()
known = np.isfinite(disparity)
shift = np.where(known, -disparity, np.nan)
flow = np.stack([shift, np.zeros_like(shift)], -1)[None]
# Near surfaces hide far ones: they weigh more.
nearness = np.exp(np.where(known, disparity, 0) / 2)[None, ..., None].astype(np.float64)
(moved,) = gridsample.splat(
    left[None] / 255.0, flow, left.shape[:2], coords="displacement", normalize=True,
    weights=nearness, channel_axis=-1,
)  # fmt: skip
plt.imsave("occlusions.png", np.hstack([moved.clip(0, 1), right / 255])[::2, ::2])
