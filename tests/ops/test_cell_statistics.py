"""Statistics of cells, against the areas of pixels that are clipped by them."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import gridsample
from gridsample.definitions.statistics import NAMES
from gridsample.geo import cell_statistics
from gridsample.kernels.vector.interpreter import interpreted

Array = np.ndarray[Any, Any]
PARTS = {"q1": 0.25, "median": 0.5, "q3": 0.75}
EVERY = (*NAMES, 0.0, 0.9, 1.0)


def clipped(outline: list[Any], axis: int, limit: float, sign: float) -> list[Any]:
    """Cut off the part of a polygon beyond a line, as Sutherland and Hodgman do."""
    kept = []
    for p, q in itertools.pairwise([*outline, *outline[:1]]):
        a, b = sign * (p[axis] - limit), sign * (q[axis] - limit)
        if a >= 0:
            kept.append(p)
        if (a >= 0) != (b >= 0):
            kept.append(p + a / (a - b) * (q - p))
    return kept


def area_of(outline: list[Any]) -> float:
    """The area of a polygon."""
    pairs = itertools.pairwise([*outline, *outline[:1]])
    return abs(sum(a[0] * b[1] - a[1] * b[0] for a, b in pairs)) / 2


def shares(outline: list[Any], size: tuple[int, int]) -> Array:
    """The share of each pixel that is in a cell."""
    result = np.zeros(size)
    for i, j in np.ndindex(*size):
        part = outline
        for axis, middle in ((0, j), (1, i)):
            part = clipped(part, axis, middle - 0.5, 1)
            part = clipped(part, axis, middle + 0.5, -1)
        result[i, j] = area_of(part)
    return result


def statistic_of(name: Any, values: Array, share: Array, area: float, least: float) -> float:
    """The statistic of a cell: values that do not count have no share."""
    total, ranked = share.sum(), (share > 0) & (share >= min(1, area) / 1024)
    if name in ("count", "share"):
        return float(total / (1 if name == "count" else area))
    if not total > least * area:
        return np.nan
    if name in ("sum", "mean"):
        return float((values * share).sum() / (1 if name == "sum" else total))
    if not ranked.any():
        return np.nan
    if name in ("min", "max"):
        return float(getattr(values[ranked], name)())
    order = np.argsort(values[ranked])
    weights = share[ranked][order].cumsum()
    part = PARTS.get(name, name)
    return float(values[ranked][order][np.searchsorted(weights, part * weights[-1] * (1 - 1e-9))])


def outlines(corners: Array) -> list[Any]:
    """The outlines of cells, given corners (rows + 1, columns + 1, 2), row after row."""
    places = itertools.product(*[range(n - 1) for n in corners.shape[:2]])
    around = (0, 0), (0, 1), (1, 1), (1, 0)
    return [[corners[i + a, j + b] for a, b in around] for i, j in places]


def cells(rng: np.random.Generator, rows: int, columns: int, size: tuple[int, int]) -> Array:
    """The corners of uneven cells that reach beyond an image, (1, rows + 1, columns + 1, 2)."""
    across = np.linspace(-2, size[1] + 1, columns + 1), np.linspace(-2, size[0] + 1, rows + 1)
    corners = np.stack(np.meshgrid(*across), -1)
    spacing = min(size[1] / columns, size[0] / rows)
    moved: Array = (corners + rng.uniform(-0.3, 0.3, corners.shape) * spacing)[np.newaxis]
    return moved


@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (1, 1), (5, 7)])
def test_statistics_of_uneven_cells(rows: int, columns: int) -> None:
    """Larger and smaller cells than pixels; missing pixels and weights."""
    rng, size = cases.generator("cells", rows, columns), (6, 5)
    image = rng.integers(-9, 9, (1, 2, *size)).astype(np.float64)
    image[rng.random(image.shape) < 0.2] = np.nan
    weights = rng.choice([0.0, 0.5, 1.0], (1, 1, *size))
    corners = cells(rng, rows, columns, size)
    polygons = outlines(corners[0])
    covered = [(shares(outline, size), area_of(outline)) for outline in polygons]
    for factors, options in ((weights**0, {}), (weights, {"weights": weights, "min_weight": 0.4})):
        counts = np.where(np.isnan(image), 0, factors)[0]
        pixels, least = np.where(counts > 0, image[0], 0), options.get("min_weight", 0.0)
        for name in EVERY:
            truth = [
                [statistic_of(name, pixels[c], share * counts[c], area, least) for c in (0, 1)]
                for share, area in covered
            ]
            result = cell_statistics(image, corners, name, missing="ignore", **options)
            flat = result[0].reshape(2, -1).T
            np.testing.assert_allclose(flat, truth, 1e-12, 1e-12, err_msg=str(name))


@pytest.mark.parametrize("name", EVERY)
def test_cells_of_whole_pixels(name: Any) -> None:
    """Blocks of 3 x 4 pixels, as NumPy reduces them; several items and channels, odd layouts."""
    rng = cases.generator("blocks")
    image = np.moveaxis(rng.integers(0, 5, (2, 9, 20, 3)).astype(np.float32), -1, 1)
    y, x = np.arange(-0.5, 9, 3), np.arange(-0.5, 20, 4)
    corners = np.stack(np.meshgrid(x, y), -1)[np.newaxis]
    blocks = image.reshape(2, 3, 3, 3, 5, 4).swapaxes(3, 4).reshape(2, 3, 3, 5, 12)
    truth = {
        "count": np.full(blocks.shape[:-1], 12.0),
        "share": np.ones(blocks.shape[:-1]),
        **{each: getattr(np, each)(blocks, -1) for each in ("min", "max", "sum", "mean")},
    }.get(name)
    if truth is None:
        truth = np.quantile(blocks, PARTS.get(name, name), -1, method="inverted_cdf")
    types = "float64", "float16", ">f4", "uint8", "int32", "uint64"
    for dtype in {"uint8", types[EVERY.index(name) % 6]}:
        result = cell_statistics(image.astype(dtype), corners, name)
        is_integer = np.dtype(dtype).kind in "iu"
        kept = np.dtype(dtype).newbyteorder("=")
        sums = name in ("sum", "count", "share")
        assert result.dtype == (np.float64 if is_integer and sums else kept)
        rounded = np.rint(truth) if is_integer and not sums else truth
        np.testing.assert_allclose(result, rounded, 1e-3 if dtype == "float16" else 1e-6)
    mirrored = cell_statistics(image, corners[:, :, ::-1], name)[..., ::-1]
    np.testing.assert_array_equal(mirrored, cell_statistics(image, corners, name))


@pytest.mark.parametrize("degrees", [0.0, 30.0, 45.0])
@pytest.mark.parametrize("count", [1, 7, 63])
def test_sums_preserve_totals(degrees: float, count: int) -> None:
    image = cases.pixels(cases.generator("totals"), (1, 1, 31, 23))
    angle = np.radians(degrees)
    turn = np.array([[[np.cos(angle), np.sin(angle), 0], [-np.sin(angle), np.cos(angle), 0]]])
    grid = gridsample.affine_grid(turn, (1, 1, count + 1, count + 1), align_corners=True)
    corners = grid * 40 + [11, 15]
    total = cell_statistics(image, corners, "sum", missing="ignore")
    np.testing.assert_allclose(np.nansum(total), image.sum(), 1e-12, 1e-12 * abs(image).sum())
    # Cells without a pixel have no sum, and a count of 0.
    counts = cell_statistics(image, corners, "count")
    np.testing.assert_allclose(counts.sum(), 31 * 23, 1e-12)
    np.testing.assert_array_equal(np.isnan(total), counts == 0)


@pytest.mark.parametrize("name", ["mean", "median", "share"])
def test_nan_propagates(name: str) -> None:
    rng = cases.generator("nan")
    image = rng.normal(size=(1, 1, 6, 7))
    image[..., 2, 3] = np.nan
    corners = cells(rng, 3, 3, (6, 7))
    result = cell_statistics(image, corners, name)
    bad = cell_statistics(np.isnan(image) * 1.0, corners, "max") > 0
    ignored = cell_statistics(image, corners, name, missing="ignore")
    spoilt = np.zeros_like(bad) if name == "share" else bad
    np.testing.assert_array_equal(result, np.where(spoilt, np.nan, ignored))
    assert bad.any() and not bad.all()


@pytest.mark.parametrize("name", ["sum", "max", 0.3])
def test_longitudes_have_no_seam(name: Any) -> None:
    """Cells across the seam of an image that goes round are those of the rolled image."""
    rng = cases.generator("seam")
    image = rng.integers(0, 99, (1, 1, 5, 12)).astype(np.float64)
    x, y = np.arange(-0.25, 12, 1.5), np.arange(-0.25, 5, 1.25)
    corners = np.stack(np.meshgrid(x, y), -1)[np.newaxis]
    moved = corners + np.array([5.0, 0.0])
    rolled = np.roll(image, 5, -1)
    inside = cell_statistics(image, corners, name)[..., :7]
    for shifted in (
        moved,
        np.where([True, False], moved % 12, moved),
        moved + np.array([1200.0, 0]),
    ):
        around = cell_statistics(rolled, shifted, name, period=12)
        np.testing.assert_array_equal(around[..., :7], inside)
    # Of an image that does not go round, a cell that crosses the cut is on one side of it.
    across = np.array([[[[10.5, 0.5], [0.5, 0.5]], [[10.5, 2.5], [0.5, 2.5]]]])
    assert cell_statistics(image, across, "count", period=12.5) == 2.0
    assert cell_statistics(image, across, "count") == 20.0


def test_cells_without_area_or_place() -> None:
    image = np.ones((1, 1, 4, 4))
    corners = np.zeros((1, 2, 7, 2))
    corners[0, :, :, 0] = [0, 1, np.nan, 2, 3, 3, 1e300]
    corners[0, 1, :, 1] = 2.0
    result = cell_statistics(image, corners, "sum")[0, 0, 0]
    np.testing.assert_array_equal(result[:5], [2, np.nan, np.nan, 2, np.nan])
    counts = cell_statistics(image, corners, "count")[0, 0, 0]
    np.testing.assert_array_equal(counts[:5], [2, 0, 0, 2, 0])
    integers = cell_statistics(image.astype("int16"), corners, "min", fill_value=-7)[0, 0, 0]
    np.testing.assert_array_equal(integers[:5], [1, -7, -7, 1, -7])
    assert cell_statistics(image, corners[:, :1], "sum").shape == (1, 1, 0, 6)


@pytest.mark.parametrize("name", [0.5, "max"])
def test_infinite_pixels_are_numbers(name: Any) -> None:
    image = np.array([-np.inf, -np.inf, 3.0, np.inf, 1e308, -1e308, 2.0, np.inf]).reshape(
        1, 1, 1, 8
    )
    x = np.arange(-0.5, 8, 4)
    corners = np.stack(np.meshgrid(x, [-0.5, 0.5]), -1)[np.newaxis]
    truth = {0.5: [-np.inf, 2.0], "max": [np.inf, np.inf]}[name]
    np.testing.assert_array_equal(cell_statistics(image, corners, name)[0, 0, 0], truth)


@pytest.mark.parametrize("name", ["mean", "quantile"])
def test_memory_is_not_exceeded(name: str) -> None:
    """The interpreter checks each access; results are those of machine code, and of threads."""
    rng = cases.generator("interpreter")
    image = rng.normal(size=(1, 1, 5, 6)).astype(np.float32)
    corners, statistic = cells(rng, 2, 3, (5, 6)), 0.4 if name == "quantile" else name
    result = cell_statistics(image, corners, statistic, period=6)
    with interpreted():
        again = cell_statistics(image, corners, statistic, period=6, threads=1)
    np.testing.assert_array_equal(again, result)
    many = cells(rng, 40, 50, (5, 6))
    one, two = (cell_statistics(image, many, statistic, threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.bool])
def test_tensors(dtype: torch.dtype) -> None:
    rng = cases.generator("tensors")
    image = torch.from_numpy(rng.integers(0, 2, (2, 3, 5, 6))).to(dtype)
    corners = torch.from_numpy(cells(rng, 2, 3, (5, 6)))
    for name in ("sum", "max"):
        result = cell_statistics(image, corners, name)
        truth = cell_statistics(image.double().numpy(), corners.numpy(), name)
        is_float = dtype.is_floating_point
        assert result.dtype == (torch.float64 if name == "sum" and not is_float else dtype)
        tolerance = 2**-8 if dtype == torch.bfloat16 else 1e-6
        np.testing.assert_allclose(result.double().numpy(), truth, tolerance)


def test_no_gradients() -> None:
    image = torch.ones(1, 1, 4, 4, requires_grad=True)
    corners = torch.tensor([[[[0.0, 0], [1, 0]], [[0, 1], [1, 1]]]])
    with pytest.raises(TypeError, match=r"no gradients; pass tensor\.detach"):
        cell_statistics(image, corners)
    with torch.no_grad():
        assert cell_statistics(image, corners).item() == 1
    with pytest.raises(TypeError, match="eager tensors on the CPU"):
        torch.vmap(cell_statistics)(image.detach()[None], corners[None])
    with pytest.raises(TypeError, match=r"numpy\.asarray"):
        cell_statistics(jnp.ones((1, 1, 4, 4)), jnp.ones((1, 2, 2, 2)))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"statistic": "avg"}, ValueError, "one of min, max, q1, median, q3, mean"),
        ({"statistic": 1.5}, ValueError, "from 0 to 1"),
        ({"statistic": True}, TypeError, "got bool"),
        ({"input": np.ones((4, 4))}, ValueError, r"input must be \(N, C, H, W\)"),
        ({"input": np.ones((1, 1, 4, 4), complex)}, TypeError, "accepted: real"),
        ({"input": np.ones((3, 1, 4, 4))}, ValueError, "corners must be of 1 or 3 items"),
        ({"corners": np.ones((2, 3, 3, 3))}, ValueError, r"rows \+ 1"),
        ({"weights": np.ones((1, 1, 3, 4))}, ValueError, "weights must be"),
        ({"weights": -np.ones((1, 1, 4, 4))}, ValueError, "not negative"),
        ({"missing": "skip"}, ValueError, "missing"),
        ({"min_weight": 1.0}, ValueError, "min_weight"),
        ({"period": 0}, ValueError, "period must be a positive"),
        ({"fill_value": "x"}, TypeError, "fill_value must be a number"),
        ({"input": np.ones((1, 1, 4, 4), "u1"), "statistic": "min", "fill_value": 0.5},
         ValueError, "uint8 can hold"),
        ({"statistics": "min"}, TypeError, "did you mean"),
    ],
)  # fmt: skip
def test_errors(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments = {"input": np.ones((1, 1, 4, 4)), "corners": np.ones((2, 3, 3, 2))}
    with pytest.raises(error, match=message):
        cell_statistics(**{**arguments, **changes})
