"""Pixels of a few channels, which are read together, and rows that are cut into blocks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsample
from gridsample.kernels.sampling import calls

# Dtypes and numbers of channels: pairs of pixels, and pixels, with no more than 64 bits.
PAIRS = [("uint8", 2), ("uint8", 3), ("int8", 4), ("bool", 3), ("uint16", 2), ("float16", 2)]
PIXELS = [*PAIRS, ("uint8", 7), ("int16", 3), ("uint16", 4), ("float32", 2), ("complex64", 1)]


def picture(n, size, channels, dtype):
    generator = np.random.default_rng(3)
    image = generator.random((n, *size, channels)) * 255
    if dtype == "complex64":
        return (image + 1j * generator.random(image.shape)).astype(dtype)
    return (image > 128) if dtype == "bool" else (image - 100 * (dtype[0] == "i")).astype(dtype)


def points(n):
    grid = np.random.default_rng(4).random((n, 5, 33, 2)).astype(np.float32) * 3 - 1.5
    grid[0, 0, :3] = [[np.nan], [np.inf], [-1]]
    grid[-1, -1, -2:] = 1
    return grid


@pytest.mark.covering
@pytest.mark.parametrize(
    ("mode", "dtype", "channels"),
    [("bilinear", *kind) for kind in PAIRS] + [("nearest", *kind) for kind in PIXELS],
)
@pytest.mark.parametrize("size", [(1, 2), (2, 2), (2, 3), (7, 5), (5, 40)])
@pytest.mark.parametrize("boundary", ["zeros", "constant", "border", "wrap", "antisymmetric"])
def test_short_pixels_match_planes(mode, dtype, channels, size, boundary):
    image, grid = picture(2, size, channels, dtype), points(2)
    unsigned = dtype in ("uint8", "uint16", "bool")
    if unsigned and boundary == "antisymmetric":
        boundary = "symmetric"
    fill = [1 + c for c in range(channels)] if boundary == "constant" else 0
    options = {"mode": mode, "padding_mode": boundary, "fill_value": fill}
    actual = gridsample.grid_sample(image, grid, channel_axis=-1, **options)
    planes = np.ascontiguousarray(np.moveaxis(image, -1, 1))
    expected = np.moveaxis(gridsample.grid_sample(planes, grid, **options), 1, -1)
    if dtype == "float16":  # sums are rounded once more
        ulp = np.finfo(np.float16).eps
        np.testing.assert_allclose(actual, expected, ulp, 255 * np.finfo(np.float32).eps)
    else:
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("dtype", "channels", "mode", "in_lanes"),
    [
        ("uint8", 3, "bilinear", False),
        ("float32", 8, "bilinear", False),
        ("float32", 3, "bicubic", False),
        ("float32", 9, "bilinear", True),
        ("uint8", 3, "nearest", False),
        ("float32", 3, "nearest", True),
    ],
)
def test_lanes_are_points_for_pixels_of_few_channels(
    dtype: str, channels: int, mode: str, in_lanes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptions = list[Any]()

    def program_for(description: Any) -> Any:
        descriptions.append(description)
        return compiled(description)

    compiled = calls.program_for
    monkeypatch.setattr(calls, "program_for", program_for)
    image = np.ones((1, 11, 13, channels), dtype)  # a size that no other test has
    grid = np.zeros((1, 4, 33, 2), np.float32)
    gridsample.grid_sample(image, grid, mode, channel_axis=-1)
    (description,) = descriptions
    assert description.pixels.in_lanes == in_lanes
    assert description.pixels.channels == channels


GUARDED = """
import numpy as np, guarded, gridsample
for side in ("before", "after"):
    zeros = guarded.maker(side)
    kinds = ("uint8", 3), ("uint8", 2), ("uint16", 2), ("float32", 3), ("int16", 5)
    for dtype, channels in kinds:
        for size in ((1, 2), (2, 2), (3, 5)):
            image, grid = zeros((1, *size, channels), dtype), zeros((1, 1, 64, 2), np.float32)
            out = zeros((1, 1, 64, channels), dtype)
            image += 7
            grid[...] = np.linspace(-1.2, 1.2, 64)[:, np.newaxis]
            for mode in ("nearest", "bilinear", "bicubic"):
                options = {"mode": mode, "padding_mode": "border", "channel_axis": -1}
                gridsample.grid_sample(image, grid, out=out, **options)
                np.testing.assert_allclose(out, 7, rtol=1e-6)
"""


def test_short_pixels_access_no_other_memory():
    path = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    command = [sys.executable, "-c", GUARDED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("degrees", [0, 30, 90])
@pytest.mark.parametrize("channels", [1, 3])
def test_blocks_of_rows_do_not_change_results(degrees, channels):
    angle, size = np.deg2rad(degrees), (40, 1100)
    theta = np.array([[[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0]]])
    grid = gridsample.affine_grid(theta.astype(np.float32), (1, 1, *size))
    image = np.random.default_rng(5).random((1, channels, 1100, 1300)).astype(np.float32)
    expected = gridsample.grid_sample(image, grid)
    narrow = [
        gridsample.grid_sample(image, np.ascontiguousarray(grid[:, :, begin : begin + 100]))
        for begin in range(0, 1100, 100)
    ]
    np.testing.assert_array_equal(expected, np.concatenate(narrow, -1))
    grid[0, 0, -1] = np.nan  # how many lines a row touches is then not known
    np.testing.assert_array_equal(gridsample.grid_sample(image, grid)[..., :-1], expected[..., :-1])
