"""The command line run in this process, on files in a temporary folder."""

import numpy as np
import pytest

from gridsample import cli, io
from gridsample.io import Image

nibabel = pytest.importorskip("nibabel")
pytest.importorskip("tifffile")

AFFINE = np.array([[-2.0, 0, 0, 90], [0, 2, 0, -126], [0, 0, 3, -72], [0, 0, 0, 1]])


def run(*words):
    return cli.main([str(word) for word in words])


def warped(array, *words, suffix="npy", volume=False):
    """Write an array, warp the file without antialiasing, and read the result."""
    image = Image(array, "NumPy", has_channel_axis=True)
    source, target = io.Path(f"in.{suffix}"), io.Path(f"out.{suffix}")
    io.write(image, source, overwrite=True)
    assert run("warp", source, target, "--force", "--no-antialias", *words) == 0
    return io.read(target, volume=volume).array


def noise(*shape, dtype=np.float64):
    rng = np.random.default_rng(3)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    if np.dtype(dtype).kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return (rng.normal(size=shape) * 100).astype(dtype)


def brain(shape=(8, 6, 5)):
    image = nibabel.Nifti1Image(noise(*shape, dtype=np.int16), AFFINE)
    image.header.set_slope_inter(0.5, 100)
    image.to_filename("brain.nii.gz")
    return nibabel.load("brain.nii.gz")
