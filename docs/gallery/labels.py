"""Resize a segmentation

A segmentation at a quarter of its size. `bilinear` invents labels that the image does not have, and
`nearest` reads one pixel in sixteen. With `label`, the pixels that an output pixel covers vote:
every label in the result occurs in the image, and the noise is gone.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import label
from skimage import data

import gridsample

coins = data.coins()
labels = label(coins > 110)[0]
names, labels = np.unique(labels, return_inverse=True)
labels = (labels * 7 % 20 + (labels > 0)).reshape(1, 1, *coins.shape).astype(np.uint8)
small = {
    "bilinear": gridsample.interpolate(labels, scale_factor=0.25, mode="bilinear"),
    "nearest": gridsample.interpolate(labels, scale_factor=0.25, mode="nearest"),
    "label": gridsample.interpolate(labels, scale_factor=0.25, mode="label", antialias=True),
}
assert set(np.unique(small["label"])) <= set(np.unique(labels))
shown = np.hstack([np.kron(image[0, 0], np.ones((4, 4))) for image in small.values()])
plt.imsave("labels.png", shown, cmap="tab20b")
