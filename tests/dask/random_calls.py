"""Random calls of `gridsample.dask`, with the same calls of functions in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from hypothesis import strategies as st

import gridsample
import gridsample.dask
from gridsample import ndimage
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.methods import find_method
from gridsample.world import Displacement

Array = np.ndarray[Any, Any]
Draw = st.DrawFn

DTYPES = ("float32", "float64", "uint8", "int16", "float16", "int64", "complex64", "bool", ">f4")
MODES = ("linear", "nearest", "cubic", "label", "spline3", "lanczos3", "spline2", "catmull-rom")
LONGEST = {1: 40, 2: 14, 3: 8}  # sides of images and results, by rank


class Comparison(NamedTuple):
    """A call in chunks, and the same call in memory.

    Attributes:
        description: what repeats the call, for messages.
        chunked: makes the result in chunks.
        in_memory: computes the result in memory.
        rounding: the difference that the documentation allows, relative to the largest pixel.
        may_refuse: the beginnings of messages of errors that only chunks have.
    """

    description: str
    chunked: Callable[[], Any]
    in_memory: Callable[[], Any]
    rounding: float = 0.0
    may_refuse: tuple[str, ...] = ()


# Arrays -------------------------------------------------------------------------------------------


class Arrays:
    """Random arrays and chunks, from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def chunks(self, shape: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Chunks of an array: a single one, or up to four, along each axis."""
        chunks = []
        for n in shape:
            count = int(self.rng.integers(0, 4))
            cuts = sorted({*self.rng.integers(1, n, count).tolist()}) if n > 1 else []
            chunks.append(tuple(np.diff([0, *cuts, n]).tolist()))
        return tuple(chunks)

    def lazy(self, array: Array) -> Any:
        """Divide an array."""
        return da.from_array(array, chunks=self.chunks(array.shape))

    def pixels(self, shape: Sequence[int], dtype: str, holes: float = 0.0) -> Array:
        """Pixels, some of which are NaN if there may be holes."""
        values = self.rng.standard_normal(tuple(shape)) * 40 + 100
        if np.dtype(dtype).kind == "c":
            values = values + 1j * self.rng.standard_normal(tuple(shape)) * 40
        if dtype == "bool":
            values = values > 100
        pixels = values.clip(0, 255).astype(dtype) if dtype == "uint8" else values.astype(dtype)
        if holes and pixels.dtype.kind in "fc":
            pixels[self.rng.random(pixels.shape) < holes] = np.nan
        return pixels

    def grid(self, spatial: Sequence[int], shape: Sequence[int], coords: str, odd: str) -> Array:
        """Coordinates (N, *out, D) that reach beyond the image; ``odd`` ones are not finite."""
        sizes, rank = np.array(spatial[::-1]), len(spatial)
        grid = self.rng.uniform(-1.5, 1.5, (*shape, rank))
        if self.rng.random() < 0.5:  # smooth, or a list of random places
            for k, n in enumerate(shape[1:][:rank]):
                line = np.linspace(-1.3, 1.3, n) if n > 1 else np.zeros(1)
                view = [-1 if a == 1 + k else 1 for a in range(len(shape))]
                grid[..., rank - 1 - k] = line.reshape(view) + grid[..., rank - 1 - k] * 0.05
        if coords != "normalized":
            grid = ((grid + 1) * sizes - 1) / 2
        if coords == "displacement" and len(shape) == rank + 1:
            grid = grid - np.stack(np.indices(tuple(shape[1:]))[::-1], -1)
        if odd == "some" and grid.size:
            places = self.rng.random(grid.shape) < 0.1
            grid[places] = self.rng.choice([np.nan, np.inf, -np.inf, 1e30], int(places.sum()))
        if odd == "block" and grid.size:
            first = [slice(0, max(1, 2 * n // 3)) for n in shape]
            grid[tuple(first)] = self.rng.choice([np.nan, np.inf, -np.inf])
        return grid


# Options ------------------------------------------------------------------------------------------


def shapes(rank: int, least: int = 1) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[st.integers(least, LONGEST[rank])] * rank)


def one_or_each(names: Sequence[str], rank: int) -> st.SearchStrategy[Any]:
    """A name, or one for each axis."""
    name = st.sampled_from(names)
    return st.one_of(name, name, st.tuples(*[name] * rank))


def sampling_options(draw: Draw, rank: int, channels: int, labels: bool) -> dict[str, Any]:
    """The options that functions of sampling share, apart from weights."""
    modes = MODES if labels else [name for name in MODES if name != "label"]
    options: dict[str, Any] = {
        "mode": draw(one_or_each(modes, rank)),
        "padding_mode": draw(one_or_each([*BOUNDARIES, "missing"], rank)),
    }
    optional: dict[str, Any] = {
        "extrapolate": st.sampled_from([False, "edges", "centers"]),
        "missing": st.just("ignore"),
        "prefilter": st.just(False),
        "antialias": st.just(True),
        "max_samples": st.sampled_from([1, 2, 64]),
        "footprint": st.just("detach"),
        "return_weight": st.just(True),
        "threads": st.sampled_from([None, 2]),
        "fill_value": st.sampled_from([7, [1] * channels, np.nan, 3.5]),
    }
    for name in draw(st.sets(st.sampled_from([*optional]), max_size=4)):
        options[name] = draw(optional[name])
    if draw(st.booleans()) and not fills(options):
        options.pop("fill_value", None)
    return options


def fills(options: dict[str, Any]) -> bool:
    return "constant" in options["padding_mode"] or options.get("extrapolate", True) is not True


def weights_for(
    draw: Draw, arrays: Arrays, image: Array, items: int, last: bool, options: dict[str, Any]
) -> Array | None:
    """Weights of pixels that are shared by items or channels, or not; None for most calls."""
    if draw(st.integers(0, 2)):
        return None
    channel = image.ndim - 1 if last else 1
    shape = list(image.shape)
    shape[0] = draw(st.sampled_from([1, image.shape[0], items]))
    shape[channel] = draw(st.sampled_from([1, image.shape[channel]]))
    weights = arrays.rng.random(shape).astype(draw(st.sampled_from(["float32", "float64"])))
    weights[arrays.rng.random(weights.shape) < 0.2] = 0
    if draw(st.booleans()):
        weights = weights > 0.5
    if draw(st.booleans()):
        options["min_weight"] = 0.37
    return weights


def names_of(value: Any) -> set[str]:
    return {value} if isinstance(value, str) else {*value}


def is_filtered(options: dict[str, Any]) -> bool:
    orders = [find_method(name).prefilter for name in names_of(options["mode"])]
    return options.get("prefilter", True) and max(orders) > 1


def rounding_of(options: dict[str, Any], image: Array, halves: bool, weighted: bool) -> float:
    """The difference that the documentation allows, relative to the largest pixel."""
    single = image.dtype.name in ("float32", "complex64", "float16")
    unit = 4e-6 if single else 1e-13
    if image.dtype.name == "float16":
        unit = 2e-3
    counted = (
        weighted
        or options.get("missing") == "ignore"
        or "missing" in names_of(options["padding_mode"])
    )
    odd = any(
        name != "missing" and BOUNDARIES[name].odd for name in names_of(options["padding_mode"])
    )
    quotient = counted and (odd or options.get("antialias"))
    rounds = is_filtered(options) or (halves and options.get("antialias")) or quotient
    channels = image.shape[-1 if options.get("channel_axis") == -1 else 1]
    if rounds or channels >= 8:
        return unit * (1e3 if halves or quotient else 10)
    return 0.0


LONG = ("antialias=True in chunks takes", "missing pixels, weights and return_weight are not")


@st.composite
def grid_samples(draw: Draw) -> Comparison:
    """`grid_sample`, whose grid is in memory, divided, or a function."""
    arrays, rank = Arrays(draw(st.integers(0, 2**32 - 1))), draw(st.integers(1, 3))
    spatial, items = draw(shapes(rank)), draw(st.sampled_from([1, 1, 2, 3]))
    channels, dtype = draw(st.sampled_from([1, 2, 3, 9])), draw(st.sampled_from(DTYPES))
    coords = draw(st.sampled_from(["normalized", "pixel", "displacement"]))
    same_rank = coords == "displacement" or draw(st.integers(0, 3))
    out = draw(shapes(rank)) if same_rank else draw(shapes(draw(st.integers(1, 2))))
    options = sampling_options(draw, rank, channels, np.dtype(dtype).kind in "iub")
    options |= {"coords": coords, "align_corners": draw(st.booleans())}
    if draw(st.integers(0, 3)) == 0:
        options["return_mask"] = True
    grid_items = (
        draw(st.sampled_from([1, items])) if items > 1 else draw(st.sampled_from([1, 1, 3]))
    )
    holes = 0.2 if options.get("missing") == "ignore" or draw(st.integers(0, 4)) == 0 else 0.0
    image = arrays.pixels((items, channels, *spatial), dtype, 0 if is_filtered(options) else holes)
    last = draw(st.booleans())
    if last:
        image, options["channel_axis"] = np.moveaxis(image, 1, -1), -1
    odd = draw(st.sampled_from(["", "", "some", "block"]))
    grid = arrays.grid(spatial, (grid_items, *out), coords, odd)
    grid = grid.astype(draw(st.sampled_from(["float64", "float32", "float16"])))
    weights = weights_for(draw, arrays, image, max(items, grid_items), last, options)
    kind = draw(st.sampled_from(["memory", "lazy", "pair", "function"]))
    if kind == "function" and (grid_items > 1 or len(out) != rank):
        kind = "lazy"
    lazy_image = arrays.lazy(image)
    lazy_weights = weights
    if weights is not None and draw(st.booleans()):
        lazy_weights = arrays.lazy(weights)
    lazy_grid, more = grid, dict[str, Any]()
    if kind == "memory":
        more["chunks"] = arrays.chunks(out)
    if kind == "function":
        wide = dtype in ("float64", "int64", "complex128", "uint64", "int32", "uint32")
        grid = grid.astype(np.float64 if wide else np.float32)
        lazy_grid, more = points_of(grid), {"size": out, "chunks": arrays.chunks(out)}

    def chunked() -> Any:
        places, keywords = lazy_grid, {**options, **more}
        if kind in ("lazy", "pair"):
            places = arrays.lazy(grid)
            antialias = bool(options.get("antialias", False))
            bounds = gridsample.dask.coordinate_bounds(places, coords=coords, antialias=antialias)
            keywords["bounds"] = bounds.compute()
            if kind == "pair":
                flat = grid.astype(np.float64).reshape(-1, rank)
                pair = np.fmin.reduce(flat), np.fmax.reduce(flat)
                keywords["bounds"] = pair
        return gridsample.dask.grid_sample(lazy_image, places, weights=lazy_weights, **keywords)

    return Comparison(
        f"grid_sample {image.shape} {lazy_image.chunks} {dtype}, {kind} grid {grid.shape} {odd} "
        f"{grid.dtype}, weights {None if weights is None else (weights.shape, weights.dtype)} "
        f"{getattr(lazy_weights, 'chunks', None)}, {more}, {options}",
        chunked,
        lambda: gridsample.grid_sample(image, grid, weights=weights, **options),
        rounding_of(options, image, False, weights is not None),
        LONG,
    )


def points_of(grid: Array) -> Any:
    """A function of pixels that looks coordinates up in a grid (1, *out, D)."""
    rank = grid.shape[-1]

    def places(*indices: Array) -> list[Array]:
        index = tuple(np.broadcast_arrays(*[x.astype(int) for x in indices[::-1]]))
        return [grid[0, ..., d][index] for d in range(rank)]

    def bounds(first: Sequence[int], last: Sequence[int]) -> tuple[Any, Any]:
        box = tuple(slice(a, b + 1) for a, b in zip(first[::-1], last[::-1], strict=True))
        part = grid[0][box].reshape(-1, rank).astype(np.float64)
        return np.fmin.reduce(part), np.fmax.reduce(part)

    return gridsample.dask.Points(places, bounds)


@st.composite
def affine_samples(draw: Draw) -> Comparison:
    """`affine_sample`."""
    arrays, rank = Arrays(draw(st.integers(0, 2**32 - 1))), draw(st.integers(1, 3))
    spatial, out = draw(shapes(rank)), draw(shapes(rank))
    items, map_items = draw(st.sampled_from([(1, 1), (1, 1), (2, 2), (3, 1), (1, 3)]))
    channels, dtype = draw(st.sampled_from([1, 2, 3, 9])), draw(st.sampled_from(DTYPES))
    options = sampling_options(draw, rank, channels, np.dtype(dtype).kind in "iub")
    options |= {"coords": draw(st.sampled_from(["normalized", "pixel"]))}
    options["align_corners"] = draw(st.booleans())
    holes = 0.2 if options.get("missing") == "ignore" or draw(st.integers(0, 4)) == 0 else 0.0
    image = arrays.pixels((items, channels, *spatial), dtype, 0 if is_filtered(options) else holes)
    last = draw(st.booleans())
    if last:
        image, options["channel_axis"] = np.moveaxis(image, 1, -1), -1
    steep = draw(st.sampled_from([0.7, 1.0, 4.0]))
    theta = np.eye(rank, rank + 1) * steep + arrays.rng.normal(0, 0.2, (map_items, rank, rank + 1))
    if options["coords"] == "pixel":
        theta[..., rank] = arrays.rng.uniform(-5, 5, theta.shape[:-1])
    if draw(st.integers(0, 5)) == 0:
        theta.reshape(-1)[arrays.rng.integers(theta.size)] = draw(
            st.sampled_from([np.nan, np.inf, -np.inf, 1e30])
        )
    theta = theta.astype(draw(st.sampled_from(["float64", "float32"])))
    weights = weights_for(draw, arrays, image, max(items, map_items), last, options)
    lazy_image = arrays.lazy(image)
    lazy_weights = weights if weights is None or draw(st.booleans()) else arrays.lazy(weights)
    size, chunks = (map_items, channels, *out), arrays.chunks(out)

    def chunked() -> Any:
        keywords = {**options, "chunks": chunks, "weights": lazy_weights}
        return gridsample.dask.affine_sample(lazy_image, theta, size, **keywords)

    return Comparison(
        f"affine_sample {image.shape} {lazy_image.chunks} {dtype}, {theta.tolist()} {theta.dtype}, "
        f"{size} {chunks}, weights {None if weights is None else (weights.shape, weights.dtype)} "
        f"{getattr(lazy_weights, 'chunks', None)}, {options}",
        chunked,
        lambda: gridsample.affine_sample(image, theta, size, weights=weights, **options),
        rounding_of(options, image, True, weights is not None),
        LONG,
    )


@st.composite
def resamples(draw: Draw) -> Comparison:
    """`resample`, under matrices, fields and functions."""
    arrays, rank = Arrays(draw(st.integers(0, 2**32 - 1))), draw(st.integers(1, 3))
    spatial, out = draw(shapes(rank)), draw(shapes(rank))
    lead = draw(st.integers(0, 2))
    channels = draw(st.integers(1, 3)) if lead else 1
    items, dtype = draw(st.integers(1, 2)) if lead == 2 else 1, draw(st.sampled_from(DTYPES))
    options = sampling_options(draw, rank, channels, np.dtype(dtype).kind in "iub")
    holes = 0.2 if options.get("missing") == "ignore" else 0.0
    full = arrays.pixels((items, channels, *spatial), dtype, 0 if is_filtered(options) else holes)
    image = full.reshape(full.shape[2 - lead :])
    affine = np.diag([*arrays.rng.uniform(0.8, 2, rank), 1.0])
    affine[:rank] += arrays.rng.normal(0, 0.1, (rank, rank + 1))
    like = out, np.diag([*arrays.rng.uniform(0.8, 2, rank), 1.0])
    turn = np.eye(rank + 1)
    turn[:rank] += arrays.rng.normal(0, 0.2, (rank, rank + 1))
    field = Displacement(
        arrays.rng.normal(0, 2, (*[int(n) for n in arrays.rng.integers(1, 6, rank)], rank)),
        np.diag([*arrays.rng.uniform(1, 4, rank), 1.0]),
    )
    bend = gridsample.dask.BoundedTransform(
        lambda points: points + np.sin(points / 5), lambda low, high: (low - 1, high + 1)
    )
    choices = [None, turn, field, bend, [turn, field, turn], [field, bend]]
    kind = draw(st.integers(0, len(choices) - 1))
    weights = weights_for(draw, arrays, full, items, False, options)
    if weights is not None:
        weights = weights.reshape(weights.shape[2 - lead :])
    options["axes"] = draw(st.sampled_from(["ijk", "xyz"]))
    lazy_image = arrays.lazy(image)
    lazy_weights = weights if weights is None or draw(st.booleans()) else arrays.lazy(weights)
    chunks = arrays.chunks(out)

    def chunked() -> Any:
        keywords = {**options, "chunks": chunks, "weights": lazy_weights}
        return gridsample.dask.resample(lazy_image, affine, like, choices[kind], **keywords)

    rounding = rounding_of(options, full, kind < 2, weights is not None)
    return Comparison(
        f"resample {image.shape} {lazy_image.chunks} {dtype}, transform {kind}, {out} {chunks}, "
        f"weights {None if weights is None else (weights.shape, weights.dtype)} "
        f"{getattr(lazy_weights, 'chunks', None)}, {options}",
        chunked,
        lambda: gridsample.resample(image, affine, like, choices[kind], weights=weights, **options),
        max(rounding, 0.0 if kind < 2 else 1.0),
        LONG,
    )


@st.composite
def interpolations(draw: Draw) -> Comparison:
    """`interpolate`."""
    arrays, rank = Arrays(draw(st.integers(0, 2**32 - 1))), draw(st.integers(1, 3))
    spatial, channels = draw(shapes(rank)), draw(st.integers(1, 3))
    dtype = draw(st.sampled_from(DTYPES))
    modes = ["nearest", "nearest-exact", "linear", "cubic", "area", "spline3", "lanczos3", "label"]
    options: dict[str, Any] = {"mode": draw(st.sampled_from(modes))}
    if draw(st.booleans()):
        options["size"] = draw(shapes(rank))
    else:
        options["scale_factor"] = draw(st.sampled_from([0.5, 0.7, 1.9, 2.0, (1.3,) * rank]))
        options["recompute_scale_factor"] = draw(st.sampled_from([None, False, True]))
    if options["mode"] not in ("nearest", "nearest-exact", "area", "label"):
        options["align_corners"] = draw(st.booleans())
    options["antialias"] = draw(st.booleans())
    options["threads"] = draw(st.sampled_from([None, 1, 2]))
    image = arrays.pixels((draw(st.integers(1, 3)), channels, *spatial), dtype)
    lazy_image = arrays.lazy(image)

    def in_memory() -> Any:
        return gridsample.interpolate(image, **options)

    def chunked() -> Any:
        shape = in_memory().shape[2:]
        chunks = arrays.chunks(shape)
        return gridsample.dask.interpolate(lazy_image, chunks=chunks, **options)

    exact = options["mode"] in ("nearest", "nearest-exact", "label")
    single = image.dtype.name in ("float32", "complex64", "float16")
    return Comparison(
        f"interpolate {image.shape} {lazy_image.chunks} {dtype}, {options}",
        chunked,
        in_memory,
        0.0 if exact else 2e-3 if dtype == "float16" else 1e-5 if single else 1e-12,
    )


@st.composite
def splats(draw: Draw) -> Comparison:
    """`splat`."""
    arrays, rank = Arrays(draw(st.integers(0, 2**32 - 1))), draw(st.integers(1, 3))
    spatial, items = draw(shapes(rank)), draw(st.sampled_from([1, 1, 2, 3]))
    coords = draw(st.sampled_from(["normalized", "pixel", "displacement"]))
    same_rank = coords == "displacement" or draw(st.booleans())
    out = draw(shapes(rank)) if same_rank else draw(shapes(draw(st.integers(1, 2))))
    grid_items = (
        draw(st.sampled_from([1, items])) if items > 1 else draw(st.sampled_from([1, 1, 3]))
    )
    dtype = draw(st.sampled_from(DTYPES))
    values = arrays.pixels((items, draw(st.integers(1, 3)), *out), dtype)
    odd = draw(st.sampled_from(["", "", "some", "block"]))
    grid = arrays.grid(spatial, (grid_items, *out), coords, odd)
    grid = grid.astype(draw(st.sampled_from(["float64", "float32"])))
    modes = ["linear", "nearest", "cubic", "lanczos3", "spline1", "catmull-rom"]
    options: dict[str, Any] = {"mode": draw(one_or_each(modes, rank)), "coords": coords}
    options["align_corners"] = draw(st.booleans())
    options["threads"] = draw(st.sampled_from([None, 1, 2]))
    lazy_values, is_lazy = arrays.lazy(values), draw(st.booleans())
    chunks = arrays.chunks(spatial)

    def chunked() -> Any:
        places, more = grid, dict[str, Any]()
        if is_lazy:
            places = arrays.lazy(grid)
            bounds = gridsample.dask.coordinate_bounds(places, coords=coords)
            more["bounds"] = bounds.compute()
        return gridsample.dask.splat(lazy_values, places, spatial, chunks=chunks, **more, **options)

    # A pixel may be the sum of all values.
    single = grid.dtype == np.float32 and dtype not in ("float64", "int64")
    unit = (
        1e-5
        if values.dtype.name in ("float32", "complex64", "uint8", "int16", ">f4", "bool")
        else 1e-13
    )
    unit = 2e-3 if dtype == "float16" else 1e-5 if single else unit
    return Comparison(
        f"splat {values.shape} {lazy_values.chunks} {dtype}, grid {grid.shape} {odd} {grid.dtype} "
        f"lazy={is_lazy}, {spatial} {chunks}, {options}",
        chunked,
        lambda: gridsample.splat(values, grid, spatial, **options),
        unit * max(8, math.prod(out)),
    )


@st.composite
def filters(draw: Draw) -> Comparison:
    """`spline_filter`."""
    arrays, rank = Arrays(draw(st.integers(0, 2**32 - 1))), draw(st.integers(1, 4))
    shape = tuple(draw(st.lists(st.integers(1, 30), min_size=rank, max_size=rank)))
    dtype = draw(st.sampled_from(DTYPES))
    image, order = arrays.pixels(shape, dtype), draw(st.integers(0, 7))
    axes = draw(st.one_of(st.none(), st.integers(-rank, rank - 1)))
    boundary = draw(st.sampled_from([*BOUNDARIES]))
    corners, lazy_image = draw(st.booleans()), arrays.lazy(image)
    arguments = order, boundary, axes
    unit = 1e-13 if dtype in ("float64", "int64") else 1e-5
    return Comparison(
        f"spline_filter {shape} {lazy_image.chunks} {dtype}, {arguments}, {corners}",
        lambda: gridsample.dask.spline_filter(lazy_image, *arguments, align_corners=corners),
        lambda: gridsample.spline_filter(image, *arguments, align_corners=corners),
        unit,
    )


SCIPY_MODES = [*ndimage.MODES]


@st.composite
def scipy_calls(draw: Draw) -> Comparison:
    """`affine_transform`, `map_coordinates` and `zoom`."""
    arrays, rank = Arrays(draw(st.integers(0, 2**32 - 1))), draw(st.integers(1, 3))
    spatial, out = draw(shapes(rank)), draw(shapes(rank))
    dtype, order = draw(st.sampled_from(DTYPES)), draw(st.integers(0, 5))
    image = arrays.pixels(spatial, dtype)
    options: dict[str, Any] = {"order": order, "mode": draw(st.sampled_from(SCIPY_MODES))}
    options["cval"] = draw(st.sampled_from([0, 3, 0.5, -2, 300, np.nan]))
    options["prefilter"] = draw(st.sampled_from([True, True, False]))
    name = draw(st.sampled_from(["affine_transform", "map_coordinates", "zoom"]))
    lazy_image, chunks = arrays.lazy(image), arrays.chunks(out)
    arguments: tuple[Any, ...]
    more: dict[str, Any] = {"threads": draw(st.sampled_from([None, 1, 2]))}
    own: dict[str, Any] = {}
    if name == "affine_transform":
        matrix = np.eye(rank) + arrays.rng.normal(0, 0.3, (rank, rank))
        matrix = matrix if draw(st.booleans()) else np.diag(matrix)
        if draw(st.booleans()):
            matrix = matrix.round(1)  # ties
        arguments = matrix, arrays.rng.uniform(-3, 3, rank).round(1), out
        more["output_chunks"] = chunks
    elif name == "zoom":
        factors = [m / n for m, n in zip(out, spatial, strict=True)]
        arguments = (factors if draw(st.booleans()) else draw(st.sampled_from([0.5, 1.7, 2])),)
        own["grid_mode"] = draw(st.booleans()) and options["mode"] not in ("constant", "wrap")
    else:
        points = arrays.rng.uniform(
            -4, max(spatial) + 3, (rank, *draw(shapes(draw(st.integers(1, 2)))))
        )
        if draw(st.booleans()):
            points = (2 * points).round() / 2
        odd = draw(st.sampled_from(["", "", "some", "block"]))
        if odd:
            places = arrays.rng.random(points.shape) < (0.1 if odd == "some" else 2)
            points[places] = arrays.rng.choice([np.nan, np.inf, -np.inf], int(places.sum()))
        arguments = (points,)
        lazy_points = draw(st.booleans())
        more["chunks"] = None if lazy_points else arrays.chunks(points.shape[1:])

    def chunked() -> Any:
        call = getattr(gridsample.dask, name)
        if name == "map_coordinates" and lazy_points:
            lazy = arrays.lazy(points)
            bounds = gridsample.dask.coordinate_bounds(lazy, axis=0).compute()
            return call(lazy_image, lazy, bounds=bounds, **more, **options)
        return call(lazy_image, *arguments, **more, **options, **own)

    def in_memory() -> Any:
        keywords = {**options, **own}
        if name == "affine_transform":
            matrix, offset, shape = arguments
            return ndimage.affine_transform(image, matrix, offset, shape, **keywords)
        return getattr(ndimage, name)(image, *arguments, **keywords)

    # SciPy's positions of "wrap", and those of `zoom`, are rounded by other sums.
    unit = 1e-5 if image.dtype.name in ("float32", "complex64") else 1e-12
    unit = 2e-3 if dtype == "float16" else unit
    rounds = order > 1 or name == "zoom"
    return Comparison(
        f"{name} {image.shape} {lazy_image.chunks} {dtype}, {arguments}, {more}, {options}, {own}",
        chunked,
        in_memory,
        unit if rounds else 0.0,
    )


def comparisons() -> st.SearchStrategy[Comparison]:
    """Calls of all functions."""
    grids, maps = grid_samples(), affine_samples()
    return st.one_of(
        grids, grids, maps, resamples(), interpolations(), splats(), filters(), scipy_calls()
    )


# Comparison ---------------------------------------------------------------------------------------


def outcome(call: Callable[[], Any]) -> Any:
    """The results of a call as arrays, or its error."""
    try:
        results = call()
        results = results if isinstance(results, tuple) else (results,)
        return [(x.dtype, x.shape, np.asarray(x)) for x in results]
    except (ValueError, TypeError, RuntimeError) as error:
        return error


def difference(comparison: Comparison) -> str | None:
    """Say how the results of a call differ; None if they do not."""
    expected, actual = outcome(comparison.in_memory), outcome(comparison.chunked)
    if isinstance(actual, Exception):
        if isinstance(expected, Exception):
            return None
        if any(str(actual).startswith(text) for text in comparison.may_refuse):
            return None
        return f"in chunks {type(actual).__name__}: {actual}"
    if isinstance(expected, Exception):
        return f"in memory {type(expected).__name__}: {expected}"
    if len(expected) != len(actual):
        return f"{len(actual)} results, not {len(expected)}"
    for k, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
        if mine[:2] != theirs[:2] or mine[2].dtype != theirs[0] or mine[2].shape != theirs[1]:
            return f"result {k}: {mine[:2]} computed as {mine[2].dtype} {mine[2].shape}, not {theirs[:2]}"
        text = array_difference(mine[2], theirs[2], comparison.rounding)
        if text:
            return f"result {k}: {text}"
    return None


def array_difference(actual: Array, expected: Array, rounding: float) -> str | None:
    """Say how two arrays differ by more than rounding; None if they do not."""
    if rounding == 0:
        same = np.array_equal(actual, expected, equal_nan=actual.dtype.kind in "fc")
        if same:
            return None
    if expected.dtype == bool:
        actual, expected = actual.astype(int), expected.astype(int)
    with np.errstate(all="ignore"):
        exact = (actual == expected) | ((actual != actual) & (expected != expected))
        wide = np.result_type(expected.dtype, np.float64)
        error = np.abs(actual.astype(wide) - expected.astype(wide))
        finite = np.abs(expected[np.isfinite(expected)].astype(wide)).max(initial=1.0)
    limit = rounding * max(float(finite), 255.0)
    if rounding and expected.dtype.kind in "iu":
        limit = max(limit, 1.0)  # a tie may be rounded to either side
    wrong = ~exact & ~(error <= limit)
    if not wrong.any():
        return None
    place = tuple(np.argwhere(wrong)[0].tolist())
    return (
        f"{int(wrong.sum())} of {wrong.size} differ, by up to {np.nanmax(np.where(wrong, error, 0))}; "
        f"first at {place}: {actual[place]} not {expected[place]}"
    )
