"""Panorama, cube map, little planet

`convert_panorama` reads across the edges of a panorama, so no seam appears where it closes. A
little planet is a stereographic projection: four lines of code, because a grid may hold any
formula. The sky is the Hubble deep field, the ground is gravel.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import gridsample
from gridsample import cameras

sphere = cameras.equirectangular((300, 600))
x, y, z = np.moveaxis(cameras.panorama_rays(sphere)[0], -1, 0)  # y points down
down = np.maximum(y, 1e-3)
ground = data.gravel()[None, None] / 255.0
at = 80 * np.stack([x / down, z / down], -1)[None]
ground = gridsample.grid_sample(
    ground, at, padding_mode="reflection", coords="pixel", antialias=True
)
stars = data.hubble_deep_field()[:300, :600].transpose(2, 0, 1)[None] / 255.0
fog = np.exp(-0.4 / down)
scene = np.where(y > 0, fog * ground + (1 - fog) * 0.5, stars + 0.4 * np.exp(8 * y.clip(max=0)))
faces = cameras.convert_panorama(scene, sphere, cameras.cubemap(150))[0]  # (3, 6, 150, 150)
right, forward = np.meshgrid(np.linspace(-2.4, 2.4, 300), np.linspace(2.4, -2.4, 300))
depth = 2 * np.arctan(np.hypot(right, forward)) / np.pi  # 0 straight down, 1 straight up
longitude = np.arctan2(right, forward) / (2 * np.pi)
at = np.stack([600 * (longitude + 0.5) - 0.5, 300 * (1 - depth) - 0.5], -1)[None]
planet = gridsample.grid_sample(
    scene, at, "bicubic", ("wrap", "border"), coords="pixel", antialias=True
)
rows = [np.concatenate(list(faces.swapaxes(0, 1)[k : k + 3]), -1) for k in (0, 3)]
cube = np.concatenate(rows, 1)  # right, left, up; down, front, back
panels = np.concatenate([scene[0], cube, planet[0]], -1).clip(0, 1)
plt.imsave("panorama.png", panels.transpose(1, 2, 0))
