"""Random warps and resizes of Zarr stores, in chunks that know nothing of each other."""

from __future__ import annotations

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
from gridsample.zarr import Layout

Array = np.ndarray[Any, Any]
MODES = ["nearest", "linear", "cubic", "lanczos3", "spline2", "spline3", "spline5"]
DTYPES = ["bool", "uint8", "int16", "int64", "float16", "float32", "float64", "complex64"]


class Call:
    """A random image, and how it is stored."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.rank, channels = int(rng.integers(1, 4)), [(), (2,), (3,)][rng.integers(3)]
        self.spatial = tuple(int(n) for n in rng.integers(1, 24, self.rank))
        self.size = tuple(int(n) for n in rng.integers(1, 24, self.rank))
        dtype, self.shape = np.dtype(rng.choice(DTYPES)), (*channels, *self.spatial)
        values = rng.normal(size=self.shape) * 60 + 100
        self.image = (values > 100 if dtype.kind == "b" else values.clip(0, 250)).astype(dtype)
        if dtype.kind in "fc" and rng.random() < 0.4:
            self.image[rng.random(self.shape) < 0.15] = np.nan
        names = ["c"] * len(channels) + [*"zyx"[3 - self.rank :]]
        self.source, self.output = MemoryStore(), MemoryStore()
        chunks = self.parts(self.shape)
        zarr.create_array(self.source, data=self.image, chunks=chunks, dimension_names=names)
        whole = self.parts((*channels, *self.size))
        self.layout = Layout(whole, tuple(2 * n for n in whole) if rng.random() < 0.3 else None)

    def parts(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of chunks of an array."""
        return tuple(int(self.rng.integers(1, n + 1)) for n in shape)

    def named(self, names: list[str]) -> Any:
        """One name, or one for each axis."""
        each = tuple(str(name) for name in self.rng.choice(names, self.rank))
        return each[0] if self.rng.random() < 0.7 else each

    def options(self) -> dict[str, Any]:
        """Options of `warp`."""
        rng, real = self.rng, self.image.dtype.kind in "fc"
        options = {"mode": self.named(MODES), "padding_mode": self.named([*BOUNDARIES, "missing"])}
        if {"zeros", "constant"} <= {*options["padding_mode"]}:  # an error, whatever the fill value
            options["padding_mode"] = "constant"
        choices: dict[str, list[Any]] = {
            "extrapolate": [True, True, False, "edges", "centers"],
            "fill_value": [0, 0, 7, 2.5, np.nan, np.inf, -3],
            "prefilter": [True] * 9 + [False],
            "antialias": [False, False, True],
            "max_samples": [16, 16, 4, 64],
            "missing": ["propagate", "ignore"] if real else ["propagate"],
        }
        options |= {name: values[rng.integers(len(values))] for name, values in choices.items()}
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

    def planes(self) -> Array:
        """The image as (1, C, *spatial)."""
        return self.image.reshape(1, -1, *self.spatial)

    def check(self, expected: Array, mode: Any, nodata: NoData | None = None) -> None:
        """Compare the output with the result in memory."""
        expected = expected if nodata is None else nodata.with_number(expected)
        result = zarr.open_group(self.output, mode="r")["0"][...]
        expected = expected.reshape(result.shape)
        assert result.dtype == self.image.dtype == expected.dtype
        if "spline" not in str(mode):
            np.testing.assert_array_equal(result, expected)
            return
        wide = np.complex128 if result.dtype.kind == "c" else np.float64
        greatest = np.nanmax(np.abs(expected[np.isfinite(expected)].astype(wide)), initial=1)
        # Sums are rounded differently, and those near a half to another integer.
        eps = np.finfo(result.dtype).eps if result.dtype.kind in "fc" else 0
        atol = 64 * eps * greatest if eps else 1
        np.testing.assert_allclose(result.astype(wide), expected.astype(wide), rtol=0, atol=atol)


def outcome(call: Any) -> tuple[Any, Exception | None]:
    """Return the result of a call, or its error."""
    try:
        return call(), None
    except (TypeError, ValueError) as error:
        return None, error


@hypothesis.settings(max_examples=examples(40))
@hypothesis.given(st.integers(0, 2**32))
def test_warps_are_those_in_memory(seed: int) -> None:
    call = Call(seed)
    matrix, options, rank, number = call.matrix(), call.options(), call.rank, call.number()
    copies = {*np.atleast_1d(options["mode"])} == {"nearest"} and not options["antialias"]
    nodata, image = None, call.planes()
    if number is not None and not (copies and "missing" not in options["padding_mode"]):
        nodata = NoData(options["missing"] == "ignore", number, call.image.dtype)
        image = nodata.with_nan(image)
    order = [*range(rank - 1, -1, -1), rank]
    theta = matrix[np.ix_(order, order)][np.newaxis, :rank]
    shape = (*image.shape[:2], *call.size)
    expected, error = outcome(
        lambda: gridsample.affine_sample(image, theta, shape, coords="pixel", **options)
    )
    options["nodata"] = number
    _, stored_error = outcome(
        lambda: gridsample.zarr.warp(
            call.source, call.output, matrix, call.size, layout=call.layout, threads=2, **options
        )
    )
    if error is not None:
        assert stored_error is not None
    elif stored_error is None:
        call.check(expected, options["mode"], nodata)
    else:  # a halved copy has no missing pixels
        assert "footprints that are longer than max_samples" in str(stored_error)
    if stored_error is not None:
        assert not list(call.output._store_dict)


@hypothesis.settings(max_examples=examples(40))
@hypothesis.given(st.integers(0, 2**32))
def test_resizes_are_those_in_memory(seed: int) -> None:
    call = Call(seed)
    options = {
        "mode": call.named(["nearest", "nearest-exact", "area", *MODES[1:]]),
        "align_corners": [None, False, True][call.rng.integers(3)],
        "antialias": bool(call.rng.random() < 0.4),
    }
    expected, error = outcome(lambda: gridsample.interpolate(call.planes(), call.size, **options))
    _, stored_error = outcome(
        lambda: gridsample.zarr.resize(
            call.source, call.output, call.size, layout=call.layout, threads=2, **options
        )
    )
    assert (error is None) == (stored_error is None), (error, stored_error)
    if error is None:
        call.check(expected, options["mode"])
    else:
        assert not list(call.output._store_dict)
