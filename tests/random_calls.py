"""Random calls of `gridsample.dask`, with the same calls of functions in memory."""

from __future__ import annotations

import contextlib
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
GRIDS, ODD = ("float64", "float32", "float16"), ("", "", "", "some", "block")
LONGEST = {1: 40, 2: 14, 3: 8}  # sides of images and results, by rank


class Comparison(NamedTuple):
    """A call in chunks, and the same call in memory.

    Attributes:
        description: what repeats the call, for messages.
        chunked: makes the result in chunks.
        in_memory: computes the result in memory.
        rounding: the difference that the documentation allows, relative to the largest pixel.
        may_refuse: the beginnings of messages of errors that only chunks have.
        steps: whether rounding may select another pixel, at a few places.
        quotient: whether results were divided by weights, as in `is_quotient`.
    """

    description: str
    chunked: Callable[[], Any]
    in_memory: Callable[[], Any]
    rounding: float = 0.0
    may_refuse: tuple[str, ...] = ()
    steps: bool = False
    quotient: bool = False


# The arguments are drawn apart from the options, as each choice of options compiles kernels.
Recipe = Callable[["Arrays"], Comparison]


# Arrays -------------------------------------------------------------------------------------------


class Arrays:
    """Random arrays and chunks, from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def choose(self, *values: Any) -> Any:
        """One of some values."""
        return values[int(self.rng.integers(len(values)))]

    def shape(self, rank: int) -> tuple[int, ...]:
        """The shape of an image or a result."""
        return tuple(self.rng.integers(1, LONGEST[rank] + 1, rank).tolist())

    def points(self, rank: int) -> tuple[int, ...]:
        """The shape of a result, which may be empty."""
        shape = self.shape(rank)
        return (0, *shape[1:]) if self.rng.random() < 0.04 else shape

    def chunks(self, shape: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Chunks of an array: a single one, or up to four, along each axis."""
        chunks = []
        for n in shape:
            count = int(self.rng.integers(0, 4))
            cuts = sorted({*self.rng.integers(1, n, count).tolist()}) if n > 1 else []
            cuts += cuts[-1:] if self.rng.random() < 0.04 else []  # an empty chunk
            chunks.append(tuple(np.diff([0, *cuts, n]).tolist()))
        return tuple(chunks)

    def lazy(self, array: Array) -> Any:
        """Divide an array."""
        return da.from_array(array, chunks=self.chunks(array.shape))

    def maybe_lazy(self, array: Array | None) -> Any:
        """Divide an array, or leave it in memory."""
        return array if array is None or self.choose(True, False) else self.lazy(array)

    def items(self) -> tuple[int, int]:
        """N of images and of points."""
        pair: tuple[int, int] = self.choose((1, 1), (1, 1), (1, 3), (3, 1), (2, 2))
        return pair

    def image(self, shape: Sequence[int], dtype: str, options: Any) -> tuple[Array, bool]:
        """An image for a call with some options, and whether its channels come last."""
        may_be_missing = options.get("missing") == "ignore" or self.choose(True, False, False)
        holes = 0.2 if may_be_missing and not is_filtered(options) else 0.0
        image = self.pixels(shape, dtype, holes)
        last = options.get("channel_axis") == -1
        return np.moveaxis(image, 1, -1).copy() if last else image, last

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


def one_or_each(names: Sequence[Any], rank: int) -> st.SearchStrategy[Any]:
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
        "extrapolate": one_or_each([False, "edges", "centers", True], rank),
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
    ends = options.get("extrapolate", True)
    ends = ends if isinstance(ends, tuple) else (ends,)
    return "constant" in options["padding_mode"] or any(end is not True for end in ends)


def weight_options(draw: Draw, options: dict[str, Any]) -> str:
    """The dtype of weights, or none for most calls; may set the least weight."""
    dtype: str = draw(st.sampled_from(["", "", "", "float32", "float64", "bool"]))
    if dtype and draw(st.booleans()):
        options["min_weight"] = 0.37
    return dtype


