"""Positions of pixels between projections: within the tolerance, and parts equal to the whole."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from gridsample.geo import Positions, Raster, positions

pyproj = pytest.importorskip("pyproj")

GLOBE = Raster("EPSG:4326", (0.25, 0, -180, 0, -0.25, 90), (720, 1440))
# Targets, with their sources.
CASES = {
    "zones": (
        Raster("EPSG:32632", (10, 0, 500_000, 0, -10, 5_300_000), (600, 500)),
        Raster("EPSG:3857", (15, 0, 1_002_000, 0, -15, 6_083_000), (300, 400)),
    ),
    "turned": (
        Raster("EPSG:4326", (0.01, 0, 5, 0, -0.01, 56), (500, 700)),
        Raster("EPSG:3034", (900, 300, 3_700_000, 300, -900, 2_700_000), (300, 333)),
    ),
    "pole": (GLOBE, Raster("EPSG:3413", (20_000, 0, -3e6, 0, -20_000, 3e6), (300, 300))),
    "antimeridian": (GLOBE, Raster("EPSG:3832", (15_000, 0, 2e6, 0, -15_000, 3e6), (260, 380))),
    "beyond the projection": (
        GLOBE,
        Raster("ESRI:54030", (90_000, 0, -2e7, 0, -90_000, 1e7), (222, 444)),
    ),
    "units": (GLOBE, Raster("EPSG:4807", (1, 0, -5, 0, -1, 60), (70, 60))),
}


def by_pyproj(source: Raster, target: Raster) -> np.ndarray[Any, Any]:
    """Positions in the source by pyproj, from the definitions alone."""
    a, b, c, d, e, f = target.transform
    i, j = np.indices(target.shape) + 0.5
    project = pyproj.Transformer.from_crs(target.crs, source.crs, always_xy=True)
    x, y = project.transform(a * j + b * i + c, d * j + e * i + f)
    a, _, c, _, e, f = source.transform
    grid = np.stack([(x - c) / a - 0.5, (y - f) / e - 0.5], -1)
    return np.where(np.isfinite(grid).all(-1, keepdims=True), grid, np.nan)


def distance(plan: Positions, expected: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Distances of the positions of a plan from others, on the globe if its image is around it."""
    difference = plan()[0] - expected
    if plan.source.is_around_the_globe():
        width = plan.source.shape[1]
        difference[..., 0] = (difference[..., 0] + width / 2) % width - width / 2
    return np.hypot(difference[..., 0], difference[..., 1])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("tolerance", [0.05, 1e-3, 0])
def test_positions_are_within_the_tolerance(name: str, tolerance: float) -> None:
    plan = positions(*CASES[name], tolerance)
    expected = by_pyproj(*CASES[name])
    np.testing.assert_array_equal(np.isnan(plan()[0]), np.isnan(expected))
    error = distance(plan, expected)
    # Coordinates of some 1e7 are divided by pixels.
    assert np.nanmax(error) <= max(tolerance, 1e-7)
    assert plan.step == 0 or tolerance > 0


@pytest.mark.parametrize("name", CASES)
def test_blocks_are_parts_of_the_whole_and_within_their_bounds(name: str) -> None:
    rng = np.random.default_rng(2)
    for tolerance in (0.05, 0):
        plan = pickle.loads(pickle.dumps(positions(*CASES[name], tolerance)))
        whole = plan()
        for _ in range(6):
            (y, bottom), (x, right) = (np.sort(rng.choice(n + 1, 2, False)) for n in plan.shape)
            part = whole[:, y:bottom, x:right]
            np.testing.assert_array_equal(plan(slice(y, bottom), slice(x, right)), part)
            low, high = plan.bounds((x, y), (right - 1, bottom - 1))
            points = part.reshape(-1, 2)
            points = points[~np.isnan(points).any(-1)]
            assert ((low <= points) & (points <= high)).all()
        assert plan(slice(3, 3)).shape == (1, 0, plan.shape[1], 2)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((GLOBE, 3), TypeError, "target must be"),
        ((GLOBE, ("EPSG:4326", (1, 0, 0), (2, 2))), ValueError, "six finite numbers"),
        ((("EPSG:4326", (1, 1, 0, 1, 1, 0), (2, 2)), GLOBE), ValueError, "to a line or a point"),
        ((("somewhere", (1, 0, 0, 0, 1, 0), (2, 2)), GLOBE), ValueError, "source.crs"),
        ((GLOBE, GLOBE, -1), ValueError, "tolerance"),
        ((GLOBE, GLOBE, "0"), TypeError, "tolerance"),
        ((GLOBE, GLOBE._replace(shape=(2, 2.5))), TypeError, "target.shape"),
    ],
)
def test_errors(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        positions(*arguments)
