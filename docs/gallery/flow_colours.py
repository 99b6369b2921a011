"""Optical flow as colours, and its inverse

Hue shows the direction of a flow, and saturation its length. `fields.invert` finds the flow that
leads back, which undoes the warp of the photo.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

from gridsample import fields

photo = data.astronaut()[:300, 100:400] / 255.0
y, x = np.mgrid[-1:1:300j, -1:1:300j]
flow = 45 * np.exp(-3 * (x**2 + y**2))[..., None] * np.stack([np.sin(3 * y), -np.sin(3 * x)], -1)
warped = fields.flow_warp(photo[None], flow[None], "bicubic", "border", channel_axis=-1)
inverse = fields.invert(flow[None]).field
back = fields.flow_warp(warped, inverse, "bicubic", "border", channel_axis=-1)
panels = [photo, fields.flow_colours(flow) / 255, warped[0], back[0]]
plt.imsave("flow_colours.png", np.hstack(panels).clip(0, 1))