def weights_for(arrays: Arrays, image: Array, items: int, last: bool, dtype: str) -> Array | None:
    """Weights of pixels that are shared by items or channels, or not; None without a dtype."""
    if not dtype:
        return None
    channel = image.ndim - 1 if last else 1
    shape = list(image.shape)
    shape[0] = arrays.choose(1, image.shape[0], items)
    shape[channel] = arrays.choose(1, image.shape[channel])
    weights = arrays.rng.random(shape)
    weights[arrays.rng.random(weights.shape) < 0.2] = 0
    return weights > 0.5 if dtype == "bool" else weights.astype(dtype)


def names_of(value: Any) -> set[str]:
    return {value} if isinstance(value, str) else {*value}


def is_filtered(options: dict[str, Any]) -> bool:
    orders = [find_method(name).prefilter for name in names_of(options["mode"])]
    return options.get("prefilter", True) and max(orders) > 1


def channels_of(options: dict[str, Any], image: Array) -> tuple[int, bool]:
    """The channels of an image, and whether they come last."""
    last = options.get("channel_axis") == -1
    return image.shape[-1 if last else 1], last


def is_quotient(options: dict[str, Any], image: Array, weighted: bool) -> bool:
    """Whether results are quotients of sums that may be rounded otherwise in a chunk."""
    boundaries = names_of(options["padding_mode"])
    counted = weighted or options.get("missing") == "ignore" or "missing" in boundaries
    odd = any(name != "missing" and BOUNDARIES[name].odd for name in boundaries)
    channels, last = channels_of(options, image)
    ordered = channels >= 8 or (last and channels > 1)  # sums depend on the channels of a chunk
    return counted and bool(ordered or odd or options.get("antialias"))


def rounding_of(options: dict[str, Any], image: Array, halves: bool, weighted: bool) -> float:
    """The difference that the documentation allows, relative to the largest pixel."""
    unit, (channels, last) = unit_of(image.dtype), channels_of(options, image)
    quotient = is_quotient(options, image, weighted)
    taps = max(find_method(name).taps for name in names_of(options["mode"]))
    divided = last and channels > 1 and taps > 2 and image.dtype.name in ("float64", "int64")
    halved = halves and options.get("antialias")
    rounds = is_filtered(options) or halved or quotient or divided or channels >= 8
    return (1e3 if halved or quotient else 10) * unit if rounds else 0.0


def unit_of(dtype: np.dtype[Any]) -> float:
    """A few times the rounding of sums over pixels of a dtype."""
    if dtype == np.float16:
        return 2e-4
    return 4e-7 if dtype.name in ("float32", "complex64") else 1e-14


LONG = ("antialias=True in chunks takes", "missing pixels, weights and return_weight are not")


def chunks_of(array: Any) -> str:
    """How an array is divided, for messages."""
    return (
        f"{array.shape} {array.dtype} in {getattr(array, 'chunks', None)}"
        if array is not None
        else ""
    )


