"""Warp a frame by optical flow

The disparity of a stereo camera is an optical flow along x: it says where each pixel of the left
view lies in the right one. Sampling the right view there reconstructs the left one, except where
the flow is unknown (grey).
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

from gridsample import fields

left, right, disparity = data.stereo_motorcycle()
flow = np.stack([-disparity, np.zeros_like(disparity)], -1)[None]  # x, y in pixels
flow[~np.isfinite(flow)] = np.nan
as_float = right[None] / 255.0
(warped,) = fields.flow_warp(as_float, flow, "bicubic", channel_axis=-1)
warped = np.where(np.isnan(warped), 0.5, warped).clip(0, 1)
plt.imsave("flow_warp.png", np.hstack([left / 255, warped])[::2, ::2])
