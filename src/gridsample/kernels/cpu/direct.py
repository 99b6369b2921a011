"""The drivers that need no list of taps: see `gridsample.kernels.cpu.linear_lanes`.

Arguments are those of `gridsample.kernels.cpu.sweeps`.  A single plane is sampled in one loop, from
coordinates to values.  Several planes share what is computed from the coordinates: offsets and
weights are stored for a block of points, and each plane is sampled with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridsample.definitions.axis import HALF, ONE, minimum
from gridsample.kernels.axes import COUNT
from gridsample.kernels.cpu.blocks import (
    APART,
    AT,
    AXES,
    COORDINATES,
    EACH,
    NUMBERS,
    PIXELS,
    PLACED,
    SHARED,
    SUMS,
    WIDTH,
    lay_blocks,
    next_block,
    tail,
)
from gridsample.kernels.cpu.gradients import add_shares, clear_sums, fetch_block
from gridsample.kernels.cpu.means import absent_of, least_of
from gridsample.kernels.cpu.passes import fetch_ahead
from gridsample.kernels.cpu.positions import lay_points
from gridsample.kernels.cpu.records import (
    BandedTask,
    Block,
    Gradient,
    Lattice,
    Line,
    Memory,
    Needs,
    Outside,
    Planes,
    Points,
    Task,
    Values,
)
from gridsample.kernels.cpu.sweeps import settle_block, window

Array = Any

# Bound by lowering.
real = float
int64 = int
unsigned = int
AFFINE = False  # whether a grid's memory holds affine maps
MEANS = False  # whether NaN pixels do not count
LANES = 1  # how many points are processed at once


def place_points(*arguments: Any) -> None:
    """Store the offsets and weights of LANES points; with ``_one``, of one point."""


def sample_plane(*arguments: Any) -> bool:
    """Sample LANES points of a plane, by offsets and weights; return whether all are finite."""
    return True


def sample_points(*arguments: Any) -> bool:
    """Sample LANES points of a plane, by coordinates; return whether all values are finite."""
    return True


def average_plane(*arguments: Any) -> bool:
    """Average LANES points of a plane, by offsets and weights; return whether sums are finite."""
    return True


def average_points(*arguments: Any) -> None:
    """Average LANES points of a plane, by coordinates."""


def derive(*arguments: Any) -> None:
    """Compute both gradients of LANES points of a plane, by offsets and distances."""


def settle_slopes(*arguments: Any) -> None:
    """Store the grid's gradient of LANES points."""


place_points_one, sample_plane_one, sample_points_one = place_points, sample_plane, sample_points
average_plane_one, average_points_one = average_plane, average_points
derive_one, settle_slopes_one = derive, settle_slopes


def place_block(
    grid: Array, gap: int, measures: Array, strides: Array, within: Any, share: Any, apart: int,
    at: Array, x: Array, width: int, n: int,
) -> None:  # fmt: skip
    """Store offsets and weights of a block of points; twins store other numbers."""
    whole = n // LANES * LANES
    for i in range(0, whole, LANES):
        place_points(grid, i, gap, measures, strides, within, share, apart, at, x, width)
    for i in range(whole, n):
        place_points_one(grid, i, gap, measures, strides, within, share, apart, at, x, width)


def derive_block(
    plane: Array, strides: Array, at: Array, x: Array, width: int, g: Array, sums: Array,
    shares: Array, n: int,
) -> None:  # fmt: skip
    """Add to the sums of a block's points, and compute the pixels' shares of their values."""
    whole = n // LANES * LANES
    for i in range(0, whole, LANES):
        derive(plane, i, strides, at, x, width, g, sums, shares)
    for i in range(whole, n):
        derive_one(plane, i, strides, at, x, width, g, sums, shares)


def derive_needed(
    plane: Array, strides: Array, at: Array, x: Array, width: int, g: Array, sums: Array,
    shares: Array, need_image: bool, need_grid: bool, n: int,
) -> None:  # fmt: skip
    """Call `derive_block` for the gradients that are needed."""
    if need_image and need_grid:
        derive_block_both(plane, strides, at, x, width, g, sums, shares, n)
    elif need_grid:
        derive_block_grid(plane, strides, at, x, width, g, sums, shares, n)
    else:
        derive_block_image(plane, strides, at, x, width, g, sums, shares, n)


def settle_block_slopes(sums: Array, x: Array, width: int, gradient: Array, n: int) -> None:
    """Store the sums of a block as the grid's gradient."""
    whole = n // LANES * LANES
    for i in range(0, whole, LANES):
        settle_slopes(sums, x, i, width, gradient)
    for i in range(whole, n):
        settle_slopes_one(sums, x, i, width, gradient)


