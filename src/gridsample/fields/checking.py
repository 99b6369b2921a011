"""`check_grid`: measures a grid, and finds likely mistakes in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gridsample.backends import Backend
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.coords import find_coords
from gridsample.definitions.names import CoordsName
from gridsample.definitions.shapes import Shape, axis_name
from gridsample.fields.arrays import (
    Array,
    Cells,
    as_wide_arrays,
    check_size,
    components,
    determinant,
)
from gridsample.fields.conversions import pixels_of
from gridsample.messages import html
from gridsample.messages.links import explanation
from gridsample.ops.arrays import difference

# The relative step between floating-point numbers just below 1.
STEPS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


@dataclass(frozen=True)
class GridCheck:
    """The result of `check_grid`; ``print`` shows it as text, and notebooks as a table.

    All numbers are of the whole batch.  Tuples have one entry per axis, in x, y, z order.

    Attributes:
        shape: the shape of the grid.
        size: the spatial shape of the image.
        outside: the share of points beyond the outer edges of the image, from 0 to 1.
        missing: the share of points with a NaN.
        lowest: the smallest positions, in pixels; NaN if no point is finite.
        highest: the largest positions, in pixels.
        scale: pixels of the image per step along each axis of the output, the mean over all points;
            above 1 the image shrinks.  None for a list of points.
        folded: the share of points where the map of pixels folds or mirrors: its Jacobian
            determinant is 0 or negative.  None for a list of points.
        hints: likely mistakes, such as pixels in place of normalized coordinates.
    """

    shape: tuple[int, ...]
    size: tuple[int, ...]
    outside: float
    missing: float
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    scale: tuple[float, ...] | None
    folded: float | None
    hints: tuple[str, ...]

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield the names and the values of all lines but the hints."""
        names = [axis_name(axis) for axis in range(len(self.size))]
        yield "grid", f"{self.shape} for an image of size {self.size}"
        yield "outside", f"{self.outside:.4g} of all points"
        yield "NaN", f"{self.missing:.4g} of all points"
        yield (
            "positions",
            ", ".join(
                f"{name} {low:.6g} to {high:.6g}"
                for name, low, high in zip(names, self.lowest, self.highest, strict=True)
            )
            + " px",
        )
        if self.scale is not None and self.folded is not None:
            steps = ", ".join(f"{n} {s:.4g}" for n, s in zip(names, self.scale, strict=True))
            yield "scale", f"{steps} px of the image per step"
            yield "folded", f"{self.folded:.4g} of all points"

    def __str__(self) -> str:
        lines = [f"{name:<9} {text}" for name, text in self.facts()]
        return "\n".join([*lines, *(f"hint      {hint}" for hint in self.hints)])

    def _repr_html_(self) -> str:
        hints = "".join(html.paragraph(f"Hint: {hint}") for hint in self.hints)
        return html.table(self.facts()) + hints


def check_grid(
    grid: ArrayT,
    size: Sequence[int],
    align_corners: bool = False,
    *,
    coords: CoordsName = "normalized",
) -> GridCheck:
    """Measure where a grid points, how it scales and folds, and find likely mistakes in it.

    Hints say that the grid probably holds pixels instead of normalized coordinates, is in (y, x)
    order, was made for the other align_corners, and so on.  They are guesses.
    `gridsample doctor` finds the same mistakes in code.

    Args:
        grid: (N, *out, D) coordinates for D = 1 to 8, in x, y, z order.
        size: the spatial shape of the image that is sampled, (height, width) or
            (depth, height, width).
        align_corners: the meaning of -1 and 1, as in `grid_sample`.
        coords: the units of ``grid``: "normalized", "pixel" or "displacement".

    Returns:
        A `GridCheck`.  Gradients are not recorded.

    Raises:
        TypeError: grid does not hold real numbers, or size does not consist of integers.
        ValueError: the shapes do not match, the grid has no points, or coords is unknown.

    Example:
        >>> import numpy as np, gridsample
        >>> y, x = np.mgrid[0:48, 0:64]
        >>> print(gridsample.check_grid(np.stack((x, y), -1)[np.newaxis], (48, 64)))
        grid      (1, 48, 64, 2) for an image of size (48, 64)
        outside   0.9987 of all points
        NaN       0 of all points
        positions x 31.5 to 2047.5, y 23.5 to 1151.5 px
        scale     x 32, y 24 px of the image per step
        folded    0 of all points
        hint      this looks like pixels: use coords="pixel" (see gridsample doctor --explain GS011)
    """
    backend, (array,) = as_wide_arrays(grid=grid)
    sizes = tuple(int(n) for n in check_size(size, None))
    shape, rank = backend.shape(array), len(sizes)
    units = find_coords(coords)
    if len(shape) < 2 or shape[-1] != rank or 0 in shape:
        raise ValueError(
            f"grid must be (N, *out, {rank}) for size {sizes}, with at least one point; "
            f"got shape {shape}"
        )
    with backend.quiet():
        positions = pixels_of(backend, array, sizes, align_corners, units)
        measured = _measure(backend, positions, shape, sizes)
        evidence = _Evidence(backend, array, positions, bool(align_corners), units, measured)
        hints = tuple(_hints(evidence)) + tuple(_rounding(backend, grid, sizes, units))
    return replace(measured, hints=hints)


