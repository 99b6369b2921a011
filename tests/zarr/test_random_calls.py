"""Random warps, resizes and pyramids of Zarr stores, in chunks that know nothing of each other."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis
import numpy as np
import zarr
from hypothesis import strategies as st
from strategies import examples
from zarr.storage import MemoryStore

import gridsample
import gridsample.zarr
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.io.nodata import NoData
from gridsample.world import Displacement, to_edges, world_grid
from gridsample.zarr import Layout

Array = np.ndarray[Any, Any]
MODES = ["nearest", "linear", "cubic", "lanczos3", "spline2", "spline3", "spline5"]
DTYPES = ["bool", "uint8", "int16", "int64", "float16", "float32", "float64", "complex64"]


class Call:
    """A random image, and how it is stored."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.rank, self.channels = (
            int(rng.integers(1, 4)),
            [(), (2,), (3,), (2, 3)][rng.integers(4)],
        )
        self.spatial = tuple(int(n) for n in rng.integers(1, 24, self.rank))
        self.size = tuple(int(n) for n in rng.integers(1, 24, self.rank))
        dtype, self.shape = np.dtype(rng.choice(DTYPES)), (*self.channels, *self.spatial)
        values = rng.normal(size=self.shape) * 60 + 100
        self.image = (values > 100 if dtype.kind == "b" else values.clip(0, 250)).astype(dtype)
        if dtype.kind in "fc" and rng.random() < 0.4:
            self.image[rng.random(self.shape) < 0.15] = np.nan
        self.names = [*"tc"[2 - len(self.channels) :], *"zyx"[3 - self.rank :]]
        self.affine, self.source = self.voxels(), MemoryStore()
        self.store(self.source, self.image, self.affine)

    def voxels(self) -> Array:
        """A position in the world: sizes of voxels, and a shift."""
        affine = np.diag([*self.rng.uniform(0.5, 2, self.rank), 1.0])
        affine[:-1, -1] = self.rng.normal(size=self.rank)
        return affine

    def store(self, target: MemoryStore, image: Array, affine: Array) -> None:
        """Store an image with a position in the world."""
        version = int(self.rng.choice([2, 3]))
        leading = image.ndim - self.rank
        steps = [
            {"type": "scale", "scale": [1] * leading + np.diag(affine)[:-1].tolist()},
            {"type": "translation", "translation": [0] * leading + affine[:-1, -1].tolist()},
        ]
        types = {"t": "time", "c": "channel"}
        axes = [
            {"name": name, "type": types.get(name, "space")}
            for name in self.names[len(self.names) - image.ndim :]
        ]
        dataset = {"path": "0", "coordinateTransformations": steps}
        record = {"multiscales": [{"version": "0.4", "axes": axes, "datasets": [dataset]}]}
        group = zarr.open_group(target, mode="w", zarr_format=version)
        group.create_array("0", data=image, chunks=self.parts(image.shape))
        group.attrs.update(record if version == 2 else {"ome": {"version": "0.5", **record}})

    def parts(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of chunks of an array."""
        return tuple(int(self.rng.integers(1, n + 1)) for n in shape)

    def layout(self, size: Sequence[int]) -> Layout:
        """How an output is stored."""
        chunks, version = self.parts((*self.channels, *size)), int(self.rng.choice([2, 3]))
        shards = tuple(2 * n for n in chunks) if version == 3 and self.rng.random() < 0.3 else None
        codec = str(self.rng.choice(["zstd", "gzip:1", "none"]))
        return Layout(chunks, shards, version, codec)

    def named(self, names: Sequence[str]) -> Any:
        """One name, or one for each axis."""
        each = tuple(str(name) for name in self.rng.choice(names, self.rank))
        return each[0] if self.rng.random() < 0.7 else each

    def missing(self) -> dict[str, Any]:
        """Options of missing pixels."""
        real = self.image.dtype.kind in "fc"
        options = {"missing": self.rng.choice(["propagate", "ignore"] if real else ["propagate"])}
        number = self.number()
        if number is not None:
            options |= {"nodata": number, "missing": self.rng.choice(["propagate", "ignore"])}
        return {name: value if name == "nodata" else str(value) for name, value in options.items()}

    def options(self) -> dict[str, Any]:
        """Options of `warp`."""
        rng = self.rng
        labels = self.image.dtype.kind in "biu" and rng.random() < 0.2
        modes = ["label", "nearest"] if labels else MODES
        options = {"mode": self.named(modes), "padding_mode": self.named([*BOUNDARIES, "missing"])}
        if {"zeros", "constant"} <= {*options["padding_mode"]}:  # an error, whatever the fill value
            options["padding_mode"] = "constant"
        choices: dict[str, list[Any]] = {
            "extrapolate": [True, True, False, "edges", "centers"],
            "fill_value": [0, 0, 7, 2.5, np.nan, np.inf, -3],
            "prefilter": [True] * 9 + [False],
            "antialias": [False, False, True],
            "max_samples": [16, 16, 4, 64],
        }
        options |= {name: values[rng.integers(len(values))] for name, values in choices.items()}
        options |= self.missing()
        if options["missing"] == "ignore" and rng.random() < 0.3:
            options["min_weight"] = 0.25
        return options

    def matrix(self) -> Array:
        """An affine map of indices."""
        rank, rng = self.rank, self.rng
        matrix = np.eye(rank + 1)
        matrix[:rank, :rank] = np.diag(rng.choice([0.5, 1, 1, 1.7, 3, -1, 18], rank))
        matrix[:rank, :rank] += (rng.random() < 0.6) * rng.normal(size=(rank, rank)) * 0.4
        matrix[:rank, rank] = rng.normal(size=rank) * 4
        return np.round(2 * matrix) / 2 if rng.random() < 0.3 else matrix

    def number(self) -> Any:
        """A pixel's number that stands for missing pixels; None in most calls."""
        if self.image.dtype.kind in "cb" or self.rng.random() < 0.7:
            return None
        number = self.rng.choice(self.image.ravel()).item()
        return None if number != number else number

    def nodata(self, options: dict[str, Any], copies: bool) -> NoData | None:
        """How missing pixels are treated; None if a number stands for none of them."""
        if copies or "nodata" not in options:
            return None
        return NoData(options["missing"] == "ignore", options["nodata"], self.image.dtype)

    def planes(self, image: Array) -> Array:
        """An image as (1, C, *spatial)."""
        return image.reshape(1, -1, *self.spatial)

    def outputs(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> list[Array]:
        """Call a function of Zarr stores, which may be interrupted and called again."""
        target, stop, calls = MemoryStore(), int(self.rng.choice([0, 0, 0, 1, 3])), [0]

        def report(share: float) -> None:
            calls[0] += 1
            if calls[0] == stop:
                raise KeyboardInterrupt

        def call(**more: Any) -> Any:
            return function(self.source, target, *arguments, threads=2, **more, **options)

        try:
            with contextlib.suppress(KeyboardInterrupt):
                call(progress=report)
            if calls[0] == stop > 0:
                assert call().done_before >= stop
        except Exception as error:
            # Nothing is left of calls that are refused.  Footprints of a grid are known late.
            late = "antialias=True in chunks takes" in str(error)
            assert late or not list(target._store_dict)
            raise
        group = zarr.open_group(target, mode="r")
        return [group[name][...] for name in sorted(name for name, _ in group.arrays())]

    def check(
        self, result: Array, expected: Array, mode: Any, nodata: NoData | None, steps: int = 0
    ) -> None:
        """Compare an output with the result in memory, from which it may differ by some roundings.

        Those of splines are always allowed.
        """
        expected = expected if nodata is None else nodata.with_number(expected)
        expected = expected.reshape(result.shape)
        assert result.dtype == self.image.dtype == expected.dtype
        steps = max(steps, 64 if "spline" in str(mode) else 0)
        if not steps:
            np.testing.assert_array_equal(result, expected)
            return
        wide = np.complex128 if result.dtype.kind == "c" else np.float64
        greatest = np.nanmax(np.abs(expected[np.isfinite(expected)].astype(wide)), initial=1)
        # Sums are rounded differently, and those near a half to another integer.
        eps = np.finfo(result.dtype).eps if result.dtype.kind in "fc" else 0
        sums = min(eps, np.finfo(np.float32).eps)  # those of half precision are in single
        atol = (steps * sums + 2 * eps) * greatest if eps else 1
        np.testing.assert_allclose(result.astype(wide), expected.astype(wide), rtol=0, atol=atol)


def outcome(call: Any) -> tuple[Any, Exception | None]:
    """Return the result of a call, or its error."""
    try:
        return call(), None
    except (TypeError, ValueError) as error:
        return None, error


def for_pixels(matrix: Array) -> Array:
    """A matrix of indices as one of x, y, z, (1, D, D + 1)."""
    order = [*range(len(matrix) - 2, -1, -1), len(matrix) - 1]
    return matrix[np.ix_(order, order)][np.newaxis, :-1]


def sampling_options(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a warp that functions in memory take, too."""
    return {name: value for name, value in options.items() if name != "nodata"}


def copies_pixels(options: dict[str, Any]) -> bool:
    """Whether results are copies of pixels, also of missing ones."""
    modes = {*np.atleast_1d(options["mode"]).tolist()}
    if "label" in modes:
        return True
    copies = modes == {"nearest"} and not options["antialias"]
    return copies and "missing" not in options["padding_mode"]


@hypothesis.settings(max_examples=examples(30))
@hypothesis.given(st.integers(0, 2**32))
def test_warps_are_those_in_memory(seed: int) -> None:
    call = Call(seed)
    matrix, options = call.matrix(), call.options()
    nodata = call.nodata(options, copies_pixels(options))
    image = call.planes(call.image if nodata is None else nodata.with_nan(call.image))
    theta, shape = for_pixels(matrix), (*image.shape[:2], *call.size)
    keywords = {"coords": "pixel", **sampling_options(options)}
    expected, error = outcome(lambda: gridsample.affine_sample(image, theta, shape, **keywords))
    more = {**options, "layout": call.layout(call.size)}
    results, stored_error = outcome(
        lambda: call.outputs(gridsample.zarr.warp, matrix, call.size, **more)
    )
    if error is not None:
        assert stored_error is not None
    elif stored_error is None:
        steps = 4 if options["antialias"] else 0  # of halved copies
        call.check(results[0], expected, options["mode"], nodata, steps)
    else:  # a halved copy has no missing pixels
        assert "footprints that are longer than max_samples" in str(stored_error)


@hypothesis.settings(max_examples=examples(20))
@hypothesis.given(st.integers(0, 2**32))
def test_warps_in_the_world_are_those_in_memory(seed: int) -> None:
    """Matrices and fields between the worlds of two images, whose positions are rounded."""
    call = Call(seed)
    rng, rank, options, like = call.rng, call.rank, call.options(), call.voxels()
    options["prefilter"] = True
    turn = np.eye(rank + 1)
    turn[:rank] += rng.normal(0, 0.2, (rank, rank + 1))
    vectors = rng.normal(0, 2, (*rng.integers(1, 6, rank), rank))
    field = Displacement(vectors, np.diag([*rng.uniform(1, 4, rank), 1.0]))
    kind = rng.integers(4)
    steps = [[], [turn], [field], [turn, field, turn]][kind]
    other = MemoryStore()
    call.store(other, np.zeros(call.size, np.uint8), like)
    nodata = call.nodata(options, copies_pixels(options))
    image = call.planes(call.image if nodata is None else nodata.with_nan(call.image))
    keywords = {"coords": "pixel", **sampling_options(options)}
    keywords["extrapolate"] = to_edges(keywords.get("extrapolate", True))

    def in_memory() -> Any:
        if kind >= 2:
            grid = world_grid(call.affine, (call.size, like), steps)
            return gridsample.grid_sample(image, grid, **keywords)
        theta = for_pixels(
            np.linalg.inv(call.affine) @ (turn if steps else np.eye(rank + 1)) @ like
        )
        return gridsample.affine_sample(image, theta, (*image.shape[:2], *call.size), **keywords)

    def in_store(layout: Layout) -> list[Array]:
        more = {**options, "like": other, "transform": steps, "layout": layout}
        return call.outputs(gridsample.zarr.warp, **more)

    expected, error = outcome(in_memory)
    results, stored_error = outcome(lambda: in_store(call.layout(call.size)))
    if error is not None:
        assert stored_error is not None
    elif stored_error is None:
        call.check(results[0], expected, options["mode"], nodata, steps=4096)
        if "spline" not in str(options["mode"]):  # the same bits in one chunk
            whole = in_store(Layout((*call.channels, *call.size)))
            np.testing.assert_array_equal(results[0], whole[0])
    else:
        messages = "footprints that are longer than max_samples", "antialias=True in chunks takes"
        assert any(message in str(stored_error) for message in messages), stored_error


@hypothesis.settings(max_examples=examples(20))
@hypothesis.given(st.integers(0, 2**32))
def test_resizes_are_those_in_memory(seed: int) -> None:
    call = Call(seed)
    labels = call.image.dtype.kind in "biu" and call.rng.random() < 0.2
    modes = ["label"] if labels else ["nearest", "nearest-exact", "area", *MODES[1:]]
    options = {
        "mode": call.named(modes),
        "align_corners": [None, False, True][call.rng.integers(3)],
        "antialias": bool(call.rng.random() < 0.4),
        **call.missing(),
    }
    names = {*np.atleast_1d(options["mode"]).tolist()}
    copies = labels or (names <= {"nearest", "nearest-exact"} and not options["antialias"])
    nodata = call.nodata(options, copies)
    image = call.planes(call.image if nodata is None else nodata.with_nan(call.image))
    keywords = sampling_options(options)
    expected, error = outcome(lambda: gridsample.interpolate(image, call.size, **keywords))
    layout = call.layout(call.size)
    results, stored_error = outcome(
        lambda: call.outputs(gridsample.zarr.resize, call.size, layout=layout, **options)
    )
    assert (error is None) == (stored_error is None), (error, stored_error)
    if error is None:
        # Stores divide all sums, whereas an image without NaN in memory is not divided.
        steps = 4 if options["missing"] == "ignore" else 0
        call.check(results[0], expected, options["mode"], nodata, steps)


# Pyramids -----------------------------------------------------------------------------------------


def blocks(shape: Sequence[int], steps: Sequence[int]) -> Any:
    """Yield the index of each pixel of a halved level, and the pixels of its block."""
    for index in itertools.product(*(range(-(-n // k)) for n, k in zip(shape, steps, strict=True))):
        parts = zip(index, steps, shape, strict=True)
        yield index, tuple(slice(i * k, min((i + 1) * k, n)) for i, k, n in parts)


@hypothesis.settings(max_examples=examples(20))
@hypothesis.given(st.integers(0, 2**32))
def test_pyramids_are_means_and_votes_of_blocks(seed: int) -> None:
    """Each level is that of the one before, weighted by the parts of pixels on the image."""
    call = Call(seed)
    spatial = call.names[len(call.channels) :]
    halve = [name for name in spatial if call.rng.random() < 0.7] or spatial
    labels = call.image.dtype.kind in "biu" and call.rng.random() < 0.3
    options: dict[str, Any] = {"mode": "label" if labels else "linear", **call.missing()}
    options |= {"levels": int(call.rng.integers(1, 5)), "halve": "".join(halve)}
    levels = call.outputs(gridsample.zarr.pyramid, layout=call.layout(call.spatial), **options)
    np.testing.assert_array_equal(levels[0], call.image)
    nodata, factors = call.nodata(options, copies=labels), [1] * len(call.shape)
    for finer, coarser in itertools.pairwise(levels):
        halved = [name in halve and n > 1 for name, n in zip(call.names, finer.shape, strict=True)]
        steps = [2 if each else 1 for each in halved]
        assert coarser.shape == tuple(-(-n // k) for n, k in zip(finer.shape, steps, strict=True))
        shares = np.ones(finer.shape)
        for k, (n, factor) in enumerate(zip(call.shape, factors, strict=True)):
            np.moveaxis(shares, k, -1)[..., -1] *= ((n - 1) % factor + 1) / factor
        pixels = finer if nodata is None else nodata.with_nan(finer)
        wide = pixels.astype(np.complex128 if pixels.dtype.kind == "c" else np.float64)
        if options["missing"] == "ignore":
            shares[np.isnan(wide)] = 0
            wide = np.nan_to_num(wide, nan=0.0)
        for index, block in blocks(finer.shape, steps):
            if labels:
                names, votes = np.unique(finer[block], return_counts=True)
                assert coarser[index] == names[votes.argmax()]
            else:
                check_mean(coarser[index], wide[block], shares[block], nodata)
        factors = [a * b for a, b in zip(factors, steps, strict=True)]


def check_mean(actual: Any, values: Array, shares: Array, nodata: NoData | None) -> None:
    """Compare a pixel with the weighted mean of pixels, which is missing if they all are."""
    with np.errstate(invalid="ignore"):
        mean = (values * shares).sum() / shares.sum()
    if np.isnan(mean):
        missing = nodata is not None and actual == nodata.number
        assert missing or (nodata is None and np.isnan(actual))
        return
    kind = actual.dtype.kind
    rounding = 2 * np.finfo(actual.dtype).eps * abs(mean) if kind in "fc" else 0.5
    wide = complex(actual) if kind == "c" else float(actual)
    assert abs(wide - mean) <= rounding + 1e-12 * np.abs(values).max()
