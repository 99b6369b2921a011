"""The projects whose tests we run: where the tests are, and which functions are replaced."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Project:
    """A project whose tests we run.

    Attributes:
        install: what its tests need, for pip; `gridsample` and torch or SciPy come first.
        in_place: what is put in place, a name of the plugin's `SUBSTITUTES`.
        tests: what pytest is given: paths in a checkout, or modules if the package has its tests.
        installed: whether the tests are in the installed package.
        keyword: which of them, as pytest's -k; as it stands, those that may reach us.
        options: further options of pytest.
    """

    install: str
    in_place: str
    tests: tuple[str, ...]
    installed: bool = False
    keyword: str = ""
    options: tuple[str, ...] = ()


PROJECTS = {
    "scipy": Project(
        "scipy pytest hypothesis",
        "ndimage",
        ("scipy.ndimage.tests.test_interpolation", "scipy.ndimage.tests.test_splines"),
        installed=True,
    ),
    "scipy-interpolate": Project(
        "scipy pytest hypothesis",
        "interpolators",
        ("scipy.interpolate.tests.test_rgi", "scipy.interpolate.tests.test_fitpack2"),
        installed=True,
        # Those with a tolerance for all s, large ones, smooth.
        keyword="test_rgi or ((TestRectBivariate or from_Rect) and not large)",
    ),
    "scikit-image": Project(
        "scikit-image pytest pytest-pretty pooch; a checkout of the same version",
        "ndimage",
        (
            "tests/skimage/transform/test_warps.py",
            "tests/skimage/transform/test_pyramids.py",
            "tests/skimage/transform/test_radon_transform.py",
            "tests/skimage/registration",
            "tests/skimage/measure/test_profile.py",
            "tests/skimage/segmentation/test_boundaries.py",
            "tests/skimage/filters/test_window.py",
        ),
    ),
    "scikit-image-warps": Project(
        "scikit-image pytest pytest-pretty pooch; a checkout of the same version",
        "skimage",
        (
            "tests/skimage/transform/test_warps.py",
            "tests/skimage/transform/test_pyramids.py",
            "tests/skimage/transform/test_radon_transform.py",
            "tests/skimage/transform/test_integral.py",
            "tests/skimage/transform/test_finite_radon_transform.py",
            "tests/skimage/transform/test_thin_plate_splines.py",
            "tests/skimage/registration",
            "tests/skimage/filters/test_window.py",
        ),
    ),
    "jax": Project(
        "jax absl-py pillow pytest; a checkout of the same version",
        "jax",
        ("tests/scipy_ndimage_test.py", "tests/image_test.py"),
        keyword="MapCoordinates or ContinuousGradients or Resize",
    ),
    "xarray": Project(
        "xarray scipy dask cftime pytest",
        "xarray",
        ("xarray.tests.test_interp",),
        installed=True,
    ),
    "torch-interpol": Project(
        "torch-interpol pytest; a checkout",
        "interpol",
        ("interpol/tests",),
    ),
    "kornia": Project(
        "--no-deps kornia kornia-rs; a checkout of the same version",
        "torch",
        ("tests/geometry", "tests/augmentation"),
    ),
    "monai": Project(
        "--no-deps monai, parameterized; a checkout of the same version",
        "torch",
        ("tests/networks", "tests/transforms"),
        keyword=(
            "affine or spatial or warp or resample or resize or zoom or rotate or upsample "
            "or interpolate or grid or deform or elastic or unet or localnet or dvf"
        ),
    ),
    "torchvision": Project(
        "torchvision of the version that goes with torch; a checkout",
        "torch",
        ("test/test_transforms_v2.py", "test/test_functional_tensor.py"),
        keyword="resize or affine or perspective or elastic or rotate or crop or interpolat",
    ),
    "torch": Project(
        "expecttest hypothesis; a checkout of PyTorch's sources",
        "torch",
        ("test/test_nn.py",),
        keyword=(
            "grid_sample or GridSample or affine_grid or AffineGrid or interpolate or upsampl "
            "or Upsampl"
        ),
    ),
    "nilearn": Project(
        "nilearn pytest",
        "ndimage",
        ("nilearn.image", "nilearn.regions"),
        installed=True,
    ),
    "nibabel": Project(
        "nibabel scipy pytest",
        "ndimage",
        ("nibabel.tests.test_processing", "nibabel.tests.test_spaces"),
        installed=True,
    ),
    "reproject": Project(
        "reproject dask-image pytest pytest-astropy",
        "ndimage",
        ("reproject.tests.test_array_utils", "reproject.interpolation", "reproject.healpix"),
        installed=True,
    ),
    "dask-image": Project(
        "dask-image pytest; a checkout of the same version",
        "ndimage",
        ("tests/test_dask_image/test_ndinterp",),
        options=("-o", "addopts="),  # which needs plugins for style and coverage
    ),
    "dipy": Project(
        "dipy pytest",
        "ndimage",
        (
            "dipy.align.tests.test_reslice",
            "dipy.align.tests.test_imaffine",
            "dipy.align.tests.test_vector_fields",
            "dipy.core.tests.test_interpolation",
        ),
        installed=True,
    ),
    "batchgenerators": Project(
        "batchgenerators pytest; a checkout",
        "ndimage",
        ("tests",),
        keyword="not multithreaded",  # whose processes outlive them
    ),
    "albumentations": Project(
        "albumentations pytest pytest-mock scikit-image; a checkout of the same version",
        "cv",
        ("tests",),
        keyword=(
            "affine or perspective or rotate or resize or scale or distort or elastic or warp "
            "or remap or grid or zoom or crop or spline or geometric"
        ),
    ),
    "torchio": Project(
        "torchio>=2 pytest; a checkout of the same version",
        "torch",
        ("tests",),
        keyword="spatial or affine or anisotropy or motion or resize or resample or inverse",
    ),
}