@st.composite
def grid_samples(draw: Draw) -> Recipe:
    """`grid_sample`, whose grid is in memory, divided, or a function."""
    rank, channels = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 3, 9]))
    dtype = draw(st.sampled_from(DTYPES))
    options = sampling_options(draw, rank, channels, np.dtype(dtype).kind in "iub")
    options["coords"] = draw(st.sampled_from(["normalized", "pixel", "displacement"]))
    options["align_corners"] = draw(st.booleans())
    if draw(st.integers(0, 3)) == 0:
        options["return_mask"] = True
    if draw(st.booleans()):
        options["channel_axis"] = -1
    grid_type, shares_type = draw(st.sampled_from(GRIDS)), weight_options(draw, options)

    def build(arrays: Arrays) -> Comparison:
        spatial, (items, grid_items) = arrays.shape(rank), arrays.items()
        has_rank = options["coords"] == "displacement" or arrays.choose(True, True, False)
        out = arrays.points(rank if has_rank else arrays.choose(1, 2))
        image, last = arrays.image((items, channels, *spatial), dtype, options)
        grid = arrays.grid(spatial, (grid_items, *out), options["coords"], arrays.choose(*ODD))
        grid = grid.astype(grid_type)
        weights = weights_for(arrays, image, max(items, grid_items), last, shares_type)
        lazy_image, lazy_weights = arrays.lazy(image), arrays.maybe_lazy(weights)
        kind, more = arrays.choose("memory", "lazy", "pair", "function"), dict[str, Any]()
        if kind == "function" and (grid_items > 1 or len(out) != rank):
            kind = "lazy"
        places: Any = grid
        if kind == "memory":
            more["chunks"] = arrays.chunks(out)
        elif kind == "function":
            wide = dtype in ("float64", "int64")
            grid = grid.astype(np.float64 if wide else np.float32)
            places, more = points_of(grid), {"size": out, "chunks": arrays.chunks(out)}
        else:
            places = arrays.lazy(grid)

        def chunked() -> Any:
            keywords = {**options, **more, "weights": lazy_weights}
            if kind in ("lazy", "pair"):
                about = {name: options[name] for name in ("coords", "antialias") if name in options}
                bounds = gridsample.dask.coordinate_bounds(places, **about)
                pair = ends_of(grid)
                keywords["bounds"] = bounds.compute() if kind == "lazy" else pair
            return gridsample.dask.grid_sample(lazy_image, places, **keywords)

        return Comparison(
            f"grid_sample {chunks_of(lazy_image)}, {kind} grid {chunks_of(grid)}, weights "
            f"{chunks_of(lazy_weights)}, {more}, {options}",
            chunked,
            lambda: gridsample.grid_sample(image, grid, weights=weights, **options),
            rounding_of(options, image, False, weights is not None),
            LONG,
            quotient=is_quotient(options, image, weights is not None),
        )

    return build


def ends_of(grid: Array) -> tuple[Array, Array]:
    """The least and the greatest coordinates along each axis."""
    points = grid.astype(np.float64).reshape(-1, grid.shape[-1])
    return np.fmin.reduce(points, initial=np.nan), np.fmax.reduce(points, initial=np.nan)


def points_of(grid: Array) -> Any:
    """A function of pixels that looks coordinates up in a grid (1, *out, D)."""

    def places(*indices: Array) -> list[Array]:
        index = tuple(np.broadcast_arrays(*[x.astype(int) for x in indices[::-1]]))
        return [grid[0, ..., d][index] for d in range(grid.shape[-1])]

    def bounds(first: Sequence[int], last: Sequence[int]) -> tuple[Array, Array]:
        box = tuple(slice(a, b + 1) for a, b in zip(first[::-1], last[::-1], strict=True))
        return ends_of(grid[0][box])

    return gridsample.dask.Points(places, bounds)


@st.composite
def affine_samples(draw: Draw) -> Recipe:
    """`affine_sample`."""
    rank, channels = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 3, 9]))
    dtype = draw(st.sampled_from(DTYPES))
    options = sampling_options(draw, rank, channels, np.dtype(dtype).kind in "iub")
    options["coords"] = draw(st.sampled_from(["normalized", "pixel"]))
    options["align_corners"] = draw(st.booleans())
    if draw(st.booleans()):
        options["channel_axis"] = -1
    map_type, shares_type = draw(st.sampled_from(GRIDS)), weight_options(draw, options)

    def build(arrays: Arrays) -> Comparison:
        spatial, (items, map_items), out = arrays.shape(rank), arrays.items(), arrays.points(rank)
        image, last = arrays.image((items, channels, *spatial), dtype, options)
        theta = np.eye(rank, rank + 1) * arrays.choose(0.7, 1.0, 4.0)
        theta = theta + arrays.rng.normal(0, 0.2, (map_items, rank, rank + 1))
        if options["coords"] == "pixel":
            theta[..., rank] = arrays.rng.uniform(-5, 5, theta.shape[:-1])
        if arrays.choose(*[False] * 5, True):
            number = arrays.choose(np.nan, np.inf, -np.inf, 1e30)
            theta.reshape(-1)[arrays.rng.integers(theta.size)] = number
        with np.errstate(over="ignore"):
            theta = theta.astype(map_type)
        weights = weights_for(arrays, image, max(items, map_items), last, shares_type)
        lazy_image, lazy_weights = arrays.lazy(image), arrays.maybe_lazy(weights)
        size, chunks = (map_items, channels, *out), arrays.chunks(out)

        def chunked() -> Any:
            keywords = {**options, "chunks": chunks, "weights": lazy_weights}
            return gridsample.dask.affine_sample(lazy_image, theta, size, **keywords)

        return Comparison(
            f"affine_sample {chunks_of(lazy_image)}, {theta.tolist()} {theta.dtype}, {size} "
            f"{chunks}, weights {chunks_of(lazy_weights)}, {options}",
            chunked,
            lambda: gridsample.affine_sample(image, theta, size, weights=weights, **options),
            rounding_of(options, image, True, weights is not None),
            LONG,
            quotient=is_quotient(options, image, weights is not None),
        )

    return build


