"""Padding: six boundaries

A grid twice as large as the image, sampled with `zeros`, `border`, `reflection` and `wrap`. A tuple
sets a boundary for each axis, x first: `("wrap", "border")` and `("zeros", "mirror")`.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import gridsample

photo = data.chelsea()[20:200, 80:320].transpose(2, 0, 1)[None] / 255.0
double = np.array([[[2.0, 0, 0], [0, 2, 0]]])
size = (1, 3, 180, 240)
names = ("zeros", "border", "reflection", "wrap", ("wrap", "border"), ("zeros", "mirror"))
panels = [
    gridsample.affine_sample(photo, double, size, padding_mode=name, antialias=True)[0]
    for name in names
]
rows = [np.concatenate(panels[:3], -1), np.concatenate(panels[3:], -1)]
plt.imsave("boundaries.png", np.concatenate(rows, 1).transpose(1, 2, 0).clip(0, 1))
