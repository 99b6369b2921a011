"""Every boundary with nearest, linear and cubic, and what its record says, against the reference.

A new boundary needs no line here: lists of boundaries in other tests are for what is special.
"""

from __future__ import annotations

import itertools
from typing import Any

import cases
import numpy as np
import pytest
from oracles import assert_close

import gridsample
from gridsample.definitions import axis, splines
from gridsample.definitions.boundaries import BOUNDARIES, Boundary
from gridsample.kernels import reference

BOUNDARY = pytest.mark.parametrize("boundary", BOUNDARIES)
SIZES = (1, 2, 9)
FILL, TOLERANCE = 1.5, 1e-5


def assert_is_the_reference(
    spatial: tuple[int, ...], modes: tuple[str, ...], boundaries: tuple[str, ...]
) -> None:
    """Compare samples and gradients at infinity and up to two images away, pixels among them.

    Single precision has more ways to read taps than double precision; quarters of pixels are exact.
    """
    rng = cases.generator("boundaries", spatial, modes, boundaries)
    image = rng.standard_normal((1, 1, *spatial)).astype(np.float32)
    near = [rng.integers(-5, 4 * size + 5, 40) / 4 for size in spatial[::-1]]
    far = [rng.integers(-12 * size, 12 * size, 40) / 4 for size in spatial[::-1]]
    ends = np.array([*itertools.product((-np.inf, 0.25, np.inf), repeat=len(spatial))])
    grid = np.concatenate([np.stack(near, -1), np.stack(far, -1), ends])
    grid = grid[np.newaxis].astype(np.float32)
    fill = {"fill_value": FILL} if "constant" in boundaries else {}
    options: dict[str, Any] = {"mode": modes, "padding_mode": boundaries, "coords": "pixel"}
    names = (modes, boundaries, False)
    expected = reference.gather(image, grid, *names, coords="pixel", fill=FILL)
    assert_close(gridsample.grid_sample(image, grid, **options, **fill), expected, TOLERANCE)
    upstream = rng.standard_normal(expected.shape).astype(np.float32)
    gradients = gridsample.grid_sample_vjp(upstream, image, grid, **options, **fill)
    exact = reference.gradients(upstream, image, grid, *names, coords="pixel", fill=FILL)
    for gradient, expected in zip(gradients, exact, strict=True):
        assert_close(gradient, expected, TOLERANCE)


@pytest.mark.parametrize("mode", cases.MODES)
@BOUNDARY
def test_a_line_under_any_boundary_matches_the_reference(boundary: str, mode: str) -> None:
    for size in SIZES:
        assert_is_the_reference((size,), (mode,), (boundary,))


@BOUNDARY
def test_mixed_boundaries_match_the_reference(boundary: str) -> None:
    names = [*BOUNDARIES]
    other = names[(names.index(boundary) + 2) % len(names)]
    for spatial, mode in (((9, 9), "linear"), ((2, 9), "linear"), ((9, 9), "cubic")):
        assert_is_the_reference(spatial, (mode, mode), (boundary, other))
    assert_is_the_reference((9, 9), ("linear", "cubic"), (other, boundary))


def read_pixels(boundary: str, size: int, aligned: bool, indices: range) -> list[int | None]:
    return [reference.fold_index(i, size, boundary, aligned) for i in indices]


@BOUNDARY
@pytest.mark.parametrize("aligned", [False, True])
def test_records_tell_which_pixels_taps_read(boundary: str, aligned: bool) -> None:
    record = BOUNDARIES[boundary]
    for size in (9, 30):
        pixels = read_pixels(boundary, size, aligned, range(-2 * size, 3 * size))
        outside = pixels[: 2 * size] + pixels[3 * size :]
        assert record.may_drop == (None in outside)
        assert record.drops == ({*outside} == {None})
        ends = pixels[2 * size - 4 : 2 * size], pixels[3 * size : 3 * size + 4]
        far = [[p for p in end if p is not None] for end in ends]
        assert record.joins_ends == (max(far[0], default=0) > 4 or min(far[1], default=8) < 4)


@BOUNDARY
@pytest.mark.parametrize("aligned", [False, True])
def test_the_period_is_that_of_the_reference(boundary: str, aligned: bool) -> None:
    record = BOUNDARIES[boundary]
    for size in SIZES:
        pixels = read_pixels(boundary, size, aligned, range(-3 * size - 9, 6 * size + 9))
        period = record.period(size, aligned)
        assert (period is None) == (record.code < axis.REFLECTION)
        if period is not None:
            assert pixels[period:] == pixels[:-period]


@BOUNDARY
def test_mirrored_neighbours_are_neighbours(boundary: str) -> None:
    record = BOUNDARIES[boundary]
    if record.mirrors_neighbours:
        for aligned in (False, True):
            pixels = read_pixels(boundary, 7, aligned, range(-20, 30))
            for one, two in itertools.pairwise(pixels):
                assert one is not None and two is not None and abs(one - two) <= 1
        assert {reference.fold_sign(i, 7, boundary) for i in range(-20, 30)} == {1}


def test_splines_need_an_exact_recursion_where_ends_are_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(BOUNDARIES, "ring", Boundary("ring", axis.WRAP))
    with pytest.raises(NotImplementedError, match=r"'ring'.*exact recursion"):
        splines.recursive("ring")