@st.composite
def resamples(draw: Draw) -> Recipe:
    """`resample`, under matrices, fields and functions."""
    rank, lead, dtype = (
        draw(st.integers(1, 3)),
        draw(st.integers(0, 2)),
        draw(st.sampled_from(DTYPES)),
    )
    channels = draw(st.integers(1, 3)) if lead else 1
    options = sampling_options(draw, rank, channels, np.dtype(dtype).kind in "iub")
    options["axes"], kind = draw(st.sampled_from(["ijk", "xyz"])), draw(st.integers(0, 5))
    shares_type = weight_options(draw, options)

    def build(arrays: Arrays) -> Comparison:
        spatial, out = arrays.shape(rank), arrays.points(rank)
        items = arrays.choose(1, 2) if lead == 2 else 1
        full, _ = arrays.image((items, channels, *spatial), dtype, options)
        image, rng = full.reshape(full.shape[2 - lead :]), arrays.rng
        affine = np.diag([*rng.uniform(0.8, 2, rank), 1.0])
        affine[:rank] += rng.normal(0, 0.1, (rank, rank + 1))
        like, turn = (out, np.diag([*rng.uniform(0.8, 2, rank), 1.0])), np.eye(rank + 1)
        turn[:rank] += rng.normal(0, 0.2, (rank, rank + 1))
        sizes = rng.integers(1, 6, rank).tolist()
        field = Displacement(
            rng.normal(0, 2, (*sizes, rank)), np.diag([*rng.uniform(1, 4, rank), 1.0])
        )
        bend = gridsample.dask.BoundedTransform(
            lambda points: points + np.sin(points / 5), lambda low, high: (low - 1, high + 1)
        )
        transform = [None, turn, field, bend, [turn, field, turn], [field, bend]][kind]
        weights = weights_for(arrays, full, items, False, shares_type)
        weights = None if weights is None else weights.reshape(weights.shape[2 - lead :])
        lazy_image, lazy_weights = arrays.lazy(image), arrays.maybe_lazy(weights)
        chunks = arrays.chunks(out)

        def chunked() -> Any:
            keywords = {**options, "chunks": chunks, "weights": lazy_weights}
            return gridsample.dask.resample(lazy_image, affine, like, transform, **keywords)

        rounding = rounding_of(options, full, kind < 2, weights is not None)
        return Comparison(
            f"resample {chunks_of(lazy_image)}, transform {kind}, {out} {chunks}, weights "
            f"{chunks_of(lazy_weights)}, {options}",
            chunked,
            lambda: gridsample.resample(image, affine, like, transform, weights=weights, **options),
            # Positions are rounded by other products, which nearest neighbours may show at ties.
            max(rounding, 0.0 if kind < 2 else 1e3 * unit_of(full.dtype)),
            LONG,
            steps=kind >= 2 and bool(names_of(options["mode"]) & {"nearest", "label"}),
            quotient=is_quotient(options, full, weights is not None),
        )

    return build


