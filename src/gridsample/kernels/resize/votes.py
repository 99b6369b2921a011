"""Resizing of labels: planes and rows are divided into tasks.

See `gridsample.kernels.resize.labels`, which has the loops.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.tables import AxisMap, Band, chosen
from gridsample.kernels import threads as pool
from gridsample.kernels.compile.records import flat_values
from gridsample.kernels.memory import describe, frozen, layout_of, plain, sign_bit
from gridsample.kernels.resize.build import WIDTH, Spec, driver_for
from gridsample.kernels.resize.labels import Counts, Inputs, Planes, Room

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
    numbers = (steps, shape, [one.many for one in axes])
    tables = [np.array(one, np.int64) for one in numbers]
    tables += [one.at for one in axes] + [one.by for one in axes]
    inputs = Inputs(*map(frozen, tables))
    memory = frozen(given.flat.view(source)), wanted.flat.view(out)
    flip = sign_bit(source.dtype, 32 if few and bits.itemsize < 8 else 64)
    rows = shape[0] * shape[1]
    step = max(1, min(rows, TASK // (shape[2] * many)))

    def task(item: int, channel: int, first: int) -> None:
        begin = item * given.item + int(given.planes[channel])
        put = item * wanted.item + int(wanted.planes[channel])
        planes, last = Planes(*memory, begin, put, flip), min(rows, first + step)
        (compare if few else count)(planes, inputs, bits, first, last)

    work = [
        functools.partial(task, item, channel, first)
        for item in range(source.shape[0])
        for channel in range(source.shape[1])
        for first in range(0, rows, step)
    ]
    pool.run(work, threads or pool.cores())


def call(name: str, bits: np.dtype[Any], **given: Any) -> int:
    """Call a driver, whose arguments are in the order in which it takes them."""
    kind = bits.str[1:]
    row: int = driver_for(Spec(name, kind, kind, "f8"))(*flat_values(**given).values())
    return row


def compare(planes: Planes, inputs: Inputs, bits: np.dtype[Any], first: int, last: int) -> None:
    """Have rows resized by comparing all pairs of inputs."""
    many = math.prod(inputs.taps.tolist())
    keys = np.empty((many + 1) * WIDTH, np.int64 if bits.itemsize == 8 else np.int32)
    room = Room(keys, np.empty((many + 2) * WIDTH))
    call("vote_few", bits, planes=planes, inputs=inputs, first=first, last=last, room=room)


def count(planes: Planes, inputs: Inputs, bits: np.dtype[Any], first: int, last: int) -> None:
    """Have rows counted in a hash table, which grows with the labels that an output has."""
    entries = ENTRIES
    while first < last:
        table, stamps = np.empty(entries, np.int64), np.zeros(entries, np.int64)
        used = np.empty(entries // 2 + 1, np.int64)
        counts = Counts(table, np.empty(entries), stamps, used, entries - 1)
        first = call(
            "vote_many", bits, planes=planes, inputs=inputs, first=first, last=last, counts=counts
        )
        entries *= 2