def sample_placed(
    plane: Array, strides: Array, at: Array, x: Array, width: int, numbers: Array, n: int
) -> bool:
    """Sample a block in one plane, by offsets and weights; return whether all are finite."""
    whole, finite = n // LANES * LANES, True
    for i in range(0, whole, LANES):
        finite &= sample_plane(plane, i, strides, at, x, width, numbers)
    for i in range(whole, n):
        finite &= sample_plane_one(plane, i, strides, at, x, width, numbers)
    return finite


def sample_block(
    plane: Array, grid: Array, gap: int, measures: Array, strides: Array, within: Any, share: Any,
    apart: int, numbers: Array, n: int,
) -> bool:  # fmt: skip
    """Sample a block in one plane, by coordinates; return whether all values are finite."""
    whole, finite = n // LANES * LANES, True
    for i in range(0, whole, LANES):
        finite &= sample_points(
            plane, grid, i, gap, measures, strides, within, share, apart, numbers
        )
    for i in range(whole, n):
        finite &= sample_points_one(
            plane, grid, i, gap, measures, strides, within, share, apart, numbers
        )
    return finite


def average_placed(
    plane: Array, strides: Array, at: Array, x: Array, width: int, bounds: Any,
    numbers: Array, n: int,
) -> bool:  # fmt: skip
    """Average a block in one plane, by offsets and weights; return whether sums are finite."""
    whole, finite = n // LANES * LANES, True
    for i in range(0, whole, LANES):
        finite &= average_plane(plane, i, strides, at, x, width, bounds, numbers)
    for i in range(whole, n):
        finite &= average_plane_one(plane, i, strides, at, x, width, bounds, numbers)
    return finite


def average_block(
    plane: Array, grid: Array, gap: int, measures: Array, strides: Array, within: Any, share: Any,
    apart: int, bounds: Any, numbers: Array, n: int,
) -> None:  # fmt: skip
    """Average a block in one plane, by coordinates, and check what counts."""
    whole = n // LANES * LANES
    for i in range(0, whole, LANES):
        average_points(
            plane, grid, i, gap, measures, strides, within, share, apart, bounds, numbers
        )
    for i in range(whole, n):
        average_points_one(
            plane, grid, i, gap, measures, strides, within, share, apart, bounds, numbers
        )


# Twins of the loops above, with other code for the points: see `loops`.
place_block_slopes = place_block_means = place_block
sample_block_carefully = sample_block
derive_block_both = derive_block_grid = derive_block_image = derive_block


def gather_direct(
    image: Planes, grid: Points, out: Values, around: Outside, lattice: Lattice, block: Block,
    task: Task,
) -> None:  # fmt: skip
    """Sample as `sweeps.gather_inside` does, without lists of taps."""
    width, shared = block.table[WIDTH], block.table[SHARED]
    at, x = tail(block.indices, block.table[AT]), tail(block.reals, block.table[PLACED])
    room, one = tail(block.reals, block.table[NUMBERS]), task.end - task.planes == 1
    share = ONE / real(shared) if shared else real(0)
    for item in range(task.first_item, task.last_item):
        begun = tail(grid.memory, grid.begin + item * grid.item + task.first * grid.point)
        points = Line(begun, grid.axis, grid.point)
        row, strip, _ = lay_blocks(block, points, task.last - task.first)
        start, begins = int64(0), int64(0)
        while begins < row:
            n = minimum(strip, row - begins)
            begin, many = task.first + start, unsigned(n)
            here, gap = tail(points.memory, start * grid.point), grid.axis
            if AFFINE:
                here, gap = tail(block.reals, block.table[COORDINATES]), width
                lay_points(
                    points.memory, block.axes, block.measures, block.table[AXES], begin, here,
                    width, many,
                )  # fmt: skip
            item_of = begin // shared if shared else int64(0)
            within, moved = real(begin - item_of * shared) + HALF, item_of * block.table[APART]
            if MEANS:
                place_block_means(
                    here, gap, block.measures, lattice.strides, within, share,
                    block.table[APART], at, x, width, n,
                )  # fmt: skip
            elif not one:
                place_block(
                    here, gap, block.measures, lattice.strides, within, share,
                    block.table[APART], at, x, width, n,
                )  # fmt: skip
            for p in range(task.planes, task.end):
                plane = tail(image.memory, image.starts[p] + item * image.item + moved)
                values = tail(out.memory, out.starts[p] + item * out.item)
                onto = tail(values, begin * out.step)
                numbers, stay = window(block.table, out.step, onto, room)
                if MEANS:
                    bounds = least_of(around), absent_of(around, p)[0]
                    finite = average_placed(
                        plane, lattice.strides, at, x, width, bounds, numbers, n
                    )
                    if not finite:
                        average_block(
                            plane, here, gap, block.measures, lattice.strides, within, share,
                            block.table[APART], bounds, numbers, n,
                        )  # fmt: skip
                elif one:
                    finite = sample_block(
                        plane, here, gap, block.measures, lattice.strides, within, share,
                        block.table[APART], numbers, n,
                    )  # fmt: skip
                else:
                    finite = sample_placed(plane, lattice.strides, at, x, width, numbers, n)
                if not MEANS and not finite:
                    sample_block_carefully(
                        plane, here, gap, block.measures, lattice.strides, within, share,
                        block.table[APART], numbers, n,
                    )  # fmt: skip
                if not stay:
                    settle_block(block.table, numbers, values, begin, out.step, block.indices, many)
            start, begins = next_block(start, begins, task.last - task.first, row, strip)