@st.composite
def interpolations(draw: Draw) -> Recipe:
    """`interpolate`."""
    rank, dtype = draw(st.integers(1, 3)), draw(st.sampled_from(DTYPES))
    modes = ["nearest", "nearest-exact", "linear", "cubic", "area", "spline3", "lanczos3", "label"]
    options: dict[str, Any] = {"mode": draw(st.sampled_from(modes))}
    factor = draw(st.sampled_from([None, 0.5, 0.7, 1.9, 2.0]))
    if factor is not None:
        options["scale_factor"] = draw(st.sampled_from([factor, (factor,) * rank]))
        options["recompute_scale_factor"] = draw(st.sampled_from([None, False, True]))
    if options["mode"] not in ("nearest", "nearest-exact", "area", "label"):
        options["align_corners"] = draw(st.booleans())
    options["antialias"] = draw(st.booleans())

    def build(arrays: Arrays) -> Comparison:
        keywords = {**options, "threads": arrays.choose(None, 1, 2)}
        if factor is None:
            keywords["size"] = arrays.shape(rank)
        spatial = tuple(n + 2 for n in arrays.shape(rank))
        image = arrays.pixels((arrays.choose(1, 2), arrays.choose(1, 2, 3), *spatial), dtype)
        lazy_image, chunks = arrays.lazy(image), arrays.choose(None, 3, 5)

        def chunked() -> Any:
            return gridsample.dask.interpolate(lazy_image, chunks=chunks, **keywords)

        exact = options["mode"] in ("nearest", "nearest-exact", "label")
        return Comparison(
            f"interpolate {chunks_of(lazy_image)}, {chunks}, {keywords}",
            chunked,
            lambda: gridsample.interpolate(image, **keywords),
            0.0 if exact else 30 * unit_of(image.dtype),
        )

    return build


@st.composite
def splats(draw: Draw) -> Recipe:
    """`splat`."""
    rank, dtype = draw(st.integers(1, 3)), draw(st.sampled_from(DTYPES))
    modes = ["linear", "nearest", "cubic", "lanczos3", "catmull-rom"]
    options: dict[str, Any] = {"mode": draw(one_or_each(modes, rank))}
    options["coords"] = draw(st.sampled_from(["normalized", "pixel", "displacement"]))
    options["align_corners"], grid_type = draw(st.booleans()), draw(st.sampled_from(GRIDS[:2]))

    def build(arrays: Arrays) -> Comparison:
        spatial, (items, grid_items) = arrays.shape(rank), arrays.items()
        has_rank = options["coords"] == "displacement" or arrays.choose(True, False)
        out = arrays.shape(rank if has_rank else arrays.choose(1, 2))
        values = arrays.pixels((items, arrays.choose(1, 2, 3), *out), dtype)
        grid = arrays.grid(spatial, (grid_items, *out), options["coords"], arrays.choose(*ODD))
        grid, chunks = grid.astype(grid_type), arrays.chunks(spatial)
        lazy_values, places = arrays.lazy(values), arrays.maybe_lazy(grid)
        more = {"threads": arrays.choose(None, 1, 2)}

        def chunked() -> Any:
            keywords: dict[str, Any] = {**options, **more, "chunks": chunks}
            if isinstance(places, da.Array):
                bounds = gridsample.dask.coordinate_bounds(places, coords=options["coords"])
                keywords["bounds"] = bounds.compute()
            return gridsample.dask.splat(lazy_values, places, spatial, **keywords)

        # A pixel may be the sum of all values; positions are rounded in the grid's dtype.
        steps = "nearest" in names_of(options["mode"]) and grid.dtype != np.float64
        narrow = values.dtype if values.dtype.kind in "fc" else np.dtype(np.float32)
        unit = max(unit_of(narrow), unit_of(grid.dtype) * 10)
        return Comparison(
            f"splat {chunks_of(lazy_values)}, grid {chunks_of(places)}, {spatial} {chunks}, "
            f"{options}",
            chunked,
            lambda: gridsample.splat(values, grid, spatial, **options, **more),
            unit * max(8, math.prod(out)),
            steps=steps,
        )

    return build


