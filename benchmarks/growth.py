"""Finds calls whose cost grows faster than their work: with sizes, counts, layouts or dtypes.

    python -m benchmarks.growth                every family, on one thread
    python -m benchmarks.growth --case resiz   families whose name contains a text; * is wild
    python -m benchmarks.growth --threads 2    another number of threads
    python -m benchmarks.growth --list         the families

A family is one operation with one thing varied.  Its cases are compared by the time of a unit of
work: a point, a pixel or a sample of one channel; those of each method, or dtype, by themselves.  A
case is marked if a unit takes more than 3 times as long as that of the best case, what a call costs
by itself (`CALL`) excepted.  The exit status is 1 if any case is marked.  On one thread, time is
that of the processor.
"""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

FACTOR = 3.0
CALL = 100e-6  # seconds
SECONDS = 0.1  # for each case
FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {}


class Case(NamedTuple):
    """One call.

    Attributes:
        name: what distinguishes it from the others of its family.
        work: the number of units.
        call: the call.
        group: what it is compared with: other cases of this group.
    """

    name: str
    work: float
    call: Callable[[], Any]
    group: str = ""


class Row(NamedTuple):
    """The time of a case.

    Attributes:
        case: the case.
        seconds: the shortest time of a call.
    """

    case: Case
    seconds: float

    @property
    def unit(self) -> float:
        """Nanoseconds per unit."""
        return self.seconds / self.case.work * 1e9


def family(function: Callable[[], Iterator[Case]]) -> Callable[[], Iterator[Case]]:
    """Register a family under the name of a function."""
    FAMILIES[function.__name__.replace("_", " ")] = function
    return function


