"""A view in between: softmax splatting

Both views of a stereo pair are moved half of the way to each other. Where near and far pixels meet,
`softmax_splat` with the nearness as a metric lets the near ones win (right); a plain average shows
both (left). Frames of a video are interpolated in the same way, along a flow.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import median_filter
from skimage import data

from gridsample.operators import softmax_splat

left, right, disparity = data.stereo_motorcycle()


def filled(lengths):
    """Where lengths are unknown, take that of the surface behind, to the left or to the right."""
    known, columns = np.isfinite(lengths), np.arange(lengths.shape[1])
    before = np.maximum.accumulate(np.where(known, columns, 0), 1)
    after = np.minimum.accumulate(np.where(known, columns, columns[-1])[:, ::-1], 1)[:, ::-1]
    return np.fmin(*[np.take_along_axis(lengths, place, 1) for place in (before, after)])


def moved(values, shift, metric, mode="soft"):
    """Move an image (H, W, C) to the left, or to the right."""
    flow = np.stack([shift, np.zeros_like(shift)])[None]
    result = softmax_splat(values.transpose(2, 0, 1)[None], flow, metric[None, None], mode)
    return result[0].transpose(1, 2, 0)


of_left = filled(np.where(np.isfinite(disparity), disparity, np.nan).astype(np.float32))
# The disparities of the right view are those of the left one, moved there.
of_right = moved(of_left[..., None], -of_left, of_left, "maximum")[..., 0]
of_right = filled(np.where(of_right == 0, np.nan, of_right))
left, right = (view.astype(np.float32) / 255 for view in (left, right))
result = []
for importance in (0, 1):  # a metric of 0 makes it a plain average
    first = moved(left, -of_left / 2, importance * of_left)
    second = moved(right, of_right / 2, importance * of_right)
    for other in (second, median_filter(first, (3, 3, 1)), median_filter(second, (5, 5, 1))):
        empty = (first == 0).all(-1, keepdims=True)  # nothing has arrived there
        first = np.where(empty, other, first)
    result.append(first[60:270, 370:650])
plt.imsave("view_between.png", np.hstack(result).clip(0, 1).repeat(2, 0).repeat(2, 1))
