"""Conservative regridding, against sums over all pairs of cells."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import gridsample
from gridsample import CellOverlaps
from tests import cases

Array = np.ndarray[Any, Any]
IGNORE = {"missing": "ignore", "min_weight": 0.1}


def pairs(bounds: Any) -> Array:
    """Bounds as (n, 2), the lower ones first."""
    bounds = np.asarray(bounds, np.float64)
    return np.sort(np.stack([bounds[:-1], bounds[1:]], 1) if bounds.ndim == 1 else bounds, 1)


def overlap(source: Any, target: Any, measure: str = "length", period: float | None = None) -> Any:
    """The measures of all overlaps, (m, n), in plain loops, and those of the target's cells."""

    def size(low: float, high: float) -> float:
        if measure == "length":
            return high - low
        wide = np.radians(np.array([low, high], np.longdouble))
        return float(np.diff(np.sin(wide))[0])

    old, new = pairs(source), pairs(target)
    matrix = np.zeros((len(new), len(old)))
    turns = [0.0] if period is None else [turn * period for turn in range(-4, 5)]
    for (i, (a, b)), (j, (c, d)), turn in itertools.product(enumerate(new), enumerate(old), turns):
        low, high = max(a, c + turn), min(b, d + turn)
        if high > low:
            matrix[i, j] += size(low, high)
    return matrix, np.array([size(a, b) for a, b in new])


def expected(image: Array, axes: list[Any], weights: Any = 1.0, min_weight: float = 0.0) -> Any:
    """Means by sums over all pairs of cells of an image with two axes; axes are x, y."""
    (x, width), (y, height) = axes
    counts = np.broadcast_to(np.where(np.isnan(image), 0, weights), image.shape)
    values = np.where(np.isnan(image), 0, image)
    total = np.einsum("yj,xi,ncji->ncyx", y, x, counts * values)
    weight = np.einsum("yj,xi,ncji->ncyx", y, x, counts)
    share = weight / (height[:, None] * width)
    with np.errstate(all="ignore"):
        return np.where(share > min_weight, total / weight, np.nan), share


def bounds(rng: np.random.Generator, n: int, low: float, high: float) -> Array:
    """Uneven bounds of n cells."""
    inner = np.sort(rng.uniform(low, high, n - 1))
    return np.concatenate([[low], inner, [high]])


@pytest.mark.parametrize(("flips", "dtype"), [((0, 0), "float64"), ((0, 1), "float32")])
@pytest.mark.parametrize("holes", [False, True])
def test_means_are_those_of_all_pairs(flips: tuple[int, int], dtype: str, holes: bool) -> None:
    rng = cases.generator("conservative", flips, holes)
    lon, lat = bounds(rng, 23, 0, 360), bounds(rng, 17, -90, 90)
    new_lon, new_lat = bounds(rng, 7, -170, 130), bounds(rng, 9, -90, 80)
    image = rng.normal(size=(2, 3, 17, 23)).astype(dtype)
    image[..., 3:6, 4:9] = np.nan if holes else 1
    axes = [overlap(lon, new_lon, period=360), overlap(lat, new_lat, "latitude")]
    wanted, share = expected(image.astype(float), axes, min_weight=0.25)
    lat, image = (lat[::-1], image[:, :, ::-1]) if flips[0] else (lat, image)
    if flips[1]:
        new_lat, wanted, share = new_lat[::-1], wanted[:, :, ::-1], share[:, :, ::-1]
    overlaps = CellOverlaps(
        (lon, lat), (new_lon, new_lat), ("length", "latitude"), period=(360, None)
    )
    result, weight = gridsample.regrid_conservative(
        image, overlaps, missing="ignore", min_weight=0.25, return_weight=True
    )
    assert result.dtype == image.dtype
    np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted))
    eps = 40 * np.finfo(dtype).eps
    np.testing.assert_allclose(result, wanted, eps, eps * 4)
    np.testing.assert_allclose(weight, share, eps, eps)
    if not holes:
        plain = gridsample.regrid_conservative(image, overlaps, min_weight=0.25)
        np.testing.assert_allclose(plain, wanted, eps, eps * 4)


def test_integral_of_the_sphere_is_preserved() -> None:
    rng = cases.generator("conservative", "integral")
    lon, lat = np.linspace(0, 360, 721), np.linspace(90, -90, 361)
    image = rng.random((1, 1, 360, 720))
    overlaps = CellOverlaps(
        (lon, lat),
        (np.linspace(-180, 180, 50), bounds(rng, 33, -90, 90)),
        ("length", "latitude"),
        (360, None),
    )
    result = gridsample.regrid_conservative(image, overlaps)
    new_lat = pairs(overlaps.means[0].target)
    area, new_area = (np.ptp(np.sin(np.radians(cells)), axis=1) for cells in (pairs(lat), new_lat))
    before = (image[0, 0] * np.abs(area)[:, None]).sum() * 0.5
    after = (result[0, 0] * new_area[:, None]).sum() * (360 / 49)
    assert abs(after - before) < 1e-12 * before


