"""Straighten a document: a homography

Four corners of the page in the photo define a homography. Sampling on its grid shows the page as if
photographed from the front, as document scanners do. The photo of the tilted page was made with the
inverse of the same homography.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data
from skimage.transform import estimate_transform

from gridsample import fields, grid_sample

page = data.page()[None, None]
height, width = page.shape[2:]
corners = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]])
seen = np.array([[60, 40], [330, 75], [350, 250], [20, 220]])  # where the photo shows them
tilt = estimate_transform("projective", corners, seen).params  # from the page to the photo

grid = fields.homography_grid(tilt, (height, width), (290, 384))
photo = grid_sample(page, grid, "bicubic", "constant", fill_value=40, antialias=True)
grid = fields.homography_grid(tilt, (290, 384), (height, width), convention="pixel")
(straight,) = grid_sample(photo, grid, "bicubic")
frame = np.full((1, 290, 384), 40, np.uint8)
frame[:, 49 : 49 + height] = straight
plt.imsave("perspective.png", np.concatenate([photo[0], frame], -1)[0], cmap="gray")
