"""Arrays between protected pages of memory, and calls of every driver with such arrays.

Run in a process of its own by the tests: touching such a page ends it.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import mmap
from collections.abc import Callable, Sequence
from typing import Any

import cases
import numpy as np

import gridsample
from gridsample.kernels import fill_values, run
from gridsample.kernels.sampling import calls
from gridsample.kernels.vector import compiler

Array = np.ndarray[Any, Any]

# The modules that allocate arrays for the kernels.
ALLOCATING = (
    "backends.numpy", "kernels.memory", "kernels.fill_values", "kernels.run", "kernels.sampling",
    "kernels.sampling.antialiasing", "kernels.sampling.averages",
    "kernels.sampling.preparing",
    "kernels.sampling.halving", "kernels.sampling.layouts", "kernels.sampling.steps",
)  # fmt: skip


def protect(memory: mmap.mmap, offset: int) -> None:
    """Forbid all access to one page."""
    libc = ctypes.CDLL(None, use_errno=True)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + offset
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(mmap.PAGESIZE), 0):
        raise OSError(ctypes.get_errno(), "mprotect failed")


def prefer(way: str) -> None:
    """Let programs read by "gathers" on any processor; with "asks", prefetch in any image."""
    if way == "gathers":
        compiler.Target.gathers_fast = True  # type: ignore[assignment, method-assign]
    if way == "asks":
        calls.pays_prefetching = lambda plan, source: True
        calls.pays_asking_at_once = lambda plan, source: plan.footprint is None


def maker(side: str) -> Callable[..., Array]:
    """As `numpy.zeros`, but the memory lies right "before" or "after" such a page."""

    def zeros(shape: Any, dtype: Any = float) -> Array:
        kind = np.dtype(dtype)
        shape = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        size = int(np.prod(shape)) * kind.itemsize
        tolerance = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = mmap.mmap(-1, tolerance + 2 * mmap.PAGESIZE)
        protect(memory, 0)
        protect(memory, tolerance + mmap.PAGESIZE)
        start = mmap.PAGESIZE + (tolerance - size if side == "before" else 0)
        return np.frombuffer(memory, kind, int(np.prod(shape)), start).reshape(shape)

    return zeros


class Guarded:
    """NumPy, in which `empty` and `zeros` make guarded arrays, by a `maker`."""

    def __init__(self, make: Callable[..., Array]) -> None:
        self.make = make

    def empty(self, *arguments: Any, **options: Any) -> Array:
        return self.make(*arguments, **options)

    zeros = empty

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def forget() -> None:
    """Free what kernels keep from call to call; the next one allocates memory of its own."""
    run._lent.__dict__.clear()
    fill_values.zeros.cache_clear()


def main(*sides: str) -> None:
    """Run every driver on guarded arrays; a process compiles the same programs for both sides."""
    print(f"{sum(map(over_everything, sides))} runs of the drivers")


def over_everything(side: str) -> int:
    """Run every driver; return how often."""
    forget()
    zeros = maker(side)

    def guard(array: Array) -> Array:
        copy = zeros(array.shape, array.dtype)
        copy[...] = array
        return copy

    for name in ALLOCATING:
        importlib.import_module(f"gridsample.{name}").np = Guarded(zeros)  # type: ignore[attr-defined]
    options = cases.covering(cases.MODES, cases.BOUNDARIES, (False, True))
    kinds = [*itertools.product((1, 2, 3), (1, 9), (1, -1), ("float32",))]
    # Few channels side by side are read as rows of several pixels.
    kinds += [
        (2, 3, -1, "uint8"),
        (2, 4, -1, "float32"),
        (2, 7, -1, "int16"),
        (1, 2, -1, "float64"),
    ]
    count = 0
    for rank, channels, axis, dtype in kinds:
        rng = cases.generator("guarded", rank, channels, axis)
        image = np.moveaxis(cases.pixels(rng, (2, channels, *(3, 4, 5)[:rank]), dtype), 1, axis)
        # The corners exactly, a little to both sides of them, and the unlikeliest numbers.
        corners = np.array([-1.0, 1.0, 0.8, -0.75], np.float32)
        numbers = [*corners, *np.nextafter(corners, 9), *np.nextafter(corners, -9)]
        numbers += [np.nan, np.inf, 1e30, -3e38, 0.1]
        grid = guard(rng.choice(np.array(numbers, np.float32), (2, 270, rank)))
        image = guard(image)
        flips = itertools.cycle([(-1,), (-2,), (1,), (0, 1, -1), (0,)])  # axes in reverse order
        for (mode, boundary, align_corners), axes in zip(options, flips, strict=False):
            keywords = {"mode": mode, "padding_mode": boundary, "align_corners": align_corners}
            keywords["channel_axis"] = axis
            flipped = np.flip(guard(np.flip(image, axes)), axes)
            out = gridsample.grid_sample(image, grid, **keywords)
            same = gridsample.grid_sample(flipped, grid, **keywords)
            # Sums in another order: a few integers are rounded to the other side of a tie.
            ties = image.dtype.kind in "iu"
            np.testing.assert_allclose(same, out, rtol=1e-5, atol=1 if ties else 1e-4)
            assert not ties or (same != out).mean() < 0.01
            count += 2
            if dtype != "float32" or 1 < channels < 8:
                continue
            values = guard(np.ones_like(out))
            for source, threads in ((image, 1), (image, 2), (flipped, 2)):
                gridsample.grid_sample_vjp(values, source, grid, **keywords, threads=threads)
            count += 3
    count += over_footprints(guard)
    return count + over_single_pixels_and_rows(guard, options)


def over_single_pixels_and_rows(guard: Callable[[Array], Array], options: Sequence[Any]) -> int:
    """Sample channels side by side of a single pixel, and of a row that is broadcast."""
    count = 0
    grid = guard(cases.generator("small").uniform(-1.2, 1.2, (1, 40, 2)).astype(np.float32))
    for channels, dtype in itertools.product((3, 5), ("uint8", "float32")):
        row = guard(cases.pixels(cases.generator("row"), (1, 1, 4, channels), dtype))
        tall = np.broadcast_to(row, (1, 1000, 4, channels))
        for mode, boundary, align_corners in options:
            for image in (guard(row[:, :, :1]), tall):
                gridsample.grid_sample(image, grid, mode, boundary, align_corners, channel_axis=-1)
                count += 1
    return count


def over_footprints(guard: Callable[[Array], Array]) -> int:
    """Run derivatives over footprints, for lists and rows of points; return how many ran."""
    count = 0
    for out in [(3,), (300,), (5, 4), (3, 37), (2, 200), (2, 3, 3), (2, 3, 17)]:
        rng, rank = cases.generator("guarded", str(out)), len(out)
        image = guard(cases.pixels(rng, (2, 2, *(9, 14, 11)[:rank]), np.float32))
        grid = rng.uniform(-1.3, 1.3, (2, *out, rank)).astype(np.float32)
        grid.flat[:3] = np.nan, np.inf, 1e30
        theta = guard(np.eye(rank, rank + 1, dtype=np.float32)[np.newaxis])
        grid, up = guard(grid), guard(cases.pixels(rng, (2, 2, *out), np.float32))
        for most, threads in itertools.product((2, 16), (1, 2)):
            options: Any = {"antialias": True, "max_samples": most, "threads": threads}
            gridsample.grid_sample_vjp(up, image, grid, **options)
            gridsample.affine_sample_vjp(up, image, theta, (1, 2, *out), **options)
            count += 2
    return count
