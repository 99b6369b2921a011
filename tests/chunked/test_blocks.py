"""Blocks of a result, against the whole."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gridsample
from gridsample.chunked.blocks import sample_block, with_neighbours
from gridsample.chunked.pixels import Coefficients, Pixels
from gridsample.chunked.regions import Region, lengths_of, sampling_of
from gridsample.chunked.splines import lines_of

Array = np.ndarray[Any, Any]
BLOCKS = list(itertools.product([slice(0, 4), slice(4, 5), slice(5, 11)], [slice(0, 8)]))


class InMemory(Pixels):
    """An array in memory, which knows how many pixels were read."""

    def __init__(self, array: Array, first_axis: int = 2) -> None:
        super().__init__(array.shape, array.dtype, first_axis)
        self.array, self.count = array, 0

    def read(self, box: Any, out: Array) -> None:
        self.count += int(np.prod(lengths_of(box)))
        out[...] = self.array[box]


def picture() -> Array:
    return np.random.default_rng(0).normal(size=(1, 2, 40, 9)).astype(np.float32)


@pytest.mark.parametrize("kind", ["maps", "grid"])
def test_blocks_read_few_pixels_and_are_those_of_the_whole(kind: str) -> None:
    theta = np.array([[[1.1, 0.1, -1], [0.1, 0.7, 3]]], np.float32)
    y, x = np.mgrid[:11, :8].astype(np.float32)
    grid = np.stack([1.1 * x + 0.1 * y - 1, 0.1 * x + 0.7 * y + 3], -1)[np.newaxis]
    image, options = picture(), {"padding_mode": "border", "coords": "pixel", "antialias": True}
    call = sampling_of(image.shape, (11, 8), **options)
    whole = (
        gridsample.affine_sample(image, theta, (1, 2, 11, 8), **options)
        if kind == "maps"
        else gridsample.grid_sample(image, grid, **options)
    )
    for block in BLOCKS:
        pixels = InMemory(image)
        needed = theta if kind == "maps" else grid[(slice(None), *with_neighbours(call, block))]
        part = sample_block(call, block, needed, pixels, image.dtype)
        np.testing.assert_array_equal(part, whole[(..., *block)])
        assert 0 < pixels.count < image.size / 2


@pytest.mark.parametrize("channel_axis", [1, -1])
def test_coefficients_in_place_are_those_of_their_boxes(channel_axis: int) -> None:
    image = picture()
    if channel_axis == -1:
        image = np.moveaxis(image, 1, -1).copy()
    first = 1 if channel_axis == -1 else 2
    call = sampling_of(image.shape, (1, 1), "spline3", "mirror", channel_axis=channel_axis)
    lines = lines_of(call, range(first, first + 2))
    pixels = Coefficients(InMemory(image, first), lines, np.dtype(np.float64), first)
    for region in (Region((((3, 9),), ((0, 4),))), Region((((3, 9), (12, 20)), ((5, 9),)))):
        window = pixels.window(region)
        for box in region.boxes():
            np.testing.assert_array_equal(window.array[window.at(box)], pixels[pixels.box(box)])
    assert pixels.window(Region(((), ()))).array.shape == image.shape
