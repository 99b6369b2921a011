"""Resizing of labels: planes and rows are divided into tasks; see `gridsample.kernels.resize.labels`."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.tables import AxisMap, Band, chosen
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import describe, frozen, layout_of, plain, sign_bit
from gridsample.kernels.resize.build import WIDTH, Spec, driver_for

Array = np.ndarray[Any, Any]

# Inputs of an output up to which all pairs of them are compared.  More are counted in a hash table.
FEW = 32
# Entries of a hash table to begin with, of which half are used.
ENTRIES = 1024
# Inputs that a task reads.
TASK = 1 << 19


class Taps(NamedTuple):
    """The inputs of an axis: arrays (tap, output), flat."""

    many: int
    at: Array  # the offset in a plane
    by: Array  # the weight; 0 for a tap that an output has not


def taps_of(band: Band, stride: int) -> Taps:
    """The inputs of an axis of which neighbours are a stride apart in memory."""
    taps = np.arange(max(1, band.taps))[:, np.newaxis]
    places = band.first + np.minimum(taps, np.maximum(band.count, 1) - 1)
    weights = np.where(taps < band.count, band.weights.T[: len(taps)], 0.0)
    at = np.ascontiguousarray(places * stride, np.int64)
    return Taps(len(taps), at.reshape(-1), np.ascontiguousarray(weights).reshape(-1))


def vote(maps: Sequence[AxisMap], source: Array, out: Array, threads: int | None) -> None:
    """Resize labels (N, C, *spatial) into ``out``, with any strides."""
    if plain(out) is not out:
        made = np.empty(out.shape, out.dtype.newbyteorder("="))
        vote(maps, source, made, threads)
        out[...] = made
        return
    source = plain(source)
    given, wanted = (describe(layout_of(one), len(one), True) for one in (source, out))
    missing = 3 - len(maps)
    bands = [chosen(np.zeros(1, np.int64), 1)] * missing + [one.band for one in maps]
    strides, steps = ((0,) * missing + one.strides[::-1] for one in (given, wanted))
    axes = [taps_of(band, stride) for band, stride in zip(bands, strides, strict=True)]
    shape = tuple(band.outputs for band in bands)

    bits = given.flat.kind or source.dtype
    many = math.prod(one.many for one in axes)
    few = many <= FEW
    spec = Spec("vote_few" if few else "vote_many", bits.str[1:], bits.str[1:], "f8")
    flip = sign_bit(source.dtype, 32 if few and bits.itemsize < 8 else 64)
    numbers = (steps, shape, [one.many for one in axes])
    tables = [np.array(one, np.int64) for one in numbers]
    tables += [one.at for one in axes] + [one.by for one in axes]
    driver = functools.partial(
        driver_for(spec), frozen(given.flat.view(source)), wanted.flat.view(out)
    )
    rows = shape[0] * shape[1]
    step = max(1, min(rows, TASK // (shape[2] * many)))

    def task(item: int, channel: int, first: int) -> None:
        begin = item * given.item + given.planes[channel]
        put = item * wanted.item + wanted.planes[channel]
        fixed = (int(begin), int(put), *map(frozen, tables), flip)
        last = min(rows, first + step)
        if few:
            wide = np.int64 if bits.itemsize == 8 else np.int32
            driver(
                *fixed,
                first,
                last,
                np.empty((many + 1) * WIDTH, wide),
                np.empty((many + 2) * WIDTH),
            )
        else:
            count(functools.partial(driver, *fixed), first, last)

    work = [
        functools.partial(task, item, channel, first)
        for item in range(source.shape[0])
        for channel in range(source.shape[1])
        for first in range(0, rows, step)
    ]
    pool.run(work, threads or pool.cores())


def count(driver: Any, first: int, last: int) -> None:
    """Have rows counted in a hash table, which grows with the labels that an output has."""
    entries = ENTRIES
    while first < last:
        first = driver(
            first, last, np.empty(entries, np.int64), np.empty(entries),
            np.zeros(entries, np.int64), np.empty(entries // 2 + 1, np.int64), entries - 1,
        )  # fmt: skip
        entries *= 2
