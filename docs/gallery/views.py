"""A new view from a depth map

The known depth of the left view gives points in space. `cameras.project` says where another camera
sees them, and `splat` draws them there, near points in front of far ones. The camera moves to the
right in three steps; black is what the left view does not show.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import gridsample
from gridsample import cameras

left, _, disparity = (image[::2, ::2] for image in data.stereo_motorcycle())
height, width = disparity.shape
focal, baseline, offset = 994.978 / 2, 0.193, 31.086 / 2
intrinsics = np.array([[focal, 0, 155.6], [0, focal, 127], [0, 0, 1]])
x, y = np.meshgrid(np.arange(width), np.arange(height))
rays = np.stack([x, y, np.ones_like(x)], -1) @ np.linalg.inv(intrinsics).T
depth = focal * baseline / (np.where(np.isfinite(disparity), disparity / 2, np.nan) + offset)
points = (rays * depth[..., None]).reshape(-1, 3)
near = np.exp(np.nan_to_num(-depth * 10)).reshape(1, -1, 1)  # near points hide far ones
colours = left.reshape(1, -1, 3) / 255.0
frames = []
for step in (-0.05, 0.05, 0.15):
    camera = np.eye(4)
    camera[:3, 3] = [-step, 0, 0]
    pixels, _ = cameras.project(points, intrinsics, camera)
    frames.append(
        gridsample.splat(
            colours, pixels[None], (height, width), coords="pixel", normalize=True,
            weights=near, channel_axis=-1,
        )[0]
    )  # fmt: skip
plt.imsave("views.png", np.hstack(frames).clip(0, 1))