@st.composite
def filters(draw: Draw) -> Recipe:
    """`spline_filter`."""
    rank, dtype = draw(st.integers(1, 4)), draw(st.sampled_from(DTYPES))
    axes = draw(st.one_of(st.none(), st.integers(-rank, rank - 1)))
    arguments = draw(st.integers(0, 7)), draw(st.sampled_from([*BOUNDARIES])), axes
    corners = draw(st.booleans())

    def build(arrays: Arrays) -> Comparison:
        image = arrays.pixels(arrays.rng.integers(1, (500, 60, 20, 8)[rank - 1], rank), dtype)
        lazy_image = arrays.lazy(image)
        wide = dtype in ("float64", "int64")
        return Comparison(
            f"spline_filter {chunks_of(lazy_image)}, {arguments}, {corners}",
            lambda: gridsample.dask.spline_filter(lazy_image, *arguments, align_corners=corners),
            lambda: gridsample.spline_filter(image, *arguments, align_corners=corners),
            1e-13 if wide else 1e-5,
        )

    return build


@st.composite
def scipy_calls(draw: Draw) -> Recipe:
    """`affine_transform`, `map_coordinates` and `zoom`."""
    rank, dtype = draw(st.integers(1, 3)), draw(st.sampled_from(DTYPES))
    options: dict[str, Any] = {
        "order": draw(st.integers(0, 5)),
        "mode": draw(st.sampled_from([*ndimage.MODES])),
        "cval": draw(st.sampled_from([0, 3, 0.5, -2, 300, np.nan])),
        "prefilter": draw(st.sampled_from([True, True, False])),
    }
    name = draw(st.sampled_from(["affine_transform", "map_coordinates", "zoom"]))
    own: dict[str, Any] = {}
    if name == "zoom":
        own["grid_mode"] = draw(st.booleans()) and options["mode"] not in ("constant", "wrap")

    def build(arrays: Arrays) -> Comparison:
        image, rng = arrays.pixels(arrays.shape(rank), dtype), arrays.rng
        lazy_image, more = arrays.lazy(image), {"threads": arrays.choose(None, 1, 2)}
        arguments: tuple[Any, ...]
        if name == "affine_transform":
            matrix = np.eye(rank) + rng.normal(0, 0.3, (rank, rank))
            matrix = arrays.choose(matrix, np.diag(matrix), matrix.round(1))
            out = arrays.points(rank)
            arguments = matrix, rng.uniform(-3, 3, rank).round(1), out
            more["output_chunks"] = arrays.chunks(out)
        elif name == "zoom":
            factors = [m / n for m, n in zip(arrays.shape(rank), image.shape, strict=True)]
            arguments = (arrays.choose(factors, 0.5, 1.7, 2),)
        else:
            out = arrays.points(arrays.choose(1, 2))
            points = rng.uniform(-4, max(image.shape) + 3, (rank, *out))
            points = arrays.choose(points, (2 * points).round() / 2)
            odd = {"": 0.0, "some": 0.1, "block": 2.0}[arrays.choose(*ODD)]
            places = rng.random(points.shape) < odd
            points[places] = rng.choice([np.nan, np.inf, -np.inf], int(places.sum()))
            arguments = (points.astype(arrays.choose("float64", "float32")),)
        if name == "map_coordinates":
            lazy_points = arrays.maybe_lazy(arguments[0])
            if not isinstance(lazy_points, da.Array):
                more["chunks"] = arrays.chunks(out)

        def chunked() -> Any:
            call, keywords = getattr(gridsample.dask, name), {**more, **options, **own}
            if name != "map_coordinates":
                return call(lazy_image, *arguments, **keywords)
            if isinstance(lazy_points, da.Array):
                bounds = gridsample.dask.coordinate_bounds(lazy_points, axis=0)
                keywords["bounds"] = bounds.compute()
            return call(lazy_image, lazy_points, **keywords)

        def in_memory() -> Any:
            keywords = {**options, **own}
            if name == "affine_transform":
                matrix, offset, shape = arguments
                return ndimage.affine_transform(image, matrix, offset, shape, **keywords)
            return getattr(ndimage, name)(image, *arguments, **keywords)

        # A factor for each axis is applied axis by axis in memory.
        separate = name == "zoom" or (name == "affine_transform" and arguments[0].ndim == 1)
        rounds = options["order"] > 1 or separate
        return Comparison(
            f"{name} {chunks_of(lazy_image)}, {arguments}, {more}, {options}, {own}",
            chunked,
            in_memory,
            100 * unit_of(image.dtype) if rounds else 0.0,
            # Documented: ties beyond the last centre.
            steps=options["order"] == 0 and options["mode"] == "mirror",
        )

    return build