def test_what_is_outside_counts_for_nothing() -> None:
    image = np.array([[[1.0, 2.0, 4.0]]])
    overlaps = CellOverlaps([np.arange(4.0)], [[(-3, -1), (-1, 1), (1, 2.5), (2.75, 4.75)]])
    call, nan = gridsample.regrid_conservative, np.nan
    np.testing.assert_allclose(call(image, overlaps)[0, 0], [nan, 1, 4 / 1.5, 4])
    result, weight = call(image, overlaps, min_weight=0.4, return_weight=True)
    np.testing.assert_allclose(result[0, 0], [nan, 1, 4 / 1.5, nan])
    np.testing.assert_allclose(weight[0, 0], [0, 0.5, 1, 0.125])
    integers = (image * 10).astype(np.int16)
    np.testing.assert_array_equal(call(integers, overlaps)[0, 0], [0, 10, 27, 40])
    weights = np.array([[[1.0, 0.0, 1.0]]])
    np.testing.assert_allclose(call(image, overlaps, weights=weights)[0, 0], [nan, 1, 4, 4])


def test_gaps_between_cells() -> None:
    overlaps = CellOverlaps([[(3, 2), (1, 0)]], [[(0, 0.5), (1.2, 1.8), (1.9, 4)]])
    image = np.array([[[5.0, 7.0]]])
    result, weight = gridsample.regrid_conservative(image, overlaps, return_weight=True)
    np.testing.assert_allclose(result[0, 0], [7, np.nan, 5])
    np.testing.assert_allclose(weight[0, 0], [1, 0, 1 / 2.1])


def test_a_cell_reads_no_neighbour_by_rounding() -> None:
    """Bounds that are equal but for rounding do not make a neighbour's NaN spread."""
    centers = (np.arange(3600) / np.float32(10) + np.float32(0.05)).astype(np.float32)
    image = np.zeros((1, 1, 3600))
    image[..., 1000:2000] = np.nan
    target = (np.arange(-180, 180) + 0.5).astype(np.float32)
    missing = np.roll((np.arange(360) >= 100) & (np.arange(360) < 200), 180)
    overlaps = CellOverlaps.of_centers([centers], [target], period=360)
    result = gridsample.regrid_conservative(image, overlaps)
    np.testing.assert_array_equal(np.isnan(result[0, 0]), missing)
    edges = 0.1 * np.arange(31)
    assert edges[3] > 0.3
    overlaps = CellOverlaps([edges], [[0, 0.3, 3]])
    image = np.where(np.arange(30) == 2, np.nan, np.zeros((1, 1, 30)))
    result = gridsample.regrid_conservative(image, overlaps)
    np.testing.assert_array_equal(result, [[[np.nan, 0]]])
    image = np.where((np.arange(3600) >= 1000) & (np.arange(3600) < 2000), np.nan, 0)[None, None]
    # Of other numbers, it is not known that they are rounded; these cover more than 360 degrees.
    overlaps = CellOverlaps.of_centers([centers.astype(np.float64)], [target], period=360)
    result = gridsample.regrid_conservative(image, overlaps, missing="ignore", min_weight=0.01)
    np.testing.assert_array_equal(np.isnan(result[0, 0]), missing)