def shortest(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Return the shortest time of a call; the first two are not counted."""
    best, end = math.inf, time.perf_counter() + SECONDS
    for number in itertools.count():
        start = clock()
        call()
        if number > 1:
            best = min(best, clock() - start)
            if time.perf_counter() > end:
                return best
    raise AssertionError


def outliers(rows: list[Row]) -> list[Row]:
    """Return the rows that cost too much for their work."""
    # The smallest cases are calls more than work: their units say nothing.
    best = min((row.unit for row in rows if row.seconds > CALL), default=math.inf)
    return [row for row in rows if row.seconds > CALL + FACTOR * best * 1e-9 * row.case.work]


# Inputs -------------------------------------------------------------------------------------------


def pixels(shape: tuple[int, ...], dtype: str = "float32") -> Array:
    """Return random pixels."""
    rng = np.random.default_rng(0)
    if dtype.startswith("complex"):
        return (rng.random(shape) + 1j * rng.random(shape)).astype(dtype)
    if dtype.startswith("float"):
        return rng.random(shape, np.float32).astype(dtype)
    return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def smooth(items: int, out: tuple[int, ...], outside: float = 0.0) -> Array:
    """Return a grid (N, *out, D) of slightly rotated points, of which a share is far outside."""
    axes = np.meshgrid(*(np.linspace(-0.9, 0.9, n) for n in out), indexing="ij")
    points = np.stack(axes[::-1], -1)
    rotated = points + 0.05 * np.roll(points, 1, -1)
    rotated[np.random.default_rng(1).random(out) < outside] += 7.3
    return np.broadcast_to(rotated.astype(np.float32), (items, *rotated.shape)).copy()


def strided(shape: tuple[int, ...], order: tuple[int, ...]) -> Array:
    """Return random pixels with this order of axes in memory, slowest first."""
    return pixels(tuple(shape[a] for a in order)).transpose(np.argsort(order))


# Sampling -----------------------------------------------------------------------------------------

MODES = ("nearest", "linear", "cubic")


@family
def points_of_a_sample() -> Iterator[Case]:
    """Few and many points of one image."""
    import gridsample

    image = pixels((1, 3, 512, 512))
    for mode in MODES:
        for side in (4, 16, 64, 256, 1024, 2048):
            grid = smooth(1, (side, side))
            yield Case(
                f"{mode}, {side}^2 points",
                3 * side**2 * (4 if mode == "cubic" else 1),
                lambda grid=grid, mode=mode: gridsample.grid_sample(image, grid, mode),
                mode,
            )


@family
def items_of_a_sample() -> Iterator[Case]:
    """The same number of points in few and many items."""
    import gridsample

    for items in (1, 16, 256, 4096, 65536):
        side = math.isqrt((1 << 20) // items)
        image, grid = pixels((items, 1, side, side)), smooth(items, (side, side))
        values = pixels((items, 1, side, side))
        work = items * side**2
        yield Case(
            f"linear, {items} of {side}^2",
            work,
            lambda image=image, grid=grid: gridsample.grid_sample(image, grid, "linear"),
        )
        yield Case(
            f"gradients, {items} of {side}^2",
            2.5 * work,
            lambda image=image, grid=grid, values=values: gridsample.grid_sample_vjp(
                values, image, grid, "linear"
            ),
        )


@family
def items_of_affine_maps() -> Iterator[Case]:
    """The same number of points in few and many items, without a grid."""
    import gridsample

    for items in (1, 256, 10_000, 100_000):
        side = max(2, math.isqrt((1 << 20) // items))
        image = pixels((items, 1, side, side))
        maps = np.tile(np.array([[[0.9, 0.1, 0], [-0.1, 0.9, 0]]], np.float32), (items, 1, 1))
        size = (items, 1, side, side)
        yield Case(
            f"{items} of {side}^2",
            items * side**2,
            lambda image=image, maps=maps, size=size: gridsample.affine_sample(image, maps, size),
        )


@family
def channels_of_a_sample() -> Iterator[Case]:
    """Few and many channels, first and last."""
    import gridsample

    grid = smooth(1, (256, 256))
    for channels in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 33, 64):
        for last in (False, True):
            shape = (1, 256, 256, channels) if last else (1, channels, 256, 256)
            image, axis = pixels(shape), -1 if last else 1
            yield Case(
                f"{channels} channels {'last' if last else 'first'}",
                (channels + 2) * 256**2,
                lambda image=image, axis=axis: gridsample.grid_sample(
                    image, grid, "linear", channel_axis=axis
                ),
            )


@family
def layouts_of_an_image() -> Iterator[Case]:
    """The axes of an image in every order: samples, which are planes, and gradients."""
    import gridsample

    shape, grid = (2, 8, 128, 128), smooth(2, (128, 128))
    values = pixels((2, 8, 128, 128))
    for order in itertools.permutations(range(4)):
        image = strided(shape, order)
        for mode in ("linear", "cubic"):
            work = image.size * (4 if mode == "cubic" else 1)
            yield Case(
                f"{order}, {mode}",
                work,
                lambda image=image, mode=mode: gridsample.grid_sample(image, grid, mode),
                mode,
            )
            yield Case(
                f"{order}, {mode} gradients",
                work,
                lambda image=image, mode=mode: gridsample.grid_sample_vjp(
                    values, image, grid, mode
                ),
                f"{mode} gradients",
            )


@family
def dtypes_of_an_image() -> Iterator[Case]:
    """Every dtype; complex numbers count twice."""
    import gridsample

    grid = smooth(1, (512, 512))
    for mode in ("linear", "cubic"):
        for dtype in ("bool", "uint8", "int16", "uint16", "int32", "float16", "float32", "float64",
                      "complex64"):  # fmt: skip
            image = pixels((1, 3, 512, 512), dtype)
            parts = 2 if dtype == "complex64" else 1
            yield Case(
                f"{mode}, {dtype}",
                parts * image.size * (4 if mode == "cubic" else 1),
                lambda image=image, mode=mode: gridsample.grid_sample(image, grid, mode),
                mode,
            )


@family
def sizes_of_an_image() -> Iterator[Case]:
    """Sizes beside powers of two, and images that are narrow or long; with gradients."""
    import gridsample

    planes = (127, 127), (128, 128), (130, 130), (512, 512), (515, 515), (2, 1 << 17), (1 << 17, 2)
    volumes = (64, 64, 64), (66, 66, 66), (4, 256, 256)
    for shape in ((1 << 18,), *planes, *volumes):
        image, out = pixels((1, 2, *shape)), shape
        grid, values = smooth(1, out), pixels((1, 2, *out))
        for mode in ("linear", "cubic"):
            taps = (2 if mode == "linear" else 4) ** len(shape)
            yield Case(
                f"{mode}, {'x'.join(map(str, shape))}",
                image.size * (taps + 8),
                lambda image=image, grid=grid, values=values, mode=mode: gridsample.grid_sample_vjp(
                    values, image, grid, mode
                ),
                mode,
            )


@family
def points_outside() -> Iterator[Case]:
    """Shares of points outside, for every boundary."""
    import gridsample

    image = pixels((1, 3, 512, 512))
    for boundary in ("zeros", "border", "reflection", "mirror", "wrap"):
        for mode in MODES:
            for share in (0.0, 0.5, 0.75, 1.0):
                if boundary == "zeros" and share == 1:
                    continue  # no pixel is read
                grid = smooth(1, (512, 512), share)
                yield Case(
                    f"{mode}, {boundary}, {share:.0%} outside",
                    image.size * (5 if mode == "cubic" else 1),
                    lambda grid=grid, mode=mode, boundary=boundary: gridsample.grid_sample(
                        image, grid, mode, boundary
                    ),
                    mode,
                )


@family
def units_of_coordinates() -> Iterator[Case]:
    """Normalized coordinates, pixels, and displacements."""
    import gridsample

    image, grid = pixels((1, 3, 512, 512)), smooth(1, (512, 512))
    for mode in ("nearest", "linear"):
        for coords, scale in (("normalized", 1), ("pixel", 255), ("displacement", 3)):
            points = grid * np.float32(scale)
            yield Case(
                f"{mode}, {coords}",
                image.size,
                lambda points=points, mode=mode, coords=coords: gridsample.grid_sample(
                    image, points, mode, coords=coords
                ),
                mode,
            )


@family
def few_points_of_a_large_image() -> Iterator[Case]:
    """Four points of an image of 4096^2, in several memory layouts."""
    import gridsample

    image, grid = pixels((1, 1, 4096, 4096)), smooth(1, (2, 2))
    swapped = image.astype(">f4")
    for name, options in (("plain", {}), ("antialiased", {"antialias": True})):
        for layout, image_view in (
            ("contiguous", image),
            ("reversed", image[..., ::-1]),
            ("byte order", swapped),
        ):
            yield Case(
                f"{name}, {layout}",
                1,
                lambda image_view=image_view, options=options: gridsample.grid_sample(
                    image_view, grid, **options
                ),
            )


# Filters and resizing -----------------------------------------------------------------------------


@family
def shapes_of_a_prefilter() -> Iterator[Case]:
    """One and many lines, along each axis."""
    import gridsample

    for shape in ((1, 1, 1 << 20), (1, 1, 1024, 1024), (1, 4, 1 << 18), (4, 1, 1 << 18),
                  (10_000, 1, 8, 8), (1, 4096, 16, 16), (1 << 18, 1, 4)):  # fmt: skip
        image = pixels(shape)
        yield Case(
            "x".join(map(str, shape)),
            image.size * (len(shape) - 2),
            lambda image=image: gridsample.spline_filter(image, 3),
        )


@family
def sizes_of_resizing() -> Iterator[Case]:
    """Long and short axes, many items, to half and to twice the size."""
    import gridsample

    lines = (1, 1, 1 << 20), (1, 1, 1000), (1, 1, 100_000), (4, 1, 400_000)
    planes = (1, 3, 64, 64), (1, 3, 512, 512), (1, 3, 1024, 1024), (10_000, 1, 8, 8)
    for shape in (*lines, *planes, (1, 1, 64, 64, 64)):
        image, spatial = pixels(shape), shape[2:]
        for mode in ("linear", "cubic", "area"):
            if mode == "cubic" and len(spatial) > 2:
                continue
            size = tuple(n // 2 for n in spatial)
            yield Case(
                f"{mode}, {'x'.join(map(str, shape))} to half",
                image.size,
                lambda image=image, size=size, mode=mode: gridsample.interpolate(
                    image, size, mode=mode
                ),
                mode,
            )


@family
def layouts_of_resizing() -> Iterator[Case]:
    """Colours in memory as libraries for images pass them: in reverse, flipped, a part of them."""
    from gridsample import cv

    for dtype in ("uint8", "float32"):
        image = pixels((1024, 1024, 3), dtype)
        wide, padded = pixels((1024, 2048, 3), dtype), pixels((1024, 1024, 4), dtype)
        views = {
            "contiguous": image,
            "colours reversed": image[..., ::-1],
            "flipped": image[:, ::-1],
            "upside down": image[::-1],
            "turned": image[::-1, ::-1],
            "half": wide[:, :1024],
            "every other column": wide[:, ::2],
            "without alpha": padded[..., :3],
        }
        for layout, view in views.items():
            yield Case(
                f"{dtype}, {layout}",
                view.size,
                lambda view=view: cv.resize(view, (768, 768), interpolation=cv.INTER_CUBIC),
                dtype,
            )


@family
def labels_of_resizing() -> Iterator[Case]:
    """Votes of few and many items."""
    import gridsample

    for items in (1, 100, 10_000):
        side = math.isqrt((1 << 20) // items)
        image = pixels((items, 1, side, side), "int16")
        yield Case(
            f"{items} of {side}^2",
            image.size,
            lambda image=image, side=side: gridsample.interpolate(
                image, (side // 2, side // 2), mode="label"
            ),
        )


@family
def items_of_an_antialiased_warp() -> Iterator[Case]:
    """The same number of points in few and many items."""
    import gridsample

    for items in (1, 64, 4096):
        side = math.isqrt((1 << 16) // items)
        image, grid = pixels((items, 3, 2 * side, 2 * side)), smooth(items, (side, side))
        yield Case(
            f"{items} of {side}^2",
            items * 3 * side**2,
            lambda image=image, grid=grid: gridsample.grid_sample(image, grid, antialias=True),
        )


# The command --------------------------------------------------------------------------------------


def measure(name: str, clock: Callable[[], float]) -> bool:
    """Measure and print a family; return whether no case is marked."""
    rows = [Row(case, shortest(case.call, clock)) for case in FAMILIES[name]()]
    groups = {row.case.group: [r for r in rows if r.case.group == row.case.group] for row in rows}
    marked = [row for group in groups.values() for row in outliers(group)]
    print(f"\n{name}")
    for row in rows:
        mark = "  <<<" if row in marked else ""
        print(f"  {row.case.name:44} {row.seconds * 1e3:10.3f} ms {row.unit:10.2f} ns{mark}")
    sys.stdout.flush()
    return not marked


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--case", default="*", metavar="PATTERN")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    names = [name for name in FAMILIES if fnmatch.fnmatch(name, f"*{options.case}*")]
    if options.list:
        print(*names, sep="\n")
        return 0
    from benchmarks.timing import limit_cores

    limit_cores(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    results = [measure(name, clock) for name in names]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
