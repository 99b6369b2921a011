"""Slice a volume along a tilted plane

A grid of shape (N, H, W, 3) samples a volume on any surface. Left: a slice along the axes.
Middle: the same slice, tilted. Right: a cylinder, unrolled.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import nibabel
import numpy as np

import gridsample

scan = nibabel.load(Path(nibabel.__file__).parent / "tests/data/anatomical.nii")
head = scan.get_fdata()[None, None]  # (1, 1, 33, 41, 25)
u, v = np.meshgrid(np.linspace(-1, 1, 300), np.linspace(-1, 1, 300))
flat = np.stack([0 * u + 0.1, v, u], -1)  # x, y, z along the last, the middle and the first axis
tilted = np.stack([0.5 * v + 0.2 * u, v, u], -1)
angle = np.pi * u
cylinder = np.stack([v, 0.55 * np.cos(angle), 0.55 * np.sin(angle)], -1)
slices = gridsample.grid_sample(head, np.stack([flat, tilted, cylinder])[None], "catmull-rom")
plt.imsave(
    "volume_slices.png", np.hstack(slices[0, 0]), cmap="gray", vmax=np.percentile(slices, 99.5)
)