# Numbers ------------------------------------------------------------------------------------------


def _number(array: Array) -> float:
    return float(array.tolist())


def _share(backend: Backend, flags: Array) -> float:
    return _number(backend.xp.mean(backend.astype(flags, backend.type("float64"))))


def _mean(backend: Backend, array: Array) -> float:
    """The mean of all finite entries; NaN if there are none."""
    xp = backend.xp
    known = xp.isfinite(array)
    count = _number(xp.sum(backend.astype(known, array.dtype)))
    return _number(xp.sum(xp.where(known, array, 0))) / count if count else float("nan")


def _ends(backend: Backend, array: Array) -> tuple[float, float]:
    """The smallest and the largest finite entry; NaN if there are none."""
    xp = backend.xp
    known = xp.isfinite(array)
    if not _number(xp.any(known)):
        return float("nan"), float("nan")
    low = xp.min(xp.where(known, array, float("inf")))
    return _number(low), _number(xp.max(xp.where(known, array, float("-inf"))))


def _outside(backend: Backend, positions: Array, widths: Sequence[int]) -> float:
    """The share of points beyond the outer edges of an image of ``widths``, in x, y, z order."""
    any_outside = None
    for component, n in zip(components(positions, len(widths)), widths, strict=True):
        outside = (component < -0.5) | (component > n - 0.5)
        any_outside = outside if any_outside is None else any_outside | outside
    unknown = backend.xp.isnan(positions).any(-1)
    return _share(backend, any_outside & ~unknown)


def _cells(backend: Backend, positions: Array, rank: int) -> Cells | None:
    """The entries of the Jacobian of positions along the output's axes; None for points."""
    if len(backend.shape(positions)) != rank + 2:
        return None
    columns = [difference(backend, positions, rank - j) for j in range(rank)]
    return [[columns[j][..., i] for j in range(rank)] for i in range(rank)]


def _measure(backend: Backend, positions: Array, shape: Shape, sizes: Shape) -> GridCheck:
    """Compute everything but the hints."""
    xp, rank = backend.xp, len(sizes)
    ends = [_ends(backend, component) for component in components(positions, rank)]
    lowest, highest = zip(*ends, strict=True)
    missing = _share(backend, xp.isnan(positions).any(-1))
    scale, folded = None, None
    cells = _cells(backend, positions, rank)
    if cells is not None:
        lengths = [xp.sqrt(sum(row[j] * row[j] for row in cells)) for j in range(rank)]
        scale = tuple(_mean(backend, length) for length in lengths)
        flat = determinant(cells)
        known = xp.isfinite(flat)
        folded = _share(backend, known & (flat <= 0))
    outside = _outside(backend, positions, sizes[::-1])
    return GridCheck(shape, sizes, outside, missing, lowest, highest, scale, folded, ())


# Hints --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Evidence:
    """What hints look at: the grid, its positions in pixels, the options, and the measurements."""

    backend: Backend
    grid: Array
    positions: Array
    aligned: bool
    units: str
    measured: GridCheck

    @property
    def sizes(self) -> Shape:
        return self.measured.size


def _hints(evidence: _Evidence) -> Iterator[str]:
    """Yield what the grid looks like."""
    scale, folded = evidence.measured.scale, evidence.measured.folded
    if evidence.measured.missing == 1:
        yield "all points are NaN"
        return
    units = next(_units(evidence), "")
    if units:
        yield units
        return
    if _transposed(evidence):
        order = "(y, x)" if len(evidence.sizes) == 2 else "(z, y, x)"
        yield f"this looks like {order}: x comes first (see {explanation('GS004')})"
        return
    other = _other_convention(evidence)
    if other:
        yield other
    if folded is not None and folded > 0.99:
        yield "the image is mirrored: the determinant is nowhere above 0"
    elif folded:
        yield "the grid folds: some pixels are seen more than once"
    if scale is not None and max(scale) > 2:
        yield (
            f"the image shrinks by {max(scale):.3g}: use antialias=True, or details alias "
            f"(see {explanation('GS007')})"
        )
    if evidence.measured.outside == 1:
        yield "all points are outside"