@st.composite
def stores(draw: Draw) -> Recipe:
    """`store` of a result, which is interrupted and repeated in some calls."""
    recipe = draw(st.one_of(affine_samples(), resamples(), interpolations()))

    def build(arrays: Arrays) -> Comparison:
        comparison = recipe(arrays)
        keep, stop = arrays.choose(0, 1, 4, 128), arrays.choose(0, 0, 1, 3)

        def stored(result: Any) -> Array:
            # A part that nothing is written to is missed, as its dtype holds no NaN.
            target, calls = np.full(result.shape, 113, result.dtype), [0]

            def report(share: float) -> None:
                calls[0] += 1
                if calls[0] == stop:
                    raise KeyboardInterrupt

            with contextlib.suppress(KeyboardInterrupt):
                gridsample.dask.store(result, target, keep=keep, progress=report)
                return target
            gridsample.dask.store(result, target, keep=keep)
            return target

        def chunked() -> Any:
            results = comparison.chunked()
            return tuple(map(stored, results if isinstance(results, tuple) else (results,)))

        description = f"store, keep={keep}, interrupted after {stop or None}: "
        return comparison._replace(
            description=description + comparison.description, chunked=chunked
        )

    return build


KINDS = (
    *(grid_samples, grid_samples, affine_samples, resamples),
    *(interpolations, splats, filters, scipy_calls, stores),
)


# Comparison ---------------------------------------------------------------------------------------


def outcome(call: Callable[[], Any]) -> Any:
    """The results of a call as arrays with the dtypes and shapes they claim, or its error."""
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
        refused = str(actual).startswith(comparison.may_refuse)
        if isinstance(expected, Exception) or refused:
            return None
        return f"in chunks {type(actual).__name__}: {actual}"
    if isinstance(expected, Exception):
        return f"in memory {type(expected).__name__}: {expected}"
    if len(expected) != len(actual):
        return f"{len(actual)} results, not {len(expected)}"
    for (dtype, shape, values), whole in zip(actual, expected, strict=True):
        if (dtype, shape) != whole[:2] or (values.dtype, values.shape) != (dtype, shape):
            return f"{dtype} {shape}, computed as {values.dtype} {values.shape}; not {whole[:2]}"
        text = array_difference(values, whole[2], comparison)
        if text:
            return text
    return None


def array_difference(actual: Array, expected: Array, comparison: Comparison) -> str | None:
    """Say how two arrays differ by more than rounding; None if they do not."""
    rounding = comparison.rounding
    if rounding and expected.dtype.kind in "fc":  # also weights of integer images
        rounding = max(rounding, 10 * unit_of(expected.dtype))
    if expected.dtype == bool:
        actual, expected = actual.astype(int), expected.astype(int)
    with np.errstate(all="ignore"):
        exact = (actual == expected) | ((actual != actual) & (expected != expected))
        wide = np.result_type(expected.dtype, np.float64)
        error = np.abs(actual.astype(wide) - expected.astype(wide))
        largest = np.abs(expected[np.isfinite(expected)].astype(wide)).max(initial=255.0)
    limit = rounding * float(largest)
    if comparison.quotient:
        # Pixels are about 255: what is larger was divided by a small weight, as its rounding was.
        limit *= float(largest) / 255
    if rounding and expected.dtype.kind in "iu":
        limit = max(limit, 1.0)  # a tie may be rounded to either side
    wrong = ~exact & ~(error <= limit)
    if not wrong.any() or (comparison.steps and wrong.mean() < 0.2):
        return None
    place = tuple(np.argwhere(wrong)[0].tolist())
    return (
        f"{int(wrong.sum())} of {wrong.size} differ, by up to {error[wrong].max()}; first at "
        f"{place}: {actual[place]} not {expected[place]}"
    )
