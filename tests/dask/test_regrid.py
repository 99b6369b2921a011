"""`gridsample.dask.regrid_conservative`: chunks have the bits of the whole."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

import gridsample
import gridsample.dask
from tests import cases

CALLS = ("float32", "float64", "int16", "uint8", "complex64", "float16")


def overlaps_of(rng: np.random.Generator) -> gridsample.CellOverlaps:
    """Cells along one to three axes, some of which are periodic, and partly outside."""
    rank = int(rng.integers(1, 4))
    periods = [360 if rng.random() < 0.4 else None for _ in range(rank)]

    def cells(low: float, high: float) -> Any:
        inner = np.sort(rng.uniform(low, high, int(rng.integers(0, 12))))
        bounds = np.concatenate([[low], inner, [high]])
        return bounds[::-1] if rng.random() < 0.5 else bounds

    source = [cells(0, 360 if period else 10) for period in periods]
    ends = [(-500, 500) if period else (-3, 13) for period in periods]
    target = [cells(*np.sort(rng.uniform(*each, 2))) for each in ends]
    return gridsample.CellOverlaps(source, target, period=periods)


# Each program of each dtype compiles for itself.
SEEDS = [0, 2, *[pytest.param(n, marks=pytest.mark.slow) for n in (1, 3, 4, 5, *range(6, 14))]]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_chunks_have_the_bits_of_the_whole(seed: int) -> None:
    rng = cases.generator("dask regrid", seed)
    overlaps, dtype = overlaps_of(rng), CALLS[seed % len(CALLS)]
    image = cases.pixels(rng, (2, 3, *overlaps.source_shape), dtype)
    if np.dtype(dtype).kind in "fc":
        image[rng.random(image.shape) < 0.2] = np.nan
    chunks, out = (
        tuple([int(rng.integers(1, n + 1)) for n in shape])
        for shape in (image.shape, overlaps.shape)
    )
    for options in ({}, {"missing": "ignore", "min_weight": 0.3}):
        whole = gridsample.regrid_conservative(image, overlaps, **options)
        lazy = gridsample.dask.regrid_conservative(
            da.from_array(image, chunks), overlaps, chunks=out, **options
        )
        with dask.config.set(scheduler="synchronous"):
            np.testing.assert_array_equal(lazy.compute(), whole)
        assert lazy.dtype == whole.dtype


def test_chunks_of_the_result_cover_those_of_the_image() -> None:
    image = da.zeros((1, 2, 100, 90), chunks=(1, 1, 50, 30))
    overlaps = gridsample.CellOverlaps(
        [range(91), range(101)], [range(0, 91, 10), np.linspace(0, 100, 201)]
    )
    call = gridsample.dask.regrid_conservative
    assert call(image, overlaps).chunks == ((1,), (1, 1), (50,) * 4, (3, 3, 3))
    assert call(image, overlaps, chunks=(None, 9)).chunks[3] == (9,)
    with pytest.raises(ValueError, match="but overlaps describes"):
        call(image[..., :80], overlaps)