def _units(evidence: _Evidence) -> Iterator[str]:
    """Yield in which other units the numbers would make sense."""
    backend, rank = evidence.backend, len(evidence.sizes)
    ends = [_ends(backend, component) for component in components(evidence.grid, rank)]
    widths = evidence.sizes[::-1]
    points = _number(backend.xp.sum(evidence.grid[..., 0] * 0 == 0))
    if points < 4:
        return
    if evidence.units == "normalized":
        largest = max(high for _, high in ends)
        as_pixels = _outside(backend, evidence.grid, widths)
        if largest > 2 and evidence.measured.outside > 0.5 and as_pixels < 0.2:
            yield f'this looks like pixels: use coords="pixel" (see {explanation("GS011")})'
        if all(0 <= low < 0.1 and 0.9 < high <= 1 for low, high in ends) and _is_whole(evidence):
            yield (
                "this looks like 0 to 1: normalized coordinates are 2 * x - 1 (unless only the "
                "part from the centre to the last corner is meant)"
            )
    else:
        small = all(-1.05 <= low < -0.8 and 0.8 < high <= 1.05 for low, high in ends)
        if evidence.units == "pixel" and small and min(widths) > 4:
            yield 'this looks normalized: use coords="normalized"'
    cells = _cells(backend, evidence.grid, rank) if evidence.units == "displacement" else None
    if cells is not None and all(abs(_mean(backend, cells[k][k]) - 1) < 0.1 for k in range(rank)):
        yield 'this looks like positions, not displacements: use coords="pixel"'


def _is_whole(evidence: _Evidence) -> bool:
    """Whether numbers from 0 to 1 would show the whole image, rather than its last quarter.

    A crop of that quarter has the image's own resolution, or is a list of points of which one
    cannot tell.  The grid of the whole image has steps of a pixel if they are read as 0 to 1.
    """
    steps, shape = evidence.measured.scale, evidence.backend.shape(evidence.grid)[1:-1]
    if steps is None:
        return False
    # Positions from 0 to 1 are half as far apart as normalized ones of the same image.
    same = all(abs(n - m) <= 1 for n, m in zip(shape, evidence.sizes, strict=True))
    pairs = zip(steps, evidence.sizes[::-1], strict=True)
    return same and all(abs(step - 0.5) < 0.05 + 1 / n for step, n in pairs)


def _transposed(evidence: _Evidence) -> bool:
    """Whether x and y (and z) look as if they were in the array's order."""
    backend, rank, sizes = evidence.backend, len(evidence.sizes), evidence.sizes
    if rank == 1:
        return False
    cells = _cells(backend, evidence.positions, rank)
    if cells is not None and min(backend.shape(evidence.positions)[1:-1]) > 1:
        steps = [[_mean(backend, backend.xp.abs(cell)) for cell in row] for row in cells]
        moving = [i for i in range(rank) if 2 * i != rank - 1]  # the middle axis stays
        straight = sum(steps[i][i] / sizes[::-1][i] for i in moving)
        across = sum(steps[i][rank - 1 - i] / sizes[::-1][i] for i in moving)
        return (
            across > 3 * straight and (evidence.measured.folded or 0) > 0.9
        )  # a rotation does not mirror
    if evidence.units != "pixel" or len(set(sizes)) == 1:
        return False
    swapped = _outside(backend, evidence.positions, sizes)
    return bool(evidence.measured.outside > 0.02 and swapped == 0)


def _other_convention(evidence: _Evidence) -> str:
    """Say that the ends of the grid are those of the other align_corners, or return ""."""
    backend, rank, shape = (
        evidence.backend,
        len(evidence.sizes),
        evidence.backend.shape(evidence.grid),
    )
    if evidence.units != "normalized" or shape[1:-1] != evidence.sizes or min(evidence.sizes) < 2:
        return ""
    ends = [_ends(backend, component) for component in components(evidence.grid, rank)]
    expected = [1.0 if not evidence.aligned else 1 - 1 / n for n in evidence.sizes[::-1]]
    if all(
        abs(low + end) < 1e-4 / n and abs(high - end) < 1e-4 / n
        for (low, high), end, n in zip(ends, expected, evidence.sizes[::-1], strict=True)
    ):
        code = "GS002" if evidence.aligned else "GS001"
        return f"this looks like align_corners={not evidence.aligned} (see {explanation(code)})"
    return ""


def _rounding(backend: Backend, grid: Any, sizes: Shape, units: str) -> Iterator[str]:
    """Yield by how much half precision rounds positions, if that is much."""
    (array,) = backend.asarrays(grid=grid)
    dtype_name = backend.type_name(array.dtype, "grid")
    if dtype_name not in STEPS or units == "displacement":
        return
    longest = max(sizes)
    step = STEPS[dtype_name] / 2
    error = step * longest / 2 if units == "normalized" else step * longest
    if error > 0.05:
        yield f"{dtype_name} rounds positions by up to {error:.2g} px (see {explanation('GS006')})"