def backward_direct(
    image: Planes, grid: Points, values: Values, shadow: Planes, gradient: Gradient,
    dropped: Memory, lattice: Lattice, needs: Needs, block: Block, task: BandedTask,
) -> None:  # fmt: skip
    """Compute gradients as `gradients.backward_inside` does, without lists of taps."""
    width, shared, count = block.table[WIDTH], block.table[SHARED], block.table[EACH]
    at, x = (
        tail(block.indices, block.table[AT]),
        tail(block.reals, block.table[PLACED]),
    )
    g, sums, shares = (
        tail(block.reals, block.table[NUMBERS]),
        tail(block.reals, block.table[SUMS]),
        tail(block.reals, block.table[PIXELS]),
    )
    share = ONE / real(shared) if shared else real(0)
    for item in range(task.first_item, task.last_item):
        begun = tail(grid.memory, grid.begin + item * grid.item + task.first * grid.point)
        points = Line(begun, grid.axis, grid.point)
        slopes = tail(
            gradient.memory, item * gradient.item + task.first * block.table[AXES] * needs.grid
        )
        row, strip, _ = lay_blocks(block, points, task.last - task.first)
        start, begins = int64(0), int64(0)
        while begins < row:
            n = minimum(strip, row - begins)
            begin, many = task.first + start, unsigned(n)
            here = tail(points.memory, start * grid.point)
            item_of = begin // shared if shared else int64(0)
            within, moved = real(begin - item_of * shared) + HALF, item_of * block.table[APART]
            place_block_slopes(
                here, grid.axis, block.measures, lattice.strides, within, share,
                block.table[APART], at, x, width, n,
            )  # fmt: skip
            clear_sums(sums, block.table[AXES] * needs.grid, width, many)
            for p in range(task.planes, task.end):
                onto = tail(values.memory, values.starts[p] + item * values.item)
                fetch_block(block.table, onto, begin, values.step, g, many)
                plane = tail(image.memory, image.starts[p] + item * image.item + moved * needs.grid)
                shade = tail(
                    shadow.memory, shadow.starts[p] + item * shadow.item + moved * needs.image
                )
                if lattice.far and needs.image:
                    fetch_ahead(shade, at, lattice.shifts, block.axes[COUNT], count, many)
                if lattice.far and needs.grid:
                    fetch_ahead(plane, at, lattice.shifts, block.axes[COUNT], count, many)
                derive_needed(
                    plane, lattice.strides, at, x, width, g, sums, shares, needs.image, needs.grid,
                    n,
                )  # fmt: skip
                if needs.image:
                    add_shares(shade, lattice, block, task, moved, many)
            if needs.grid:
                settle_block_slopes(sums, x, width, tail(slopes, start * block.table[AXES]), n)
            start, begins = next_block(start, begins, task.last - task.first, row, strip)


def loops(emitted: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what lowering compiles before the drivers, with the code ``emitted`` for a spec.

    One loop serves several kinds of code: each is a twin of the loop that calls another function.
    """

    def twin(alias: str, loop: Any, name: str, other: str) -> Any:
        return alias, loop, {name + end: emitted[other + end] for end in ("", "_one")}

    return (
        place_block,
        *(
            twin(f"place_block_{kept}", place_block, "place_points", f"place_{kept}")
            for kept in ("slopes", "means")
        ),
        sample_placed,
        sample_block,
        average_placed,
        average_block,
        twin("sample_block_carefully", sample_block, "sample_points", "sample_points_carefully"),
        *(
            twin(f"derive_block_{needed}", derive_block, "derive", f"derive_{needed}")
            for needed in ("both", "grid", "image")
        ),
        derive_needed,
        settle_block_slopes,
    )
