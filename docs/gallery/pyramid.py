"""Blend photos with a Laplacian pyramid

Each level of the pyramid is blended with a mask that is as blurred as the level: fine details
change abruptly, and shading gradually. No seam is left.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from skimage import data

from gridsample.nn import Pyramid

cat, coffee = data.chelsea()[:, 30:430], data.coffee()[50:350, 100:500]
first, second = (torch.tensor(photo / 255.0).permute(2, 0, 1)[None] for photo in (cat, coffee))
mask = torch.zeros(1, 1, 300, 400, dtype=torch.float64)
mask[..., :200] = 1
laplacian, gaussian = Pyramid(5), Pyramid(5, "gaussian")
levels = [
    share * a + (1 - share) * b
    for share, a, b in zip(gaussian(mask), laplacian(first), laplacian(second), strict=True)
]
blended = laplacian.inverse(levels)
pasted = mask * first + (1 - mask) * second
both = torch.cat([pasted, blended], -1)[0].permute(1, 2, 0).clamp(0, 1)
plt.imsave("pyramid.png", np.asarray(both))
