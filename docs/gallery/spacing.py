"""A volume at 1 mm

A scan has voxels of 4 mm. `gridsample.resample` samples it in millimetres, at voxels of 1 mm that
cover the same space: the affines say where voxels lie, and no index is computed by hand.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import nibabel
import numpy as np
from nibabel.affines import voxel_sizes
from skimage.transform import rescale

import gridsample

scan = nibabel.load(Path(nibabel.__file__).parent / "tests/data/anatomical.nii")
head, sizes = scan.get_fdata(), voxel_sizes(scan.affine)
shape = tuple(np.round(head.shape * sizes).astype(int))
fine = scan.affine @ np.diag([*1 / sizes, 1])
fine[:3, 3] += scan.affine[:3, :3] @ (0.5 / sizes - 0.5)  # the outer edges stay in place
out = gridsample.resample(head[None, None], scan.affine, (shape, fine), mode="spline3")[0, 0]
middle = [volume[:, :, volume.shape[2] // 2].T[::-1] for volume in (head, out)]
coarse = rescale(middle[0], sizes[:2][::-1], order=0)
rows, columns = np.minimum(coarse.shape, middle[1].shape)
both = np.hstack([coarse[:rows, :columns], middle[1][:rows, :columns]])
plt.imsave("spacing.png", np.kron(both, np.ones((2, 2))), cmap="gray", vmin=0)
