"""Resample a NIfTI volume to 1 mm

A scan has voxels of 2 x 2 x 2.2 mm. `gridsample.resample` works in millimetres, and samples it at
voxels of 1 mm that cover the same space: the affines say where voxels lie, so no index is computed
by hand.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import nibabel
import numpy as np
from nibabel.affines import voxel_sizes

import gridsample

scan = nibabel.load(Path(nibabel.__file__).parent / "tests/data/example4d.nii.gz")
head, sizes = scan.get_fdata()[..., 0], voxel_sizes(scan.affine)
shape = tuple(np.round(head.shape * sizes).astype(int))
fine = scan.affine @ np.diag([*1 / sizes, 1])
fine[:3, 3] += scan.affine[:3, :3] @ (0.5 / sizes - 0.5)  # the outer edges stay in place
out = gridsample.resample(head, scan.affine, (shape, fine), mode="spline3")  # (256, 192, 53)
before = np.kron(head[:, :, 12], np.ones((2, 2)))  # two pixels for each voxel
parts = [slice_[70:190, 12:102].T[::-1] for slice_ in (before, out[:, :, 27])]
both = np.kron(np.hstack(parts), np.ones((3, 3)))
plt.imsave("spacing.png", both, cmap="gray", vmin=0, vmax=np.percentile(both, 99.7))
