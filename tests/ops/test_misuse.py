"""Warnings about calls that succeed, but are probably mistakes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import gridsample
import gridsample.cv
import gridsample.ndimage
import gridsample.nn
import gridsample.torch_compat
from gridsample import MisuseWarning
from gridsample.ops import misuse

PHOTO = np.zeros((1, 48, 64, 3), np.float32)
IMAGE = np.zeros((1, 3, 48, 64), np.float32)
GRID = np.array(gridsample.identity_grid((1, 1, 48, 64)))
ROWS, COLUMNS = np.mgrid[0:48, 0:64].astype(np.float32)
PIXELS = np.stack((COLUMNS, ROWS), -1)[np.newaxis]
MESH = np.array(gridsample.identity_grid((1, 1, 20, 30)))
SCATTERED = np.random.default_rng(0).uniform(-1, 1, (20, 30, 2)).astype(np.float32)

pytestmark = pytest.mark.filterwarnings("error::gridsample.MisuseWarning")
WRONG: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "a photo": ("channel_axis=-1", (PHOTO, GRID), {}),
    "a volume": ("channel_axis=-1", (np.zeros((1, 9, 9, 9, 1)), np.zeros((1, 4, 3))), {}),
    "no batch": (r"grid\[None\]", (IMAGE, GRID[0]), {}),
    "no batch, another size": (r"grid\[None\]", (IMAGE, MESH[0]), {}),
    "pixels": (r'coords="pixel".*gridsample.help\("coords"\)', (IMAGE, PIXELS), {}),
    "masked pixels": ('coords="pixel"', (IMAGE, np.where(PIXELS > 20, PIXELS, np.inf)), {}),
    "pixels of a list": ('coords="pixel"', (IMAGE, PIXELS.reshape(1, -1, 2)), {}),
}
RIGHT: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "an image": ((IMAGE, GRID), {}),
    "channels last": ((PHOTO, GRID), {"channel_axis": -1}),
    "features of few columns": ((np.zeros((1, 256, 12, 4), np.float32), GRID), {}),
    "a signal as an image": ((np.zeros((1, 64, 100, 1), np.float32), GRID), {}),
    "lists of points": ((IMAGE, SCATTERED), {}),
    "pixels by name": ((IMAGE, PIXELS), {"coords": "pixel"}),
    "displacements": ((IMAGE, PIXELS), {"coords": "displacement"}),
    "a few points outside": ((IMAGE, np.where(COLUMNS[..., None] > 40, 99, GRID)), {}),
    "a periodic image": ((IMAGE, 99 * GRID), {"padding_mode": "wrap"}),
    "no points": ((IMAGE, GRID[:, :0]), {}),
    "not a number": ((IMAGE, np.full_like(GRID, np.nan)), {}),
    "a mask": ((IMAGE, np.where(COLUMNS[..., None] > 9, np.inf, GRID)), {}),
    "a mask of lists": ((IMAGE, np.full_like(SCATTERED, np.inf)), {}),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_warnings_suggest_the_fix(name: str, convert: Any) -> None:
    misuse.LOOKS.clear()
    words, arrays, options = WRONG[name]
    with pytest.warns(MisuseWarning, match=words) as caught:
        gridsample.grid_sample(*map(convert, arrays), **options)
    assert len(caught) == 1 and caught[0].filename == __file__


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_correct_calls_do_not_warn(name: str, convert: Any) -> None:
    arrays, options = RIGHT[name]
    gridsample.grid_sample(*map(convert, arrays), **options)


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_warnings_recognize_images_passed_as_grids(convert: Any) -> None:
    photo, theta = convert(PHOTO), convert(np.eye(2, 3, dtype=np.float32)[np.newaxis])
    with pytest.warns(MisuseWarning, match="channel_axis=-1") as caught:
        gridsample.interpolate(photo, (24, 32))
        gridsample.affine_sample(photo, theta, (1, 1, 24, 32))
    assert [warning.filename for warning in caught] == [__file__] * 2
    gridsample.interpolate(photo, (24, 32), channel_axis=-1)
    gridsample.affine_sample(photo, theta, (1, 1, 24, 32), channel_axis=-1)


def test_other_grids_of_the_same_shape_are_checked() -> None:
    gridsample.grid_sample(IMAGE, GRID)
    with pytest.warns(MisuseWarning):
        gridsample.grid_sample(IMAGE, PIXELS)
    gridsample.grid_sample(IMAGE, GRID)


def test_one_warning_filter_hides_all() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MisuseWarning)
        for _, arrays, options in WRONG.values():
            gridsample.grid_sample(*arrays, **options)


def test_warnings_of_modules_point_to_the_caller() -> None:
    misuse.LOOKS.clear()
    layer = gridsample.nn.GridSample()
    with pytest.warns(MisuseWarning) as caught:
        layer(torch.from_numpy(IMAGE), torch.from_numpy(PIXELS))
    assert caught[0].filename == __file__


def test_operations_on_grids_of_their_own_do_not_warn() -> None:
    gridsample.ndimage.map_coordinates(IMAGE[0, 0], (99 + ROWS, COLUMNS))
    gridsample.cv.remap(PHOTO[0], COLUMNS + 99, ROWS, 1)


def test_a_strict_patch_does_not_warn() -> None:
    misuse.LOOKS.clear()
    image, grid = torch.from_numpy(IMAGE), torch.from_numpy(PIXELS)
    with gridsample.torch_compat.patch(strict=True):
        F.grid_sample(image, grid, align_corners=False)
    with gridsample.torch_compat.patch(), pytest.warns(MisuseWarning) as caught:
        F.grid_sample(image, grid, align_corners=False)
    assert caught[0].filename == __file__


def test_a_compiled_function_does_not_warn() -> None:
    sample = torch.compile(gridsample.grid_sample, backend="eager", fullgraph=True)
    sample(torch.from_numpy(IMAGE), torch.from_numpy(PIXELS))


def test_the_cache_of_checked_grids_is_bounded() -> None:
    misuse.LOOKS.clear()
    misuse.LOOKS |= {((n,), (n,), 1): 1 for n in range(4096)}
    gridsample.grid_sample(IMAGE, MESH)
    assert len(misuse.LOOKS) == 1


def test_tensors_of_the_same_shapes_are_checked_a_few_times() -> None:
    image, grid = torch.from_numpy(IMAGE), torch.from_numpy(GRID)
    misuse.LOOKS.clear()
    for _ in range(20):
        gridsample.grid_sample(image, grid)
    assert [*misuse.LOOKS.values()] == [misuse.MAX_LOOKS]
