"""Elastic deformation of an image and its labels

Smooth random displacements are a common augmentation of training data. `fields.exp` makes them
invertible, so nothing folds. The photo is sampled with `bicubic` and its segmentation with `label`:
no new labels appear, and the outlines still fit the photo.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter, label
from skimage import color, data

from gridsample import fields

coins = data.coins()
labels = label(gaussian_filter(coins, 3) > 115)[0].astype(np.uint8)
noise = np.random.default_rng(0).normal(size=(*coins.shape, 2))
velocity = 220 * gaussian_filter(noise, (18, 18, 0))[None]
field = fields.exp(velocity)
bent = fields.flow_warp(coins[None, None], field, "bicubic", "reflection")[0, 0]
same = fields.flow_warp(labels[None, None], field, "label")[0, 0]
shown = [color.label2rgb(*pair, bg_label=0) for pair in ((labels, coins), (same, bent))]
assert fields.jacobian_determinant(field).min() > 0  # nothing folds
plt.imsave("elastic.png", np.hstack(shown))
