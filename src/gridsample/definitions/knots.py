"""Axes whose pixels have coordinates of their own: the pressures of a table, longitudes, times.

The position of a coordinate x is the number of the interval of the axis that holds it, and the
fraction of that interval:

    p = i + (x - a[i]) / (a[i + 1] - a[i])        a[i] <= x < a[i + 1] on an increasing axis

At a coordinate of the axis, the fraction is exactly 0, but for rounding on equidistant axes, where
this is p = (x - a[0]) / step.  The first and the last interval continue beyond the ends.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.definitions.caches import cached_property
from gridsample.definitions.checks import as_reals
from gridsample.definitions.names import CoordsName
from gridsample.definitions.shapes import MAX_RANK, axis_name, axis_names
from gridsample.messages.links import unknown_name

Array = np.ndarray[Any, Any]

# The units that an axis without coordinates of its own may have.
UNITS = ("normalized", "pixel")
# The greatest deviation of equidistant coordinates: in units in the last place of the greatest
# coordinate, as rounding leaves it, and in intervals.
ROUNDING, DEVIATION = 4 * np.finfo(np.float64).eps, 2.0**-30
# The least distance of coordinates, whose inverse is a finite number.
SHORTEST = 1e-300


class Axes:
    """The coordinates of an image's pixels along each axis, as units of `coords`.

    Coordinates are checked once, when the record is made; a tuple of arrays is checked in each
    call.  Records are equal if their entries are, and do not depend on the arrays they were made
    from.

    Args:
        entries: an entry for each axis of the image, x (the last axis) first: the coordinates of
            its pixels, an array of two real numbers or more that increase or decrease throughout,
            at any distances; or "normalized" or "pixel" for an axis that has none.

    Raises:
        TypeError: an entry is neither a name nor an array of real numbers, or needs a gradient.
        ValueError: an entry is not 1-D, has less than two coordinates, or coordinates that are not
            finite or do not increase or decrease throughout; or a name is unknown.

    Example:
        >>> import numpy as np, gridsample
        >>> axes = gridsample.Axes([0.0, 1.0, 10.0], [300.0, 200.0])
        >>> table = np.array([[[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]]])
        >>> point = np.array([[[5.5, 250.0]]])
        >>> gridsample.grid_sample(table, point, padding_mode="border", coords=axes)
        array([[[3.]]])
    """

    def __init__(self, *entries: Any) -> None:
        if not 1 <= len(entries) <= MAX_RANK:
            raise ValueError(
                f"Axes takes 1 to {MAX_RANK} entries, got {len(entries)}; coordinates along one "
                "axis are one entry: Axes([0.0, 1.0, ...])"
            )
        self.entries = tuple([as_entry(entry, k) for k, entry in enumerate(entries)])
        # A description from which `of_text` makes an equal record.  It is written here, because
        # torch.compile cannot write it.
        self.text = "|".join([PREFIX, *map(entry_text, self.entries)])

    @cached_property
    def digest(self) -> bytes:
        """A digest of the entries, by which records are told apart."""
        content = hashlib.blake2b(digest_size=16)
        for entry in self.entries:
            name, part = entry, b""
            if isinstance(entry, Knots):
                name, part = entry.prefix, entry.coordinates.tobytes()
            for piece in (str(name).encode(), part):
                content.update(len(piece).to_bytes(8, "little"))
                content.update(piece)
        return content.digest()

    @classmethod
    def of_text(cls, text: str) -> Axes:
        """Make the record of which this is the text."""
        _, *parts = text.split("|")
        self = cls.__new__(cls)
        self.entries, self.text = tuple([entry_of_text(part) for part in parts]), text
        return self

    def __len__(self) -> int:
        """The number of axes."""
        return len(self.entries)

    def __eq__(self, other: Any) -> bool:
        """Whether another record has the same entries."""
        return isinstance(other, Axes) and self.digest == other.digest

    def __hash__(self) -> int:
        """The hash of the entries."""
        return hash(self.digest)

    def __reduce__(self) -> Any:
        """Pickle the text."""
        return Axes.of_text, (self.text,)

    def __repr__(self) -> str:
        """The entries; of coordinates, the first, the last, and their number."""
        return f"Axes({', '.join(map(repr, self.entries))})"


# How the text of `Axes` begins.
PREFIX = "axes"


# Units of coordinates as callers give them: a name, or an entry for each axis.
# No sequence of any kind, as a misspelt name is one.
Coords = CoordsName | Axes | tuple[Any, ...] | list[Any]


class Knots:
    """The coordinates of the pixels of one axis.

    Attributes:
        coordinates: in float64, read-only.
        size: the number of coordinates.
        pixels: the number of pixels.
        scale: intervals per unit of the coordinates, in the mean; negative if these decrease.
        is_even: whether positions are computed without a search, because the coordinates are
            equidistant, but for rounding.
        prefix: how the text of the entry begins.

    Args:
        coordinates: the coordinates; they become read-only.
        searched: whether to search in any case, so that positions are exact at each coordinate.
    """

    prefix = "="

    def __init__(self, coordinates: Array, searched: bool = False) -> None:
        self.coordinates = coordinates
        self.coordinates.flags.writeable = False
        self.size = self.pixels = len(coordinates)
        extent = float(coordinates[-1]) - float(coordinates[0])
        self.scale = (self.size - 1) / extent
        while extent * self.scale > self.size - 1:  # by rounding: the last one is not outside
            self.scale = math.nextafter(self.scale, 0.0)
        self.is_even = not searched and self.deviates_by_rounding()

    def deviates_by_rounding(self) -> bool:
        """Whether the coordinates are equidistant, but for rounding."""
        coordinates = self.coordinates
        even = coordinates[0] + np.arange(self.size) / self.scale
        largest = max(abs(float(coordinates[0])), abs(float(coordinates[-1])))
        bound = min(ROUNDING * largest, DEVIATION / abs(self.scale))
        return bool(np.abs(even - coordinates).max() <= bound)

    def __repr__(self) -> str:
        """The first coordinate, the last, and their number."""
        return f"<{self.size} from {self.coordinates[0]:g} to {self.coordinates[-1]:g}>"


class SplineKnots(Knots):
    """The knots of B-splines along one axis, whose pixels are coefficients.

    Each interval between two knots has degree + 1 B-splines: those of the coefficients from the
    number of the interval on.  At the ends, degree + 1 knots are one.

    Attributes:
        degree: the degree of the B-splines, from 1 to 5.
        weights: the B-splines on each interval, (intervals, degree + 1, degree + 1): polynomials in
            the fraction of the interval, lowest power first.
    """

    def __init__(self, coordinates: Array, degree: int) -> None:
        super().__init__(coordinates, searched=True)  # for the weights of intervals
        self.degree, self.prefix = degree, f"{degree}="
        self.pixels = self.size - 1 + degree

    @cached_property
    def weights(self) -> Array:
        """The B-splines on each interval."""
        return bsplines_on(self.coordinates, self.degree)


def bsplines_on(knots: Array, degree: int) -> Array:
    """Return the B-splines on each interval of knots; see `SplineKnots.weights`.

    A B-spline of one degree more is a sum of two, weighted by the distances to the ends of its
    support (C. de Boor, "A practical guide to splines", 1978); the distances are linear in the
    fraction u: x - t = (a - t) + (b - a) u.
    """
    inner = len(knots) - 1
    padded = np.concatenate([knots[:1].repeat(degree), knots, knots[-1:].repeat(degree)])
    # Knot k of each interval: the interval begins at knot `degree`.
    around = [padded[k : k + inner, None] for k in range(2 * degree + 2)]
    start, width = around[degree], around[degree + 1] - around[degree]
    splines = [np.ones((inner, 1))]
    for order in range(1, degree + 1):
        longer = [np.zeros((inner, order + 1)) for _ in range(order + 1)]
        for k, spline in enumerate(splines):
            left, right = around[degree - order + 1 + k], around[degree + 1 + k]
            scaled = np.pad(spline / (right - left), ((0, 0), (0, 1)))
            raised = np.roll(scaled, 1, 1) * width
            longer[k] += (right - start) * scaled - raised
            longer[k + 1] += (start - left) * scaled + raised
        splines = longer
    return np.stack(splines, 1)


def as_entry(entry: Any, number: int) -> str | Knots:
    """Return a checked entry of `Axes`.

    number: the number of the axis, x first.
    """
    if isinstance(entry, str):
        check_unit(entry)
        return entry
    if isinstance(entry, Knots):
        return entry
    name = f"coords along {axis_name(number)}"
    if getattr(entry, "requires_grad", False):
        raise TypeError(
            f"{name} requires a gradient, which only gridsample.fields.to_pixel has: convert the "
            "grid by it, and pass coords='pixel'"
        )
    numbers = np.array(as_reals(entry, name))
    check_length(numbers.shape, name)
    check_order(numbers, name)
    return Knots(numbers)


def check_unit(entry: str) -> None:
    """Raise an error if a name is not that of units of a single axis."""
    if entry not in UNITS:
        raise unknown_name("coords", entry, UNITS, "is not accepted for a single axis")


def check_length(shape: Sequence[int], name: str, size: Any = None) -> None:
    """Raise an error for coordinates of a wrong shape; ``size`` is the number of pixels, if known.

    name: the argument, for messages.
    """
    if len(shape) != 1 or shape[0] < 2:
        raise ValueError(f"{name} must be 1-D with two entries or more, got shape {tuple(shape)}")
    if size is not None and shape[0] != size:
        raise ValueError(f"{name} has {shape[0]} entries, but the image has {size} pixels there")


def check_order(numbers: Array, name: str) -> None:
    """Raise an error if numbers are not finite, do not increase or decrease, or are too close."""
    if is_monotonic(numbers):
        check_range(numbers, name)
        return
    raise ValueError(
        f"{name} must be finite and increase or decrease throughout{first_fault(numbers)}"
    )


def check_range(numbers: Array, name: str) -> None:
    """Raise an error if lengths of an axis, or what they divide, may overflow."""
    with np.errstate(over="ignore"):
        extent, shortest = abs(numbers[-1] - numbers[0]), np.abs(np.diff(numbers)).min()
    if extent == np.inf or shortest < SHORTEST:
        raise ValueError(
            f"{name} must have distances of at least {SHORTEST:g}, and a finite extent; got a "
            f"distance of {shortest:g} and an extent of {extent:g}"
        )


def check_count(coords: Axes | Sequence[Any], rank: int) -> None:
    """Raise an error if there is not an entry for each axis of an image."""
    if len(coords) != rank:
        raise ValueError(
            f"coords needs one entry per axis of the image: {rank} ({axis_names(rank)}), got "
            f"{len(coords)}"
        )


def axes_for(coords: Axes | Sequence[Any], spatial: Sequence[Any]) -> Axes:
    """Return a record for an image (*spatial), or raise an error if it does not match the image."""
    check_count(coords, len(spatial))
    axes = coords if isinstance(coords, Axes) else Axes(*coords)
    for number, (entry, size) in enumerate(zip(axes.entries, reversed(spatial), strict=True)):
        if isinstance(entry, Knots):
            check_length((entry.pixels,), f"coords along {axis_name(number)}", size)
    return axes


def require_name(coords: str | Axes, target: str) -> str:
    """Return the name of units, or raise an error for `Axes`, which a target does not support."""
    if isinstance(coords, Axes):
        raise ValueError(
            f"{target} does not accept the coordinates of axes in coords; convert the grid by "
            "gridsample.fields.to_pixel, and pass coords='pixel'"
        )
    return coords


def is_monotonic(values: Array) -> bool:
    """Whether numbers are finite, and increase or decrease throughout."""
    before, after = values[:-1], values[1:]
    return bool(np.isfinite(values).all() and ((after > before).all() or (after < before).all()))


def first_fault(values: Array) -> str:
    """Say which entry of an axis is the first that is not as it must be."""
    before, after = values[:-1], values[1:]
    follows = after > before if values[1] > values[0] else after < before
    valid = np.isfinite(values) & np.concatenate([[True], follows])
    k = int(np.argmin(valid))
    return f"; entry {k} is {values[k]}" + (f", after {values[k - 1]}" if k else "")


def interval_of(xp: Any, knots: Any, sought: Any) -> Any:
    """Return the number of the interval that holds each coordinate, or is nearest to it.

    Args:
        xp: the namespace of the arrays' library.
        knots: the coordinates of an axis, which increase.
        sought: what is sought, next to each other in memory as torch wants it.
    """
    before = xp.searchsorted(knots, sought, side="right") - 1
    return xp.clip(before, 0, knots.shape[0] - 2)


def entry_text(entry: str | Knots) -> str:
    """Return a name, or the bytes of coordinates as text, lowest first."""
    if isinstance(entry, str):
        return entry
    numbers = base64.b64encode(entry.coordinates.astype("<f8").tobytes())
    return entry.prefix + numbers.decode()


def entry_of_text(text: str) -> str | Knots:
    """Return the entry of which this is the text."""
    degree, equals, numbers = text.partition("=")
    if not equals:
        return text
    coordinates = np.frombuffer(base64.b64decode(numbers), "<f8").astype(np.float64)
    return SplineKnots(coordinates, int(degree)) if degree else Knots(coordinates)
