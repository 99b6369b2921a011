"""The settings of sampling programs: sizes, strides and ranges, known when arrays are."""

from __future__ import annotations

import functools
from types import SimpleNamespace

from gridsample.kernels.vector import Record

# Points of a strip, at most: one plane of the image is sampled at all of them before the next.
STRIP = 256

# The bit of a report about footprints that says that some point has several samples, or another
# level than 0.
SHRINKS = 32

# What a program is told when it runs: the fields of `settings_of`; a pointer for each of
# `sweep.arrays_of`; and ``scratch``, the memory of a thread.  `run.entry` reads it.
Call = SimpleNamespace


@functools.cache
def settings_of(
    rank: int, footprints: bool = False, knots: bool = False, lattice: str = "", taps: int = 0
) -> Record:
    """Return the layout of the settings for images of a rank, footprints, and axes with knots.

    Those with a ``lattice`` of control points say in which kind of numbers coordinates are, and on
    how many control points along each axis they depend.

    Distances count elements.  Planes are given by the places of their first elements.
    """
    fields: dict[str, str | tuple[str, int]] = dict(
        ranges="*int64",  # of each task; a row of `groups.TaskRange` each
        columns="int64",  # points of a row, or of a list
        points="int64",  # of an item
        # The share of the cache that is read where a coordinate changes by 1; see `division`.
        cached_share=("float64", rank),
        unit=("float64", rank),  # pixels per unit of coordinates
        sizes=("int64", rank),  # of the image, x first
        strides=("int64", rank),
        channels="int64",  # that are processed together
        planes="int64",
        planes_near="int64",  # of a block: see `division.Blocks`
        planes_far="int64",
        image_item="int64",
        image_planes="*int64",
        weights_strides=("int64", rank),  # of the weights of pixels, x first
        weights_item="int64",
        weights_planes="*int64",
        grid_item="int64",
        grid_point="int64",
        grid_axis="int64",
        out_item="int64",
        out_point="int64",
        out_planes="*int64",
        out_sizes=("int64", rank),  # of the last axes of the output, x first
        sums_item="int64",  # of the image's gradient
        sums_planes="*int64",
        # A point's own coordinate is index * step + start; see `calls.output_axes`.
        out_step=("float64", rank),
        out_start=("float64", rank),
        # The factors of an affine map's entries, and what is added to those of its last column.
        map_scale=("float64", rank * (rank + 1)),
        map_centre=("float64", rank),
    )
    if footprints:
        fields |= {
            "gain": ("float64", rank),  # from coordinates to those in the image of the level
            "shift": ("float64", rank),
            "period": ("float64", rank),  # of coordinates, where positions are a circle
            "max_samples": "int64",  # samples along a side
            "levels": "int64",  # the number of times that the image can be halved
            "level": "int64",
            "attached": "int64",  # whether the gradient of the grid includes that of sides
            "tie": "float64",  # the difference per sample within which the weights of labels tie
        }
    if knots:
        fields |= knot_fields(rank)
    if lattice:  # see `gridsample.kernels.sampling.control_points`
        fields |= {
            "lattice_table": ("float64", taps**2),  # the powers of each tap's weight
            "lattice_sizes": ("int64", rank),  # of what is read, x first
            "lattice_begins": "*int64",  # the first column of each interval
            "lattice_fractions": f"*{lattice}",  # of each column's interval
            "lattice_firsts": ("*int64", rank),  # the first tap of each output along an axis
            "lattice_weights": ("*float64", rank),  # of its taps
        }
    return Record(**fields)


def knot_fields(rank: int) -> dict[str, tuple[str, int]]:
    """Return the settings about the coordinates of axes; see `sampling.searching`."""
    return {
        "knots": ("*float64", rank),
        "buckets": ("*int32", rank),
        "knots_low": ("float64", rank),
        "knots_scale": ("float64", rank),
        "knots_by_bits": ("int64", rank),
        "knots_sign": ("float64", rank),
        "last_bucket": ("int64", rank),
        "search_steps": ("int64", rank),
        "knots_weights": ("*float64", rank),
        "knots_least": ("float64", rank),
        "knots_greatest": ("float64", rank),
    }
