"""Matching rows: correlation lookups

For each pixel of the left view, `correlation_lookup` correlates its features with those of the
right one in a window of the same row, without the volume of all pairs: first 65 pixels wide, then
five around the best place, which may lie between pixels. This is what RAFT-Stereo looks up in each
iteration, here with windows of plain pixels as features.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import median_filter, uniform_filter
from skimage import data

from gridsample.operators import correlation_lookup

left, right, disparity = (image[::2, ::2] for image in data.stereo_motorcycle())


def features(view):
    gray = view.mean(-1).astype(np.float32)
    gray -= uniform_filter(gray, 21)
    patches = np.lib.stride_tricks.sliding_window_view(np.pad(gray, 4), (9, 9))
    patches = patches.reshape(*gray.shape, -1).transpose(2, 0, 1)
    return (patches / (np.linalg.norm(patches, axis=0) + 20))[None]


maps = features(left), features(right)
height, width = left.shape[:2]
columns = np.broadcast_to(np.arange(width, dtype=np.float32), (1, 1, height, width))
middle = 18  # disparities from -14 to 50
scores = correlation_lookup(*maps, columns - middle, radius=32, levels=1)
scores = uniform_filter(scores, (0, 0, 7, 7))
estimate = middle + 32 - scores.argmax(1, keepdims=True).astype(np.float32)
estimate = median_filter(estimate, (1, 1, 9, 9))
scores = correlation_lookup(*maps, columns - estimate, radius=2, levels=1)
weights = np.exp(40 * scores)
offsets = np.arange(-2, 3).reshape(1, -1, 1, 1)
estimate -= (weights * offsets).sum(1, keepdims=True) / weights.sum(1, keepdims=True)
true = np.where(np.isfinite(disparity), disparity / 2, np.nan)
both = np.hstack([left / 255, plt.get_cmap("turbo")((estimate[0, 0] - 5) / 25)[..., :3]])
plt.imsave("matching.png", both.clip(0, 1))