@pytest.mark.parametrize(
    ("library", "options"),
    [
        *[("numpy", options) for options in ({}, IGNORE, "weights")],
        *[("torch", options) for options in ({}, IGNORE)],
        pytest.param("torch", "weights", marks=pytest.mark.slow),
        ("jax", {}),
        *[pytest.param("jax", each, marks=pytest.mark.slow) for each in (IGNORE, "weights")],
    ],
)
def test_gradients(library: str, options: Any) -> None:
    rng = cases.generator("conservative", "gradients")
    overlaps = CellOverlaps(
        (np.linspace(360, 0, 8), bounds(rng, 6, -80, 80)),
        (bounds(rng, 4, -100, 150), np.array([-85.0, -70.0, 0.0, 40.0])),
        ("length", "latitude"),
        (360, None),
    )
    image, upstream = rng.normal(size=(2, 2, 6, 7)), rng.normal(size=(2, 2, 3, 4))
    weights = rng.uniform(0.5, 1, (1, 2, 6, 7)) if options == "weights" else None
    options = {} if options == "weights" else options
    if options:
        image[:, :, 2, 3] = np.nan
    call = gridsample.regrid_conservative
    given = (image,) if weights is None else (image, weights)

    def loss(*arrays: Any) -> Any:
        extra = {"weights": arrays[1]} if len(arrays) > 1 else {}
        return (call(arrays[0], overlaps, **extra, **options) * upstream).sum()

    if library == "numpy":
        gradients = gridsample.regrid_conservative_vjp(
            upstream, image, overlaps, weights=weights, **options
        )
        gradients = [gradients] if weights is None else gradients
    elif library == "torch":
        torch = pytest.importorskip("torch")
        tensors = [torch.tensor(array, requires_grad=True) for array in given]
        extra = {"weights": tensors[1]} if len(given) > 1 else {}
        total = (call(tensors[0], overlaps, **extra, **options) * torch.tensor(upstream)).sum()
        gradients = [each.numpy() for each in torch.autograd.grad(total, tensors)]

        def function(image: Any, *weights: Any) -> Any:
            extra = {"weights": weights[0]} if weights else {}
            return call(image, overlaps, **extra, **options)

        if not options:
            one = [tensors[0].detach()[:1, :1].requires_grad_()]
            assert torch.autograd.gradcheck(function, one)
            assert torch.autograd.gradgradcheck(function, one, fast_mode=True)
    else:
        jax = pytest.importorskip("jax")
        with jax.enable_x64():
            arrays = [jax.numpy.asarray(array) for array in given]
            gradients = jax.grad(loss, tuple(range(len(given))))(*arrays)
    for array, gradient in zip(given, gradients, strict=True):
        direction = rng.normal(size=array.shape)
        step = 1e-6 * np.where(np.isnan(array), 0, direction)
        others = [a for a in given if a is not array]
        ends = [
            loss(
                *(
                    (array + sign * step, *others)
                    if array is image
                    else (image, array + sign * step)
                )
            )
            for sign in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(np.vdot(gradient, step * 1e6), slope, 1e-7, 1e-8)


@pytest.mark.parametrize(
    ("missing", "compiles"),
    [
        ("propagate", False),
        *[pytest.param(name, True, marks=pytest.mark.slow) for name in ("propagate", "ignore")],
    ],
)
def test_frameworks_agree(missing: Any, compiles: bool) -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    rng = cases.generator("conservative", "frameworks")
    overlaps = CellOverlaps(([1, 0, -3], np.arange(7)), ([-4, 0, 1], bounds(rng, 4, -1, 6)))
    image = cases.pixels(rng, (2, 3, 6, 2)).astype(np.float32)
    image[0, 0, 2] = np.nan

    def call(image: Any, axis: int = 1) -> Any:
        return gridsample.regrid_conservative(image, overlaps, missing=missing, channel_axis=axis)

    wanted, tensor = call(image), torch.tensor(image)
    assert np.isnan(wanted).any()
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager") if compiles else call
    for result in (
        call(tensor),
        compiled(tensor),
        torch.vmap(call)(tensor[:, None])[:, 0],
        jax.jit(call)(image),
        np.moveaxis(call(np.moveaxis(image, 1, -1), -1), -1, 1),
    ):
        np.testing.assert_allclose(result, wanted, 1e-5, 1e-5)


def test_records() -> None:
    first = CellOverlaps([np.arange(4)], [[0, 3]])
    assert first == pickle.loads(pickle.dumps(first)) == CellOverlaps([np.arange(4.0)], [[0.0, 3]])
    assert first != CellOverlaps([np.arange(4)], [[0, 2]])
    assert len({first, CellOverlaps([np.arange(4)], [[0, 3]])}) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0, 1, 1]], [[0, 1]]), "do not overlap"),
        (([[0, 1, 2]], [[0, np.nan]]), "finite"),
        (([[0, 1, 2]], [[0]]), r"\(n \+ 1,\)"),
        (([[0, 1, 2]], [[0, 1], [0, 1]]), "target must have an entry for each of 1"),
        (([[0, 1, 2]], [[0, 1]], "area"), "accepted: 'length', 'latitude'"),
        (([[0, 1, 91]], [[0, 1]], "latitude"), "from -90 to 90"),
        (([[0, 100, 400]], [[0, 1]], "length", 360), "more than its period 360"),
        (([[0, 100]], [[0, 1]], "length", -1), "greater than 0"),
    ],
)
def test_errors_of_cells(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CellOverlaps(*arguments)


def test_errors() -> None:
    overlaps = CellOverlaps([np.arange(4)], [[0, 3]])
    with pytest.raises(ValueError, match=r"spatial shape \(5,\), but overlaps describes \(3,\)"):
        gridsample.regrid_conservative(np.zeros((1, 1, 5)), overlaps)
    with pytest.raises(TypeError, match=r"must be gridsample\.CellOverlaps, got list"):
        gridsample.regrid_conservative(np.zeros((1, 1, 5)), [1])
    with pytest.raises(TypeError, match="real numbers"):
        CellOverlaps([["a", "b"]], [[0, 1]])
